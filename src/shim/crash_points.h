#pragma once
// Points at which a test may have the supervisor killed: the `crash_point` field of the launch file
// names one, or "pause:" and one, at which it stops until it is continued. It is empty unless the
// daemon runs under WAYBILL_CRASH_SHIM; a job cannot set it.

#include <csignal>

#include <string_view>

namespace waybill::shim {

inline constexpr std::string_view kCrashPoints[] = {
    "shim.after_lock",         // alive, nothing written
    "shim.before_start",       // the child waits at the gate, no start record
    "shim.after_start_tmp",    // the start record is written but not renamed
    "shim.after_start",        // the start record is durable, the gate is shut
    "shim.after_gate",         // the gate is open
    "shim.main_exited",        // the main process has ended, nothing recorded
    "shim.after_exit_tmp",     // the exit record is written but not renamed
    "shim.after_exit_rename",  // the exit record is there
    "shim.input_closed",       // the wish to close the input was seen and done
    "shim.draining",           // leftovers are there, output is still read
    "shim.after_final_tmp",    // the final record is written but not renamed
    "shim.after_final",        // the final record is durable
    "shim.leftovers_term",     // the leftovers were asked, none was killed
    "shim.after_leftovers",    // the record of the leftovers is durable
    "shim.stop_term",          // a stop was seen, no signal was sent
    "shim.stop_kill",          // the grace is over, nothing was killed
    "shim.stop_killed",        // all that was found was killed, nothing is confirmed
};

// Not a death: the output is kept as on a file system that has no holes.
inline constexpr std::string_view kNoHoles = "shim.no_holes";
inline constexpr std::string_view kPause = "pause:";

// `wanted` comes from the launch file.
inline void crash_here(std::string_view wanted, std::string_view point) {
  if (wanted.empty() || !wanted.ends_with(point)) return;
  wanted.remove_suffix(point.size());
  if (wanted.empty()) static_cast<void>(std::raise(SIGKILL));
  if (wanted == kPause) static_cast<void>(std::raise(SIGSTOP));
}

}  // namespace waybill::shim
