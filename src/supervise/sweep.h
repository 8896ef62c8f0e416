#pragma once
// Stops what is found of a job whose supervisor is gone, by a scan and in its cgroup: TERM and
// CONT, grace, then STOP and KILL until two looks in a row find nobody. A scan alone is not a
// proof; with a verified cgroup that is empty, and nobody ever seen outside of it, it is one. Never
// blocks; one thread at a time.

#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "supervise/process_scan.h"

namespace waybill::supervise {

class Sweep {
 public:
  explicit Sweep(ScanTarget target) : target_(std::move(target)) {}

  // The time until the next step, or nullopt when done.
  std::optional<Millis> step(MonoTime now, Millis grace);

  // Looks anew, signals nobody. True when somebody was found.
  bool scan();
  const shim::Members& members() const { return members_; }
  // The last look saw everybody there was.
  bool complete() const { return complete_; }

  // The last look found nobody, and the job's cgroup, which nobody of the job was seen outside of,
  // is empty.
  bool proven() const { return empty_ && !left_cgroup_ && !target_.cgroup.empty(); }

  bool begun() const { return kill_ != Kill::idle; }
  bool done() const { return kill_ == Kill::done; }
  // For somebody who appeared after all: asks, waits and kills once more.
  void begin_again() {
    kill_ = Kill::idle;
    empty_scans_ = 0;
  }
  // Kills since then, and somebody is still there.
  std::optional<MonoTime> killing_since() const {
    return kill_ == Kill::killing ? std::optional(kill_began_) : std::nullopt;
  }

  const std::vector<core::ProcessNote>& survivors() const { return survivors_; }
  // True once after the survivors have become others.
  bool take_changed() { return std::exchange(survivors_changed_, false); }

 private:
  enum class Kill { idle, grace, killing, done };

  void signal_all(int signal);
  void remember_survivors();

  void look_outside();
  void kill_group();

  ScanTarget target_;
  bool complete_ = false;
  bool empty_ = false;        // as of the last look; with a cgroup, the kernel says so
  bool left_cgroup_ = false;  // somebody of the job was found outside of its cgroup
  Kill kill_ = Kill::idle;
  MonoTime kill_began_{};
  int empty_scans_ = 0;
  shim::Members members_{};
  std::vector<core::ProcessNote> survivors_;
  bool survivors_changed_ = false;
};

}  // namespace waybill::supervise
