#include "cli/launch_params.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <climits>
#include <cstdlib>

#include "edge/json.h"

extern char** environ;

namespace waybill::cli {

unsigned callers_umask() {
  const mode_t mask = ::umask(077);
  ::umask(mask);
  return mask & 0777U;
}

namespace {

std::string_view name_of(std::string_view entry) { return entry.substr(0, entry.find('=')); }

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;  // names no variable
    if (name_of(text) != "WAYBILL_HOST_KEY") entries.emplace_back(text);
  }
  return entries;
}

std::string environment_block(std::vector<std::string> entries,
                              const std::vector<std::string>& changes) {
  for (const std::string& given : changes) {
    std::erase_if(entries, [&](const std::string& old) { return name_of(old) == name_of(given); });
    entries.push_back(given);
  }
  std::string block;
  for (const std::string& entry : entries) block += entry + '\0';
  return block;
}

Result<std::string> current_directory() {
  std::array<char, PATH_MAX> buffer{};
  const char* here = ::getcwd(buffer.data(), buffer.size());
  if (here != nullptr && *here == '/') return std::string(here);
  const char* was = std::getenv("PWD");
  return fail(ErrorCode::cwd_missing, "cwd missing: " + std::string(was == nullptr ? "" : was) +
                                          " was removed; go to a directory that exists or give "
                                          "another one.");
}

void set_bytes(boost::json::object& params, std::string_view name, const std::string& bytes) {
  const std::string key(name);
  if (edge::is_valid_utf8(bytes)) {
    params[key] = bytes;
  } else {
    params[key + "_base64"] = edge::to_base64(bytes);
  }
}

}  // namespace waybill::cli
