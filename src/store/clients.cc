#include "store/clients.h"

#include "store/json_columns.h"

namespace waybill::store {

Result<std::optional<ClientRow>> find_client(Database& db, const core::Owner& owner) {
  static const std::string sql =
      "SELECT attached_at, wrapper, allow_rules, deny_rules, sealed_resume, wake_job, wakes FROM "
      "session_client WHERE tenant = $1 AND session = $2";
  return db.first<ClientRow>(sql, {owner.tenant, owner.session},
                             [&](const Row& row) -> Result<ClientRow> {
                               ClientRow client;
                               client.owner = owner;
                               client.attached_at = row.time(0);
                               TRY_ASSIGN(client.wrapper, decode_texts(row.text(1)));
                               TRY_ASSIGN(client.allow, decode_texts(row.text(2)));
                               TRY_ASSIGN(client.deny, decode_texts(row.text(3)));
                               client.sealed_resume = row.string(4);
                               if (!row.null(5)) client.wake_job = JobId(row.string(5));
                               client.wakes = static_cast<std::uint64_t>(row.integer(6));
                               return client;
                             });
}

Result<void> put_client(Database& db, const ClientRow& row) {
  static const std::string sql =
      "INSERT INTO session_client (tenant, session, attached_at, wrapper, allow_rules, deny_rules, "
      "sealed_resume, wake_job, wakes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT "
      "(tenant, session) DO UPDATE SET attached_at = $3, wrapper = $4, allow_rules = $5, "
      "deny_rules = $6, sealed_resume = $7, wake_job = $8, wakes = $9";
  TRY(db.run(sql, {row.owner.tenant, row.owner.session, row.attached_at, encode_texts(row.wrapper),
                   encode_texts(row.allow), encode_texts(row.deny), Bytes{row.sealed_resume},
                   row.wake_job, row.wakes}));
  return {};
}

namespace {

Result<core::Owner> read_owner(const Row& row) {
  return core::Owner{TenantId(row.string(0)), SessionId(row.string(1))};
}

}  // namespace

Result<std::optional<core::Owner>> find_wake(Database& db, const JobId& wake_job) {
  return db.first<core::Owner>("SELECT tenant, session FROM session_client WHERE wake_job = $1",
                               {wake_job}, read_owner);
}

Result<std::optional<core::Owner>> session_of_host(Database& db, const TenantId& tenant,
                                                   std::string_view host_key_hash) {
  static const std::string sql =
      "SELECT s.tenant, s.session FROM session s LEFT JOIN session_client c ON c.tenant = s.tenant "
      "AND c.session = s.session WHERE s.host_key_hash = $1 AND s.lease_live = 1 AND s.tenant = $2 "
      "ORDER BY c.attached_at IS NULL, c.attached_at DESC, s.last_call_at DESC LIMIT 1";
  return db.first<core::Owner>(sql, {host_key_hash, tenant}, read_owner);
}

Result<void> put_call(Database& db, const CallRow& row) {
  static const std::string sql =
      "INSERT INTO host_call (host_key_hash, call, tenant, session, turn, subagent, at) VALUES "
      "($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (host_key_hash, call) DO UPDATE SET tenant = $3, "
      "session = $4, turn = $5, subagent = $6, at = $7";
  TRY(db.run(sql, {row.host_key_hash, row.call, row.owner.tenant, row.owner.session, row.turn,
                   row.subagent, row.at}));
  return {};
}

Result<std::optional<CallRow>> find_call(Database& db, std::string_view host_key_hash,
                                         std::string_view call) {
  static const std::string sql =
      "SELECT tenant, session, turn, subagent, at FROM host_call WHERE host_key_hash = $1 AND call "
      "= $2";
  return db.first<CallRow>(sql, {host_key_hash, call}, [&](const Row& row) -> Result<CallRow> {
    CallRow found;
    found.host_key_hash = host_key_hash;
    found.call = call;
    found.owner = {TenantId(row.string(0)), SessionId(row.string(1))};
    if (!row.null(2)) found.turn = TurnId(row.string(2));
    found.subagent = row.integer(3) != 0;
    found.at = row.time(4);
    return found;
  });
}

Result<void> forget_calls(Database& db, WallTime older_than) {
  TRY(db.run("DELETE FROM host_call WHERE at < $1", {older_than}));
  return {};
}

}  // namespace waybill::store
