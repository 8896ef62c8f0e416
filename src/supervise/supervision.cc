#include "supervise/supervision.h"

#include <array>
#include <optional>

namespace waybill::supervise {
namespace {

using core::Supervision;

enum class Want { any, no, yes };

// What a row asks of each column; `any` asks nothing. The first row that fits decides. A torn
// record counts as present: it shows that something happened, not what.
struct Row {
  Want final_record;
  Want exit;
  Want start;
  Want lock_held;
  Want exit_by_daemon;
  Want start_good;
  Want same_generation;
  Want main_is_same;
  Supervision result;
};

constexpr Want any = Want::any;
constexpr Want no = Want::no;
constexpr Want yes = Want::yes;

constexpr std::array<Row, 13> kTable{{
    // final exit start lock  daemon good  gen   main
    {yes, any, any, any, yes, any, any, any, Supervision::lost},
    {yes, any, any, any, no, any, any, any, Supervision::finished},
    {no, yes, any, yes, any, any, any, any, Supervision::draining},
    {no, yes, any, no, yes, any, any, any, Supervision::lost},
    {no, yes, any, no, no, any, any, any, Supervision::finished},
    {no, no, no, yes, any, any, any, any, Supervision::launching},
    {no, no, no, no, any, any, any, any, Supervision::not_launched},
    {no, no, yes, yes, any, any, any, any, Supervision::running},
    {no, no, yes, no, any, no, any, any, Supervision::lost},
    {no, no, yes, no, any, yes, no, any, Supervision::generation_gone},
    {no, no, yes, no, any, yes, yes, yes, Supervision::orphaned},
    {no, no, yes, no, any, yes, yes, no, Supervision::lost},
    {any, any, any, any, any, any, any, any, Supervision::lost},  // never reached
}};

constexpr bool fits(Want want, bool value) {
  return want == Want::any || (want == Want::yes) == value;
}

constexpr std::size_t row_of(const DirectoryState& state) {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    const Row& row = kTable[i];
    if (fits(row.final_record, state.final_record != RecordState::absent) &&
        fits(row.exit, state.exit != RecordState::absent) &&
        fits(row.start, state.start != RecordState::absent) &&
        fits(row.lock_held, state.lock_held) && fits(row.exit_by_daemon, state.exit_by_daemon) &&
        fits(row.start_good, state.start == RecordState::good) &&
        fits(row.same_generation, state.same_generation) &&
        fits(row.main_is_same, state.main_is_same)) {
      return i;
    }
  }
  return kTable.size();
}

constexpr bool is_total() {
  for (unsigned bits = 0; bits < 3 * 3 * 3 * 16; ++bits) {
    DirectoryState state;
    unsigned rest = bits;
    const auto digit = [&rest](unsigned base) {
      const unsigned value = rest % base;
      rest /= base;
      return value;
    };
    state.start = static_cast<RecordState>(digit(3));
    state.exit = static_cast<RecordState>(digit(3));
    state.final_record = static_cast<RecordState>(digit(3));
    state.lock_held = digit(2) != 0;
    state.exit_by_daemon = digit(2) != 0;
    state.same_generation = digit(2) != 0;
    state.main_is_same = digit(2) != 0;
    if (row_of(state) + 1 >= kTable.size()) return false;
  }
  return true;
}
static_assert(is_total(), "every state of a job directory has a row of its own");

}  // namespace

core::Supervision supervision_of(const DirectoryState& state) {
  return kTable[row_of(state)].result;
}

}  // namespace waybill::supervise
