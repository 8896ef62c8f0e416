#pragma once
// Opening a store: creates it, checks it, refuses it (I12). Nothing is changed in a store that is
// refused.

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "store/mark.h"
#include "store/sqlite_database.h"

namespace waybill::store {

class Sealer;

inline constexpr int kSchemaVersion = 7;

struct OpenedStore {
  std::unique_ptr<SqliteDatabase> writer;
  std::string path;
  std::string incarnation;  // made when the store was created; part of every fence (I16)
  bool created = false;
  Lineage lineage;
  std::string remark;  // something a person should read, "" nothing
};

// Whether the files are such that SQLite may open them at all. Changes nothing.
Result<void> check_store_files(const std::string& path);

// Errors: store_newer, state_corrupt, store_full, unavailable.
Result<OpenedStore> open_store(const std::string& path, const Clock& clock);

// Whether open_store reads the whole file before it is served: only of a small one.
bool is_checked_at_start(const std::string& path);

// Reads the whole file and says what is wrong with it: state_corrupt. Its cost is the size of the
// history, not of what is live.
Result<void> check_whole(SqliteDatabase& database);

// The key of this store and no other: a new store remembers it by a value sealed under it, an old
// one is refused with any key but its own (state_corrupt), before anything is read that would not
// open. Only from here on does closing it change its files.
Result<void> bind_key(OpenedStore& store, const Sealer& sealer);

// In the transaction under way: the store goes on under another name, remembers the one it had, and
// is no copy any more.
Result<void> renew_incarnation(Database& db, const Sealer& sealer, const std::string& before,
                               const std::string& incarnation);

// From now on a missing mark is noticed (store/mark.h).
Result<void> expect_mark(Database& db);

Result<std::unique_ptr<SqliteDatabase>> open_reader(const std::string& path);

}  // namespace waybill::store
