#include "engine/access.h"

#include <algorithm>

#include "engine/clients.h"
#include "engine/deliver.h"
#include "engine/retention.h"
#include "engine/turns.h"
#include "engine/views.h"
#include "engine/wake.h"
#include "store/retention.h"

namespace waybill::engine {

void KeyedConnections::add(const core::Owner& owner, const std::string& key_hash,
                           ConnectionId connection) {
  by_owner_[owner][connection] = key_hash;
  by_connection_[connection].insert(owner);
}

std::vector<core::Owner> KeyedConnections::remove(ConnectionId connection) {
  std::vector<core::Owner> last;
  const auto found = by_connection_.find(connection);
  if (found == by_connection_.end()) return last;
  for (const core::Owner& owner : found->second) {
    const auto open = by_owner_.find(owner);
    const std::string key_hash = open->second[connection];
    open->second.erase(connection);
    if (open->second.empty()) by_owner_.erase(open);
    if (!any(owner, key_hash)) last.push_back(owner);
  }
  by_connection_.erase(found);
  return last;
}

bool KeyedConnections::any(const core::Owner& owner, const std::string& key_hash) const {
  const auto found = by_owner_.find(owner);
  return found != by_owner_.end() && std::ranges::any_of(found->second, [&](const auto& open) {
           return open.second == key_hash;
         });
}

namespace {

// When the lease would lapse if nobody called any more and no connection were open.
WallTime lapse_time(const store::SessionRow& session, bool turn_open, const Settings& settings) {
  const WallTime last = session.last_call_at.value_or(WallTime{});
  Millis lasts = settings.host_lease;
  if (turn_open) lasts = std::max(lasts, session.lease.value_or(settings.turn_lease));
  return last + lasts;
}

Result<bool> turn_is_open(Work& work, const core::Owner& owner) {
  TRY_ASSIGN(const std::optional<store::TurnRow> turn, store::find_open_turn(work.db(), owner));
  return turn.has_value();
}

Result<void> owe_lease_check(Work& work, const store::SessionRow& session) {
  if (session.host_pid) return {};  // its end is watched, not timed
  TRY_ASSIGN(const bool turn_open, turn_is_open(work, session.owner));
  return work.owe_once(core::OwedKind::host_lease, owner_key(session.owner), session.owner,
                       lapse_time(session, turn_open, work.settings()));
}

Result<void> lapse(Work& work, store::SessionRow& session) {
  session.lease_live = false;
  TRY(session_is_absent(work, session.owner));
  TRY(work.settle_owed(core::OwedKind::host_lease, owner_key(session.owner)));
  TRY(return_rows(work, session.owner, "the host's lease lapsed"));
  TRY_ASSIGN(const std::optional<store::TurnRow> turn,
             store::find_open_turn(work.db(), session.owner));
  if (turn) {
    TRY(work.owe(core::OwedKind::turn_abandon, turn_key(session.owner, turn->id), session.owner,
                 work.now() + work.settings().turn_abandon_after));
  }
  TRY(work.touch(session.owner));
  return plan_wake(work, session.owner);
}

// The lease starts, or starts again: whatever was owed because nobody was there is void.
Result<void> revive(Work& work, store::SessionRow& session) {
  session.lease_live = true;
  TRY(store::remove_absent(work.db(), session.owner));
  TRY_ASSIGN(const std::optional<store::TurnRow> turn,
             store::find_open_turn(work.db(), session.owner));
  if (turn) {
    TRY(work.settle_owed(core::OwedKind::turn_abandon, turn_key(session.owner, turn->id)));
  }
  return {};
}

// A new host: the fence rises, what the older one held returns.
Result<void> take_over(Work& work, store::SessionRow& session, const std::string& hash) {
  session.host_key_hash = hash;
  ++session.fence;
  session.lease.reset();
  session.host_pid.reset();
  session.host_pid_start.reset();
  session.one_shot = false;
  TRY(work.settle_owed(core::OwedKind::host_lease, owner_key(session.owner)));
  TRY(return_rows(work, session.owner, "a newer host attached"));
  return revive(work, session);
}

}  // namespace

namespace {

Error attached_elsewhere(const core::Owner& owner) {
  return Error{ErrorCode::fenced, "Session " + owner.session.str() +
                                      " is attached by another host, whose lease is live; `waybill "
                                      "session attach` takes it over."};
}

}  // namespace

std::string host_key_hash(const Work& work, const HostKey& key) {
  return work.sealer().fingerprint("host key " + key.str());
}

bool lease_holds(const store::SessionRow& session, bool turn_open, bool connected, WallTime now,
                 const Settings& settings) {
  if (!session.lease_live) return false;
  if (session.host_pid || connected) return true;
  return now < lapse_time(session, turn_open, settings);
}

Result<Host> recognise(Work& work, KeyedConnections& connections, const Caller& caller) {
  if (core::is_user_session(caller.owner)) {
    TRY_ASSIGN(const store::SessionRow* row, work.find_session(caller.owner));
    return Host{true, row == nullptr ? 0 : row->fence};
  }
  if (!caller.host_key) return Host{};
  const std::string hash = host_key_hash(work, *caller.host_key);
  TRY_ASSIGN(store::SessionRow * session, work.session(caller.owner));
  TRY_ASSIGN(const bool turn_open, turn_is_open(work, caller.owner));
  if (session->host_key_hash != hash) {
    if (lease_holds(*session, turn_open, connections.any(caller.owner, session->host_key_hash),
                    work.now(), work.settings())) {
      return fail(attached_elsewhere(caller.owner));
    }
    TRY(take_over(work, *session, hash));
    TRY(work.touch(caller.owner));
  } else if (!session->lease_live) {
    TRY(revive(work, *session));
    TRY(work.touch(caller.owner));
  }
  session->last_call_at = work.now();
  connections.add(caller.owner, hash, caller.connection);
  TRY(owe_lease_check(work, *session));
  return Host{true, session->fence};
}

Result<Host> need_host(Work& work, KeyedConnections& connections, const Caller& caller,
                       std::string_view what) {
  TRY_ASSIGN(const Host host, recognise(work, connections, caller));
  if (host.is_host) return host;
  return fail(ErrorCode::unauthenticated,
              std::string(what) +
                  " is the host's to do: give its host key with --host-key or WAYBILL_HOST_KEY.");
}

Result<AttachReply> attach(Work& work, KeyedConnections& connections,
                           const AttachRequest& request) {
  const core::Owner& owner = request.caller.owner;
  if (core::is_user_session(owner)) {
    return fail(ErrorCode::bad_request,
                "The session `user` belongs to a person and has no host; name one with --session.");
  }
  if (!request.caller.host_key) {
    return fail(ErrorCode::unauthenticated,
                "Attaching needs a host key: give one with --host-key or WAYBILL_HOST_KEY.");
  }
  const std::string hash = host_key_hash(work, *request.caller.host_key);
  TRY_ASSIGN(store::SessionRow * session, work.session(owner));
  if (session->host_key_hash == hash) {
    TRY(revive(work, *session));
  } else {
    TRY_ASSIGN(const bool turn_open, turn_is_open(work, owner));
    if (request.join &&
        lease_holds(*session, turn_open, connections.any(owner, session->host_key_hash), work.now(),
                    work.settings())) {
      return fail(attached_elsewhere(owner));
    }
    TRY(take_over(work, *session, hash));
  }
  if (request.host_pid) {
    session->host_pid = request.host_pid;
    session->host_pid_start = request.host_pid_start;
    TRY(work.settle_owed(core::OwedKind::host_lease, owner_key(owner)));
    work.watch_host(owner);
  }
  if (request.lease) session->lease = request.lease;
  if (!request.join) session->one_shot = request.one_shot;
  session->last_call_at = work.now();
  if (!request.client.empty()) session->client = request.client;
  connections.add(owner, hash, request.caller.connection);
  TRY(owe_lease_check(work, *session));
  TRY(remember_client(work, request));
  TRY(work.touch(owner));
  AttachReply reply;
  TRY_ASSIGN(reply.session, view_session(work.db(), work.settings(), *session));
  reply.session.incarnation = work.parts().incarnation;
  TRY_ASSIGN(reply.outstanding, view_outstanding(work.db(), owner));
  return reply;
}

Result<void> detach(Work& work, KeyedConnections& connections, const DetachRequest& request) {
  TRY(need_host(work, connections, request.caller, "Leaving a session"));
  const core::Owner& owner = request.caller.owner;
  if (core::is_user_session(owner)) return {};
  TRY_ASSIGN(const std::optional<store::TurnRow> turn, store::find_open_turn(work.db(), owner));
  if (turn) TRY(abandon_turn(work, owner, turn->id, "its host left the session"));
  TRY_ASSIGN(store::SessionRow * session, work.session(owner));
  session->host_pid.reset();
  session->host_pid_start.reset();
  return lapse(work, *session);
}

Result<void> check_lease(Work& work, const KeyedConnections& connections,
                         const core::Owner& owner) {
  TRY(work.settle_owed(core::OwedKind::host_lease, owner_key(owner)));
  TRY_ASSIGN(store::SessionRow * session, work.find_session(owner));
  if (session == nullptr || !session->lease_live || session->host_pid) return {};
  if (connections.any(owner, session->host_key_hash))
    return {};  // asked again when the last one closes
  TRY_ASSIGN(const bool turn_open, turn_is_open(work, owner));
  const WallTime due = lapse_time(*session, turn_open, work.settings());
  if (work.now() < due) {
    return work.owe(core::OwedKind::host_lease, owner_key(owner), owner, due);
  }
  TRY_ASSIGN(session, work.session(owner));
  return lapse(work, *session);
}

Result<void> host_gone(Work& work, const HostGone& gone) {
  TRY_ASSIGN(store::SessionRow * session, work.find_session(gone.owner));
  if (session == nullptr || !session->lease_live) return {};
  if (session->host_pid != gone.pid || session->host_pid_start != gone.start) return {};
  TRY_ASSIGN(session, work.session(gone.owner));
  session->host_pid.reset();
  session->host_pid_start.reset();
  return lapse(work, *session);
}

Result<void> void_host(Work& work, const core::Owner& owner) {
  TRY_ASSIGN(store::SessionRow * session, work.session(owner));
  session->host_key_hash.clear();
  session->host_pid.reset();
  session->host_pid_start.reset();
  return lapse(work, *session);
}

Result<void> renew_leases_after_restart(Work& work) {
  TRY_ASSIGN(const std::vector<store::SessionRow> live, store::live_sessions(work.db()));
  for (const store::SessionRow& row : live) {
    // Its turn may be what does not parse; it is refused alone and keeps what it has (I12).
    if (work.poisoned(row.owner)) continue;
    if (row.host_pid) {
      work.watch_host(row.owner);
      continue;
    }
    TRY_ASSIGN(const bool turn_open, turn_is_open(work, row.owner));
    const WallTime due = std::max(lapse_time(row, turn_open, work.settings()),
                                  work.now() + work.settings().host_lease);
    TRY(work.owe(core::OwedKind::host_lease, owner_key(row.owner), row.owner, due));
  }
  return {};
}

}  // namespace waybill::engine
