#include "supervise/sweep.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "shim/files.h"

namespace waybill::supervise {
namespace {

constexpr Millis kPause{20};
constexpr Millis kLatePause{1000};

Millis since(MonoTime now, MonoTime then) { return std::chrono::duration_cast<Millis>(now - then); }

}  // namespace

bool Sweep::scan() {
  scan_job_processes(target_, members_);
  return members_.count > 0;
}

void Sweep::signal_all(int signal) {
  for (std::size_t i = 0; i < members_.count; ++i) {
    shim::signal_member(members_.list[i], signal);
  }
}

void Sweep::remember_survivors() {
  std::vector<core::ProcessNote> now;
  for (std::size_t i = 0; i < members_.count && i < shim::kNotesMax; ++i) {
    shim::ProcStat stat;
    const shim::Member& member = members_.list[i];
    if (!shim::read_proc_stat(member.pid, stat) || stat.start != member.start) continue;
    now.push_back(core::ProcessNote{member.pid, stat.comm, "", std::string(1, stat.state), false});
  }
  const auto same = [](const core::ProcessNote& a, const core::ProcessNote& b) {
    return a.pid == b.pid && a.state == b.state;
  };
  survivors_changed_ =
      !std::equal(now.begin(), now.end(), survivors_.begin(), survivors_.end(), same);
  survivors_ = std::move(now);
}

// One step of: TERM and CONT, grace, then stop and kill until two scans in a row find nobody.
// The time until the next step, or nullopt when done.
std::optional<Millis> Sweep::step(MonoTime now, Millis grace) {
  if (kill_ == Kill::done) return std::nullopt;
  if (kill_ == Kill::idle) {
    kill_ = Kill::grace;
    kill_began_ = now;
    if (scan()) {
      signal_all(SIGTERM);
      signal_all(SIGCONT);
      return kPause;
    }
  }
  if (!scan()) {
    if (++empty_scans_ < 2) return Millis(1);
    kill_ = Kill::done;
    survivors_.clear();
    return std::nullopt;
  }
  empty_scans_ = 0;
  if (kill_ == Kill::grace && since(now, kill_began_) < grace) {
    return std::min(kPause * 2, grace - since(now, kill_began_) + Millis(1));
  }
  if (kill_ == Kill::grace) kill_began_ = now;
  kill_ = Kill::killing;
  signal_all(SIGSTOP);
  scan();
  signal_all(SIGKILL);
  if (since(now, kill_began_) < Millis(100)) return kPause;
  remember_survivors();
  return since(now, kill_began_) < Millis(10000) ? kPause * 5 : kLatePause;
}

}  // namespace waybill::supervise
