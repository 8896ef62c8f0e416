#pragma once
// Named points at which a test may kill this process, to show that recovery holds there. The
// environment variable WAYBILL_CRASH names one: "supervise.after_mkdir", or
// "supervise.after_mkdir:3" for its third passage. WAYBILL_CRASH_TRACE names a file to which each
// point that is passed adds its name as a line, so that a test knows how often there is one to die
// at. Without the variables a point costs a test or two. Safe from every thread.

#include <fcntl.h>
#include <unistd.h>

#include <csignal>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <string_view>

namespace waybill {

// Every point of the daemon: before and after each commit, and before or after each thing that is
// done outside of the store. The crash matrix of the tests is made from this list, a point that is
// not in it does not compile, and one that no journey of the matrix passes fails there.
inline constexpr auto kDaemonCrashPoints = std::to_array<std::string_view>({
    // Of a daemon that starts.
    "start.after_lock",
    "start.after_key",
    "start.after_store",
    "open.before_commit",
    "open.after_commit",
    "open.after_effects",
    "start.after_socket",
    // Around the transaction of each kind of command (engine/pass_points.h).
    "engine.attach.before_commit",
    "engine.attach.after_commit",
    "engine.attach.after_answer",
    "engine.turn.before_commit",
    "engine.turn.after_commit",
    "engine.turn.after_answer",
    "engine.run.before_commit",
    "engine.run.after_commit",
    "engine.run.after_answer",
    "engine.show.before_commit",
    "engine.show.after_commit",
    "engine.show.after_answer",
    "engine.wait.before_commit",
    "engine.wait.after_commit",
    "engine.wait.after_answer",
    "engine.facts.before_commit",
    "engine.facts.after_commit",
    "engine.facts.after_answer",
    "engine.inbox.before_commit",
    "engine.inbox.after_commit",
    "engine.inbox.after_answer",
    "engine.flushed.before_commit",
    "engine.flushed.after_commit",
    "engine.flushed.after_answer",
    "engine.returned.before_commit",
    "engine.returned.after_commit",
    "engine.returned.after_answer",
    "engine.ack.before_commit",
    "engine.ack.after_commit",
    "engine.ack.after_answer",
    "engine.stop.before_commit",
    "engine.stop.after_commit",
    "engine.stop.after_answer",
    "engine.stop_all.before_commit",
    "engine.stop_all.after_commit",
    "engine.stop_all.after_answer",
    "engine.release.before_commit",
    "engine.release.after_commit",
    "engine.release.after_answer",
    "engine.prune.before_commit",
    "engine.prune.after_commit",
    "engine.prune.after_answer",
    "engine.monitor.before_commit",
    "engine.monitor.after_commit",
    "engine.monitor.after_answer",
    "engine.wake.before_commit",
    "engine.wake.after_commit",
    "engine.wake.after_answer",
    "engine.closed.before_commit",
    "engine.closed.after_commit",
    "engine.closed.after_answer",
    "engine.gone.before_commit",
    "engine.gone.after_commit",
    "engine.gone.after_answer",
    "client.detach.before_commit",
    "client.detach.after_commit",
    "client.detach.after_answer",
    "client.call.before_commit",
    "client.call.after_commit",
    "client.call.after_answer",
    "client.start.before_commit",
    // Of an operator's work on the store itself.
    "reconcile.before_commit",
    "reconcile.after_commit",
    "reconcile.after_mark",
    "backup.after_copy",
    "backup.after_rename",
    // Of what is owed: one pair for each core::OwedKind.
    "owed.supervise.before_effect",
    "owed.supervise.after_effect",
    "owed.offer_expiry.before_commit",
    "owed.offer_expiry.after_commit",
    "owed.host_lease.before_commit",
    "owed.host_lease.after_commit",
    "owed.turn_abandon.before_commit",
    "owed.turn_abandon.after_commit",
    "owed.stop_stuck.before_commit",
    "owed.stop_stuck.after_commit",
    "owed.start_within.before_commit",
    "owed.start_within.after_commit",
    "owed.prune.before_commit",
    "owed.prune.after_commit",
    "owed.wake.before_commit",
    "owed.wake.after_commit",
    // Between the files of a job and its rows.
    "prune.before_files",
    "prune.between_files",
    "prune.after_files",
    // Between a file of output and its row.
    "room.expire.after_remove",
    "room.expire.before_commit",
    "room.expire.after_commit",
    "room.shorten.after_file",
    "room.shorten.before_commit",
    "room.shorten.after_commit",
    // Of the files of a job whose supervisor lives, or is to be.
    "supervise.after_mkdir",
    "supervise.after_env_file",
    "supervise.after_launch_file",
    "supervise.after_spawn",
    "supervise.after_stop_req",
    "supervise.after_ctl",
    "supervise.after_input",
    "supervise.after_in_close",
    "supervise.attached",
    "supervise.shim_ended",
    // Of those of a job whose supervisor is gone.
    "orphan.adopted",
    "orphan.after_term",
    "orphan.after_freeze",
    "orphan.after_kill",
    "orphan.after_exit",
    "orphan.after_final",
    "orphan.after_leftovers",
});

constexpr bool is_daemon_crash_point(std::string_view name) {
  return std::ranges::find(kDaemonCrashPoints, name) != kDaemonCrashPoints.end();
}

// The name of a point of the list above.
class CrashPoint {
 public:
  consteval CrashPoint(const char* name) : name_(name) {
    if (is_daemon_crash_point(name_)) return;
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

// A line at once, as the kernel appends it: also the last one before a death is there.
inline void trace(std::string_view name) {
  static const int fd = [] {
    const char* path = std::getenv("WAYBILL_CRASH_TRACE");
    if (path == nullptr || *path == '\0') return -1;
    return ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  }();
  if (fd < 0) [[likely]]
    return;
  std::array<char, 64> line{};
  const std::size_t size = std::min(name.size(), line.size() - 1);
  std::ranges::copy(name.substr(0, size), line.begin());
  line[size] = '\n';
  static_cast<void>(!::write(fd, line.data(), size + 1));
}
}  // namespace detail

inline void crash_point(CrashPoint point) {
  detail::trace(point.name());
  static const detail::CrashWish wish = detail::CrashWish::from_environment();
  if (wish.name.empty()) [[likely]]
    return;
  if (wish.name != point.name()) return;
  static std::atomic<long> passages{0};
  if (passages.fetch_add(1) + 1 == wish.countdown) std::raise(SIGKILL);
}

}  // namespace waybill
