#pragma once
// The store's own clock: what is due, and how old something is, is told by it. It only runs
// forward, by the machine's monotonic clock, and a row keeps it over restarts: setting the wall
// clock, a time zone or a suspended machine neither make anything due nor put it off. Within one
// boot the monotonic clock tells how long the daemon was away. After another boot only the wall
// clock can: it counts if it has gone forward, and for a day at most. It lives on the engine's
// thread.

#include <functional>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "store/database.h"

namespace waybill::engine {

class DueClock {
 public:
  // `boot`: of the machine's monotonic clock; "" when that is not known. `warn`: the wall clock was
  // set.
  DueClock(const Clock& clock, std::string boot, std::function<void(const std::string&)> warn);

  // Goes on from what the store knows; a new store begins with the wall clock.
  Result<void> open(store::Database& db);

  WallTime now() const;

  // In a transaction that is made anyway: writes down where the clock stands, if that was long ago.
  // So after a crash it is behind what it had shown by that much at most.
  Result<void> keep(store::Database& db, bool even_if_recent = false);
  // That transaction was committed.
  void kept();

 private:
  const Clock& clock_;
  std::string boot_;
  std::function<void(const std::string&)> warn_;
  WallTime base_{};       // what it showed …
  MonoTime mono_base_{};  // … at this moment
  MonoTime kept_at_{};
  WallTime kept_wall_{};
  std::optional<MonoTime> keeping_;
};

}  // namespace waybill::engine
