#pragma once
// Named points at which a test may kill this process, to show that recovery holds there. The
// environment variable WAYBILL_CRASH names one: "supervise.after_mkdir", or
// "supervise.after_mkdir:3" for its third passage. Without the variable a point costs one test of
// a pointer. Safe from every thread.

#include <csignal>

#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

namespace waybill {

// Every point of the daemon. The crash matrix of the tests is made from this list, and a point that
// is not in it does not compile.
inline constexpr std::array<std::string_view, 46> kDaemonCrashPoints{
    "engine.attach.before_commit",  "engine.attach.after_commit",  "engine.attach.after_answer",
    "engine.turn.before_commit",    "engine.turn.after_commit",    "engine.turn.after_answer",
    "engine.run.before_commit",     "engine.run.after_commit",     "engine.run.after_answer",
    "engine.facts.before_commit",   "engine.facts.after_commit",   "engine.facts.after_answer",
    "engine.inbox.before_commit",   "engine.inbox.after_commit",   "engine.inbox.after_answer",
    "engine.flushed.before_commit", "engine.flushed.after_commit", "engine.flushed.after_answer",
    "engine.ack.before_commit",     "engine.ack.after_commit",     "engine.ack.after_answer",
    "engine.stop.before_commit",    "engine.stop.after_commit",    "engine.stop.after_answer",
    "engine.prune.before_commit",   "engine.prune.after_commit",   "engine.prune.after_answer",
    "prune.before_files",           "prune.between_files",         "prune.after_files",
    "engine.monitor.before_commit", "engine.monitor.after_commit", "engine.monitor.after_answer",
    "client.detach.before_commit",  "client.detach.after_commit",  "client.detach.after_answer",
    "client.call.before_commit",    "client.call.after_commit",    "client.call.after_answer",
    "client.start.before_commit",   "supervise.after_mkdir",       "supervise.after_launch_file",
    "supervise.after_spawn",        "supervise.after_stop_req",    "supervise.after_ctl",
    "supervise.after_in_close",
};

// The name of a point of the list above.
class CrashPoint {
 public:
  consteval CrashPoint(const char* name) : name_(name) {
    for (const std::string_view known : kDaemonCrashPoints) {
      if (known == name_) return;
    }
    throw "this crash point is not in kDaemonCrashPoints";  // stops the compiler
  }
  constexpr std::string_view name() const { return name_; }

 private:
  std::string_view name_;
};

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

inline void crash_point(CrashPoint point) {
  static const detail::CrashWish wish = detail::CrashWish::from_environment();
  if (wish.name.empty()) [[likely]]
    return;
  if (wish.name != point.name()) return;
  static std::atomic<long> passages{0};
  if (passages.fetch_add(1) + 1 == wish.countdown) std::raise(SIGKILL);
}

}  // namespace waybill
