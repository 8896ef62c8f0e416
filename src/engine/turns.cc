#include "engine/turns.h"

#include "engine/deliver.h"
#include "engine/jobs.h"
#include "engine/retention.h"
#include "engine/views.h"
#include "engine/wake.h"

namespace waybill::engine {
namespace {

Result<bool> has_live_jobs(Work& work, const store::TurnRow& turn) {
  TRY_ASSIGN(const std::vector<store::JobRow> live,
             store::live_jobs_of_turn(work.db(), turn.owner, turn.id));
  return !live.empty();
}

// Events that were this turn's alone become the session's; a stop withholds what nobody has seen.
Result<void> release_events(Work& work, const store::TurnRow& turn) {
  TRY_ASSIGN(const std::vector<store::InboxRow> rows, store::live_inbox(work.db(), turn.owner));
  for (store::InboxRow row : rows) {
    const bool of_turn = row.turn == turn.id;
    const bool withhold = turn.stopped && row.state != core::InboxState::accepted &&
                          row.state != core::InboxState::parked;
    if (!of_turn && !withhold) continue;
    row.turn.reset();
    if (withhold) row.withheld = core::Withheld::stopped;
    TRY(store::write_inbox(work.db(), row));
    if (!of_turn) continue;
    TRY_ASSIGN(std::optional<store::JobRow> job, store::find_job(work.db(), row.job));
    if (!job) continue;
    TRY(work.note(*job, core::ReceiptName::released, std::nullopt, "daemon",
                  "turn " + turn.id.str() +
                      " closed before its event was acknowledged; it is the "
                      "session's now"));
  }
  return {};
}

// Whether closing tells that the host has worked through what the turn took. A turn that is
// abandoned, or whose host is gone, tells nothing.
enum class Taken { processed, unknown };

Result<void> close_turn(Work& work, store::TurnRow& turn, Taken taken) {
  if (taken == Taken::processed) {
    TRY(acknowledge_turn(work, turn.owner, turn.id, turn.fence));
  }
  TRY(release_events(work, turn));
  turn.state = core::TurnState::closed;
  turn.closed_at = work.wall();
  TRY(store::update_turn(work.db(), turn));
  TRY(keep_closed_turn(work, turn));
  TRY(work.settle_owed(core::OwedKind::turn_abandon, turn_key(turn.owner, turn.id)));
  TRY(work.touch(turn.owner));
  return plan_wake(work, turn.owner);
}

Result<void> set_state(Work& work, store::TurnRow& turn, core::TurnState state) {
  if (turn.state == state) return {};
  turn.state = state;
  TRY(store::update_turn(work.db(), turn));
  return work.touch(turn.owner);
}

Result<TurnReply> answer(Work& work, const store::TurnRow& turn, std::optional<HandOver> messages) {
  TurnReply reply;
  reply.turn = view_turn(turn);
  reply.messages = std::move(messages);
  TRY_ASSIGN(const std::vector<store::JobRow> live,
             store::live_jobs_of_turn(work.db(), turn.owner, turn.id));
  for (const store::JobRow& job : live) {
    TRY_ASSIGN(JobView view, view_job(work.db(), job, Detail::brief));
    reply.waiting_for.push_back(std::move(view));
  }
  TRY_ASSIGN(const store::SessionRow* session, work.find_session(turn.owner));
  reply.revision = session == nullptr ? 0 : session->revision;
  return reply;
}

Result<std::optional<HandOver>> hand_over(Work& work, const TurnRequest& request, const Host& host,
                                          const store::TurnRow& turn, Which which) {
  TRY_ASSIGN(std::vector<store::InboxRow> rows, deliverable(work, turn.owner, turn.id, which));
  const core::OfferPath path = request.adapter ? core::OfferPath::adapter : core::OfferPath::turn;
  const OfferTarget target{turn.owner, host.fence, request.caller.connection, path, turn.id};
  return offer(work, target, std::move(rows));
}

Error other_turn(const TurnId& open) {
  return Error{ErrorCode::conflict,
               "Turn " + open.str() + " is open in this session; end, stop or abandon it first."};
}

// The turn the caller names, open or held, under the caller's fence.
Result<store::TurnRow> need_turn(Work& work, const TurnRequest& request, const Host& host) {
  TRY_ASSIGN(std::optional<store::TurnRow> turn,
             store::find_turn(work.db(), request.caller.owner, request.turn));
  if (!turn) {
    return fail(ErrorCode::not_found, "There is no turn " + request.turn.str() + " in session " +
                                          request.caller.owner.session.str() + "; begin it first.");
  }
  const bool closed = turn->state == core::TurnState::closed;
  if (!closed && turn->fence != host.fence) {
    return fail(ErrorCode::conflict, "Turn " + request.turn.str() +
                                         " was begun by an earlier host of this session; resume or "
                                         "abandon it.");
  }
  return std::move(*turn);
}

Error closed_turn(const TurnId& turn) {
  return Error{ErrorCode::conflict, "Turn " + turn.str() + " is closed; begin another."};
}

// A client that begins another turn has ended the one before, and need not have said so (a person
// interrupted it, or its hook did not run). What that took was read; jobs of its own live on.
Result<void> supersede_turn(Work& work, store::TurnRow& open, const Host& host) {
  TRY_ASSIGN(const bool live, has_live_jobs(work, open));
  const bool own = open.fence == host.fence;
  if (!live) return close_turn(work, open, own ? Taken::processed : Taken::unknown);
  if (own) TRY(acknowledge_turn(work, open.owner, open.id, open.fence));
  return abandon_turn(work, open.owner, open.id, "its host began another turn");
}

Result<TurnReply> begin(Work& work, const TurnRequest& request, const Host& host) {
  const core::Owner& owner = request.caller.owner;
  TRY_ASSIGN(std::optional<store::TurnRow> turn, store::find_turn(work.db(), owner, request.turn));
  if (turn && turn->state == core::TurnState::closed) return fail(closed_turn(request.turn));
  if (!turn) {
    TRY_ASSIGN(std::optional<store::TurnRow> open, store::find_open_turn(work.db(), owner));
    if (open && request.supersede) {
      TRY(supersede_turn(work, *open, host));
      open.reset();
    }
    if (open) return fail(other_turn(open->id));
    turn.emplace();
    turn->owner = owner;
    turn->id = request.turn;
    turn->fence = host.fence;
    turn->begun_at = work.wall();
    TRY(store::insert_turn(work.db(), *turn));
    TRY(work.touch(owner));
  } else {
    TRY_ASSIGN(turn, need_turn(work, request, host));
  }
  // Also when it was open before: a user may speak in the middle of it.
  TRY(turn_began(work, owner, request.author));
  if (turn->stopped) return answer(work, *turn, std::nullopt);
  TRY_ASSIGN(std::optional<HandOver> messages, hand_over(work, request, host, *turn, Which::all));
  return answer(work, *turn, std::move(messages));
}

Result<TurnReply> step(Work& work, const TurnRequest& request, const Host& host) {
  TRY_ASSIGN(store::TurnRow turn, need_turn(work, request, host));
  if (turn.state == core::TurnState::closed) return fail(closed_turn(turn.id));
  if (turn.stopped) return answer(work, turn, std::nullopt);
  TRY_ASSIGN(std::optional<HandOver> messages, hand_over(work, request, host, turn, Which::all));
  if (messages) TRY(set_state(work, turn, core::TurnState::open));
  return answer(work, turn, std::move(messages));
}

// One transaction decides: hand over, hold, or close. There is no check outside it (SPEC section
// 7).
Result<std::optional<TurnReply>> end(Work& work, const TurnRequest& request, const Host& host,
                                     bool last) {
  TRY_ASSIGN(store::TurnRow turn, need_turn(work, request, host));
  std::optional<HandOver> messages;
  if (turn.state != core::TurnState::closed && request.over) {
    TRY(supersede_turn(work, turn, host));
    TRY_ASSIGN(turn, need_turn(work, request, host));
  }
  if (turn.state != core::TurnState::closed) {
    // Going on after the end is a continuation that no user asked for.
    TRY_ASSIGN(const bool may, may_continue(work, turn.owner));
    if (!turn.stopped && may) {
      TRY_ASSIGN(messages, hand_over(work, request, host, turn, Which::waking));
      if (messages) TRY(continued(work, turn.owner));
    }
    TRY_ASSIGN(const bool live, has_live_jobs(work, turn));
    if (messages) {
      TRY(set_state(work, turn, core::TurnState::open));
    } else if (live) {
      TRY(set_state(work, turn, core::TurnState::held));
    } else {
      TRY(close_turn(work, turn, Taken::processed));
    }
  }
  const bool settled = messages || turn.state == core::TurnState::closed;
  if (!settled && request.wait && !last) return std::optional<TurnReply>();
  TRY_ASSIGN(TurnReply reply, answer(work, turn, std::move(messages)));
  reply.timed_out = !settled && request.wait;
  return std::optional<TurnReply>(std::move(reply));
}

Result<std::optional<TurnReply>> stop_turn(Work& work, const TurnRequest& request, const Host& host,
                                           bool last) {
  TRY_ASSIGN(store::TurnRow turn, need_turn(work, request, host));
  if (turn.state != core::TurnState::closed && !turn.stopped) {
    turn.stopped = true;
    TRY(store::update_turn(work.db(), turn));
    TRY(work.touch(turn.owner));
    TRY_ASSIGN(std::vector<store::JobRow> live,
               store::live_jobs_of_turn(work.db(), turn.owner, turn.id));
    for (store::JobRow& job : live) {
      TRY(stop(work, job, {core::Cause::turn_stopped, "owner", kTurnStopped, true}));
    }
    TRY_ASSIGN(std::optional<store::TurnRow> now, store::find_turn(work.db(), turn.owner, turn.id));
    if (now) turn = *now;  // stopping queued jobs may have closed it already
  }
  if (turn.state != core::TurnState::closed) {
    TRY_ASSIGN(const bool live, has_live_jobs(work, turn));
    if (live) {
      TRY(set_state(work, turn, core::TurnState::held));
    } else {
      TRY(close_turn(work, turn, Taken::processed));
    }
  }
  const bool settled = turn.state == core::TurnState::closed;
  if (!settled && request.wait && !last) return std::optional<TurnReply>();
  TRY_ASSIGN(TurnReply reply, answer(work, turn, std::nullopt));
  reply.timed_out = !settled && request.wait;
  return std::optional<TurnReply>(std::move(reply));
}

Result<TurnReply> resume(Work& work, const TurnRequest& request, const Host& host) {
  TRY_ASSIGN(std::optional<store::TurnRow> turn,
             store::find_turn(work.db(), request.caller.owner, request.turn));
  if (!turn) {
    return fail(ErrorCode::not_found, "There is no turn " + request.turn.str() + " to resume.");
  }
  if (turn->state == core::TurnState::closed) return fail(closed_turn(turn->id));
  if (turn->fence != host.fence) {
    turn->fence = host.fence;
    TRY(store::update_turn(work.db(), *turn));
    TRY(work.touch(turn->owner));
  }
  TRY(work.settle_owed(core::OwedKind::turn_abandon, turn_key(turn->owner, turn->id)));
  if (turn->stopped) return answer(work, *turn, std::nullopt);  // it can only be closed
  TRY(set_state(work, *turn, core::TurnState::open));
  TRY_ASSIGN(std::optional<HandOver> messages, hand_over(work, request, host, *turn, Which::all));
  return answer(work, *turn, std::move(messages));
}

Result<TurnReply> abandon(Work& work, const TurnRequest& request) {
  TRY_ASSIGN(std::optional<store::TurnRow> turn,
             store::find_turn(work.db(), request.caller.owner, request.turn));
  if (!turn) {
    return fail(ErrorCode::not_found, "There is no turn " + request.turn.str() + " to abandon.");
  }
  if (turn->state != core::TurnState::closed) {
    TRY(abandon_turn(work, turn->owner, turn->id, "abandoned by its host"));
    TRY_ASSIGN(turn, store::find_turn(work.db(), request.caller.owner, request.turn));
  }
  return answer(work, *turn, std::nullopt);
}

std::optional<TurnReply> some(TurnReply reply) { return reply; }

}  // namespace

Result<std::optional<TurnReply>> turn(Work& work, KeyedConnections& connections,
                                      const TurnRequest& request, bool first, bool last) {
  if (core::is_user_session(request.caller.owner)) {
    return fail(ErrorCode::bad_request,
                "The session `user` has no turns; name a session with --session.");
  }
  TRY_ASSIGN(const Host host, need_host(work, connections, request.caller, "A turn"));
  // A wait that is looked at again is the same call: what it hands over must not confirm itself.
  if (first && !request.adapter) TRY(acknowledge_earlier(work, request.caller, host.fence));
  switch (request.verb) {
    case core::TurnVerb::begin:
      return begin(work, request, host).map(some);
    case core::TurnVerb::step:
      return step(work, request, host).map(some);
    case core::TurnVerb::end:
      return end(work, request, host, last);
    case core::TurnVerb::stop:
      return stop_turn(work, request, host, last);
    case core::TurnVerb::resume:
      return resume(work, request, host).map(some);
    case core::TurnVerb::abandon:
      return abandon(work, request).map(some);
  }
  return fail(ErrorCode::bad_request, "There is no such turn command.");
}

Result<void> turn_job_settled(Work& work, const store::JobRow& job) {
  if (job.owner != core::OwnerKind::turn || !job.scope.turn) return {};
  TRY_ASSIGN(std::optional<store::TurnRow> turn,
             store::find_turn(work.db(), job.scope.owner, *job.scope.turn));
  if (!turn || turn->state == core::TurnState::closed || !turn->stopped) return {};
  TRY_ASSIGN(const bool live, has_live_jobs(work, *turn));
  if (live) return {};
  TRY_ASSIGN(const store::SessionRow* session, work.find_session(turn->owner));
  const bool host_there =
      session != nullptr && session->lease_live && session->fence == turn->fence;
  return close_turn(work, *turn, host_there ? Taken::processed : Taken::unknown);
}

Result<void> abandon_turn(Work& work, const core::Owner& owner, const TurnId& id,
                          const std::string& why) {
  TRY(work.settle_owed(core::OwedKind::turn_abandon, turn_key(owner, id)));
  TRY_ASSIGN(std::optional<store::TurnRow> turn, store::find_turn(work.db(), owner, id));
  if (!turn || turn->state == core::TurnState::closed) return {};
  TRY_ASSIGN(std::vector<store::JobRow> live, store::live_jobs_of_turn(work.db(), owner, id));
  for (store::JobRow& job : live) {
    TRY(store::clear_turn(work.db(), job.id));
    job.owner = core::OwnerKind::session;
    TRY(work.note(job, core::ReceiptName::abandoned, std::nullopt, "daemon",
                  "turn " + id.str() + ": " + why + "; the job is the session's now"));
  }
  TRY(return_rows(work, owner, "its turn was abandoned"));
  return close_turn(work, *turn, Taken::unknown);
}

}  // namespace waybill::engine
