#pragma once
// Exit is data (SPEC section 4, I9). Unknown is a value: its code is null, never 0 and never -1.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/words.h"

namespace waybill::core {

enum class ExitKind { exited, signaled, not_started, unknown };
WAYBILL_WORDS(ExitKind, 4, "exited", "signaled", "not_started", "unknown");

struct Exit {
  ExitKind kind = ExitKind::unknown;
  std::optional<int> code;    // exited: the code as waitid saw it
  std::optional<int> signal;  // signaled: the signal's number
  bool core = false;          // signaled: a core was dumped
  std::string step;           // not_started: chdir, exec, shell, launch_file …
  std::optional<int> error;   // not_started: errno
  std::string reason;         // not_started and unknown: why, in words

  static Exit exited(int code);
  static Exit signaled(int signal, bool core);
  static Exit not_started(std::string step, int error, std::string reason);
  static Exit unknown(std::string reason);

  bool success() const { return kind == ExitKind::exited && code == 0; }
};

enum class Verdict { ok, failed, stage_failed, signaled, unknown, not_started };
WAYBILL_WORDS(Verdict, 6, "ok", "failed", "stage_failed", "signaled", "unknown", "not_started");

// What is found about one stage of a pipeline.
enum class StageFinding { ok, failed, closed_early, collateral, no_match };
WAYBILL_WORDS(StageFinding, 5, "ok", "failed", "closed_early", "collateral", "no_match");

// Why no stages are claimed.
enum class StagesReason {
  single,    // the command is not a pipeline
  not_last,  // the pipeline was not the last foreground one, or ran inside a function or subshell
  exec,      // the shell replaced itself
  user_exit_trap,     // the command set its own EXIT trap
  killed,             // the shell was killed before it could write
  shell_unsupported,  // this shell is not captured
  mismatch,           // the record does not agree with what waitid saw
  lost,               // the supervisor was lost
};
WAYBILL_WORDS(StagesReason, 8, "single", "not_last", "exec", "user_exit_trap", "killed",
              "shell_unsupported", "mismatch", "lost");

struct Stage {
  std::string command;  // text of the stage, empty when the tokenizer cannot tell
  Exit exit;            // a shell's 128+n stays `code`
  StageFinding finding = StageFinding::ok;
};

struct Stages {
  std::vector<Stage> claimed;          // empty: not claimed, see reason
  std::optional<StagesReason> reason;  // set exactly when nothing is claimed
};

// The record that the shell hook wrote: its own exit code and PIPESTATUS.
struct StageRecord {
  int shell_code = 0;
  std::vector<int> statuses;
};

// Text of the last line of the hook's file: "<rc> <status>…\n", numbers of 0 to 255, at most 4096
// statuses. nullopt when it does not parse, also when its newline is missing (a torn write).
std::optional<StageRecord> parse_stage_record(const std::string& file);

// Claims stages, or says why not (SUPERVISION 2.2, 2.4).
//   `captured`: a hook was installed for this command.   `shell_captures`: this shell can be
//   captured.   `command`: the shell text; empty for a job without a shell.
// Texts of stages are one line of at most 200 characters, and only there when the tokenizer is
// sure; without a text exit 1 of a predicate cannot be excused and counts as failed.
Stages claim_stages(const std::string& command, const Exit& exit,
                    const std::optional<StageRecord>& record, bool captured, bool shell_captures);

// Never better than what was observed: an exit without a code is `unknown`.
Verdict judge(const Exit& exit, const Stages& stages);

// One sentence of one line for people and models: "exit 0, but stage 1 of 2 (cargo test) exited
// 101". At most some 1,500 bytes: of many stages the first five are told, the others counted.
std::string describe(const Exit& exit, const Stages& stages, Verdict verdict);

// The same for stage `index` (from 0): "stage 1 of 2 (cargo test): exit 101". Notes what is only
// likely: a reader that stops early may have ended it, a child was probably killed.
std::string describe_stage(const Stages& stages, std::size_t index);

// "SIGKILL" for 9, by Linux' numbers; "" for a number without a name.
std::string_view signal_name(int signal);

// 128+n for a signal, 125 unknown, 126 not started, 119 for stage_failed with shell exit 0 (SPEC
// 15).
int exit_code_of(const Exit& exit, Verdict verdict);

}  // namespace waybill::core
