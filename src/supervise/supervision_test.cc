#include "supervise/supervision.h"

#include <gtest/gtest.h>

#include <string>

namespace waybill::supervise {
namespace {

using core::Supervision;

struct Case {
  const char* what;
  DirectoryState state;
  Supervision expected;
};

constexpr RecordState absent = RecordState::absent;
constexpr RecordState torn = RecordState::torn;
constexpr RecordState good = RecordState::good;

// lock_held, start, exit, final, exit_by_daemon, same_generation, main_is_same
const Case kCases[] = {
    {"nothing at all, or a launch file only",
     {false, absent, absent, absent, false, false, false},
     Supervision::not_launched},
    {"spawned, no start record yet",
     {true, absent, absent, absent, false, false, false},
     Supervision::launching},
    {"started", {true, good, absent, absent, false, true, true}, Supervision::running},
    {"started, the main process has just ended",
     {true, good, absent, absent, false, true, false},
     Supervision::running},
    {"a torn start counts as started, supervisor alive",
     {true, torn, absent, absent, false, false, false},
     Supervision::running},
    {"a torn start counts as started, supervisor gone: never launched again",
     {false, torn, absent, absent, false, false, false},
     Supervision::lost},
    {"exit recorded, output still read",
     {true, good, good, absent, false, true, false},
     Supervision::draining},
    {"a torn exit, supervisor alive",
     {true, good, torn, absent, false, true, false},
     Supervision::draining},
    {"all recorded", {false, good, good, good, false, true, false}, Supervision::finished},
    {"all recorded, leftovers watched",
     {true, good, good, good, false, true, false},
     Supervision::finished},
    {"a torn final record", {false, good, good, torn, false, true, false}, Supervision::finished},
    {"all recorded, on a machine that is gone",
     {false, good, good, good, false, false, false},
     Supervision::finished},
    {"supervisor died in the drain",
     {false, good, good, absent, false, true, false},
     Supervision::finished},
    {"supervisor gone, main process alive",
     {false, good, absent, absent, false, true, true},
     Supervision::orphaned},
    {"supervisor and main process gone",
     {false, good, absent, absent, false, true, false},
     Supervision::lost},
    {"the same number, but on another machine: nothing may be signalled",
     {false, good, absent, absent, false, false, false},
     Supervision::generation_gone},
    {"the daemon has written the exit",
     {false, good, good, absent, true, true, false},
     Supervision::lost},
    {"the daemon has written everything",
     {false, good, good, good, true, true, false},
     Supervision::lost},
    {"an exit without a start is not a reason to start",
     {false, absent, good, absent, false, false, false},
     Supervision::finished},
    {"a final record alone is not a reason to start",
     {false, absent, absent, good, false, false, false},
     Supervision::finished},
};

TEST(Supervision, every_row_of_the_recovery_table) {
  for (const Case& row : kCases) {
    EXPECT_EQ(supervision_of(row.state), row.expected) << row.what;
  }
}

// I10: over all states, only one where nothing but a launch was ever written may be launched.
TEST(Supervision, I10_not_launched_means_that_no_record_exists_and_nobody_holds_the_lock) {
  for (unsigned bits = 0; bits < 27 * 16; ++bits) {
    DirectoryState state;
    state.start = static_cast<RecordState>(bits % 3);
    state.exit = static_cast<RecordState>(bits / 3 % 3);
    state.final_record = static_cast<RecordState>(bits / 9 % 3);
    const unsigned flags = bits / 27;
    state.lock_held = (flags & 1U) != 0;
    state.exit_by_daemon = (flags & 2U) != 0;
    state.same_generation = (flags & 4U) != 0;
    state.main_is_same = (flags & 8U) != 0;
    const bool untouched = state.start == absent && state.exit == absent &&
                           state.final_record == absent && !state.lock_held;
    EXPECT_EQ(supervision_of(state) == Supervision::not_launched, untouched) << bits;
    if (supervision_of(state) == Supervision::orphaned) {
      EXPECT_TRUE(state.same_generation && state.main_is_same && state.start == good);
    }
  }
}

}  // namespace
}  // namespace waybill::supervise
