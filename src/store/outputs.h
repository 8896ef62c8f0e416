#pragma once
// Rows of `output` and the sums of `output_use`: what finished jobs keep on the disk. Every change
// of a row moves its session's sum with it.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/facts.h"
#include "core/scope.h"
#include "store/database.h"

namespace waybill::store {

struct OutputRow {
  JobId job;
  core::Owner owner;
  std::uint64_t ended_seq = 0;  // the node's receipt number of the ending
  std::uint64_t kept_bytes = 0;
  std::optional<std::vector<core::Gap>> gaps;  // of an output that was shortened after the end
  std::optional<WallTime> expired_at;
  std::string expired_why;  // "session_quota", "free_space"
};

Result<void> insert_output(Database& db, const OutputRow& row);
// `kept_before`: what the row said until now.
Result<void> update_output(Database& db, const OutputRow& row, std::uint64_t kept_before);
// With its job.
Result<void> delete_output(Database& db, const JobId& job);
Result<std::optional<OutputRow>> find_output(Database& db, const JobId& job);

// Sum over the finished jobs of one session.
Result<std::uint64_t> output_use(Database& db, const core::Owner& owner);
struct OutputUse {
  core::Owner owner;
  std::uint64_t bytes = 0;
};
Result<std::vector<OutputUse>> output_uses_above(Database& db, std::uint64_t bytes, int limit);

// Of one session, or of all. Outputs with nothing left to tell: no event of the job is waiting to
// be acknowledged. Oldest ending first.
Result<std::vector<OutputRow>> expirable_outputs(Database& db,
                                                 const std::optional<core::Owner>& owner,
                                                 int limit);
// Those above `bytes`, largest first.
Result<std::vector<OutputRow>> largest_outputs(Database& db,
                                               const std::optional<core::Owner>& owner,
                                               std::uint64_t bytes, int limit);

// Running jobs of one session, or of all.
struct RunningJob {
  core::Owner owner;
  JobId job;
};
Result<std::vector<RunningJob>> running_jobs(Database& db, const std::optional<core::Owner>& owner);

// Rows for the jobs that ended before there was this table.
Result<void> fill_outputs(Database& db);

}  // namespace waybill::store
