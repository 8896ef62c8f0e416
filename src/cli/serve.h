#pragma once
// `waybill serve`, implemented in daemon/, the only place that names concrete parts.

#include <string>
#include <utility>
#include <vector>

namespace waybill::cli {

struct ServeOptions {
  std::string data_dir;
  std::string store_url;
  std::vector<std::pair<std::string, std::string>> settings;
  bool json = false;
  int ready_fd = -1;
};

int serve_main(const ServeOptions& options);

}  // namespace waybill::cli
