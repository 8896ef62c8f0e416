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

// Failed by itself or by its reader.
bool counts_as_failed(const Stage& stage);

// What is found about a pipeline that ended before the last one did (docs/truth.md).
enum class EarlierFinding {
  failed,   // a stage before the last failed, and nothing in the command looks at that
  tested,   // the command looks at how it ended: `!`, `||`, `&&` with a status, PIPESTATUS
  excused,  // nothing that a pipeline hides: SIGPIPE, no match, or only the last stage failed
  unsure,   // the tokenizer cannot tell which pipeline this was
};
WAYBILL_WORDS(EarlierFinding, 4, "failed", "tested", "excused", "unsure");

struct EarlierPipeline {
  std::vector<int> statuses;
  EarlierFinding finding = EarlierFinding::unsure;
};

struct Stages {
  std::vector<Stage> claimed;          // empty: not claimed, see reason
  std::optional<StagesReason> reason;  // set exactly when nothing is claimed
  // What is claimed is an earlier pipeline that failed: the last of those that did.
  bool claims_earlier = false;
  bool history_kept = false;             // the shell was watched for earlier pipelines
  bool history_truncated = false;        // but not to its end
  std::vector<EarlierPipeline> earlier;  // those with a status other than 0, in order
};

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
