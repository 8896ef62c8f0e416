#include "engine/deliver.h"

#include <algorithm>
#include <set>

#include "engine/monitors.h"
#include "engine/views.h"
#include "engine/wake.h"
#include "store/random.h"

namespace waybill::engine {
namespace {

// Takes the row through the inbox machine. True when it moved, false when the trigger changes
// nothing.
Result<bool> move_row(store::InboxRow& row, core::InboxTrigger trigger) {
  const core::InboxStep step = core::inbox_step(row.state, trigger);
  switch (step.action) {
    case core::InboxAction::ignore:
      return false;
    case core::InboxAction::go:
      row.state = step.to;
      return true;
    case core::InboxAction::forbid:
      break;
  }
  return fail(ErrorCode::illegal_transition,
              "Event " + row.event.str() + " is " + std::string(core::to_word(row.state)) +
                  " and cannot take \"" + std::string(core::to_word(trigger)) + "\".");
}

Result<EventData> event_data(Work& work, const store::InboxRow& row) {
  EventData data;
  data.id = row.event;
  data.type = row.type;
  data.repeat = row.repeat;
  TRY_ASSIGN(const std::optional<store::JobRow> job, store::find_job(work.db(), row.job));
  if (!job) {
    return fail(ErrorCode::state_corrupt,
                "Event " + row.event.str() + " speaks of a job that is not there.");
  }
  TRY_ASSIGN(data.job, view_job(work.db(), *job, Detail::brief));
  if (!row.sealed_tail.empty()) {
    TRY_ASSIGN(data.tail, work.sealer().unseal(row.sealed_tail, row.event.str()));
  }
  data.monitor = monitor_of_event(row);
  return data;
}

bool failed_event(const store::InboxRow& row) {
  return row.type == core::EventType::job_failed || row.type == core::EventType::job_stop_stuck;
}

// Commit order, but inside one hand-over what failed comes first.
std::vector<store::InboxRow> failed_first(std::vector<store::InboxRow> rows) {
  std::vector<store::InboxRow> ordered;
  ordered.reserve(rows.size());
  for (const bool failed : {true, false}) {
    for (store::InboxRow& row : rows) {
      if (failed_event(row) == failed) ordered.push_back(std::move(row));
    }
  }
  return ordered;
}

core::Mode mode_of(const std::vector<store::InboxRow>& rows) {
  core::Mode mode = core::Mode::inject;
  for (const store::InboxRow& row : rows) {
    if (!row.wakes) continue;
    if (row.lane == core::Lane::next_turn) return core::Mode::followup;
    mode = core::Mode::steer;
  }
  return mode;
}

// When nothing of the hand-over is open any more, its deadline is nobody's business.
Result<void> settle_offer_if_done(Work& work, const DeliveryId& delivery) {
  TRY_ASSIGN(const std::vector<store::InboxRow> rest,
             store::inbox_of_delivery(work.db(), delivery));
  if (!rest.empty()) return {};
  return work.settle_owed(core::OwedKind::offer_expiry, delivery.str());
}

// An explicit or implied acknowledgement; frees what an offer still owed.
Result<void> confirm_row(Work& work, store::InboxRow row, core::AckedAs as) {
  TRY_ASSIGN(const bool moved, move_row(row, core::InboxTrigger::confirm));
  if (!moved) return {};
  row.acked_as = as;
  row.acked_at = work.wall();
  row.offer_connection.reset();
  row.withheld = core::Withheld::no;
  return store::write_inbox(work.db(), row);
}

}  // namespace

Result<std::vector<store::InboxRow>> deliverable(Work& work, const core::Owner& owner,
                                                 const std::optional<TurnId>& turn, Which which) {
  TRY_ASSIGN(std::vector<store::InboxRow> rows,
             store::inbox_in_state(work.db(), owner, core::InboxState::pending));
  const WallTime now = work.now();
  std::erase_if(rows, [&](const store::InboxRow& row) {
    if (row.due_at > now) return true;
    if (row.turn && row.turn != turn) return true;  // refused to any other turn
    const bool withheld = row.withheld != core::Withheld::no;
    switch (which) {
      case Which::all:
        return false;
      case Which::waking:
        return withheld || !row.wakes;
      case Which::unheld:
        return withheld;
    }
    return false;
  });
  return rows;
}

Result<std::optional<HandOver>> offer(Work& work, const OfferTarget& target,
                                      std::vector<store::InboxRow> rows) {
  if (rows.empty()) return std::optional<HandOver>();
  HandOver hand_over;
  hand_over.delivery = DeliveryId(store::random_id("d", work.parts().clock));
  hand_over.mode = mode_of(rows);
  rows = failed_first(std::move(rows));
  store::HandOverRow record{hand_over.delivery, target.owner, target.fence, {}, work.wall()};
  for (store::InboxRow& row : rows) {
    TRY_ASSIGN(const bool moved, move_row(row, core::InboxTrigger::offer));
    if (!moved) continue;
    row.delivery = hand_over.delivery;
    row.offer_fence = target.fence;
    row.offer_path = target.path;
    row.offer_connection = target.connection;
    row.taken_by = target.path == core::OfferPath::read ? std::nullopt : target.turn;
    TRY(store::write_inbox(work.db(), row));
    record.events.push_back(row.event);
    hand_over.repeat = hand_over.repeat || row.repeat;
    TRY_ASSIGN(EventData data, event_data(work, row));
    hand_over.events.push_back(std::move(data));
  }
  TRY(store::insert_hand_over(work.db(), record));
  TRY(work.owe(core::OwedKind::offer_expiry, hand_over.delivery.str(), target.owner,
               work.now() + work.settings().offer_deadline, target.fence));
  return std::optional<HandOver>(std::move(hand_over));
}

Result<std::optional<DeliveryId>> report(Work& work, const Caller& caller, const Host& host,
                                         const std::vector<JobView>& jobs) {
  std::optional<DeliveryId> none;
  if (!host.is_host) return none;
  std::vector<store::InboxRow> rows;
  std::set<JobId> seen;  // a caller may name one twice
  for (const JobView& job : jobs) {
    if (!core::is_terminal(job.status) || !seen.insert(job.id).second) continue;
    TRY_ASSIGN(const std::vector<store::InboxRow> events, store::inbox_of_job(work.db(), job.id));
    for (const store::InboxRow& row : events) {
      // A result does not show the lines that a monitor has found: those are still to be told.
      if (row.type == core::EventType::job_monitor) continue;
      if (row.state == core::InboxState::pending) rows.push_back(row);
    }
  }
  OfferTarget target{caller.owner, host.fence, caller.connection, core::OfferPath::read, {}};
  TRY_ASSIGN(const std::optional<HandOver> made, offer(work, target, std::move(rows)));
  if (!made) return none;
  return std::optional<DeliveryId>(made->delivery);
}

namespace {

// A delivery of this session, made under the caller's fence.
Result<void> check_delivery(Work& work, const Caller& caller, const Host& host,
                            const DeliveryId& delivery) {
  TRY_ASSIGN(const std::optional<store::HandOverRow> record,
             store::find_hand_over(work.db(), delivery));
  if (!record || record->owner != caller.owner) {
    return fail(ErrorCode::not_found,
                "There is no delivery " + delivery.str() + " in this session.");
  }
  if (record->fence != host.fence) {
    return fail(ErrorCode::fenced, "Delivery " + delivery.str() + " was made to an earlier host.");
  }
  return {};
}

}  // namespace

Result<void> returned(Work& work, const Caller& caller, const Host& host,
                      const DeliveryId& delivery) {
  TRY(check_delivery(work, caller, host, delivery));
  TRY(work.settle_owed(core::OwedKind::offer_expiry, delivery.str()));
  TRY_ASSIGN(const std::vector<store::InboxRow> rows,
             store::inbox_of_delivery(work.db(), delivery));
  bool waking = false;
  for (const store::InboxRow& row : rows) {
    if (row.state != core::InboxState::offered) continue;
    waking = waking || (row.wakes && row.offer_path == core::OfferPath::follow);
    TRY(return_row(work, row, "the client gave it back"));
  }
  // An adapter's hand-over is what a wake comes to.
  if (waking) TRY(wake_failed(work, caller.owner));
  return {};
}

namespace {

// What a hook printed is confirmed when the hook is gone, which may be after the end of the turn
// that it printed into: that end has acknowledged it.
Result<void> confirm_of_closed_turn(Work& work, const store::InboxRow& row) {
  if (row.offer_path != core::OfferPath::adapter || !row.taken_by) return {};
  TRY_ASSIGN(const std::optional<store::TurnRow> turn,
             store::find_turn(work.db(), row.owner, *row.taken_by));
  if (!turn || turn->state != core::TurnState::closed) return {};
  return confirm_row(work, row, core::AckedAs::processed);
}

}  // namespace

Result<void> flushed(Work& work, const FlushedRequest& request, const Host& host) {
  const Caller& caller = request.caller;
  const DeliveryId& delivery = request.delivery;
  TRY(check_delivery(work, caller, host, delivery));
  TRY_ASSIGN(std::vector<store::InboxRow> rows, store::inbox_of_delivery(work.db(), delivery));
  bool put_to_client = false;
  for (store::InboxRow& row : rows) {
    // Expired meanwhile: it is on its way again as a repeat; only an acknowledgement counts now.
    if (row.state != core::InboxState::offered) continue;
    // A read is confirmed by the connection that carried it, and by no other process of the host.
    if (row.offer_connection != caller.connection) continue;
    if (row.offer_path == core::OfferPath::read) {
      TRY(confirm_row(work, row, core::AckedAs::reported));
      continue;
    }
    put_to_client = true;
    if (request.durable) {
      TRY(confirm_row(work, row, core::AckedAs::accepted));
      continue;
    }
    TRY_ASSIGN(const bool moved, move_row(row, core::InboxTrigger::accept));
    if (!moved) continue;
    if (row.offer_path != core::OfferPath::hold) row.offer_connection.reset();
    TRY(store::write_inbox(work.db(), row));
    TRY(confirm_of_closed_turn(work, row));
  }
  TRY(work.settle_owed(core::OwedKind::offer_expiry, delivery.str()));
  if (put_to_client) {  // what it was woken for has come of it, with or without a turn of ours
    TRY_ASSIGN(store::SessionRow * session, work.session(caller.owner));
    session->wake_until.reset();
    TRY(plan_wake(work, caller.owner));
  }
  return work.touch(caller.owner);
}

Result<void> acknowledge_earlier(Work& work, const Caller& caller, std::uint64_t fence) {
  TRY_ASSIGN(std::vector<store::InboxRow> rows,
             store::inbox_in_state(work.db(), caller.owner, core::InboxState::accepted));
  TRY_ASSIGN(const std::vector<store::InboxRow> held,
             store::inbox_of_connection(work.db(), caller.owner, caller.connection));
  rows.insert(rows.end(), held.begin(), held.end());
  for (const store::InboxRow& row : rows) {
    if (row.owner != caller.owner || row.offer_fence != fence) continue;
    if (row.offer_path != core::OfferPath::inbox && row.offer_path != core::OfferPath::turn) {
      continue;
    }
    TRY(confirm_row(work, row, core::AckedAs::processed));
    if (row.delivery) {
      TRY(work.settle_owed(core::OwedKind::offer_expiry, row.delivery->str()));
    }
    TRY(work.touch(caller.owner));
  }
  return {};
}

Result<void> acknowledge_tool_results(Work& work, const core::Owner& owner, std::uint64_t fence) {
  TRY_ASSIGN(const std::vector<store::InboxRow> rows,
             store::inbox_in_state(work.db(), owner, core::InboxState::accepted));
  for (const store::InboxRow& row : rows) {
    if (row.offer_path != core::OfferPath::tool || row.offer_fence != fence) continue;
    TRY(confirm_row(work, row, core::AckedAs::processed));
    TRY(work.touch(owner));
  }
  return {};
}

Result<void> acknowledge_turn(Work& work, const core::Owner& owner, const TurnId& turn,
                              std::uint64_t fence) {
  TRY_ASSIGN(const std::vector<store::InboxRow> rows, store::live_inbox(work.db(), owner));
  for (const store::InboxRow& row : rows) {
    if (row.taken_by != turn || row.offer_fence != fence) continue;
    // A row that is only offered was perhaps never seen; it stays and comes again.
    if (row.state == core::InboxState::offered) continue;
    // Its reader asked that only an explicit acknowledgement counts.
    if (row.offer_path == core::OfferPath::hold) continue;
    TRY(confirm_row(work, row, core::AckedAs::processed));
  }
  return {};
}

namespace {

struct Named {
  std::string id;  // as the caller wrote it
  std::vector<store::InboxRow> rows;
};

// What the caller names: an event of its own, or a delivery made under its fence.
Result<Named> resolve(Work& work, const Caller& caller, const Host& host, const std::string& id) {
  Named named{id, {}};
  TRY_ASSIGN(const std::optional<store::HandOverRow> record,
             store::find_hand_over(work.db(), DeliveryId(id)));
  if (record && record->owner == caller.owner) {
    if (record->fence != host.fence) {
      return fail(ErrorCode::fenced,
                  "Delivery " + id + " was made to an earlier host of the session.");
    }
    for (const EventId& event : record->events) {
      TRY_ASSIGN(const std::optional<store::InboxRow> row, store::find_event(work.db(), event));
      if (row) named.rows.push_back(*row);
    }
    return named;
  }
  TRY_ASSIGN(const std::optional<store::InboxRow> row,
             store::find_own_event(work.db(), caller.owner, EventId(id)));
  if (!row) {
    return fail(ErrorCode::not_found, "There is no event or delivery " + id + " in this session.");
  }
  named.rows.push_back(*row);
  return named;
}

}  // namespace

Result<AckReply> acknowledge(Work& work, const Caller& caller, const Host& host,
                             const std::vector<std::string>& ids) {
  std::vector<Named> all;
  for (const std::string& id : ids) {
    TRY_ASSIGN(Named named, resolve(work, caller, host, id));
    all.push_back(std::move(named));
  }
  AckReply reply;
  for (const Named& named : all) {
    bool fresh = false;
    for (const store::InboxRow& row : named.rows) {
      TRY_ASSIGN(const std::optional<store::InboxRow> now, store::find_event(work.db(), row.event));
      if (!now || now->acked_at) continue;
      fresh = true;
      TRY(confirm_row(work, *now, core::AckedAs::processed));
      if (now->delivery) TRY(settle_offer_if_done(work, *now->delivery));
    }
    (fresh ? reply.acked : reply.already).push_back(named.id);
  }
  TRY(work.touch(caller.owner));
  return reply;
}

Result<void> return_row(Work& work, store::InboxRow row, const std::string& why) {
  // What was accepted was taken by its turn, whatever becomes of it; what was only offered was not.
  if (row.state == core::InboxState::offered) row.taken_by.reset();
  TRY_ASSIGN(const bool moved, move_row(row, core::InboxTrigger::back));
  if (!moved) return {};
  row.repeat = true;
  ++row.tries;
  row.last_error = why;
  row.offer_connection.reset();
  TRY(store::write_inbox(work.db(), row));
  TRY(work.touch(row.owner));
  return plan_wake(work, row.owner);
}

Result<void> drop_row(Work& work, store::InboxRow row, core::DroppedAs as) {
  TRY_ASSIGN(const bool moved, move_row(row, core::InboxTrigger::drop));
  if (!moved) return {};
  row.dropped_as = as;
  row.acked_at = work.wall();
  row.offer_connection.reset();
  row.withheld = core::Withheld::no;
  TRY(store::write_inbox(work.db(), row));
  if (row.delivery) TRY(settle_offer_if_done(work, *row.delivery));
  TRY_ASSIGN(std::optional<store::JobRow> job, store::find_job(work.db(), row.job));
  if (!job) return work.touch(row.owner);
  return work.note(
      *job, core::ReceiptName::dropped, std::nullopt, "daemon",
      "event " + row.event.str() + " was not heard: " + std::string(core::to_word(as)));
}

Result<void> return_rows(Work& work, const core::Owner& owner, const std::string& why) {
  TRY_ASSIGN(const std::vector<store::InboxRow> rows, store::live_inbox(work.db(), owner));
  for (const store::InboxRow& row : rows) {
    if (row.state != core::InboxState::offered && row.state != core::InboxState::accepted) continue;
    if (row.delivery) TRY(work.settle_owed(core::OwedKind::offer_expiry, row.delivery->str()));
    TRY(return_row(work, row, why));
  }
  return {};
}

Result<void> return_expired(Work& work, const DeliveryId& delivery) {
  TRY(work.settle_owed(core::OwedKind::offer_expiry, delivery.str()));
  TRY_ASSIGN(const std::vector<store::InboxRow> rows,
             store::inbox_of_delivery(work.db(), delivery));
  for (const store::InboxRow& row : rows) {
    if (row.state != core::InboxState::offered) continue;
    TRY(return_row(work, row, "the offer expired before it was accepted"));
  }
  return {};
}

Result<void> connection_closed(Work& work, ConnectionId connection) {
  TRY_ASSIGN(const std::vector<core::Owner> owners,
             store::owners_of_connection(work.db(), connection));
  for (const core::Owner& owner : owners) {
    if (work.poisoned(owner)) continue;  // it keeps what it has (I12)
    TRY_ASSIGN(const std::vector<store::InboxRow> rows,
               store::inbox_of_connection(work.db(), owner, connection));
    for (const store::InboxRow& row : rows) {
      if (row.delivery) TRY(work.settle_owed(core::OwedKind::offer_expiry, row.delivery->str()));
      TRY(return_row(work, row, "the connection that held the offer closed"));
    }
  }
  return {};
}

Result<void> return_rows_of_earlier_daemon(Work& work) {
  TRY_ASSIGN(const std::vector<store::InboxRow> rows, store::inbox_of_earlier_daemon(work.db()));
  for (const store::InboxRow& row : rows) {
    // Something of its session does not parse: that is refused alone and keeps what it has (I12).
    if (work.poisoned(row.owner)) continue;
    if (row.delivery) TRY(work.settle_owed(core::OwedKind::offer_expiry, row.delivery->str()));
    TRY(return_row(work, row, "the daemon restarted"));
  }
  return {};
}

Result<void> publish(Work& work, const store::JobRow& job, core::ReceiptName receipt,
                     core::EventType type, bool wakes, const std::string& tail, std::string data) {
  TRY_ASSIGN(const std::optional<store::TurnRow> turn,
             store::find_open_turn(work.db(), job.scope.owner));
  TRY_ASSIGN(const std::uint32_t n, store::count_receipts(work.db(), job.id, receipt));
  store::InboxRow row;
  row.seq = ++work.sequences().inbox;
  row.event = core::make_event_id(job.id, receipt, n);
  row.owner = job.scope.owner;
  if (job.owner == core::OwnerKind::turn && turn && turn->id == job.scope.turn) row.turn = turn->id;
  row.job = job.id;
  row.type = type;
  row.lane = turn ? core::Lane::next_step : core::Lane::next_turn;
  // A user's stop is never laundered into a model request.
  row.wakes = wakes && !(turn && turn->stopped);
  row.created_at = work.wall();
  row.due_at = work.now();
  row.repeat = work.repeats();
  row.data = std::move(data);
  if (!tail.empty()) row.sealed_tail = work.sealer().seal(tail, row.event.str());
  TRY(store::insert_inbox(work.db(), row));
  TRY(work.touch(row.owner));
  return plan_wake(work, row.owner);
}

}  // namespace waybill::engine
