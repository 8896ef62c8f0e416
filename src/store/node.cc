#include "store/node.h"

namespace waybill::store {

Result<std::optional<core::Node>> find_node(Database& db) {
  std::optional<core::Node> node;
  TRY(db.each("SELECT machine, inode, born_ns FROM node WHERE id = 1", {},
              [&](const Row& row) -> Result<void> {
                node = core::Node{row.string(0), static_cast<std::uint64_t>(row.integer(1)),
                                  row.integer(2)};
                return {};
              }));
  return node;
}

Result<void> put_node(Database& db, const core::Node& node) {
  static const std::string sql =
      "INSERT INTO node (id, machine, inode, born_ns) VALUES (1, $1, $2, $3) "
      "ON CONFLICT (id) DO UPDATE SET machine = $1, inode = $2, born_ns = $3";
  TRY(db.run(sql, {node.machine, static_cast<std::int64_t>(node.inode), node.born_ns}));
  return {};
}

Result<std::vector<LivePlace>> live_places(Database& db) {
  std::vector<LivePlace> live;
  TRY(
      db.each("SELECT job, tenant, session, generation FROM job "
              "WHERE status NOT IN ('succeeded', 'failed', 'stopped')",
              {}, [&](const Row& row) -> Result<void> {
                live.push_back({JobId(row.string(0)),
                                {TenantId(row.string(1)), SessionId(row.string(2))},
                                row.string(3)});
                return {};
              }));
  return live;
}

Result<void> mark_unrecoverable(Database& db, const UnrecoverableRow& row) {
  static const std::string sql =
      "INSERT INTO unrecoverable (job, tenant, session, since, why) VALUES ($1, $2, $3, $4, $5) "
      "ON CONFLICT (job) DO NOTHING";
  TRY(db.run(sql, {row.job, row.owner.tenant, row.owner.session, row.since, row.why}));
  return {};
}

Result<std::vector<UnrecoverableRow>> unrecoverable_jobs(Database& db) {
  std::vector<UnrecoverableRow> rows;
  TRY(db.each("SELECT job, tenant, session, since, why FROM unrecoverable ORDER BY job", {},
              [&](const Row& row) -> Result<void> {
                rows.push_back({JobId(row.string(0)),
                                {TenantId(row.string(1)), SessionId(row.string(2))},
                                row.time(3),
                                row.string(4)});
                return {};
              }));
  return rows;
}

Result<bool> is_unrecoverable(Database& db, const JobId& job) {
  bool found = false;
  TRY(db.each("SELECT 1 FROM unrecoverable WHERE job = $1", {job}, [&](const Row&) -> Result<void> {
    found = true;
    return {};
  }));
  return found;
}

Result<void> release_unrecoverable(Database& db, const JobId& job) {
  TRY(db.run("DELETE FROM unrecoverable WHERE job = $1", {job}));
  return {};
}

}  // namespace waybill::store
