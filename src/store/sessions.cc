#include "store/sessions.h"

namespace waybill::store {
namespace {

constexpr std::string_view kSessionColumns =
    "tenant, session, host_key_hash, fence, lease_live, lease_ms, host_pid, host_pid_start, "
    "last_call_at, one_shot, revision, running, queued, created_at, client, wake_until";

std::string select_sessions(std::string_view where) {
  return "SELECT " + std::string(kSessionColumns) + " FROM session WHERE " + std::string(where);
}

Result<SessionRow> read_session(const Row& row) {
  SessionRow session;
  session.owner = {TenantId(row.string(0)), SessionId(row.string(1))};
  session.host_key_hash = row.string(2);
  session.fence = static_cast<std::uint64_t>(row.integer(3));
  session.lease_live = row.integer(4) != 0;
  if (!row.null(5)) session.lease = Millis(row.integer(5));
  if (!row.null(6)) session.host_pid = static_cast<int>(row.integer(6));
  if (!row.null(7)) session.host_pid_start = static_cast<std::uint64_t>(row.integer(7));
  session.last_call_at = row.maybe_time(8);
  session.one_shot = row.integer(9) != 0;
  session.revision = static_cast<std::uint64_t>(row.integer(10));
  session.running = static_cast<std::uint64_t>(row.integer(11));
  session.queued = static_cast<std::uint64_t>(row.integer(12));
  session.created_at = row.time(13);
  session.client = row.string(14);
  session.wake_until = row.maybe_time(15);
  return session;
}

Result<std::vector<SessionRow>> read_sessions(Database& db, const std::string& sql, Params params) {
  std::vector<SessionRow> sessions;
  TRY(db.each(sql, params, [&](const Row& row) -> Result<void> {
    TRY_ASSIGN(SessionRow session, read_session(row));
    sessions.push_back(std::move(session));
    return {};
  }));
  return sessions;
}

std::string select_turns(std::string_view where) {
  return "SELECT tenant, session, turn, state, stopped, fence, begun_at, closed_at FROM turn "
         "WHERE " +
         std::string(where);
}

Result<TurnRow> read_turn(const Row& row) {
  TurnRow turn;
  turn.owner = {TenantId(row.string(0)), SessionId(row.string(1))};
  turn.id = TurnId(row.string(2));
  TRY_ASSIGN(turn.state, read_word<core::TurnState>(row.text(3), "turn.state"));
  turn.stopped = row.integer(4) != 0;
  turn.fence = static_cast<std::uint64_t>(row.integer(5));
  turn.begun_at = row.time(6);
  turn.closed_at = row.maybe_time(7);
  return turn;
}

}  // namespace

Result<std::optional<SessionRow>> find_session(Database& db, const core::Owner& owner) {
  static const std::string sql = select_sessions("tenant = $1 AND session = $2");
  return db.first<SessionRow>(sql, {owner.tenant, owner.session},
                              [](const Row& row) { return read_session(row); });
}

Result<void> insert_session(Database& db, const SessionRow& s) {
  static const std::string sql =
      "INSERT INTO session (tenant, session, host_key_hash, fence, lease_live, lease_ms, host_pid, "
      "host_pid_start, last_call_at, one_shot, revision, running, queued, created_at, client, "
      "wake_until) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)";
  TRY(db.run(sql, {s.owner.tenant, s.owner.session, s.host_key_hash, s.fence, s.lease_live, s.lease,
                   s.host_pid, s.host_pid_start, s.last_call_at, s.one_shot, s.revision, s.running,
                   s.queued, s.created_at, s.client, s.wake_until}));
  return {};
}

Result<void> update_session(Database& db, const SessionRow& s) {
  static const std::string sql =
      "UPDATE session SET host_key_hash = $3, fence = $4, lease_live = $5, lease_ms = $6, host_pid "
      "= "
      "$7, host_pid_start = $8, last_call_at = $9, one_shot = $10, revision = $11, running = $12, "
      "queued = $13, client = $14, wake_until = $15 WHERE tenant = $1 AND session = $2";
  TRY(db.run(sql, {s.owner.tenant, s.owner.session, s.host_key_hash, s.fence, s.lease_live, s.lease,
                   s.host_pid, s.host_pid_start, s.last_call_at, s.one_shot, s.revision, s.running,
                   s.queued, s.client, s.wake_until}));
  return {};
}

Result<std::vector<SessionRow>> list_sessions(Database& db, const TenantId& tenant) {
  static const std::string sql = select_sessions("tenant = $1 ORDER BY session LIMIT 1000");
  return read_sessions(db, sql, {tenant});
}

Result<std::vector<SessionRow>> live_sessions(Database& db) {
  static const std::string sql = select_sessions("lease_live = 1");
  return read_sessions(db, sql, {});
}

Result<std::uint64_t> count_sessions(Database& db) {
  TRY_ASSIGN(const std::int64_t count, db.integer("SELECT count(*) FROM session", {}));
  return static_cast<std::uint64_t>(count);
}

Result<std::vector<core::Owner>> owners_with_host(Database& db) {
  std::vector<core::Owner> owners;
  TRY(
      db.each("SELECT tenant, session FROM session WHERE host_key_hash <> '' OR lease_live = 1 "
              "UNION SELECT tenant, session FROM inbox "
              "WHERE acked_at IS NULL AND state IN ('offered', 'accepted')",
              {}, [&](const Row& row) -> Result<void> {
                owners.push_back({TenantId(row.string(0)), SessionId(row.string(1))});
                return {};
              }));
  return owners;
}

Result<std::optional<TurnRow>> find_turn(Database& db, const core::Owner& owner,
                                         const TurnId& turn) {
  static const std::string sql = select_turns("tenant = $1 AND session = $2 AND turn = $3");
  return db.first<TurnRow>(sql, {owner.tenant, owner.session, turn},
                           [](const Row& row) { return read_turn(row); });
}

Result<std::optional<TurnRow>> find_open_turn(Database& db, const core::Owner& owner) {
  static const std::string sql = select_turns("tenant = $1 AND session = $2 AND state <> 'closed'");
  return db.first<TurnRow>(sql, {owner.tenant, owner.session},
                           [](const Row& row) { return read_turn(row); });
}

Result<void> insert_turn(Database& db, const TurnRow& turn) {
  static const std::string sql =
      "INSERT INTO turn (tenant, session, turn, state, stopped, fence, begun_at, closed_at) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
  TRY(db.run(sql, {turn.owner.tenant, turn.owner.session, turn.id, turn.state, turn.stopped,
                   turn.fence, turn.begun_at, turn.closed_at}));
  return {};
}

Result<void> update_turn(Database& db, const TurnRow& turn) {
  static const std::string sql =
      "UPDATE turn SET state = $4, stopped = $5, fence = $6, closed_at = $7 "
      "WHERE tenant = $1 AND session = $2 AND turn = $3";
  TRY(db.run(sql, {turn.owner.tenant, turn.owner.session, turn.id, turn.state, turn.stopped,
                   turn.fence, turn.closed_at}));
  return {};
}

}  // namespace waybill::store
