#pragma once
// Who may act: host keys, leases and fences (SPEC section 5, I16). The host key is the capability;
// naming a session is not attaching to it.

#include <map>
#include <set>

#include "engine/work.h"

namespace waybill::engine {

// Connections over which a host's key was presented: while one is open, the lease of that key
// lasts. Those of a host that was superseded hold nobody's.
class KeyedConnections {
 public:
  void add(const core::Owner& owner, const std::string& key_hash, ConnectionId connection);
  // The owners for whom this was the last connection of its key.
  std::vector<core::Owner> remove(ConnectionId connection);
  bool any(const core::Owner& owner, const std::string& key_hash) const;

 private:
  std::map<core::Owner, std::map<ConnectionId, std::string>> by_owner_;
  std::map<ConnectionId, std::set<core::Owner>> by_connection_;
};

// Recognises the caller. A caller without a key is nobody's host, except in the session `user`,
// where the person is. A keyed caller joins its own lease, attaches by itself when no other key's
// lease is live, and is `fenced` otherwise.
Result<Host> recognise(Work& work, KeyedConnections& connections, const Caller& caller);

// The same for calls that only a host may make: `unauthenticated` without a key.
Result<Host> need_host(Work& work, KeyedConnections& connections, const Caller& caller,
                       std::string_view what);

Result<AttachReply> attach(Work& work, KeyedConnections& connections, const AttachRequest& request);

// The host says that it has left: its lease lapses now, its open turn is given up.
Result<void> detach(Work& work, KeyedConnections& connections, const DetachRequest& request);

// What the store knows a host key by.
std::string host_key_hash(const Work& work, const HostKey& key);

// The lease's timer has come, the host's process has ended, or its last connection has closed.
Result<void> check_lease(Work& work, const KeyedConnections& connections, const core::Owner& owner);
Result<void> host_gone(Work& work, const HostGone& gone);

// After a restart of the daemon nobody has called yet: every live lease gets its full time again.
Result<void> renew_leases_after_restart(Work& work);

// Whoever was the session's host is it no more, without a word; the next one gets a higher fence.
// What was handed over and not acknowledged is pending again.
Result<void> void_host(Work& work, const core::Owner& owner);

bool lease_holds(const store::SessionRow& session, bool turn_open, bool connected, WallTime now,
                 const Settings& settings);

}  // namespace waybill::engine
