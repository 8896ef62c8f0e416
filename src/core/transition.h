#pragma once
// The transition table of SPEC section 3: total over (status, trigger), the only way a status
// changes (I5). `step` performs nothing; it says which receipt to write, or why not.

#include <optional>
#include <string_view>

#include "base/ids.h"
#include "base/result.h"
#include "core/inbox.h"
#include "core/job.h"

namespace waybill::core {

// Names of receipts. The first eight go with a transition; the others have from = to.
enum class ReceiptName {
  queued,
  started,
  waiting,
  requeued,
  completed,
  failed,
  cancelled,
  resumed,
  stop_requested,
  stop_stuck,
  dropped,
  abandoned,
  released,
  leftovers,
  monitor,
};
WAYBILL_WORDS(ReceiptName, 15, "queued", "started", "waiting", "requeued", "completed", "failed",
              "cancelled", "resumed", "stop_requested", "stop_stuck", "dropped", "abandoned",
              "released", "leftovers", "monitor");

enum class JobTrigger {
  claim,         // an attempt claimed, a slot taken
  ask,           // agent job asks its owner
  requeue,       // attempt not started, lost, retryable; command job: only when proven not started
  complete,      // observed success
  fail,          // observed failure, deadline, budget, lost, start-within passed
  stop_confirm,  // cancel in the queue, or a stop whose proof is there
  answer,        // answered and a slot is free
};
WAYBILL_WORDS(JobTrigger, 7, "claim", "ask", "requeue", "complete", "fail", "stop_confirm",
              "answer");

enum class StepAction { go, replay, forbid };

struct JobStep {
  StepAction action = StepAction::forbid;
  JobStatus to = JobStatus::queued;
  ReceiptName receipt = ReceiptName::queued;
};

// Total. `replay`: the same ending again, read-only (I4). `forbid`: illegal_transition.
JobStep job_step(JobStatus from, JobTrigger trigger);

// The status that a trigger aims at, whatever the table says of it.
JobStatus aim_of(JobTrigger trigger);

// The same as a Result: illegal_transition names both statuses.
Result<JobStep> step(JobStatus from, JobTrigger trigger);

// The event that a terminal, waiting or stuck receipt gives rise to. `owner_stopped`: the owner
// session, a stop of its turn or its disposal stopped the job, so nobody needs to be told (I8).
std::optional<EventType> event_of(ReceiptName receipt, bool owner_stopped);

// <job>.<receipt>.<n>
EventId make_event_id(const JobId& job, ReceiptName receipt, unsigned n);

}  // namespace waybill::core
