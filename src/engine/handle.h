#pragma once
// Which command does what. Everything here runs inside a transaction of the engine's.

#include <functional>
#include <optional>

#include "engine/access.h"
#include "engine/command.h"
#include "engine/work.h"

namespace waybill::engine {

// What commands share beyond the store; lives as long as the engine.
struct Context {
  KeyedConnections& connections;
  PoisonedOwners& poisoned;
  // The session's host waits right now, on its inbox or for a wake.
  std::function<bool(const core::Owner&)> reachable;
  std::function<std::vector<SessionId>()> all_reachable;
};

struct Look {
  bool first = true;  // the call itself, not another look at a call that waits
  bool last = false;  // its time is over
};

// nullopt: not yet, and the command is one that waits. A first look may make the command definite
// ("all" becomes the jobs that are live now), so that later looks speak of the same.
Result<std::optional<Reply>> handle(Work& work, Context& context, Command& command, Look look);

// The answer to a command that changes nothing, or nullopt for one that would.
std::optional<Result<Reply>> read_only(Work& work, Context& context, const Command& command);

// How a command waits, for those that do.
struct Waits {
  core::Owner owner;
  ConnectionId connection = 0;
  Millis timeout{0};
  int rank = 0;
};
Waits waits_of(const Command& command);

// Whose state the command touches; nullopt for those of the whole node.
std::optional<core::Owner> owner_of(const Command& command);

// A row of `owed` whose time has come.
Result<void> timer(Work& work, Context& context, const core::Owed& owed);
// It could not be done: again later, bounded and jittered.
bool postpone(Work& work, const core::Owed& owed, const std::string& why);

// After a restart: everything that runs is supervised again, free slots are filled.
Result<void> recover_jobs(Work& work);

}  // namespace waybill::engine
