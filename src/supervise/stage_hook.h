#pragma once
// The hook that makes a shell record how the stages of its last pipeline ended. The command itself
// is passed to the shell unchanged. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "supervise/channel.h"

namespace waybill::supervise {

// A stage hook is installed: the shell is bash, will read BASH_ENV, and there may be a pipeline.
bool captures_stages(const LaunchOrder& order);

// Makes the shell that gets `env` read the hook of this job; the text of hook.bash.
std::string install_hook(const std::string& job_dir_path, std::vector<std::string>& env);

// Text of hook.bash. `user_bash_env`: the value that the job's environment had, or null.
std::string hook_text(const std::string& stages_path, const std::string* user_bash_env);

// A value for BASH_ENV that names `path` literally: bash expands it as if in double quotes.
std::string bash_env_for(std::string_view path);

// 'text' as one word of a POSIX shell, whatever bytes it holds.
std::string shell_quote(std::string_view text);

}  // namespace waybill::supervise
