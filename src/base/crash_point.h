#pragma once
// Named points at which a test may kill this process, to show that recovery holds there. The
// environment variable WAYBILL_CRASH names one: "supervise.after_mkdir", or
// "supervise.after_mkdir:3" for its third passage. Without the variable a point costs one test of
// a pointer. Safe from every thread.

#include <csignal>

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace waybill {

namespace detail {
struct CrashWish {
  std::string_view name;
  long countdown = 0;

  static CrashWish from_environment() {
    const char* value = std::getenv("WAYBILL_CRASH");
    if (value == nullptr || *value == '\0') return {};
    const std::string_view text(value);
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) return {text, 1};
    const long count = std::strtol(value + colon + 1, nullptr, 10);
    return {text.substr(0, colon), count > 0 ? count : 1};
  }
};
}  // namespace detail

inline void crash_point(std::string_view name) {
  static const detail::CrashWish wish = detail::CrashWish::from_environment();
  if (wish.name.empty()) [[likely]]
    return;
  if (wish.name != name) return;
  static std::atomic<long> passages{0};
  if (passages.fetch_add(1) + 1 == wish.countdown) std::raise(SIGKILL);
}

}  // namespace waybill
