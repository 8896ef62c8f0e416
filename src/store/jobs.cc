#include "store/jobs.h"

#include <algorithm>

#include "base/check.h"
#include "store/json_columns.h"
#include "store/retention.h"

namespace waybill::store {
namespace {

// The order of columns that read_job expects; jobs are always read through this list.
constexpr std::string_view kJobColumns =
    "seq, job, kind, tenant, session, turn, sandbox, generation, owner, wake, label, "
    "command_preview, cwd, fingerprint, status, attempt, activation, receipts, created_at, "
    "started_at, stop_at, stop_cause, stop_actor, stop_reason, stop_by_owner, survivors, "
    "finished_at, duration_ms, verdict, cause, actor, reason, proof, ended_by_itself, exit, "
    "stages, "
    "output, usage, start_by, monitors";

// Greater than every sequence number.
constexpr std::uint64_t kSeqMax = 1ULL << 62;

// Written as the partial indexes have it, so that they are used.
constexpr std::string_view kLive = "status NOT IN ('succeeded', 'failed', 'stopped')";

// Of what is live: sorted, since an order that an index has would tempt the store to go through the
// whole history in it.
constexpr std::string_view kBySeq = "seq + 0";

std::string select_jobs(std::string_view where) {
  return "SELECT " + std::string(kJobColumns) + " FROM job WHERE " + std::string(where);
}

Result<void> read_stop(const Row& row, JobRow& job) {
  if (row.null(20)) return {};
  StopRow stop;
  stop.at = row.time(20);
  TRY_ASSIGN(stop.cause, read_word<core::Cause>(row.text(21), "job.stop_cause"));
  stop.actor = row.string(22);
  stop.reason = row.string(23);
  stop.by_owner = row.integer(24) != 0;
  job.stop = std::move(stop);
  return {};
}

Result<void> read_ending(const Row& row, JobRow& job) {
  if (!core::is_terminal(job.status)) return {};
  EndingRow ending;
  ending.finished_at = row.maybe_time(26);
  if (!row.null(27)) ending.duration = Millis(row.integer(27));
  TRY_ASSIGN(ending.verdict, read_word<core::Verdict>(row.text(28), "job.verdict"));
  TRY_ASSIGN(ending.cause, read_word<core::Cause>(row.text(29), "job.cause"));
  ending.actor = row.string(30);
  ending.reason = row.string(31);
  TRY_ASSIGN(ending.proof, read_maybe_word<core::Proof>(row, 32, "job.proof"));
  ending.ended_by_itself = row.integer(33) != 0;
  if (!row.null(34)) {
    TRY_ASSIGN(ending.exit, decode_exit(row.text(34)));
  }
  TRY_ASSIGN(ending.stages, decode_stages(row.text(35)));
  TRY_ASSIGN(ending.output, decode_output(row.text(36)));
  if (!row.null(37)) {
    TRY_ASSIGN(ending.usage, decode_usage(row.text(37)));
  }
  job.ending = std::move(ending);
  return {};
}

Result<JobRow> read_job(const Row& row) {
  JobRow job;
  job.seq = static_cast<std::uint64_t>(row.integer(0));
  job.id = JobId(row.string(1));
  TRY_ASSIGN(job.kind, read_word<core::JobKind>(row.text(2), "job.kind"));
  job.scope.owner = {TenantId(row.string(3)), SessionId(row.string(4))};
  if (!row.null(5)) job.scope.turn = TurnId(row.string(5));
  job.scope.sandbox = SandboxId(row.string(6));
  job.scope.generation = GenerationId(row.string(7));
  TRY_ASSIGN(job.owner, read_word<core::OwnerKind>(row.text(8), "job.owner"));
  TRY_ASSIGN(job.wake, read_word<core::WakePolicy>(row.text(9), "job.wake"));
  job.label = row.string(10);
  job.command_preview = row.string(11);
  job.cwd = row.string(12);
  job.fingerprint = row.string(13);
  TRY_ASSIGN(job.status, read_word<core::JobStatus>(row.text(14), "job.status"));
  job.attempt = static_cast<std::uint32_t>(row.integer(15));
  job.activation = static_cast<std::uint64_t>(row.integer(16));
  job.receipts = static_cast<std::uint32_t>(row.integer(17));
  job.created_at = row.time(18);
  job.started_at = row.maybe_time(19);
  job.start_by = row.maybe_time(38);
  job.monitors = static_cast<std::uint32_t>(row.integer(39));
  TRY(read_stop(row, job));
  if (!row.null(25)) {
    TRY_ASSIGN(job.survivors, decode_notes(row.text(25)));
  }
  TRY(read_ending(row, job));
  return job;
}

Result<std::vector<JobRow>> read_jobs(Database& db, const std::string& sql, Params params) {
  std::vector<JobRow> jobs;
  TRY(db.each(sql, params, [&](const Row& row) -> Result<void> {
    TRY_ASSIGN(JobRow job, read_job(row));
    jobs.push_back(std::move(job));
    return {};
  }));
  return jobs;
}

}  // namespace

Result<void> insert_job(Database& db, const JobRow& job) {
  static const std::string sql =
      "INSERT INTO job (seq, job, kind, tenant, session, turn, sandbox, generation, owner, wake, "
      "label, command_preview, cwd, fingerprint, status, attempt, activation, receipts, "
      "created_at, start_by, monitors) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, "
      "$19, $20, $21)";
  TRY(db.run(sql, {job.seq,
                   job.id,
                   job.kind,
                   job.scope.owner.tenant,
                   job.scope.owner.session,
                   job.scope.turn,
                   job.scope.sandbox,
                   job.scope.generation,
                   job.owner,
                   job.wake,
                   job.label,
                   job.command_preview,
                   Bytes{job.cwd},
                   job.fingerprint,
                   job.status,
                   job.attempt,
                   job.activation,
                   job.receipts,
                   job.created_at,
                   job.start_by,
                   job.monitors}));
  return {};
}

Result<void> insert_launch(Database& db, const LaunchRow& launch) {
  static const std::string sql =
      "INSERT INTO launch (job, shell, deadline_ms, grace_ms, cap_bytes, head_bytes, leftovers, "
      "sealed, umask, wrapper, stdin, pty) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
  TRY(db.run(sql, {launch.job, launch.shell, launch.deadline, launch.grace, launch.cap_bytes,
                   launch.head_bytes, launch.leftovers, Bytes{launch.sealed}, launch.umask,
                   encode_texts(launch.wrapper), launch.stdin_policy, launch.pty}));
  return {};
}

Result<std::optional<LaunchRow>> find_launch(Database& db, const JobId& job) {
  static const std::string sql =
      "SELECT shell, deadline_ms, grace_ms, cap_bytes, head_bytes, leftovers, sealed, umask, "
      "wrapper, stdin, pty FROM launch WHERE job = $1";
  return db.first<LaunchRow>(sql, {job}, [&](const Row& row) -> Result<LaunchRow> {
    LaunchRow launch;
    launch.job = job;
    launch.shell = row.string(0);
    if (!row.null(1)) launch.deadline = Millis(row.integer(1));
    launch.grace = Millis(row.integer(2));
    launch.cap_bytes = static_cast<std::uint64_t>(row.integer(3));
    launch.head_bytes = static_cast<std::uint64_t>(row.integer(4));
    TRY_ASSIGN(launch.leftovers, read_word<core::LeftoverPolicy>(row.text(5), "launch.leftovers"));
    launch.sealed = row.string(6);
    launch.umask = static_cast<unsigned>(row.integer(7)) & 0777U;
    TRY_ASSIGN(launch.wrapper, decode_texts(row.text(8)));
    TRY_ASSIGN(launch.stdin_policy, read_word<core::StdinPolicy>(row.text(9), "launch.stdin"));
    launch.pty = row.integer(10) != 0;
    return launch;
  });
}

Result<LaunchForm> find_launch_form(Database& db, const JobId& job) {
  static const std::string sql =
      "SELECT shell, wrapper, stdin, pty, deadline_ms FROM launch WHERE job = $1";
  TRY_ASSIGN(std::optional<LaunchForm> form,
             db.first<LaunchForm>(sql, {job}, [](const Row& row) -> Result<LaunchForm> {
               LaunchForm found;
               found.shell = row.string(0);
               TRY_ASSIGN(found.wrapper, decode_texts(row.text(1)));
               TRY_ASSIGN(found.stdin_policy,
                          read_word<core::StdinPolicy>(row.text(2), "launch.stdin"));
               found.pty = row.integer(3) != 0;
               if (!row.null(4)) found.deadline = Millis(row.integer(4));
               return found;
             }));
  return form.value_or(LaunchForm{});
}

Result<std::optional<JobRow>> find_job(Database& db, const JobId& job) {
  static const std::string sql = select_jobs("job = $1");
  return db.first<JobRow>(sql, {job}, [](const Row& row) { return read_job(row); });
}

Result<JobRow> need_job(Database& db, const core::Owner& owner, const JobId& job) {
  // Whose it is comes first: a row of somebody else's that does not parse is nobody else's trouble.
  TRY_ASSIGN(const std::int64_t own,
             db.integer("SELECT count(*) FROM job WHERE job = $1 AND tenant = $2 AND session = $3",
                        {job, owner.tenant, owner.session}));
  if (own > 0) {
    TRY_ASSIGN(std::optional<JobRow> found, find_job(db, job));
    if (found) return std::move(*found);
  }
  return fail(ErrorCode::not_found, "There is no job " + job.str() + " in session " +
                                        owner.session.str() +
                                        "; `waybill list` shows the session's jobs.");
}

namespace {

Result<void> insert_receipt(Database& db, const core::Receipt& receipt) {
  static const std::string sql =
      "INSERT INTO receipt (node_seq, job, seq, attempt, activation, from_status, to_status, name, "
      "at, "
      "cause, actor, reason, tenant, session, turn, sandbox, generation) VALUES "
      "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)";
  TRY(db.run(sql, {receipt.node_seq, receipt.job, receipt.seq, receipt.attempt, receipt.activation,
                   receipt.from, receipt.to, receipt.name, receipt.at, receipt.cause, receipt.actor,
                   receipt.reason, receipt.scope.owner.tenant, receipt.scope.owner.session,
                   receipt.scope.turn, receipt.scope.sandbox, receipt.scope.generation}));
  return {};
}

Result<void> write_ending(Database& db, const JobRow& job, const core::Receipt& receipt,
                          const EndingRow& ending) {
  static const std::string sql =
      "UPDATE job SET status = $2, attempt = $3, activation = $4, receipts = $5, finished_at = $6, "
      "duration_ms = $7, verdict = $8, cause = $9, actor = $10, reason = $11, proof = $12, "
      "ended_by_itself = $13, exit = $14, stages = $15, output = $16, usage = $17, survivors = "
      "NULL "
      "WHERE job = $1";
  std::optional<std::string> exit;
  if (ending.exit) exit = encode_exit(*ending.exit);
  std::optional<std::string> usage;
  if (ending.usage) usage = encode_usage(*ending.usage);
  const std::string stages = encode_stages(ending.stages);
  const std::string output = encode_output(ending.output);
  TRY(db.run(sql,
             {job.id, receipt.to, receipt.attempt, receipt.activation, receipt.seq,
              ending.finished_at, ending.duration, ending.verdict, ending.cause, ending.actor,
              ending.reason, ending.proof, ending.ended_by_itself, exit, stages, output, usage}));
  return {};
}

}  // namespace

Result<void> write_transition(Database& db, JobRow& job, const core::Receipt& receipt,
                              const std::optional<EndingRow>& ending) {
  CHECK(!receipt.from || *receipt.from == job.status);
  const bool moves = job.status != receipt.to;
  CHECK((moves && core::is_terminal(receipt.to)) == ending.has_value());
  TRY(insert_receipt(db, receipt));
  if (ending) {
    TRY(write_ending(db, job, receipt, *ending));
    job.survivors.clear();
  } else if (receipt.from && !core::is_terminal(job.status)) {  // the first came with the row
    static const std::string sql =
        "UPDATE job SET status = $2, attempt = $3, activation = $4, receipts = $5 WHERE job = $1";
    TRY(db.run(sql, {job.id, receipt.to, receipt.attempt, receipt.activation, receipt.seq}));
  }
  job.status = receipt.to;
  job.attempt = receipt.attempt;
  job.activation = receipt.activation;
  job.receipts = receipt.seq;
  if (ending) job.ending = ending;
  return {};
}

namespace {

Result<void> update(Database& db, std::string_view sql, Params params) {
  TRY_ASSIGN(const std::int64_t changed, db.run(sql, params));
  if (changed == 1) return {};
  return fail(ErrorCode::state_corrupt,
              "A row that must be there is not (" + std::string(sql) + ").");
}

}  // namespace

Result<void> set_started_at(Database& db, const JobId& job, WallTime at) {
  return update(db, "UPDATE job SET started_at = $2 WHERE job = $1", {job, at});
}

Result<void> set_generation(Database& db, const JobId& job, const GenerationId& generation) {
  return update(db, "UPDATE job SET generation = $2 WHERE job = $1", {job, generation});
}

Result<bool> has_receipt(Database& db, const JobId& job, core::ReceiptName name) {
  bool found = false;
  TRY(db.each("SELECT 1 FROM receipt WHERE job = $1 AND name = $2 LIMIT 1", {job, name},
              [&](const Row&) -> Result<void> {
                found = true;
                return {};
              }));
  return found;
}

Result<void> set_stop(Database& db, const JobId& job, const StopRow& stop) {
  return update(db,
                "UPDATE job SET stop_at = $2, stop_cause = $3, stop_actor = $4, stop_reason = $5, "
                "stop_by_owner = $6 WHERE job = $1",
                {job, stop.at, stop.cause, stop.actor, stop.reason, stop.by_owner});
}

Result<void> set_survivors(Database& db, const JobId& job,
                           const std::vector<core::ProcessNote>& survivors) {
  return update(db, "UPDATE job SET survivors = $2 WHERE job = $1", {job, encode_notes(survivors)});
}

Result<void> clear_turn(Database& db, const JobId& job) {
  return update(db, "UPDATE job SET owner = 'session' WHERE job = $1", {job});
}

Result<std::vector<core::Receipt>> receipts_of(Database& db, const JobId& job) {
  static const std::string sql =
      "SELECT node_seq, seq, attempt, activation, from_status, to_status, name, at, cause, actor, "
      "reason, tenant, session, turn, sandbox, generation FROM receipt WHERE job = $1 ORDER BY seq";
  std::vector<core::Receipt> receipts;
  TRY(db.each(sql, {job}, [&](const Row& row) -> Result<void> {
    core::Receipt receipt;
    receipt.job = job;
    receipt.node_seq = static_cast<std::uint64_t>(row.integer(0));
    receipt.seq = static_cast<std::uint32_t>(row.integer(1));
    receipt.attempt = static_cast<std::uint32_t>(row.integer(2));
    receipt.activation = static_cast<std::uint64_t>(row.integer(3));
    TRY_ASSIGN(receipt.from, read_maybe_word<core::JobStatus>(row, 4, "receipt.from_status"));
    TRY_ASSIGN(receipt.to, read_word<core::JobStatus>(row.text(5), "receipt.to_status"));
    TRY_ASSIGN(receipt.name, read_word<core::ReceiptName>(row.text(6), "receipt.name"));
    receipt.at = row.time(7);
    TRY_ASSIGN(receipt.cause, read_maybe_word<core::Cause>(row, 8, "receipt.cause"));
    receipt.actor = row.string(9);
    receipt.reason = row.string(10);
    receipt.scope.owner = {TenantId(row.string(11)), SessionId(row.string(12))};
    if (!row.null(13)) receipt.scope.turn = TurnId(row.string(13));
    receipt.scope.sandbox = SandboxId(row.string(14));
    receipt.scope.generation = GenerationId(row.string(15));
    receipts.push_back(std::move(receipt));
    return {};
  }));
  return receipts;
}

Result<std::uint32_t> count_receipts(Database& db, const JobId& job, core::ReceiptName name) {
  TRY_ASSIGN(const std::int64_t count,
             db.integer("SELECT count(*) FROM receipt WHERE job = $1 AND name = $2", {job, name}));
  return static_cast<std::uint32_t>(count);
}

Result<std::vector<JobRow>> list_jobs(Database& db, const ListFilter& filter) {
  // Every statement names all its parameters: PostgreSQL asks for that.
  // For all sessions in the order of the primary key: an index by session would be sorted first.
  std::string where = filter.session ? "tenant = $1 AND seq < $3 AND session = $2"
                                     : "tenant || $2 = $1 AND seq < $3";
  // What is live is found without the rest.
  const bool live =
      !filter.statuses.empty() && std::ranges::none_of(filter.statuses, core::is_terminal);
  if (live) where += " AND " + std::string(kLive);
  if (!filter.statuses.empty()) {
    where += " AND status IN (";
    for (const core::JobStatus status : filter.statuses) {
      if (where.back() != '(') where += ", ";
      where += "'" + std::string(core::to_word(status)) + "'";
    }
    where += ")";
  }
  where += " ORDER BY " + std::string(live ? kBySeq : "seq") + " DESC LIMIT $4";
  const std::uint64_t before = filter.before_seq > 0 ? filter.before_seq : kSeqMax;
  const std::string session = filter.session ? filter.session->str() : std::string();
  return read_jobs(db, select_jobs(where), {filter.tenant, session, before, filter.limit});
}

Result<std::vector<JobRow>> live_jobs_of(Database& db, const core::Owner& owner) {
  static const std::string sql =
      select_jobs("tenant = $1 AND session = $2 AND " + std::string(kLive) + " ORDER BY " +
                  std::string(kBySeq));
  return read_jobs(db, sql, {owner.tenant, owner.session});
}

Result<std::vector<JobRow>> live_jobs(Database& db) {
  static const std::string sql =
      select_jobs(std::string(kLive) + " ORDER BY " + std::string(kBySeq));
  return read_jobs(db, sql, {});
}

Result<std::vector<JobRow>> live_jobs_of_turn(Database& db, const core::Owner& owner,
                                              const TurnId& turn) {
  TRY_ASSIGN(std::vector<JobRow> jobs, live_jobs_of(db, owner));
  std::erase_if(jobs, [&](const JobRow& job) {
    return job.owner != core::OwnerKind::turn || job.scope.turn != turn;
  });
  return jobs;
}

Result<std::optional<JobId>> find_twin(Database& db, const std::string& fingerprint) {
  static const std::string sql = "SELECT job FROM job WHERE fingerprint = $1 AND " +
                                 std::string(kLive) + " ORDER BY seq LIMIT 1";
  return db.first<JobId>(sql, {fingerprint},
                         [](const Row& row) -> Result<JobId> { return JobId(row.string(0)); });
}

Result<std::uint64_t> queue_position(Database& db, const JobRow& job) {
  static const std::string sql =
      "SELECT count(*) FROM job WHERE tenant = $1 AND session = $2 AND " + std::string(kLive) +
      " AND status = 'queued' AND seq <= $3";
  TRY_ASSIGN(const std::int64_t before,
             db.integer(sql, {job.scope.owner.tenant, job.scope.owner.session, job.seq}));
  return static_cast<std::uint64_t>(before);
}

Result<std::vector<QueueHead>> queue_heads(Database& db, std::uint64_t session_cap) {
  static const std::string sql =
      "SELECT j.tenant, j.session, j.job FROM job j JOIN ("
      "  SELECT (SELECT min(q.seq) FROM job q WHERE q.tenant = s.tenant AND q.session = s.session"
      "          AND q." +
      std::string(kLive) +
      " AND q.status = 'queued') AS head"
      "  FROM session s WHERE s.queued > 0 AND s.running < $1) heads ON j.seq = heads.head "
      "ORDER BY j.seq";
  std::vector<QueueHead> heads;
  TRY(db.each(sql, {session_cap}, [&](const Row& row) -> Result<void> {
    heads.push_back({{TenantId(row.string(0)), SessionId(row.string(1))}, JobId(row.string(2))});
    return {};
  }));
  return heads;
}

Result<std::uint64_t> count_running(Database& db) {
  TRY_ASSIGN(
      const std::int64_t count,
      db.integer("SELECT count(*) FROM job WHERE " + std::string(kLive) + " AND status = 'running'",
                 {}));
  return static_cast<std::uint64_t>(count);
}

Result<std::uint64_t> count_queued(Database& db) {
  TRY_ASSIGN(const std::int64_t count, db.integer("SELECT count(*) FROM job WHERE " +
                                                      std::string(kLive) + " AND status = 'queued'",
                                                  {}));
  return static_cast<std::uint64_t>(count);
}

Result<std::optional<LeftoverRow>> find_leftover(Database& db, const JobId& job) {
  static const std::string sql =
      "SELECT found, survived, settled, kept, stop_at, stop_actor, stop_reason FROM leftover "
      "WHERE job = $1";
  return db.first<LeftoverRow>(sql, {job}, [](const Row& row) -> Result<LeftoverRow> {
    LeftoverRow leftover;
    TRY_ASSIGN(leftover.found, decode_notes(row.text(0)));
    TRY_ASSIGN(leftover.survived, decode_notes(row.text(1)));
    leftover.settled = row.integer(2) != 0;
    leftover.kept = row.integer(3) != 0;
    if (row.null(4)) return leftover;
    leftover.stop = StopRow{};
    leftover.stop->at = row.time(4);
    leftover.stop->actor = row.string(5);
    leftover.stop->reason = row.string(6);
    return leftover;
  });
}

Result<void> put_leftover(Database& db, const JobId& job, const LeftoverRow& row) {
  static const std::string sql =
      "INSERT INTO leftover (job, found, survived, settled, kept) VALUES ($1, $2, $3, $4, $5) "
      "ON CONFLICT (job) DO UPDATE SET found = $2, survived = $3, settled = $4, kept = $5";
  TRY(db.run(sql,
             {job, encode_notes(row.found), encode_notes(row.survived), row.settled, row.kept}));
  return {};
}

Result<void> set_leftover_stop(Database& db, const JobId& job, const StopRow& stop) {
  return update(db,
                "UPDATE leftover SET stop_at = $2, stop_actor = $3, stop_reason = $4 WHERE job = "
                "$1",
                {job, stop.at, stop.actor, stop.reason});
}

Result<std::optional<IdempotencyRow>> find_key(Database& db, const core::Owner& owner,
                                               const IdempotencyKey& key) {
  static const std::string sql =
      "SELECT job, fingerprint, gone_at FROM idempotency WHERE tenant = $1 AND session = $2 AND "
      "key = $3";
  return db.first<IdempotencyRow>(
      sql, {owner.tenant, owner.session, key}, [](const Row& row) -> Result<IdempotencyRow> {
        return IdempotencyRow{JobId(row.string(0)), row.string(1), !row.null(2)};
      });
}

Result<void> insert_key(Database& db, const core::Owner& owner, const IdempotencyKey& key,
                        const IdempotencyRow& row, WallTime at) {
  static const std::string sql =
      "INSERT INTO idempotency (tenant, session, key, job, fingerprint, created_at) "
      "VALUES ($1, $2, $3, $4, $5, $6)";
  TRY(db.run(sql, {owner.tenant, owner.session, key, row.job, row.fingerprint, at}));
  return {};
}

Result<std::uint64_t> max_job_seq(Database& db) {
  TRY_ASSIGN(const std::int64_t seq, db.integer("SELECT max(seq) FROM job", {}));
  TRY_ASSIGN(const std::uint64_t given, high_water(db, "job"));
  return std::max(static_cast<std::uint64_t>(seq), given);
}

Result<std::uint64_t> max_node_seq(Database& db) {
  TRY_ASSIGN(const std::int64_t there, db.integer("SELECT max(node_seq) FROM receipt", {}));
  TRY_ASSIGN(const std::int64_t given,
             db.integer("SELECT CAST(value AS BIGINT) FROM meta WHERE key = 'newest_receipt'", {}));
  TRY_ASSIGN(const std::uint64_t high, high_water(db, "node"));
  return std::max(high, static_cast<std::uint64_t>(std::max(there, given)));
}

Result<void> raise_newest_receipt(Database& db, std::uint64_t newest) {
  TRY_ASSIGN(const std::uint64_t now, max_node_seq(db));
  if (newest <= now) return {};
  TRY(
      db.run("INSERT INTO meta (key, value) VALUES ('newest_receipt', $1) "
             "ON CONFLICT (key) DO UPDATE SET value = excluded.value",
             {std::to_string(newest)}));
  return {};
}

Result<std::optional<IdempotencyKey>> key_of_job(Database& db, const JobId& job) {
  return db.first<IdempotencyKey>(
      "SELECT key FROM idempotency WHERE job = $1", {job},
      [](const Row& row) -> Result<IdempotencyKey> { return IdempotencyKey(row.string(0)); });
}

Result<bool> has_job(Database& db, const JobId& job) {
  TRY_ASSIGN(const std::int64_t found,
             db.integer("SELECT count(*) FROM job WHERE job = $1", {job}));
  return found > 0;
}

Result<std::vector<JobId>> live_job_ids(Database& db) {
  static const std::string sql =
      "SELECT job FROM job WHERE " + std::string(kLive) + " ORDER BY " + std::string(kBySeq);
  std::vector<JobId> jobs;
  TRY(db.each(sql, {}, [&](const Row& row) -> Result<void> {
    jobs.emplace_back(row.string(0));
    return {};
  }));
  return jobs;
}

}  // namespace waybill::store
