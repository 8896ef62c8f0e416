#include "store/retention.h"

#include <algorithm>

#include "store/outputs.h"

namespace waybill::store {

Result<std::optional<DueClockRow>> find_due_clock(Database& db) {
  return db.first<DueClockRow>("SELECT boot, mono_ms, wall_at, due_at FROM due_clock WHERE one = 1",
                               {}, [](const Row& row) -> Result<DueClockRow> {
                                 return DueClockRow{row.string(0), Millis(row.integer(1)),
                                                    row.time(2), row.time(3)};
                               });
}

Result<void> put_due_clock(Database& db, const DueClockRow& row) {
  static const std::string sql =
      "INSERT INTO due_clock (one, boot, mono_ms, wall_at, due_at) VALUES (1, $1, $2, $3, $4) "
      "ON CONFLICT (one) DO UPDATE SET boot = $1, mono_ms = $2, wall_at = $3, due_at = $4";
  TRY(db.run(sql, {row.boot, row.mono, row.wall, row.due}));
  return {};
}

Result<std::uint64_t> high_water(Database& db, std::string_view name) {
  TRY_ASSIGN(const std::int64_t value,
             db.integer("SELECT value FROM high_water WHERE name = $1", {name}));
  return static_cast<std::uint64_t>(value);
}

Result<void> raise_high_water(Database& db, std::string_view name, std::uint64_t value) {
  static const std::string sql =
      "INSERT INTO high_water (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET "
      "value = $2 WHERE high_water.value < $2";
  TRY(db.run(sql, {name, value}));
  return {};
}

// ---- finished jobs -----------------------------------------------------------------------------

namespace {

Result<std::vector<EndedRow>> read_ended(Database& db, std::string_view sql, Params params) {
  std::vector<EndedRow> rows;
  TRY(db.each(sql, params, [&](const Row& row) -> Result<void> {
    rows.push_back({static_cast<std::uint64_t>(row.integer(0)), row.time(1), row.time(2)});
    return {};
  }));
  return rows;
}

Result<void> run_all(Database& db, std::initializer_list<std::string_view> statements,
                     Params params) {
  for (const std::string_view sql : statements) TRY(db.run(sql, params));
  return {};
}

}  // namespace

Result<void> insert_ended(Database& db, std::uint64_t seq, WallTime at) {
  TRY(db.run("INSERT INTO ended (seq, ended_at, kept_from) VALUES ($1, $2, $2)", {seq, at}));
  return {};
}

Result<std::vector<EndedRow>> ended_until(Database& db, WallTime until, int limit) {
  return read_ended(db,
                    "SELECT seq, ended_at, kept_from FROM ended WHERE kept_from <= $1 "
                    "ORDER BY kept_from LIMIT $2",
                    {until, limit});
}

Result<std::vector<EndedRow>> ended_after(Database& db, std::uint64_t after, int limit) {
  return read_ended(
      db, "SELECT seq, ended_at, kept_from FROM ended WHERE seq > $1 ORDER BY seq LIMIT $2",
      {after, limit});
}

Result<void> keep_from(Database& db, std::uint64_t seq, WallTime at) {
  TRY(db.run("UPDATE ended SET kept_from = $2 WHERE seq = $1", {seq, at}));
  return {};
}

Result<void> forget_ended(Database& db, std::uint64_t seq) {
  TRY(db.run("DELETE FROM ended WHERE seq = $1", {seq}));
  return {};
}

Result<std::optional<JobId>> job_of_seq(Database& db, std::uint64_t seq) {
  return db.first<JobId>("SELECT job FROM job WHERE seq = $1", {seq},
                         [](const Row& row) -> Result<JobId> { return JobId(row.string(0)); });
}

Result<void> delete_job(Database& db, const JobRow& job, WallTime now) {
  TRY(db.run("INSERT INTO prune (job) VALUES ($1)", {job.id}));
  TRY(db.run("UPDATE idempotency SET gone_at = $2 WHERE job = $1", {job.id, now}));
  TRY(delete_output(db, job.id));
  TRY(run_all(db,
              {"DELETE FROM hand_over WHERE event IN (SELECT event FROM inbox WHERE job = $1)",
               "DELETE FROM inbox WHERE job = $1", "DELETE FROM receipt WHERE job = $1",
               "DELETE FROM launch WHERE job = $1", "DELETE FROM leftover WHERE job = $1",
               "DELETE FROM monitor WHERE job = $1", "DELETE FROM job WHERE job = $1"},
              {job.id}));
  TRY(forget_ended(db, job.seq));
  TRY(db.run("DELETE FROM prune WHERE job = $1", {job.id}));
  return {};
}

// ---- sessions, turns, keys ---------------------------------------------------------------------

Result<void> put_absent(Database& db, const core::Owner& owner, WallTime look_at) {
  static const std::string sql =
      "INSERT INTO absent_session (tenant, session, look_at) VALUES ($1, $2, $3) "
      "ON CONFLICT (tenant, session) DO UPDATE SET look_at = $3";
  TRY(db.run(sql, {owner.tenant, owner.session, look_at}));
  return {};
}

Result<void> remove_absent(Database& db, const core::Owner& owner) {
  TRY(db.run("DELETE FROM absent_session WHERE tenant = $1 AND session = $2",
             {owner.tenant, owner.session}));
  return {};
}

Result<std::vector<core::Owner>> absent_until(Database& db, WallTime until, int limit) {
  std::vector<core::Owner> owners;
  TRY(
      db.each("SELECT tenant, session FROM absent_session WHERE look_at <= $1 ORDER BY look_at "
              "LIMIT $2",
              {until, limit}, [&](const Row& row) -> Result<void> {
                owners.push_back({TenantId(row.string(0)), SessionId(row.string(1))});
                return {};
              }));
  return owners;
}

Result<bool> nothing_of_session(Database& db, const core::Owner& owner) {
  static const std::string sql =
      "SELECT EXISTS (SELECT 1 FROM job WHERE tenant = $1 AND session = $2) "
      "OR EXISTS (SELECT 1 FROM turn WHERE tenant = $1 AND session = $2) "
      "OR EXISTS (SELECT 1 FROM idempotency WHERE tenant = $1 AND session = $2) "
      "OR EXISTS (SELECT 1 FROM inbox WHERE tenant = $1 AND session = $2 AND acked_at IS NULL)";
  TRY_ASSIGN(const std::int64_t something, db.integer(sql, {owner.tenant, owner.session}));
  return something == 0;
}

Result<void> delete_session(Database& db, const core::Owner& owner, std::uint64_t fence) {
  TRY(raise_high_water(db, "fence", fence));
  return run_all(db,
                 {"DELETE FROM absent_session WHERE tenant = $1 AND session = $2",
                  "DELETE FROM session_client WHERE tenant = $1 AND session = $2",
                  "DELETE FROM output_use WHERE tenant = $1 AND session = $2",
                  "DELETE FROM session WHERE tenant = $1 AND session = $2"},
                 {owner.tenant, owner.session});
}

Result<void> keep_turn_from(Database& db, const core::Owner& owner, const TurnId& turn,
                            WallTime at) {
  TRY(db.run("UPDATE turn SET kept_from = $4 WHERE tenant = $1 AND session = $2 AND turn = $3",
             {owner.tenant, owner.session, turn, at}));
  return {};
}

Result<std::int64_t> delete_turns(Database& db, WallTime until, int limit) {
  static const std::string sql =
      "DELETE FROM turn WHERE (tenant, session, turn) IN (SELECT tenant, session, turn FROM turn "
      "WHERE kept_from IS NOT NULL AND kept_from <= $1 AND state = 'closed' ORDER BY kept_from "
      "LIMIT $2)";
  return db.run(sql, {until, limit});
}

Result<std::int64_t> delete_tombstones(Database& db, WallTime until, int limit) {
  static const std::string sql =
      "DELETE FROM idempotency WHERE (tenant, session, key) IN (SELECT tenant, session, key FROM "
      "idempotency WHERE gone_at IS NOT NULL AND gone_at <= $1 ORDER BY gone_at LIMIT $2)";
  return db.run(sql, {until, limit});
}

Result<std::optional<WallTime>> next_removal(Database& db, Millis retention) {
  struct Oldest {
    const char* sql;
    Millis after;
  };
  const Oldest all[] = {
      {"SELECT kept_from FROM ended ORDER BY kept_from LIMIT 1", retention},
      {"SELECT kept_from FROM turn WHERE kept_from IS NOT NULL ORDER BY kept_from LIMIT 1",
       retention},
      {"SELECT look_at FROM absent_session ORDER BY look_at LIMIT 1", Millis(0)},
      {"SELECT gone_at FROM idempotency WHERE gone_at IS NOT NULL ORDER BY gone_at LIMIT 1",
       kKeyOutlives}};
  std::optional<WallTime> next;
  for (const Oldest& oldest : all) {
    TRY(db.each(oldest.sql, {}, [&](const Row& row) -> Result<void> {
      const WallTime due = row.time(0) + oldest.after;
      next = next ? std::min(*next, due) : due;
      return {};
    }));
  }
  return next;
}

Result<void> fill_retention(Database& db, WallTime now) {
  static const std::string absent =
      "INSERT INTO absent_session (tenant, session, look_at) SELECT tenant, session, $1 FROM "
      "session WHERE lease_live = 0 AND session <> 'user'";
  TRY(db.run(absent, {now + kAbsentFor}));
  for (const std::string_view sql :
       {"INSERT INTO ended (seq, ended_at, kept_from) SELECT seq, coalesce(finished_at, "
        "created_at), coalesce(finished_at, created_at) FROM job WHERE status IN ('succeeded', "
        "'failed', 'stopped')",
        "UPDATE turn SET kept_from = coalesce(closed_at, begun_at) WHERE state = 'closed'"}) {
    TRY(db.run(sql, {}));
  }
  return {};
}

}  // namespace waybill::store
