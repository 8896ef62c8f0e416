#include "daemon/store_check.h"

#include <utility>

#include "store/open.h"

namespace waybill::daemon {

StoreCheck::StoreCheck(std::string path, Told damaged, Told warn)
    : damaged_(std::move(damaged)), warn_(std::move(warn)) {
  thread_ = std::thread([this, path = std::move(path)] { main(path); });
}

StoreCheck::~StoreCheck() {
  stop_ = true;
  thread_.join();
}

void StoreCheck::main(const std::string& path) {
  auto database = store::open_reader(path);
  if (!database) return warn_("the store could not be checked: " + database.error().message);
  (*database)->stop_when(stop_);
  const auto checked = store::check_whole(**database);
  if (checked || stop_) return;
  if (checked.error().code == ErrorCode::state_corrupt) return damaged_(checked.error().message);
  warn_("the store could not be checked: " + checked.error().message);
}

}  // namespace waybill::daemon
