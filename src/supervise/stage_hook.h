#pragma once
// The hook that makes a shell record how the stages of its pipelines ended. The command itself is
// passed to the shell unchanged, and what it does, prints and sees stays what it was; docs/truth.md
// lists the exceptions. Pure but for `captured_shell`, which looks at zsh's global start file.

#include <string>
#include <string_view>
#include <vector>

#include "core/stages.h"
#include "supervise/channel.h"

namespace waybill::supervise {

// The shell that gets a hook: it will read one, there may be a pipeline, and nothing would show the
// hook. `other`: none.
core::Shell captured_shell(const LaunchOrder& order);

struct StageHook {
  const char* file = nullptr;  // its name in the job directory; null: none
  std::string text;
};

// The hook for this order. `env` becomes one that makes the shell read it; the hook puts back what
// was there before the command runs.
StageHook make_stage_hook(const LaunchOrder& order, const std::string& job_dir_path,
                          std::vector<std::string>& env);

// A value for BASH_ENV that names `path` literally: bash expands it as if in double quotes.
std::string bash_env_for(std::string_view path);

// 'text' as one word of a POSIX shell, whatever bytes it holds.
std::string shell_quote(std::string_view text);

// Whether this text of /etc/zshenv leaves ZDOTDIR and the reading of start files alone.
bool leaves_start_files_alone(std::string_view global_zshenv);

}  // namespace waybill::supervise
