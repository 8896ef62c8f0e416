#pragma once
// What is kept for how long (SPEC sections 5, 12 and 13): rows that say since when, and the removal
// of whatever belongs to one finished job or one forgotten session. Times are on the store's clock
// (engine/due_clock.h).

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/scope.h"
#include "store/database.h"
#include "store/jobs.h"

namespace waybill::store {

// A session without a host for this long is given up.
inline constexpr Millis kAbsentFor = std::chrono::hours(24 * 30);
// An idempotency key still speaks this long after its job was removed.
inline constexpr Millis kKeyOutlives = std::chrono::hours(24 * 90);

// The store's clock as it was last written down.
struct DueClockRow {
  std::string boot;
  Millis mono{};
  WallTime wall{};
  WallTime due{};
};
Result<std::optional<DueClockRow>> find_due_clock(Database& db);
Result<void> put_due_clock(Database& db, const DueClockRow& row);

// Numbers that are never given twice, whatever became of the rows that had them: "job", "node",
// "inbox", "fence".
Result<std::uint64_t> high_water(Database& db, std::string_view name);
// Never lowers it.
Result<void> raise_high_water(Database& db, std::string_view name, std::uint64_t value);

// ---- finished jobs -----------------------------------------------------------------------------

struct EndedRow {
  std::uint64_t seq = 0;  // of the job
  WallTime ended_at{};
  WallTime kept_from{};
};
Result<void> insert_ended(Database& db, std::uint64_t seq, WallTime at);
// Oldest first, whose age counts from `until` or before.
Result<std::vector<EndedRow>> ended_until(Database& db, WallTime until, int limit);
// In the order of acceptance, after the job `after`, whatever their age.
Result<std::vector<EndedRow>> ended_after(Database& db, std::uint64_t after, int limit);
Result<void> keep_from(Database& db, std::uint64_t seq, WallTime at);
Result<void> forget_ended(Database& db, std::uint64_t seq);
Result<std::optional<JobId>> job_of_seq(Database& db, std::uint64_t seq);

// Removes everything of a finished job and leaves a tombstone for its idempotency key.
Result<void> delete_job(Database& db, const JobRow& job, WallTime now);

// ---- sessions, turns, keys ---------------------------------------------------------------------

Result<void> put_absent(Database& db, const core::Owner& owner, WallTime look_at);
Result<void> remove_absent(Database& db, const core::Owner& owner);
Result<std::vector<core::Owner>> absent_until(Database& db, WallTime until, int limit);
// Nothing speaks of the session any more: no job, no turn, no key.
Result<bool> nothing_of_session(Database& db, const core::Owner& owner);
Result<void> delete_session(Database& db, const core::Owner& owner, std::uint64_t fence);

// A closed turn's age counts from then.
Result<void> keep_turn_from(Database& db, const core::Owner& owner, const TurnId& turn,
                            WallTime at);
// How many went; at most `limit`.
Result<std::int64_t> delete_turns(Database& db, WallTime until, int limit);
Result<std::int64_t> delete_tombstones(Database& db, WallTime until, int limit);

// When the next of all these is due, with finished jobs and closed turns kept for `retention`.
Result<std::optional<WallTime>> next_removal(Database& db, Millis retention);

// For a store of version 4.
Result<void> fill_retention(Database& db, WallTime now);

}  // namespace waybill::store
