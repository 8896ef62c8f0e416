#pragma once
// What is owed next: rows written in the transaction of the transition that caused them. Dispatch,
// timers, back-off, recovery and the crash matrix all read only this table.

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "core/scope.h"
#include "core/words.h"

namespace waybill::core {

enum class OwedKind {
  supervise,     // key = job: look at its files and do the next row of the recovery table
  offer_expiry,  // key = delivery: an offer that nobody accepted goes back to pending
  host_lease,    // key = tenant/session: the host's lease may have lapsed
  turn_abandon,  // key = tenant/session/turn: an open turn without a host becomes the session's
  stop_stuck,    // key = job: a stop that is not confirmed by then is announced, once
  start_within,  // key = job: still queued then, it is not started any more
  prune,         // key = "node": something may have been kept long enough
  wake,          // key = tenant/session: look again whether its client has to be woken or started
};
WAYBILL_WORDS(OwedKind, 8, "supervise", "offer_expiry", "host_lease", "turn_abandon", "stop_stuck",
              "start_within", "prune", "wake");

struct Owed {
  OwedKind kind = OwedKind::supervise;
  std::string key;
  Owner owner;
  WallTime due_at{};
  unsigned tries = 0;
  std::string last_error;
  std::uint64_t fence = 0;
};

}  // namespace waybill::core
