#include "engine/wake.h"

#include <algorithm>

#include "base/crash_point.h"
#include "core/retry.h"
#include "engine/clients.h"
#include "engine/deliver.h"
#include "engine/jobs.h"
#include "store/random.h"

namespace waybill::engine {
namespace {

// A client that failed may do so for want of a network or of its service: not at once again.
constexpr Millis kStartAgainFirst{60'000};
constexpr Millis kStartAgainMax{600'000};

struct Situation {
  std::optional<store::TurnRow> turn;   // open or held
  std::vector<store::InboxRow> waking;  // pending, and would open or hold a turn
};

Result<Situation> look(Work& work, const core::Owner& owner) {
  Situation now;
  TRY_ASSIGN(now.turn, store::find_open_turn(work.db(), owner));
  std::optional<TurnId> turn;
  if (now.turn) turn = now.turn->id;
  TRY_ASSIGN(now.waking, deliverable(work, owner, turn, Which::waking));
  return now;
}

// When a live client has to begin a turn: at once when none is open; while one is, its steps and
// its end take what is pending, unless nothing was taken for a while. Clients do not tell when a
// person interrupts them, so an open turn may be over.
std::optional<WallTime> turn_wanted_at(Work& work, const Situation& now) {
  if (now.waking.empty()) return std::nullopt;
  if (!now.turn || now.turn->state == core::TurnState::held) return work.now();
  if (now.turn->stopped) return std::nullopt;
  WallTime first = WallTime::max();
  for (const store::InboxRow& row : now.waking) first = std::min(first, row.due_at);
  return first + work.settings().unheard_grace;
}

bool budget_left(Work& work, const store::ClientRow& client) {
  return client.wakes < work.settings().max_consecutive_wakes;
}

bool may_be_started(Work& work, const store::ClientRow& client) {
  return !client.sealed_resume.empty() && !client.wake_job && budget_left(work, client);
}

// Nobody is woken for these until a user has spoken; they ride along with any turn till then.
Result<void> withhold(Work& work, std::vector<store::InboxRow> rows) {
  for (store::InboxRow& row : rows) {
    row.withheld = core::Withheld::budget;
    TRY(store::write_inbox(work.db(), row));
    TRY(work.touch(row.owner));
  }
  return {};
}

// A user has spoken: what the budget held back is like everything else again.
Result<void> lift(Work& work, const core::Owner& owner) {
  TRY_ASSIGN(const std::vector<store::InboxRow> rows, store::live_inbox(work.db(), owner));
  for (store::InboxRow row : rows) {
    if (row.withheld != core::Withheld::budget) continue;
    row.withheld = core::Withheld::no;
    TRY(store::write_inbox(work.db(), row));
  }
  return {};
}

Result<void> owe_wake(Work& work, const core::Owner& owner, WallTime due) {
  return work.owe(core::OwedKind::wake, owner_key(owner), owner, due);
}

// Starts the client of a session that is closed, as a job of the person it belongs to: seen in
// their list, never a second time for the same reason, and ended like any other.
Result<void> start_client(Work& work, store::ClientRow client) {
  TRY_ASSIGN(ResumeCommand resume, open_resume(work, client));
  RunRequest request;
  request.caller.owner = {client.owner.tenant, SessionId(core::kUserSession)};
  request.label = "wake " + client.owner.session.str();
  request.cwd = std::move(resume.cwd);
  request.argv = std::move(resume.argv);
  request.env = std::move(resume.env);
  request.wake = core::WakePolicy::never;
  request.deadline = work.settings().client_start_deadline;
  TRY_ASSIGN(const RunReply started, run(work, Host{}, request, false));
  client.wake_job = started.job.id;
  ++client.wakes;
  TRY(store::put_client(work.db(), client));
  crash_point("client.start.before_commit");
  return {};
}

}  // namespace

Result<std::optional<WakeReply>> wake(Work& work, KeyedConnections& connections,
                                      const WakeRequest& request, bool last) {
  const core::Owner& owner = request.caller.owner;
  if (core::is_user_session(owner)) {
    return fail(ErrorCode::bad_request,
                "The session `user` belongs to a person, whom nothing wakes; name one with "
                "--session.");
  }
  TRY_ASSIGN(const store::SessionRow* known, work.find_session(owner));
  // A call that comes late, or still waits when the host has left, does not bring it back.
  if (request.caller.host_key && (known == nullptr || !known->lease_live)) {
    return std::optional<WakeReply>(WakeReply{false, true});
  }
  TRY(need_host(work, connections, request.caller, "A wake"));
  TRY_ASSIGN(store::SessionRow * session, work.session(owner));
  TRY_ASSIGN(const Situation now, look(work, owner));
  const std::optional<WallTime> wanted = turn_wanted_at(work, now);
  const bool open = session->wake_until && work.now() < *session->wake_until;
  TRY_ASSIGN(const bool may, may_continue(work, owner));
  if (wanted && *wanted <= work.now() && !open && may) {
    session->wake_until = work.now() + work.settings().offer_deadline;
    TRY(continued(work, owner));
    TRY(work.touch(owner));
    TRY(plan_wake(work, owner));
    return std::optional<WakeReply>(WakeReply{true, false});
  }
  if (last) return std::optional<WakeReply>(WakeReply{});
  TRY(plan_wake(work, owner));
  return std::optional<WakeReply>();
}

Result<void> plan_wake(Work& work, const core::Owner& owner) {
  TRY_ASSIGN(const store::SessionRow* session, work.find_session(owner));
  if (session == nullptr || session->client.empty()) return {};
  TRY_ASSIGN(Situation now, look(work, owner));
  // What the open wake is for has its continuation: it is not held back while that may begin.
  const bool open = session->lease_live && session->wake_until && work.now() < *session->wake_until;
  if (!now.turn && !now.waking.empty() && !open) {
    TRY_ASSIGN(const bool may, may_continue(work, owner));
    if (!may) {
      TRY(withhold(work, std::move(now.waking)));
      return work.settle_owed(core::OwedKind::wake, owner_key(owner));
    }
  }
  if (session->lease_live) {
    std::optional<WallTime> due = turn_wanted_at(work, now);
    if (due && session->wake_until) due = std::max(*due, *session->wake_until);
    // What is wanted now is seen by whoever waits, in this very transaction.
    if (due && *due > work.now()) return owe_wake(work, owner, *due);
    if (session->wake_until && now.waking.empty())
      return owe_wake(work, owner, *session->wake_until);
    return work.settle_owed(core::OwedKind::wake, owner_key(owner));
  }
  TRY_ASSIGN(const std::optional<store::ClientRow> client, store::find_client(work.db(), owner));
  if (now.waking.empty() || !client || !may_be_started(work, *client)) {
    return work.settle_owed(core::OwedKind::wake, owner_key(owner));
  }
  return work.owe_once(core::OwedKind::wake, owner_key(owner), owner, work.now());
}

Result<void> wake_due(Work& work, const core::Owner& owner) {
  TRY(work.settle_owed(core::OwedKind::wake, owner_key(owner)));
  if (work.poisoned(owner)) return {};  // nothing new is started for it (I12)
  TRY_ASSIGN(const store::SessionRow* session, work.find_session(owner));
  if (session == nullptr) return {};
  if (session->lease_live) {
    // A wake that no turn came of is over; whoever waits is asked next.
    TRY_ASSIGN(store::SessionRow * live, work.session(owner));
    if (live->wake_until && *live->wake_until <= work.now()) live->wake_until.reset();
    TRY(work.touch(owner));
    return plan_wake(work, owner);
  }
  TRY_ASSIGN(const std::optional<store::ClientRow> client, store::find_client(work.db(), owner));
  if (!client || !may_be_started(work, *client)) return {};
  TRY_ASSIGN(const Situation now, look(work, owner));
  if (now.waking.empty()) return {};
  return start_client(work, *client);
}

Result<bool> may_continue(Work& work, const core::Owner& owner) {
  TRY_ASSIGN(const std::optional<store::ClientRow> client, client_of(work, owner));
  return !client || budget_left(work, *client);
}

Result<void> continued(Work& work, const core::Owner& owner) {
  TRY_ASSIGN(std::optional<store::ClientRow> client, client_of(work, owner));
  if (!client) return {};
  ++client->wakes;
  return store::put_client(work.db(), *client);
}

Result<void> wake_failed(Work& work, const core::Owner& owner) {
  TRY_ASSIGN(const store::SessionRow* session, work.find_session(owner));
  if (session == nullptr || !session->wake_until || work.now() >= *session->wake_until) return {};
  TRY_ASSIGN(std::optional<store::ClientRow> client, client_of(work, owner));
  if (!client || client->wakes == 0) return {};
  --client->wakes;
  return store::put_client(work.db(), *client);
}

Result<void> turn_began(Work& work, const core::Owner& owner, core::Author author) {
  TRY_ASSIGN(store::SessionRow * session, work.session(owner));
  session->wake_until.reset();
  if (author != core::Author::user) return {};
  TRY_ASSIGN(std::optional<store::ClientRow> client, client_of(work, owner));
  if (!client || client->wakes == 0) return {};
  client->wakes = 0;
  TRY(store::put_client(work.db(), *client));
  TRY(lift(work, owner));
  return work.touch(owner);
}

namespace {

Result<void> start_is_over(Work& work, const core::Owner& owner, const JobId& job) {
  TRY_ASSIGN(std::optional<store::ClientRow> client, store::find_client(work.db(), owner));
  if (!client) return {};
  client->wake_job.reset();
  TRY(store::put_client(work.db(), *client));
  TRY_ASSIGN(const Situation now, look(work, owner));
  for (store::InboxRow row : now.waking) {
    ++row.tries;
    row.last_error = "the client was started (job " + job.str() + ") and took nothing";
    TRY(store::write_inbox(work.db(), row));
  }
  TRY_ASSIGN(const store::SessionRow* session, work.find_session(owner));
  const bool absent = session != nullptr && !session->lease_live;
  if (now.waking.empty() || !absent || !may_be_started(work, *client)) {
    return plan_wake(work, owner);
  }
  const core::Backoff backoff{kStartAgainFirst, kStartAgainMax};
  const auto tries = static_cast<unsigned>(std::max<std::uint64_t>(client->wakes, 1));
  return owe_wake(work, owner,
                  work.now() + core::backoff_delay(backoff, tries, store::random_unit()));
}

}  // namespace

Result<void> wake_job_settled(Work& work, const store::JobRow& job) {
  // Such jobs belong to the person alone.
  if (!core::is_user_session(job.scope.owner)) return {};
  TRY_ASSIGN(const std::optional<core::Owner> owner, store::find_wake(work.db(), job.id));
  if (!owner) return {};
  auto over = start_is_over(work, *owner, job.id);
  if (over || over.error().code != ErrorCode::state_corrupt) return over;
  // It is the woken session that does not parse, not the one whose job has ended.
  work.poison(*owner, over.error().message);
  return {};
}

}  // namespace waybill::engine
