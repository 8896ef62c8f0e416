#include "daemon/config.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include <toml++/toml.h>

#include "base/unique_fd.h"

namespace waybill::daemon {
namespace {

constexpr std::size_t kConfigBytesMax = 1024 * 1024;

Result<std::string> read_config(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (errno == ENOENT) return std::string();
    return fail(ErrorCode::bad_request,
                "cannot read " + path + ": " + std::generic_category().message(errno));
  }
  std::string text;
  char buffer[16 * 1024];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0) {
      return fail(ErrorCode::bad_request,
                  "cannot read " + path + ": " + std::generic_category().message(errno));
    }
    if (got == 0) return text;
    text.append(buffer, static_cast<std::size_t>(got));
    if (text.size() > kConfigBytesMax) {
      return fail(ErrorCode::too_large, path + " is larger than 1 MiB");
    }
  }
}

Result<void> apply_value(Settings& settings, std::string_view key, const toml::node& node) {
  if (const auto text = node.value_exact<std::string>()) return set_setting(settings, key, *text);
  if (const auto number = node.value_exact<std::int64_t>()) {
    if (*number < 0) {
      return fail(ErrorCode::bad_request, std::string(key) + " must not be negative");
    }
    return set_setting(settings, key, static_cast<std::uint64_t>(*number));
  }
  return fail(ErrorCode::bad_request,
              std::string(key) + R"( must be a string such as "5s" or "64MiB", or a whole number)");
}

}  // namespace

Result<void> apply_config(Settings& settings, std::string_view text, const std::string& path) {
  toml::table table;
  try {
    table = toml::parse(text, path);
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::bad_request, path + ":" + std::to_string(error.source().begin.line) +
                                            ": " + std::string(error.description()));
  }
  for (const auto& [key, node] : table) {
    if (auto applied = apply_value(settings, key.str(), node); !applied) {
      return fail(applied.error().code, path + ":" + std::to_string(key.source().begin.line) +
                                            ": " + applied.error().message);
    }
  }
  return {};
}

Result<Settings> load_settings(const std::string& directory,
                               const std::vector<std::pair<std::string, std::string>>& sets) {
  Settings settings;
  const std::string path = directory + "/config.toml";
  TRY_ASSIGN(const std::string text, read_config(path));
  TRY(apply_config(settings, text, path));
  for (const auto& [key, value] : sets) TRY(set_setting(settings, key, std::string_view(value)));
  TRY(check_settings(settings));
  return settings;
}

}  // namespace waybill::daemon
