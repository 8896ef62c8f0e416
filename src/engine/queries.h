#pragma once
// Reads that change nothing, on a connection of their own, so that a list never waits behind
// commits.

#include <memory>
#include <string>

#include "base/limits.h"
#include "base/result.h"
#include "engine/api.h"

namespace waybill::store {
class Database;
}  // namespace waybill::store

namespace waybill::engine {

// Where a job's output lies and what is known of it.
struct OutputTarget {
  JobId job;
  bool terminal = false;
  core::OutputFacts output;  // of a terminal job; empty while it runs
  std::optional<WallTime> expired_at;
  std::string expired_why;
};

class Queries {
 public:
  // `database` is a read-only connection owned by the calling thread.
  Queries(store::Database& database, Settings settings);

  Result<JobView> show(const Caller& caller, const JobId& job);
  Result<ListReply> list(const ListRequest& request);
  Result<SessionListReply> sessions(const TenantId& tenant);
  Result<OutputTarget> output(const Caller& caller, const JobId& job);

 private:
  store::Database& database_;
  Settings settings_;
};

}  // namespace waybill::engine
