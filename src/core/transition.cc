#include "core/transition.h"

#include <array>

namespace waybill::core {
namespace {

constexpr std::size_t kStatuses = kWordCount<JobStatus>;
constexpr std::size_t kTriggers = kWordCount<JobTrigger>;

struct Row {
  JobStatus from;
  JobTrigger trigger;
  JobStep step;
};

constexpr JobStep go(JobStatus to, ReceiptName receipt) { return {StepAction::go, to, receipt}; }
constexpr JobStep replay(JobStatus to) { return {StepAction::replay, to, ReceiptName::queued}; }
constexpr JobStep forbid() { return {}; }

using S = JobStatus;
using T = JobTrigger;
using R = ReceiptName;

// Every pair is written out, the forbidden ones too: what is not here was not thought about.
constexpr std::array<Row, kStatuses * kTriggers> kTable{{
    {S::queued, T::claim, go(S::running, R::started)},
    {S::queued, T::ask, forbid()},
    {S::queued, T::requeue, forbid()},
    {S::queued, T::complete, forbid()},
    {S::queued, T::fail, go(S::failed, R::failed)},
    {S::queued, T::stop_confirm, go(S::stopped, R::cancelled)},
    {S::queued, T::answer, forbid()},

    {S::running, T::claim, forbid()},
    {S::running, T::ask, go(S::waiting_on_user, R::waiting)},
    {S::running, T::requeue, go(S::queued, R::requeued)},
    {S::running, T::complete, go(S::succeeded, R::completed)},
    {S::running, T::fail, go(S::failed, R::failed)},
    {S::running, T::stop_confirm, go(S::stopped, R::cancelled)},
    {S::running, T::answer, forbid()},

    {S::waiting_on_user, T::claim, forbid()},
    {S::waiting_on_user, T::ask, forbid()},
    {S::waiting_on_user, T::requeue, forbid()},
    {S::waiting_on_user, T::complete, forbid()},
    {S::waiting_on_user, T::fail, go(S::failed, R::failed)},
    {S::waiting_on_user, T::stop_confirm, go(S::stopped, R::cancelled)},
    {S::waiting_on_user, T::answer, go(S::running, R::resumed)},

    {S::succeeded, T::claim, forbid()},
    {S::succeeded, T::ask, forbid()},
    {S::succeeded, T::requeue, forbid()},
    {S::succeeded, T::complete, replay(S::succeeded)},
    {S::succeeded, T::fail, forbid()},
    {S::succeeded, T::stop_confirm, forbid()},
    {S::succeeded, T::answer, forbid()},

    {S::failed, T::claim, forbid()},
    {S::failed, T::ask, forbid()},
    {S::failed, T::requeue, forbid()},
    {S::failed, T::complete, forbid()},
    {S::failed, T::fail, replay(S::failed)},
    {S::failed, T::stop_confirm, forbid()},
    {S::failed, T::answer, forbid()},

    {S::stopped, T::claim, forbid()},
    {S::stopped, T::ask, forbid()},
    {S::stopped, T::requeue, forbid()},
    {S::stopped, T::complete, forbid()},
    {S::stopped, T::fail, forbid()},
    {S::stopped, T::stop_confirm, replay(S::stopped)},
    {S::stopped, T::answer, forbid()},
}};

constexpr std::size_t index_of(JobStatus from, JobTrigger trigger) {
  return static_cast<std::size_t>(from) * kTriggers + static_cast<std::size_t>(trigger);
}

constexpr bool total_and_sound() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    const Row& row = kTable[i];
    if (index_of(row.from, row.trigger) != i) return false;
    if (is_terminal(row.from) && row.step.action == StepAction::go) return false;  // I4
    if (row.step.action == StepAction::replay && row.step.to != row.from) return false;
  }
  return true;
}
static_assert(total_and_sound(),
              "one row per (status, trigger), in order; no way out of an ending");

}  // namespace

JobStep job_step(JobStatus from, JobTrigger trigger) {
  return kTable[index_of(from, trigger)].step;
}

JobStatus aim_of(JobTrigger trigger) {
  switch (trigger) {
    case JobTrigger::claim:
    case JobTrigger::answer:
      return JobStatus::running;
    case JobTrigger::ask:
      return JobStatus::waiting_on_user;
    case JobTrigger::requeue:
      return JobStatus::queued;
    case JobTrigger::complete:
      return JobStatus::succeeded;
    case JobTrigger::fail:
      return JobStatus::failed;
    case JobTrigger::stop_confirm:
      return JobStatus::stopped;
  }
  return JobStatus::queued;
}

Result<JobStep> step(JobStatus from, JobTrigger trigger) {
  const JobStep found = job_step(from, trigger);
  if (found.action != StepAction::forbid) return found;
  return fail(ErrorCode::illegal_transition, "A job cannot go from " + std::string(to_word(from)) +
                                                 " to " + std::string(to_word(aim_of(trigger))) +
                                                 " (" + std::string(to_word(trigger)) + ").");
}

std::optional<EventType> event_of(ReceiptName receipt, bool owner_stopped) {
  switch (receipt) {
    case ReceiptName::completed:
      return EventType::job_completed;
    case ReceiptName::failed:
      return EventType::job_failed;
    case ReceiptName::waiting:
      return EventType::job_waiting;
    case ReceiptName::stop_stuck:
      return EventType::job_stop_stuck;
    case ReceiptName::monitor:
      return EventType::job_monitor;
    case ReceiptName::cancelled:
      if (owner_stopped) return std::nullopt;
      return EventType::job_cancelled;
    case ReceiptName::queued:
    case ReceiptName::started:
    case ReceiptName::requeued:
    case ReceiptName::resumed:
    case ReceiptName::stop_requested:
    case ReceiptName::dropped:
    case ReceiptName::abandoned:
    case ReceiptName::released:
    case ReceiptName::leftovers:
      return std::nullopt;
  }
  return std::nullopt;
}

EventId make_event_id(const JobId& job, ReceiptName receipt, unsigned n) {
  return EventId(job.str() + "." + std::string(to_word(receipt)) + "." + std::to_string(n));
}

}  // namespace waybill::core
