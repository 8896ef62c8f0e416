#pragma once
// Opening a store: creates it, checks it, refuses it (I12). Nothing is changed in a store that is
// refused.

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "store/sqlite_database.h"

namespace waybill::store {

inline constexpr int kSchemaVersion = 5;

struct OpenedStore {
  std::unique_ptr<SqliteDatabase> writer;
  std::string path;
  std::string incarnation;  // made when the store was created; part of every fence (I16)
  bool created = false;
};

// Errors: store_newer, state_corrupt, store_full, unavailable.
Result<OpenedStore> open_store(const std::string& path, const Clock& clock);

// Whether open_store reads the whole file before it is served: only of a small one.
bool is_checked_at_start(const std::string& path);

// Reads the whole file and says what is wrong with it: state_corrupt. Its cost is the size of the
// history, not of what is live.
Result<void> check_whole(SqliteDatabase& database);

class Sealer;

// The key of this store and no other: a new store remembers it by a value sealed under it, an old
// one is refused with any key but its own (state_corrupt), before anything is read that would not
// open.
Result<void> bind_key(OpenedStore& store, const Sealer& sealer);

Result<std::unique_ptr<SqliteDatabase>> open_reader(const std::string& path);

}  // namespace waybill::store
