#include "core/exit.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>
#include <utility>

#include "core/pipeline.h"

namespace waybill::core {
namespace {

constexpr int kSigpipeCode = 128 + 13;
constexpr std::size_t kStatusesMax = 4096;
constexpr std::size_t kStageTextMax = 200;   // characters
constexpr std::size_t kStageLabelMax = 60;   // characters, inside a sentence
constexpr std::size_t kReasonTextMax = 300;  // characters, inside a sentence
constexpr std::size_t kStagesTold = 5;

// Linux' numbers on x86-64 and arm64, 1 to 31.
constexpr std::array<std::string_view, 32> kSignalNames{
    "",          "SIGHUP",  "SIGINT",    "SIGQUIT", "SIGILL",   "SIGTRAP", "SIGABRT", "SIGBUS",
    "SIGFPE",    "SIGKILL", "SIGUSR1",   "SIGSEGV", "SIGUSR2",  "SIGPIPE", "SIGALRM", "SIGTERM",
    "SIGSTKFLT", "SIGCHLD", "SIGCONT",   "SIGSTOP", "SIGTSTP",  "SIGTTIN", "SIGTTOU", "SIGURG",
    "SIGXCPU",   "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO",   "SIGPWR",  "SIGSYS"};

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// One line: runs of white space are one blank, other control characters a question mark; cut at a
// character after `max` characters.
std::string one_line(std::string_view text, std::size_t max) {
  std::string line;
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool continues = (byte & 0xC0U) == 0x80U;
    if (is_space(text[i])) {
      if (line.empty() || line.back() == ' ') continue;
    }
    if (!continues && characters == max) {
      while (!line.empty() && line.back() == ' ') line.pop_back();
      return line + "…";
    }
    if (!continues) ++characters;
    if (is_space(text[i])) {
      line += ' ';
    } else if (byte < 0x20 || byte == 0x7F) {
      line += '?';
    } else {
      line += text[i];
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

std::optional<int> parse_status(std::string_view word) {
  int value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || word.empty()) return std::nullopt;
  if (value < 0 || value > 255) return std::nullopt;
  return value;
}

Stages none(StagesReason reason) {
  Stages stages;
  stages.reason = reason;
  return stages;
}

std::size_t find_word(std::string_view text, std::string_view word) {
  const auto outside = [](char c) {
    return is_space(c) || std::string_view(";&|(){}'\"").find(c) != std::string_view::npos;
  };
  for (std::size_t at = text.find(word); at != std::string_view::npos;
       at = text.find(word, at + 1)) {
    const bool starts = at == 0 || outside(text[at - 1]);
    const std::size_t end = at + word.size();
    if (starts && (end == text.size() || outside(text[end]))) return at;
  }
  return std::string_view::npos;
}

bool holds_word(std::string_view text, std::string_view word) {
  return find_word(text, word) != std::string_view::npos;
}

// The text sets an EXIT trap of its own, as far as one can see.
bool sets_exit_trap(std::string_view text) {
  if (holds_word(text, "TRAPEXIT")) return true;
  const std::size_t trap = find_word(text, "trap");
  if (trap == std::string_view::npos) return false;
  const std::string_view rest = text.substr(trap);
  for (const std::string_view name : {"EXIT", "exit", "SIGEXIT", "0"}) {
    if (holds_word(rest, name)) return true;
  }
  return false;
}

StagesReason why_no_record(const CommandShape& shape, const std::string& command,
                           const Exit& exit) {
  if (shape.replaces_shell) return StagesReason::exec;
  if (sets_exit_trap(command)) return StagesReason::user_exit_trap;
  if (exit.kind == ExitKind::signaled) return StagesReason::killed;
  return StagesReason::not_last;
}

StageFinding last_finding(int code, const std::string& text, bool negated) {
  if (code == 0) return StageFinding::ok;
  if (code == 1 && is_predicate(text)) return StageFinding::no_match;
  // `! a | b` asks for it; 126 and above are not answers.
  if (negated && code < 126) return StageFinding::no_match;
  return StageFinding::failed;
}

StageFinding finding(int code, const std::string& text, StageFinding next) {
  if (code == 0) return StageFinding::ok;
  if (code == 1 && is_predicate(text)) return StageFinding::no_match;
  if (code != kSigpipeCode) return StageFinding::failed;
  const bool to_blame = next == StageFinding::failed || next == StageFinding::collateral;
  return to_blame ? StageFinding::collateral : StageFinding::closed_early;
}

// Texts are known only when the tokenizer names one pipeline of as many stages, and the way the
// shell ended does not leave another one open.
bool names(const CommandShape& shape, const Exit& exit, std::size_t statuses) {
  if (shape.stages.size() != statuses) return false;
  if (exit.kind == ExitKind::signaled && shape.has_rival) return false;
  return !shape.after_success_only || exit.success();
}

// The record holds: one stage for each status, findings from the last to the first.
Stages claim(const CommandShape& shape, const Exit& exit, const StageRecord& record) {
  const std::size_t count = record.statuses.size();
  const bool named = names(shape, exit, count);
  Stages stages;
  stages.claimed.resize(count);
  for (std::size_t i = count; i-- > 0;) {
    const int code = record.statuses[i];
    const std::string text = named ? shape.stages[i] : std::string();
    Stage& stage = stages.claimed[i];
    stage.command = one_line(text, kStageTextMax);
    stage.exit = Exit::exited(code);
    stage.finding = i + 1 == count
                        ? last_finding(code, text, named && shape.negated && exit.success())
                        : finding(code, text, stages.claimed[i + 1].finding);
  }
  return stages;
}

bool counts_as_failed(const Stage& stage) {
  return stage.finding == StageFinding::failed || stage.finding == StageFinding::collateral;
}

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

// "stage 1 of 2 (cargo test) exited 101"
std::string stage_clause(const Stages& stages, std::size_t index) {
  const Stage& stage = stages.claimed[index];
  const int code = stage.exit.code.value_or(0);
  std::string clause = stage_title(stages, index);
  if (stage.finding == StageFinding::no_match)
    return clause + " found no match (exit " + std::to_string(code) + ")";
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

std::string describe_code(int code, const Stages& stages, Verdict verdict) {
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

std::string describe_not_started(const Exit& exit) {
  std::string text = "could not start";
  if (!exit.step.empty()) text += ": " + one_line(exit.step, kStageLabelMax);
  std::string reason = one_line(exit.reason, kReasonTextMax);
  if (reason.empty() && exit.error) reason = std::generic_category().message(*exit.error);
  return reason.empty() ? text : text + ": " + reason;
}

}  // namespace

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

std::optional<StageRecord> parse_stage_record(const std::string& file) {
  if (file.empty() || file.back() != '\n') return std::nullopt;
  std::string_view line(file);
  line.remove_suffix(1);
  if (const auto newline = line.rfind('\n'); newline != std::string_view::npos)
    line.remove_prefix(newline + 1);
  StageRecord record;
  bool first = true;
  while (true) {
    const std::size_t blank = std::min(line.find(' '), line.size());
    const auto status = parse_status(line.substr(0, blank));
    if (!status || record.statuses.size() == kStatusesMax) return std::nullopt;
    if (first) {
      record.shell_code = *status;
    } else {
      record.statuses.push_back(*status);
    }
    first = false;
    if (blank == line.size()) return record;
    line.remove_prefix(blank + 1);
  }
}

Stages claim_stages(const std::string& command, const Exit& exit,
                    const std::optional<StageRecord>& record, bool captured, bool shell_captures) {
  if (!may_hold_pipeline(command)) return none(StagesReason::single);
  const CommandShape shape = shape_of(command);
  const std::size_t count = record ? record->statuses.size() : 0;
  if (shape.understood && !shape.holds_pipeline && count < 2) return none(StagesReason::single);
  if (!captured || !shell_captures) return none(StagesReason::shell_unsupported);
  if (exit.kind == ExitKind::unknown) return none(StagesReason::lost);
  if (exit.kind == ExitKind::not_started) return none(StagesReason::not_last);
  if (!record) return none(why_no_record(shape, command, exit));
  const bool agrees = exit.kind == ExitKind::signaled || exit.code == record->shell_code;
  if (!agrees) return none(StagesReason::mismatch);
  if (count < 2) return none(StagesReason::not_last);
  return claim(shape, exit, *record);
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
      return text + " (an answer, not a failure)";
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
