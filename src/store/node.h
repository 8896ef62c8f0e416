#pragma once
// Where the store is at home, and the jobs that can be neither attached nor proven gone.

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/node.h"
#include "core/scope.h"
#include "store/database.h"

namespace waybill::store {

// nullopt: nobody has served it yet since version 6.
Result<std::optional<core::Node>> find_node(Database& db);
Result<void> put_node(Database& db, const core::Node& node);

struct UnrecoverableRow {
  JobId job;
  core::Owner owner;
  WallTime since{};
  std::string why;
};

// A job that is not terminal: ids alone, so that none fails to parse.
struct LivePlace {
  JobId job;
  core::Owner owner;
  std::string generation;
};
Result<std::vector<LivePlace>> live_places(Database& db);

// Once marked, a job stays marked with the first reason.
Result<void> mark_unrecoverable(Database& db, const UnrecoverableRow& row);
Result<std::vector<UnrecoverableRow>> unrecoverable_jobs(Database& db);
Result<bool> is_unrecoverable(Database& db, const JobId& job);
Result<void> release_unrecoverable(Database& db, const JobId& job);

}  // namespace waybill::store
