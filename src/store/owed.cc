#include "store/owed.h"

namespace waybill::store {
namespace {

Result<core::Owed> read_owed(const Row& row) {
  core::Owed owed;
  TRY_ASSIGN(owed.kind, read_word<core::OwedKind>(row.text(0), "owed.kind"));
  owed.key = row.string(1);
  owed.owner = {TenantId(row.string(2)), SessionId(row.string(3))};
  owed.due_at = row.time(4);
  owed.tries = static_cast<unsigned>(row.integer(5));
  owed.last_error = row.string(6);
  owed.fence = static_cast<std::uint64_t>(row.integer(7));
  return owed;
}

std::string select_owed(std::string_view where) {
  return "SELECT kind, key, tenant, session, due_at, tries, last_error, fence FROM owed WHERE " +
         std::string(where);
}

Result<std::vector<core::Owed>> read_rows(Database& db, const std::string& sql, Params params) {
  std::vector<core::Owed> rows;
  TRY(db.each(sql, params, [&](const Row& row) -> Result<void> {
    TRY_ASSIGN(core::Owed owed, read_owed(row));
    rows.push_back(std::move(owed));
    return {};
  }));
  return rows;
}

}  // namespace

Result<void> put_owed(Database& db, const core::Owed& owed) {
  static const std::string sql =
      "INSERT INTO owed (kind, key, tenant, session, due_at, tries, last_error, fence) VALUES "
      "($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (kind, key) DO UPDATE SET due_at = $5, tries = "
      "$6, last_error = $7, fence = $8";
  TRY(db.run(sql, {owed.kind, owed.key, owed.owner.tenant, owed.owner.session, owed.due_at,
                   owed.tries, owed.last_error, owed.fence}));
  return {};
}

Result<void> remove_owed(Database& db, core::OwedKind kind, std::string_view key) {
  TRY(db.run("DELETE FROM owed WHERE kind = $1 AND key = $2", {kind, key}));
  return {};
}

Result<std::optional<core::Owed>> find_owed(Database& db, core::OwedKind kind,
                                            std::string_view key) {
  static const std::string sql = select_owed("kind = $1 AND key = $2");
  return db.first<core::Owed>(sql, {kind, key}, [](const Row& row) { return read_owed(row); });
}

Result<std::vector<core::Owed>> owed_of_kind(Database& db, core::OwedKind kind) {
  static const std::string sql = select_owed("kind = $1 ORDER BY due_at, key");
  return read_rows(db, sql, {kind});
}

Result<std::vector<core::Owed>> due_timers(Database& db, WallTime now, int limit) {
  static const std::string sql =
      select_owed("due_at <= $1 AND kind <> 'supervise' ORDER BY due_at, key LIMIT $2");
  return read_rows(db, sql, {now, limit});
}

Result<std::optional<WallTime>> next_timer(Database& db) {
  static const std::string sql =
      "SELECT due_at FROM owed WHERE kind <> 'supervise' ORDER BY due_at LIMIT 1";
  return db.first<WallTime>(sql, {},
                            [](const Row& row) -> Result<WallTime> { return row.time(0); });
}

Result<std::map<std::string, std::uint64_t>> count_owed(Database& db) {
  std::map<std::string, std::uint64_t> counts;
  TRY(db.each("SELECT kind, count(*) FROM owed GROUP BY kind", {},
              [&](const Row& row) -> Result<void> {
                counts[row.string(0)] = static_cast<std::uint64_t>(row.integer(1));
                return {};
              }));
  return counts;
}

}  // namespace waybill::store
