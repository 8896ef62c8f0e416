#pragma once
// What the daemon writes before a spawn: the launch file, the private environment and, for bash
// commands that may hold a pipeline, the hook that records the stages. All are projections of the
// launch row; none needs to be durable. Pure but for `write_launch_files`.

#include <string>
#include <string_view>
#include <vector>

#include "supervise/channel.h"
#include "supervise/job_dir.h"

namespace waybill::supervise {

// The command is longer than an argument can be: the shell reads it from the file `command`.
bool needs_command_file(const LaunchOrder& order);

// A stage hook is installed: the shell is bash, will read BASH_ENV, and there may be a pipeline.
bool captures_stages(const LaunchOrder& order);

// Text of hook.bash. `user_bash_env`: the value that the job's environment had, or null.
std::string hook_text(const std::string& stages_path, const std::string* user_bash_env);

// A value for BASH_ENV that names `path` literally: bash expands it as if in double quotes.
std::string bash_env_for(std::string_view path);

// 'text' as one word of a POSIX shell, whatever bytes it holds.
std::string shell_quote(std::string_view text);

struct LaunchFiles {
  std::string launch;
  std::string env;
  std::string hook;  // empty: none
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
