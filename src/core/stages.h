#pragma once
// What the shell's hook wrote down, and what may be claimed of it (I9; docs/truth.md is the rule).
// Pure.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/exit.h"

namespace waybill::core {

// ---- what can be watched -----------------------------------------------------------------------

enum class Shell { other, bash, zsh };

// By the name it is called by: bash, zsh, and both with a version (zsh-5.9). Called sh, ksh, rbash
// or rzsh they read no start file, or may not write.
Shell shell_of(std::string_view path);

// The text does nothing that would show the hook: `set -v` echoes it, `set -r` forbids what it
// does, BASH_XTRACEFD leads its trace elsewhere, PS4 is expanded for it, BASH_COMMAND names it in
// an EXIT trap, a DEBUG trap runs for it.
bool may_watch(Shell shell, std::string_view command);

// Earlier pipelines are watched, too. zsh gives `$pipestatus` away in a DEBUG trap.
bool may_keep_history(Shell shell, std::string_view command);

// ---- what was written --------------------------------------------------------------------------

// The hook's last line: the shell's exit code and PIPESTATUS.
struct StageRecord {
  int shell_code = 0;
  std::vector<int> statuses;
};

// Text of the last line of the hook's file: "<rc> <status>…\n", numbers of 0 to 255, at most 4096
// statuses. nullopt when it does not parse, also when its newline is missing (a torn write).
std::optional<StageRecord> parse_stage_record(const std::string& file);

// The lines before it: pipelines of two or more stages of which one did not end with 0.
//   h N STATUS…   seen before the N-th command of the main shell; the same statuses again and again
//                 are written once
//   h truncated   from here on nobody watched
//   e N           the N-th was the hook's own: what it saw is the last pipeline, not an earlier one
// Lines that do not parse are left out.
struct StageHistory {
  bool truncated = false;
  std::vector<std::vector<int>> pipelines;
};
StageHistory parse_stage_history(const std::string& file);

// ---- what is claimed ---------------------------------------------------------------------------

struct StageEvidence {
  std::optional<StageRecord> record;
  StageHistory history;
  bool captured = false;       // a hook was installed for this command
  Shell shell = Shell::other;  // that ran it
};

// Claims stages, or says why not (SUPERVISION 2.2, 2.4). `command`: the shell text; empty for a job
// without a shell. Texts of stages are one line of at most 200 characters, and only there when the
// tokenizer is sure; without a text exit 1 of a predicate cannot be excused and counts as failed.
// An earlier pipeline is claimed only when it is sure to have failed unseen.
Stages claim_stages(const std::string& command, const Exit& exit, const StageEvidence& evidence);

}  // namespace waybill::core
