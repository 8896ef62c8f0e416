#pragma once
// What the daemon writes before a spawn: the launch file, the private environment and, where stages
// are captured, the hook that records them. All are projections of the launch row; none needs to be
// durable. Pure but for `write_launch_files`.

#include <string>
#include <string_view>
#include <vector>

#include "supervise/channel.h"
#include "supervise/job_dir.h"
#include "supervise/stage_hook.h"

namespace waybill::supervise {

// The command is longer than an argument can be: the shell reads it from the file `command`.
bool needs_command_file(const LaunchOrder& order);

struct LaunchFiles {
  std::string launch;
  std::string env;
  StageHook hook;
};

LaunchFiles make_launch_files(const LaunchOrder& order, const std::string& job_dir_path);

struct LaunchFailure {
  std::string what;  // "" means success
  int error = 0;
  std::string step = "launch";
};

// Refuses what no file can carry (NUL bytes, relative paths).
LaunchFailure check_order(const LaunchOrder& order);

LaunchFailure write_launch_files(const LaunchOrder& order, const JobDir& dir);

}  // namespace waybill::supervise
