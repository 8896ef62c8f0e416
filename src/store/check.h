#pragma once
// Looks at everything that is live and finds the rows that do not parse, with their owners (I12).

#include <string>
#include <vector>

#include "core/scope.h"
#include "store/database.h"

namespace waybill::store {

struct BadRow {
  core::Owner owner;
  std::string what;
};

Result<std::vector<BadRow>> check_live_rows(Database& db);

}  // namespace waybill::store
