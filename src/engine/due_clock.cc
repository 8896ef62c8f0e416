#include "engine/due_clock.h"

#include <algorithm>

#include "store/retention.h"

namespace waybill::engine {
namespace {

constexpr Millis kKeepEvery{10'000};
// A wall clock that was wrong at a boot must not make everything old at once.
constexpr Millis kAwayMost = std::chrono::hours(24);
constexpr Millis kJumpLeast{1000};

Millis millis(MonoTime time) { return std::chrono::floor<Millis>(time.time_since_epoch()); }

}  // namespace

DueClock::DueClock(const Clock& clock, std::string boot,
                   std::function<void(const std::string&)> warn)
    : clock_(clock), boot_(std::move(boot)), warn_(std::move(warn)) {}

Result<void> DueClock::open(store::Database& db) {
  TRY_ASSIGN(const std::optional<store::DueClockRow> row, store::find_due_clock(db));
  mono_base_ = clock_.mono();
  const WallTime wall = clock_.wall();
  base_ = wall;
  if (row) {
    const Millis ran = millis(mono_base_) - row->mono;
    const bool same_boot = !boot_.empty() && row->boot == boot_ && ran >= Millis(0);
    base_ = row->due + (same_boot ? ran : std::clamp(wall - row->wall, Millis(0), kAwayMost));
  }
  kept_at_ = mono_base_;
  kept_wall_ = wall;
  return {};
}

WallTime DueClock::now() const {
  return base_ + std::chrono::floor<Millis>(clock_.mono() - mono_base_);
}

Result<void> DueClock::keep(store::Database& db, bool even_if_recent) {
  keeping_.reset();
  const MonoTime mono = clock_.mono();
  if (!even_if_recent && mono - kept_at_ < kKeepEvery) return {};
  keeping_ = mono;
  return store::put_due_clock(db, {boot_, millis(mono), clock_.wall(), now()});
}

void DueClock::kept() {
  if (!keeping_) return;
  const WallTime wall = clock_.wall();
  const Millis apart = (wall - kept_wall_) - std::chrono::floor<Millis>(*keeping_ - kept_at_);
  if (apart >= kJumpLeast || apart <= -kJumpLeast) {
    warn_("the wall clock was moved by about " + std::to_string(apart.count() / 1000) +
          " s, or the machine slept; what is due goes by the time that passed");
  }
  kept_at_ = *keeping_;
  kept_wall_ = wall;
  keeping_.reset();
}

}  // namespace waybill::engine
