#include "e2e/supervisors.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "e2e/harness.h"

namespace waybill::e2e {

char state_of(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t at = stat.rfind(')');
  return at == std::string::npos || at + 2 >= stat.size() ? 'X' : stat[at + 2];
}

std::vector<pid_t> supervisors_of(const std::string& data_dir) {
  const auto is_one = [](const std::string& pid) {
    return read_file("/proc/" + pid + "/comm") == "waybill-shim\n";
  };
  std::vector<pid_t> found;
  for (const pid_t pid : processes_with(data_dir)) {
    if (!is_one(std::to_string(pid)) || state_of(pid) == 'Z') continue;
    const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
    const std::size_t at = stat.rfind(')');
    if (at == std::string::npos || at + 4 >= stat.size()) continue;
    const std::string parent = stat.substr(at + 4);
    if (!is_one(parent.substr(0, parent.find(' ')))) found.push_back(pid);
  }
  return found;
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kCap;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    ::usleep(2000);  // between two looks at /proc
  }
  return false;
}

}  // namespace waybill::e2e
