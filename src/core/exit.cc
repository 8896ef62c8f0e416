#include "core/exit.h"

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "core/one_line.h"
#include "core/pipeline.h"

namespace waybill::core {
namespace {

constexpr std::size_t kStageLabelMax = 60;   // characters, inside a sentence
constexpr std::size_t kReasonTextMax = 300;  // characters, inside a sentence
constexpr std::size_t kStagesTold = 5;

// Linux' numbers on x86-64 and arm64, 1 to 31.
constexpr std::array<std::string_view, 32> kSignalNames{
    "",          "SIGHUP",  "SIGINT",    "SIGQUIT", "SIGILL",   "SIGTRAP", "SIGABRT", "SIGBUS",
    "SIGFPE",    "SIGKILL", "SIGUSR1",   "SIGSEGV", "SIGUSR2",  "SIGPIPE", "SIGALRM", "SIGTERM",
    "SIGSTKFLT", "SIGCHLD", "SIGCONT",   "SIGSTOP", "SIGTSTP",  "SIGTTIN", "SIGTTOU", "SIGURG",
    "SIGXCPU",   "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO",   "SIGPWR",  "SIGSYS"};

std::string signal_text(int signal) {
  const std::string_view name = signal_name(signal);
  return "signal " + std::to_string(signal) + (name.empty() ? "" : " (" + std::string(name) + ")");
}

// What a code above 128 usually means, "" when it means nothing special.
std::string code_hint(int code) {
  if (code == 126) return " (usually: found, but could not be executed)";
  if (code == 127) return " (usually: command not found)";
  if (code <= 128 || signal_name(code - 128).empty()) return "";
  return " (128+" + std::to_string(code - 128) + ": a child was probably killed by " +
         std::string(signal_name(code - 128)) + ")";
}

std::string stage_title(const Stages& stages, std::size_t index) {
  std::string title =
      "stage " + std::to_string(index + 1) + " of " + std::to_string(stages.claimed.size());
  const std::string label = one_line(stages.claimed[index].command, kStageLabelMax);
  if (!label.empty()) title += " (" + label + ")";
  return title;
}

bool reader_closes_early(const Stages& stages, std::size_t index) {
  return index + 1 < stages.claimed.size() && closes_early(stages.claimed[index + 1].command);
}

bool found_nothing(const Stage& stage) {
  return stage.exit.code == 1 && is_predicate(stage.command);
}

// What a status that counts as an answer is taken for.
std::string answer_text(const Stage& stage) {
  if (stage.command.empty()) return "not judged: it may be an answer";
  return found_nothing(stage) ? "an answer, not a failure" : "as asked for";
}

// "stage 1 of 2 (cargo test) exited 101"
std::string stage_clause(const Stages& stages, std::size_t index) {
  const Stage& stage = stages.claimed[index];
  const int code = stage.exit.code.value_or(0);
  std::string clause = stage_title(stages, index);
  if (stage.finding == StageFinding::no_match && found_nothing(stage))
    return clause + " found no match (exit 1)";
  if (stage.finding == StageFinding::no_match)
    return clause + " exited " + std::to_string(code) + " (" + answer_text(stage) + ")";
  clause += " exited " + std::to_string(code) + code_hint(code);
  if (reader_closes_early(stages, index)) clause += " (its reader may have ended first)";
  return clause;
}

std::string stage_clauses(const Stages& stages, bool (*wanted)(const Stage&)) {
  std::string text;
  std::size_t told = 0;
  std::size_t more = 0;
  for (std::size_t i = 0; i < stages.claimed.size(); ++i) {
    if (!wanted(stages.claimed[i])) continue;
    if (told == kStagesTold) {
      ++more;
      continue;
    }
    if (told++ > 0) text += " and ";
    text += stage_clause(stages, i);
  }
  if (more > 0) text += " and " + std::to_string(more) + " more";
  return text;
}

bool failed_itself(const Stage& stage) { return stage.finding == StageFinding::failed; }
bool found_no_match(const Stage& stage) { return stage.finding == StageFinding::no_match; }

// "; a pipeline ended with 101, 0 (not judged)": what was seen, and nobody can tell what of.
std::string unsure_clause(const Stages& stages) {
  const auto unsure = std::find_if(
      stages.earlier.begin(), stages.earlier.end(),
      [](const EarlierPipeline& one) { return one.finding == EarlierFinding::unsure; });
  if (unsure == stages.earlier.end()) return "";
  std::string text = "; a pipeline ended with ";
  for (std::size_t i = 0; i < unsure->statuses.size(); ++i) {
    if (i == kStagesTold) {
      text += " …";
      break;
    }
    text += (i > 0 ? ", " : "") + std::to_string(unsure->statuses[i]);
  }
  return text + " (not judged)";
}

std::string describe_stages(int code, const Stages& stages, Verdict verdict) {
  std::string text = "exit " + std::to_string(code);
  if (verdict == Verdict::stage_failed)
    return text + ", but " + stage_clauses(stages, failed_itself);
  text += code_hint(code);
  // A failed last stage is the exit code itself: only earlier ones add something.
  const bool earlier_failed = std::any_of(
      stages.claimed.begin(),
      stages.claimed.empty() ? stages.claimed.end() : stages.claimed.end() - 1, failed_itself);
  if (earlier_failed) return text + "; " + stage_clauses(stages, failed_itself);
  const std::string no_match = stage_clauses(stages, found_no_match);
  return no_match.empty() ? text : text + "; " + no_match;
}

std::string describe_code(int code, const Stages& stages, Verdict verdict) {
  return describe_stages(code, stages, verdict) + unsure_clause(stages);
}

std::string describe_not_started(const Exit& exit) {
  std::string text = "could not start";
  if (!exit.step.empty()) text += ": " + one_line(exit.step, kStageLabelMax);
  std::string reason = one_line(exit.reason, kReasonTextMax);
  if (reason.empty() && exit.error) reason = std::generic_category().message(*exit.error);
  return reason.empty() ? text : text + ": " + reason;
}

}  // namespace

bool counts_as_failed(const Stage& stage) {
  return stage.finding == StageFinding::failed || stage.finding == StageFinding::collateral;
}

Exit Exit::exited(int code) {
  Exit exit;
  exit.kind = ExitKind::exited;
  exit.code = code;
  return exit;
}

Exit Exit::signaled(int signal, bool core) {
  Exit exit;
  exit.kind = ExitKind::signaled;
  exit.signal = signal;
  exit.core = core;
  return exit;
}

Exit Exit::not_started(std::string step, int error, std::string reason) {
  Exit exit;
  exit.kind = ExitKind::not_started;
  exit.step = std::move(step);
  if (error != 0) exit.error = error;
  exit.reason = std::move(reason);
  return exit;
}

Exit Exit::unknown(std::string reason) {
  Exit exit;
  exit.reason = std::move(reason);
  return exit;
}

Verdict judge(const Exit& exit, const Stages& stages) {
  switch (exit.kind) {
    case ExitKind::unknown:
      return Verdict::unknown;
    case ExitKind::not_started:
      return Verdict::not_started;
    case ExitKind::signaled:
      return Verdict::signaled;
    case ExitKind::exited:
      break;
  }
  if (!exit.code) return Verdict::unknown;
  if (*exit.code != 0) return Verdict::failed;
  const bool stage_failed =
      std::any_of(stages.claimed.begin(), stages.claimed.end(), counts_as_failed);
  return stage_failed ? Verdict::stage_failed : Verdict::ok;
}

std::string describe(const Exit& exit, const Stages& stages, Verdict verdict) {
  switch (exit.kind) {
    case ExitKind::exited:
      if (exit.code == 0 && verdict == Verdict::unknown) {
        return "exit 0, but its supervisor was lost and nobody waited for it";
      }
      if (exit.code) return describe_code(*exit.code, stages, verdict);
      return "exit unknown: no code was recorded";
    case ExitKind::signaled:
      if (!exit.signal) return "killed by a signal";
      return "killed by " + signal_text(*exit.signal) + (exit.core ? ", core dumped" : "");
    case ExitKind::not_started:
      return describe_not_started(exit);
    case ExitKind::unknown:
      break;
  }
  const std::string reason = one_line(exit.reason, kReasonTextMax);
  return reason.empty() ? "exit unknown" : "exit unknown: " + reason;
}

std::string describe_stage(const Stages& stages, std::size_t index) {
  if (index >= stages.claimed.size()) return {};
  const Stage& stage = stages.claimed[index];
  const int code = stage.exit.code.value_or(0);
  std::string text = stage_title(stages, index) + ": exit " + std::to_string(code);
  switch (stage.finding) {
    case StageFinding::ok:
      return reader_closes_early(stages, index) ? text + " (may have been cut short)" : text;
    case StageFinding::closed_early:
      return text + " (its reader ended first; not a failure)";
    case StageFinding::collateral:
      return text + " (its reader failed)";
    case StageFinding::no_match:
      return text + " (" + answer_text(stage) + ")";
    case StageFinding::failed:
      break;
  }
  text += code_hint(code);
  return reader_closes_early(stages, index) ? text + " (its reader may have ended first)" : text;
}

std::string_view signal_name(int signal) {
  if (signal < 1 || static_cast<std::size_t>(signal) >= kSignalNames.size()) return {};
  return kSignalNames[static_cast<std::size_t>(signal)];
}

int exit_code_of(const Exit& exit, Verdict verdict) {
  switch (exit.kind) {
    case ExitKind::exited:
      if (!exit.code) return 125;
      if (*exit.code != 0) return *exit.code;
      if (verdict == Verdict::stage_failed) return 119;
      return verdict == Verdict::unknown ? 125 : 0;  // nobody waited for it
    case ExitKind::signaled:
      return exit.signal ? 128 + *exit.signal : 125;
    case ExitKind::not_started:
      return 126;
    case ExitKind::unknown:
      break;
  }
  return 125;
}

}  // namespace waybill::core
