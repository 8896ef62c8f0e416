#pragma once
// Rows of `owed`: what dispatch, timers, back-off and recovery read, and nothing else.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/owed.h"
#include "store/database.h"

namespace waybill::store {

// Inserts or moves the row of (kind, key).
Result<void> put_owed(Database& db, const core::Owed& owed);
Result<void> remove_owed(Database& db, core::OwedKind kind, std::string_view key);
Result<std::optional<core::Owed>> find_owed(Database& db, core::OwedKind kind,
                                            std::string_view key);
Result<std::vector<core::Owed>> owed_of_kind(Database& db, core::OwedKind kind);
// Timers that are due (everything but `supervise`, which waits for facts and not for time).
Result<std::vector<core::Owed>> due_timers(Database& db, WallTime now, int limit);
Result<std::optional<WallTime>> next_timer(Database& db);
Result<std::map<std::string, std::uint64_t>> count_owed(Database& db);

}  // namespace waybill::store
