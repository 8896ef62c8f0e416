#include "shim/launch.h"

#include <cstring>

#include "base/crc32.h"
#include "shim/files.h"

namespace waybill::shim {
namespace {

bool parse_number(std::string_view text, unsigned base, std::uint64_t& out) {
  if (text.empty()) return false;
  std::uint64_t value = 0;
  for (char c : text) {
    const auto digit = static_cast<unsigned>(c - '0');
    if (c < '0' || digit >= base || value > (UINT64_MAX - digit) / base) return false;
    value = value * base + digit;
  }
  out = value;
  return true;
}

bool parse_hex32(std::string_view text, std::uint64_t& out) {
  if (text.size() != 8) return false;
  std::uint64_t value = 0;
  for (char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return false;
    value = value << 4 | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  out = value;
  return true;
}

bool parse_flag(std::string_view text, bool& out) {
  out = text == "1";
  return text == "0" || text == "1";
}

struct NumberField {
  std::string_view key;
  std::uint64_t Launch::* member;
};
constexpr NumberField kNumbers[] = {
    {"node_seq", &Launch::node_seq},
    {"grace_ms", &Launch::grace_ms},
    {"deadline_ms", &Launch::deadline_ms},
    {"cap_bytes", &Launch::cap_bytes},
    {"head_bytes", &Launch::head_bytes},
    {"leftover_grace_ms", &Launch::leftover_grace_ms},
    {"drain_grace_ms", &Launch::drain_grace_ms},
    {"drain_max_ms", &Launch::drain_max_ms},
    {"files", &Launch::files},
    {"env_bytes", &Launch::env_bytes},
    {"accepted_ms", &Launch::accepted_ms},
    {"wrapper_args", &Launch::wrapper_args},
};

struct TextField {
  std::string_view key;
  std::string_view Launch::* member;
};
constexpr TextField kTexts[] = {
    {"job", &Launch::job},
    {"program", &Launch::program},
    {"cwd", &Launch::cwd},
    {"crash_point", &Launch::crash_point},
    {"cgroup", &Launch::cgroup},
    {"tenant", &Launch::tenant},
    {"session", &Launch::session},
    {"turn", &Launch::turn},
    {"sandbox", &Launch::sandbox},
    {"generation", &Launch::generation},
    {"owner", &Launch::owner},
    {"wake", &Launch::wake},
    {"label", &Launch::label},
    {"key", &Launch::key},
    {"fingerprint", &Launch::fingerprint},
    {"incarnation", &Launch::incarnation},
};

bool take_field(std::string_view key, std::string_view value, Launch& out) {
  for (const NumberField& field : kNumbers) {
    if (field.key == key) return parse_number(value, 10, out.*field.member);
  }
  for (const TextField& field : kTexts) {
    if (field.key != key) continue;
    out.*field.member = value;
    return true;
  }
  if (key == "umask") return parse_number(value, 8, out.umask) && out.umask <= 0777;
  if (key == "env_crc") return parse_hex32(value, out.env_crc);
  if (key == "capture") return parse_flag(value, out.capture);
  if (key == "pty") return parse_flag(value, out.pty);
  if (key == "shell") return parse_flag(value, out.shell);
  if (key == "stdin") {
    out.open_stdin = value == "open";
    return value == "open" || value == "null";
  }
  if (key == "leftovers") {
    out.keep_leftovers = value == "keep";
    return value == "keep" || value == "kill";
  }
  return false;
}

constexpr std::string_view kCrcKey = "crc=";
constexpr std::string_view kArgKey = "arg=";
constexpr std::size_t kCrcBytes = 4 + 8 + 1;

}  // namespace

LaunchError parse_launch(std::string_view file, Launch& out) {
  if (file.size() <= kCrcBytes || file.back() != '\0') return LaunchError::checksum;
  const std::size_t body = file.size() - kCrcBytes;
  std::uint64_t crc = 0;
  if (file.substr(body, 4) != kCrcKey || !parse_hex32(file.substr(body + 4, 8), crc) ||
      crc != crc32(file.data(), body)) {
    return LaunchError::checksum;
  }
  bool first = true;
  for (std::size_t at = 0; at < body;) {
    const std::size_t end = file.find('\0', at);
    if (end >= body) return LaunchError::field;
    const std::string_view field = file.substr(at, end - at);
    const std::size_t equals = field.find('=');
    if (equals == std::string_view::npos) return LaunchError::field;
    const std::string_view key = field.substr(0, equals);
    if (first) {
      std::uint64_t protocol = 0;
      if (key != "protocol" || !parse_number(field.substr(equals + 1), 10, protocol) ||
          protocol < 1 || protocol > kLaunchProtocol) {
        return LaunchError::protocol;
      }
      first = false;
    } else if (key == "arg") {
      if (out.arg_count == 0) {
        out.args = file.substr(at, end + 1 - at);
      } else if (out.args.data() + out.args.size() != file.data() + at) {
        return LaunchError::field;  // arguments stand together
      } else {
        out.args = std::string_view(out.args.data(), out.args.size() + end + 1 - at);
      }
      ++out.arg_count;
    } else if (!take_field(key, field.substr(equals + 1), out)) {
      return LaunchError::field;
    }
    at = end + 1;
  }
  if (out.job.empty() || out.program.empty() || out.cwd.empty() || out.arg_count == 0 ||
      out.wrapper_args >= out.arg_count) {
    return LaunchError::field;
  }
  return LaunchError::none;
}

void split_args(const Launch& launch, const char** argv) {
  const char* at = launch.args.data();
  for (std::size_t i = 0; i < launch.arg_count; ++i) {
    argv[i] = at + kArgKey.size();
    at += std::strlen(at) + 1;
  }
  argv[launch.arg_count] = nullptr;
}

}  // namespace waybill::shim
