#include "store/outputs.h"

#include "store/json_columns.h"

namespace waybill::store {
namespace {

constexpr std::string_view kColumns =
    "o.job, o.tenant, o.session, o.ended_seq, o.kept_bytes, o.gaps, o.expired_at, o.expired_why";

Result<OutputRow> read_output(const Row& row) {
  OutputRow output;
  output.job = JobId(row.string(0));
  output.owner = {TenantId(row.string(1)), SessionId(row.string(2))};
  output.ended_seq = static_cast<std::uint64_t>(row.integer(3));
  output.kept_bytes = static_cast<std::uint64_t>(row.integer(4));
  if (!row.null(5)) {
    TRY_ASSIGN(core::OutputFacts facts, decode_output(row.text(5)));
    output.gaps = std::move(facts.gaps);
  }
  output.expired_at = row.maybe_time(6);
  output.expired_why = row.string(7);
  return output;
}

std::optional<std::string> encode_gaps(const OutputRow& row) {
  if (!row.gaps) return std::nullopt;
  core::OutputFacts facts;
  facts.gaps = *row.gaps;
  return encode_output(facts);
}

Result<void> add_use(Database& db, const core::Owner& owner, std::int64_t bytes) {
  if (bytes == 0) return {};
  static const std::string sql =
      "INSERT INTO output_use (tenant, session, bytes) VALUES ($1, $2, $3) "
      "ON CONFLICT (tenant, session) DO UPDATE SET bytes = output_use.bytes + $3";
  TRY(db.run(sql, {owner.tenant, owner.session, bytes}));
  return {};
}

Result<std::vector<OutputRow>> read_outputs(Database& db, std::string_view sql, Params params) {
  std::vector<OutputRow> rows;
  TRY(db.each(sql, params, [&](const Row& row) -> Result<void> {
    TRY_ASSIGN(OutputRow output, read_output(row));
    rows.push_back(std::move(output));
    return {};
  }));
  return rows;
}

std::string select_outputs(std::string_view where) {
  return "SELECT " + std::string(kColumns) + " FROM output o WHERE o.expired_at IS NULL AND " +
         std::string(where);
}

}  // namespace

Result<void> insert_output(Database& db, const OutputRow& row) {
  static const std::string sql =
      "INSERT INTO output (job, tenant, session, ended_seq, kept_bytes, gaps, expired_at, "
      "expired_why) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
  TRY(db.run(sql, {row.job, row.owner.tenant, row.owner.session, row.ended_seq, row.kept_bytes,
                   encode_gaps(row), row.expired_at, row.expired_why}));
  return add_use(db, row.owner, static_cast<std::int64_t>(row.kept_bytes));
}

Result<void> update_output(Database& db, const OutputRow& row, std::uint64_t kept_before) {
  static const std::string sql =
      "UPDATE output SET kept_bytes = $2, gaps = $3, expired_at = $4, expired_why = $5 "
      "WHERE job = $1";
  const std::optional<std::string> gaps = encode_gaps(row);
  TRY(db.run(sql, {row.job, row.kept_bytes, gaps, row.expired_at, row.expired_why}));
  return add_use(
      db, row.owner,
      static_cast<std::int64_t>(row.kept_bytes) - static_cast<std::int64_t>(kept_before));
}

Result<std::optional<OutputRow>> find_output(Database& db, const JobId& job) {
  static const std::string sql =
      "SELECT " + std::string(kColumns) + " FROM output o WHERE o.job = $1";
  return db.first<OutputRow>(sql, {job}, [](const Row& row) { return read_output(row); });
}

Result<void> delete_output(Database& db, const JobId& job) {
  TRY_ASSIGN(const std::optional<OutputRow> row, find_output(db, job));
  if (!row) return {};
  TRY(db.run("DELETE FROM output WHERE job = $1", {job}));
  return add_use(db, row->owner, -static_cast<std::int64_t>(row->kept_bytes));
}

Result<std::uint64_t> output_use(Database& db, const core::Owner& owner) {
  TRY_ASSIGN(const std::int64_t bytes,
             db.integer("SELECT bytes FROM output_use WHERE tenant = $1 AND session = $2",
                        {owner.tenant, owner.session}));
  return static_cast<std::uint64_t>(bytes);
}

Result<std::vector<OutputUse>> output_uses_above(Database& db, std::uint64_t bytes, int limit) {
  static const std::string sql =
      "SELECT tenant, session, bytes FROM output_use WHERE bytes > $1 ORDER BY bytes DESC LIMIT $2";
  std::vector<OutputUse> uses;
  TRY(db.each(sql, {bytes, limit}, [&](const Row& row) -> Result<void> {
    uses.push_back({{TenantId(row.string(0)), SessionId(row.string(1))},
                    static_cast<std::uint64_t>(row.integer(2))});
    return {};
  }));
  return uses;
}

Result<std::vector<OutputRow>> expirable_outputs(Database& db,
                                                 const std::optional<core::Owner>& owner,
                                                 int limit) {
  static const std::string told =
      "NOT EXISTS (SELECT 1 FROM inbox i WHERE i.job = o.job AND i.acked_at IS NULL) "
      "ORDER BY o.ended_seq LIMIT $1";
  static const std::string all = select_outputs(told);
  static const std::string one = select_outputs("o.tenant = $2 AND o.session = $3 AND " + told);
  if (!owner) return read_outputs(db, all, {limit});
  return read_outputs(db, one, {limit, owner->tenant, owner->session});
}

Result<std::vector<OutputRow>> largest_outputs(Database& db,
                                               const std::optional<core::Owner>& owner,
                                               std::uint64_t bytes, int limit) {
  static const std::string large = "o.kept_bytes > $2 ORDER BY o.kept_bytes DESC LIMIT $1";
  static const std::string all = select_outputs(large);
  static const std::string one = select_outputs("o.tenant = $3 AND o.session = $4 AND " + large);
  if (!owner) return read_outputs(db, all, {limit, bytes});
  return read_outputs(db, one, {limit, bytes, owner->tenant, owner->session});
}

Result<std::vector<RunningJob>> running_jobs(Database& db,
                                             const std::optional<core::Owner>& owner) {
  // The first part as the partial index has it.
  static const std::string all =
      "SELECT tenant, session, job FROM job "
      "WHERE status NOT IN ('succeeded', 'failed', 'stopped') AND status = 'running'";
  static const std::string one = all + " AND tenant = $1 AND session = $2";
  std::vector<RunningJob> jobs;
  const auto take = [&](const Row& row) -> Result<void> {
    jobs.push_back({{TenantId(row.string(0)), SessionId(row.string(1))}, JobId(row.string(2))});
    return {};
  };
  if (owner) {
    TRY(db.each(one, {owner->tenant, owner->session}, take));
  } else {
    TRY(db.each(all, {}, take));
  }
  return jobs;
}

Result<void> fill_outputs(Database& db) {
  static const std::string sql =
      "SELECT j.job, j.tenant, j.session, r.node_seq, j.output FROM job j JOIN receipt r "
      "ON r.job = j.job AND r.to_status = j.status AND r.from_status <> r.to_status "
      "WHERE j.status IN ('succeeded', 'failed', 'stopped') AND j.output IS NOT NULL";
  std::vector<OutputRow> rows;
  TRY(db.each(sql, {}, [&](const Row& row) -> Result<void> {
    const auto facts = decode_output(row.text(4));
    // What does not parse is found, and refused to its owner, where the row is read.
    if (!facts || facts->kept_bytes == 0) return {};
    OutputRow output;
    output.job = JobId(row.string(0));
    output.owner = {TenantId(row.string(1)), SessionId(row.string(2))};
    output.ended_seq = static_cast<std::uint64_t>(row.integer(3));
    output.kept_bytes = facts->kept_bytes;
    rows.push_back(std::move(output));
    return {};
  }));
  for (const OutputRow& row : rows) TRY(insert_output(db, row));
  return {};
}

}  // namespace waybill::store
