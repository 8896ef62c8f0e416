#pragma once
// Room for output (SPEC sections 4 and 13): a quota per session and a floor of free space. Beyond
// them, in this order: the outputs of finished jobs that nobody waits to hear of go, oldest first;
// then the others, and those of running jobs, are shortened, largest first; then launches are
// refused. No job is ended for it, and no output of an undelivered event goes.
//
// A file goes before its row says so: space may be what the row lacks. A crash in between leaves a
// row of a file that is not there, which reads as unavailable and is put right when its turn comes.
// Lives on the engine's thread and has transactions of its own.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/crash_point.h"
#include "engine/engine.h"
#include "store/outputs.h"

namespace waybill::engine {

// The floor in force: the setting, or by default the smaller of 512 MiB and 2 % of the disk.
std::uint64_t floor_in_force(const Settings& settings, const supervise::DiskSpace& space);

class OutputRoom {
 public:
  // `uncertain`: a commit failed in a way that leaves open what is on the disk.
  OutputRoom(const Parts& parts, std::function<void(const Error&)> uncertain);

  // Makes room for one more job, as far as that can be done; `store_full` when there is none.
  Result<void> before_launch(const core::Owner& owner);

  // Looks at all sessions and at the disk. Due every disk_check_interval while jobs run, and soon
  // after one has ended.
  void check();
  void check_soon();
  // Time until the next check; nullopt: nothing runs and nothing is asked.
  std::optional<Millis> due_in(bool jobs_run) const;

 private:
  struct Live {
    store::RunningJob job;
    std::uint64_t bytes = 0;
  };
  // One session over its quota, or everybody when the disk is short.
  struct Pressure {
    std::optional<core::Owner> owner;
    const char* why = "";
    std::uint64_t live = 0;   // bytes of running jobs
    std::uint64_t asked = 0;  // given back by running jobs before long
    std::uint64_t given = 0;  // given back by finished ones, perhaps not free yet
    std::optional<supervise::DiskSpace> space{};  // when this began
  };

  Result<std::vector<Live>> measure(const std::optional<core::Owner>& owner);
  Result<bool> pressed(Pressure& pressure);
  Result<bool> make_room(Pressure& pressure, const std::vector<Live>& live);
  Result<void> relieve(Pressure& pressure, std::vector<Live> live);
  Result<void> expire_some(Pressure& pressure);
  Result<void> shorten_some(Pressure& pressure);
  Result<void> ask_running(Pressure& pressure, std::vector<Live>& live);
  // Where a test may cut it off.
  struct Cut {
    CrashPoint before;
    CrashPoint after;
  };
  Result<void> in_transaction(const std::function<Result<void>()>& change, Cut cut);
  std::string refusal(const core::Owner& owner, std::uint64_t used) const;

  const Parts& parts_;
  std::function<void(const Error&)> uncertain_;
  MonoTime last_{};
  MonoTime due_{};
  bool asked_ = false;
  std::string trouble_;  // of the last check
  bool more_ = false;    // there was more to do than fits into one transaction
};

}  // namespace waybill::engine
