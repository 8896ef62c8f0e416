#pragma once
// The one state machine of inbox rows (SPEC section 6) and the words around it.

#include "core/words.h"

namespace waybill::core {

enum class InboxState { pending, offered, accepted, acked, dropped, parked };
WAYBILL_WORDS(InboxState, 6, "pending", "offered", "accepted", "acked", "dropped", "parked");

enum class InboxTrigger {
  offer,    // a hand-over takes the row
  accept,   // it is in the host's queue
  confirm,  // acknowledged: processed, reported, accepted by a durable queue
  back,     // expiry, fence, adapter error, restart, connection gone: pending again, a repeat
  drop,
  park,
  unpark,
};
WAYBILL_WORDS(InboxTrigger, 7, "offer", "accept", "confirm", "back", "drop", "park", "unpark");

enum class InboxAction { go, ignore, forbid };

struct InboxStep {
  InboxAction action = InboxAction::forbid;
  InboxState to = InboxState::pending;
};

// Total over (state, trigger); a replay of what already holds is `ignore`.
InboxStep inbox_step(InboxState state, InboxTrigger trigger);

enum class Lane { next_step, next_turn };
WAYBILL_WORDS(Lane, 2, "next_step", "next_turn");

enum class Author { user, job, host };
WAYBILL_WORDS(Author, 3, "user", "job", "host");

// How a row came to be acknowledged.
enum class AckedAs { processed, reported, accepted };
WAYBILL_WORDS(AckedAs, 3, "processed", "reported", "accepted");

// Why a row was given up without having been heard: its job was removed, or nobody came back to its
// session.
enum class DroppedAs { expired, owner_gone };
WAYBILL_WORDS(DroppedAs, 2, "expired", "owner_gone");

// Why a row wakes nobody for now.
enum class Withheld { no, budget, stopped };
WAYBILL_WORDS(Withheld, 3, "no", "budget", "stopped");

// By which path a row was handed over; it decides what acknowledges it. `hold` is an inbox whose
// caller asked that only an explicit acknowledgement counts. `adapter` is a turn that a client's
// hooks speak for: each of their calls is a process of its own and proves nothing of what an
// earlier one printed, so the turn's end decides. `tool` rides on the result of a tool call: the
// next such result shows that the model has gone on from it.
enum class OfferPath { inbox, follow, hold, turn, read, adapter, tool };
WAYBILL_WORDS(OfferPath, 7, "inbox", "follow", "hold", "turn", "read", "adapter", "tool");

// How a message is sent; of a hand-over, what the strongest of its rows asks for.
enum class Mode { inject, steer, followup, queue };
WAYBILL_WORDS(Mode, 4, "inject", "steer", "followup", "queue");

enum class EventType {
  job_completed,
  job_failed,
  job_waiting,
  job_cancelled,
  job_stop_stuck,
  job_monitor
};
WAYBILL_WORDS(EventType, 6, "job.completed", "job.failed", "job.waiting", "job.cancelled",
              "job.stop_stuck", "job.monitor");

enum class TurnState { open, held, closed };
WAYBILL_WORDS(TurnState, 3, "open", "held", "closed");

enum class TurnVerb { begin, step, end, stop, resume, abandon };
WAYBILL_WORDS(TurnVerb, 6, "begin", "step", "end", "stop", "resume", "abandon");

enum class Phase { absent, idle, waking, running, cancelling };
WAYBILL_WORDS(Phase, 5, "absent", "idle", "waking", "running", "cancelling");

}  // namespace waybill::core
