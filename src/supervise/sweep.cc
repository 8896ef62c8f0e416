#include "supervise/sweep.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include "base/crash_point.h"
#include "base/unique_fd.h"
#include "shim/cgroup.h"
#include "shim/files.h"

namespace waybill::supervise {
namespace {

constexpr Millis kPause{20};
constexpr Millis kLatePause{1000};

Millis since(MonoTime now, MonoTime then) { return std::chrono::duration_cast<Millis>(now - then); }

}  // namespace

// Whoever was found by other means must be in the cgroup, or that speaks for nothing any more.
void Sweep::look_outside() {
  for (std::size_t i = 0; i < members_.count && !left_cgroup_; ++i) {
    const shim::Member& member = members_.list[i];
    if (shim::is_in_cgroup(member.pid, target_.cgroup) != shim::Answer::no) continue;
    shim::ProcStat stat;
    left_cgroup_ = shim::read_proc_stat(member.pid, stat) && stat.start == member.start &&
                   stat.state != 'Z' && stat.state != 'X';
  }
}

bool Sweep::scan() {
  // Not everybody looked at counts as somebody: nothing is over because we are short of something.
  complete_ = scan_job_processes(target_, members_);
  empty_ = complete_ && members_.count == 0;
  if (target_.cgroup.empty()) return !empty_;
  look_outside();
  const UniqueFd cgroup(shim::open_cgroup(target_.cgroup.c_str()));
  if (cgroup.valid()) shim::add_cgroup_members(cgroup.get(), members_);
  // Asked last: who left it for another place while we looked was seen by the scan or not at all.
  const shim::Answer populated = shim::cgroup_populated(target_.cgroup.c_str());
  empty_ = empty_ && populated == shim::Answer::no;
  return !complete_ || members_.count > 0 || populated == shim::Answer::yes;
}

void Sweep::kill_group() {
  if (target_.cgroup.empty()) return;
  const UniqueFd cgroup(shim::open_cgroup(target_.cgroup.c_str()));
  if (cgroup.valid()) shim::kill_cgroup(cgroup.get());
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
    core::ProcessNote note;
    note.pid = member.pid;
    note.comm = stat.comm;
    note.state = std::string(1, stat.state);
    note.wchan = shim::read_wchan(member.pid).name;
    note.reason = shim::survivor_reason(member.pid, stat.state);
    now.push_back(std::move(note));
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
      crash_point("orphan.after_term");
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
  kill_group();
  signal_all(SIGSTOP);
  crash_point("orphan.after_freeze");
  scan();
  signal_all(SIGKILL);
  crash_point("orphan.after_kill");
  if (since(now, kill_began_) < Millis(100)) return kPause;
  remember_survivors();
  return since(now, kill_began_) < Millis(10000) ? kPause * 5 : kLatePause;
}

}  // namespace waybill::supervise
