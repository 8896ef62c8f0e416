#include "core/stages.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include "core/one_line.h"
#include "core/pipeline.h"

namespace waybill::core {
namespace {

constexpr int kSigpipeCode = 128 + 13;
constexpr std::size_t kStatusesMax = 4096;
constexpr std::size_t kHistoryMax = 256;    // pipelines
constexpr std::size_t kStageTextMax = 200;  // characters

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

// Some program of the command answers with 1, as far as one can see.
bool holds_predicate(std::string_view command) {
  constexpr std::string_view kBetween = " \t\n;&|(){}<>'\"`$";
  while (!command.empty()) {
    const std::size_t end = std::min(command.find_first_of(kBetween), command.size());
    if (end > 0 && is_predicate(command.substr(0, end))) return true;
    command.remove_prefix(std::min(end + 1, command.size()));
  }
  return false;
}

// A `(` that begins a subshell, quotes not looked at: not `$(`, `<(`, `>(`, `((` nor `f()`.
bool opens_subshell(std::string_view command) {
  for (std::size_t at = command.find('('); at != std::string_view::npos;
       at = command.find('(', at + 1)) {
    const char before = at == 0 ? ' ' : command[at - 1];
    const char after = at + 1 < command.size() ? command[at + 1] : ' ';
    if (after == ')' || after == '(' || before == '(') continue;
    if (is_space(before) || std::string_view(";&|{!").find(before) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

// One stage for each status, findings from the last to the first. `texts`: empty if not known.
std::vector<Stage> claim(const std::vector<int>& statuses, const std::vector<std::string>& texts,
                         bool negated, bool may_answer = false) {
  const std::size_t count = statuses.size();
  std::vector<Stage> stages(count);
  for (std::size_t i = count; i-- > 0;) {
    const int code = statuses[i];
    const std::string text = texts.empty() ? std::string() : texts[i];
    stages[i].command = one_line(text, kStageTextMax);
    stages[i].exit = Exit::exited(code);
    stages[i].finding = i + 1 == count ? last_finding(code, text, negated)
                                       : finding(code, text, stages[i + 1].finding);
    // Which stage this is cannot be told, and some program of the command answers with 1.
    if (texts.empty() && may_answer && code == 1 && i + 1 < count) {
      stages[i].finding = StageFinding::no_match;
    }
  }
  return stages;
}

// ---- the hook's file ---------------------------------------------------------------------------

// Blank-separated numbers of 0 to 255; nullopt when one is not.
std::optional<std::vector<int>> parse_statuses(std::string_view line) {
  std::vector<int> statuses;
  while (true) {
    const std::size_t blank = std::min(line.find(' '), line.size());
    const auto status = parse_status(line.substr(0, blank));
    if (!status || statuses.size() > kStatusesMax) return std::nullopt;
    statuses.push_back(*status);
    if (blank == line.size()) return statuses;
    line.remove_prefix(blank + 1);
  }
}

struct Seen {
  std::string_view before;  // number of the command, as written
  std::vector<int> statuses;
};

std::optional<Seen> parse_seen(std::string_view line) {
  const std::size_t blank = line.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  auto statuses = parse_statuses(line.substr(blank + 1));
  if (!statuses || statuses->size() < 2) return std::nullopt;
  return Seen{line.substr(0, blank), std::move(*statuses)};
}

// ---- earlier pipelines -------------------------------------------------------------------------

// A stage before the last failed.
bool hides_failure(const std::vector<Stage>& stages) {
  return std::any_of(stages.begin(), stages.end() - 1,
                     [](const Stage& stage) { return stage.finding == StageFinding::failed; });
}

// What follows if pipeline `shape` is the one that ended with these statuses.
EarlierFinding judge_earlier(const PipelineShape& shape, const std::vector<Stage>& stages,
                             bool statuses_read) {
  if (!hides_failure(stages)) return EarlierFinding::excused;
  const bool said_no = stages.back().exit.code != 0;
  if (shape.negated || shape.or_follows || statuses_read) return EarlierFinding::tested;
  // `a | b && c` with b failed: a test that said no. With b well, c relies on what a hid.
  return said_no && shape.and_follows ? EarlierFinding::tested : EarlierFinding::failed;
}

struct Judged {
  EarlierFinding finding = EarlierFinding::unsure;
  std::vector<Stage> stages;  // failed: to be claimed
};

// Every pipeline that can have been the one must lead to the same finding.
Judged judge_earlier(const CommandShape& shape, const std::vector<int>& statuses, bool may_answer) {
  Judged judged;
  // A text can only excuse more.
  if (!hides_failure(claim(statuses, {}, false, may_answer))) {
    judged.finding = EarlierFinding::excused;
    return judged;
  }
  if (!shape.understood || shape.hides_pipelines) return judged;
  std::size_t candidates = 0;
  for (const PipelineShape& one : shape.pipelines) {
    if (one.stages.size() != statuses.size()) continue;
    if (one.is_last && shape.may_set_traps) return {};  // seen by the trap's own commands
    if (one.is_last) continue;
    std::vector<Stage> stages = claim(statuses, one.stages, false);
    const EarlierFinding finding = judge_earlier(one, stages, shape.reads_statuses);
    if (candidates++ == 0) {
      judged = {finding, std::move(stages)};
      continue;
    }
    if (finding != judged.finding) return {};
    for (Stage& stage : judged.stages) stage.command.clear();
  }
  return judged;
}

void add_history(Stages& stages, const std::string& command, const CommandShape& shape,
                 const StageHistory& history) {
  // Then the shell sees the failure as that of any single command: nothing hides it.
  const bool shown = holds_word(command, "pipefail");
  const bool may_answer = !shape.understood && holds_predicate(command);
  stages.history_kept = true;
  // bash tells nobody of the moment before `( … )`.
  stages.history_truncated = history.truncated || opens_subshell(command);
  std::vector<Stage> worst;
  for (const std::vector<int>& statuses : history.pipelines) {
    Judged judged = judge_earlier(shape, statuses, may_answer);
    if (shown && judged.finding == EarlierFinding::failed) judged.finding = EarlierFinding::tested;
    stages.earlier.push_back({statuses, judged.finding});
    if (judged.finding == EarlierFinding::failed) worst = std::move(judged.stages);
  }
  const bool last_failed =
      std::any_of(stages.claimed.begin(), stages.claimed.end(), counts_as_failed);
  if (worst.empty() || last_failed) return;
  stages.claimed = std::move(worst);
  stages.reason.reset();
  stages.claims_earlier = true;
}

// The shell ended with 0 although this pipeline did not: in a command that is not read to the end
// it was a condition or stood behind `!`. Nothing of it was hidden.
bool was_seen(const std::string& command, const CommandShape& shape, bool named, const Exit& exit,
              const std::vector<int>& statuses) {
  if (!exit.success()) return false;
  const bool all_well = std::ranges::all_of(statuses, [](int status) { return status == 0; });
  if (!all_well && holds_word(command, "pipefail")) return true;
  return statuses.back() != 0 && !(shape.understood && named);
}

Stages claim_last(const std::string& command, const Exit& exit, const CommandShape& shape,
                  const std::optional<StageRecord>& record) {
  if (!record) return none(why_no_record(shape, command, exit));
  const std::size_t count = record->statuses.size();
  if (count < 2) return none(StagesReason::not_last);
  const bool named = names(shape, exit, count);
  if (was_seen(command, shape, named, exit, record->statuses)) return none(StagesReason::not_last);
  const bool negated = named && shape.negated && exit.success();
  Stages stages;
  stages.claimed = claim(record->statuses, named ? shape.stages : std::vector<std::string>{},
                         negated, holds_predicate(command));
  return stages;
}

// ---- what can be watched -----------------------------------------------------------------------

// The next blank-separated word of `rest`, taken off it; "" at the end of the command.
std::string_view take_word(std::string_view& rest) {
  const std::size_t begin = rest.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  const std::size_t end = std::min(rest.find_first_of(" \t\n;&|", begin), rest.size());
  const std::string_view word = rest.substr(begin, end - begin);
  rest.remove_prefix(end);
  return word;
}

// `set -v`, `set -eo verbose`, `shopt -so verbose`, and the same of `restricted`, wherever it
// stands: quotes are not looked at.
bool sets_what_shows(std::string_view command) {
  for (const std::string_view name : {"set", "shopt"}) {
    std::string_view text = command;
    for (std::size_t at = find_word(text, name); at != std::string_view::npos;) {
      text.remove_prefix(at + name.size());
      std::string_view rest = text;
      for (std::string_view word = take_word(rest); word.starts_with('-') && word != "--";
           word = take_word(rest)) {
        if (word.find_first_of("vr") != std::string_view::npos) return true;
        if (word.back() != 'o') continue;
        word = take_word(rest);
        if (word == "verbose" || word == "restricted") return true;
      }
      at = find_word(text, name);
    }
  }
  return false;
}

bool holds(std::string_view text, std::string_view what) {
  return text.find(what) != std::string_view::npos;
}

// A `&` that puts something into the background, quotes not looked at. A DEBUG trap makes bash
// lose the statuses of background pipelines now and then (seen with 5.2).
bool may_run_in_background(std::string_view command) {
  if (holds_word(command, "coproc")) return true;
  for (std::size_t at = command.find('&'); at != std::string_view::npos;
       at = command.find('&', at + 1)) {
    const char before = at == 0 ? ' ' : command[at - 1];
    const char after = at + 1 < command.size() ? command[at + 1] : ' ';
    const bool other = before == '&' || before == '>' || before == '<' || before == '|' ||
                       after == '&' || after == '>';
    if (!other) return true;
  }
  return false;
}

// With an EXIT trap, a variable that is not set ends a stage with another code. Under pipefail that
// is the shell's own, and nothing is hidden there that would be worth it.
bool ends_on_unset(std::string_view command) {
  const bool unset = holds(command, "set -eu") || holds(command, "set -ue") ||
                     holds(command, "nounset") || holds_word(command, "-u");
  return unset && holds_word(command, "pipefail");
}

}  // namespace

Shell shell_of(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dash = name.find('-');
  if (dash != std::string_view::npos && dash + 1 < name.size() && name[dash + 1] >= '0' &&
      name[dash + 1] <= '9') {
    name = name.substr(0, dash);
  }
  if (name == "bash") return Shell::bash;
  return name == "zsh" ? Shell::zsh : Shell::other;
}

bool may_watch(Shell shell, std::string_view command) {
  if (shell == Shell::other || !may_hold_pipeline(command)) return false;
  if (shell == Shell::zsh) return true;
  return !holds(command, "BASH_XTRACEFD") && !holds(command, "PS4") &&
         !holds(command, "BASH_COMMAND") && !holds(command, "DEBUG") &&
         !holds_word(command, "ulimit") && !ends_on_unset(command) && !sets_what_shows(command);
}

bool may_keep_history(Shell shell, std::string_view command) {
  return shell == Shell::bash && may_watch(shell, command) && !may_run_in_background(command);
}

std::optional<StageRecord> parse_stage_record(const std::string& file) {
  if (file.empty() || file.back() != '\n') return std::nullopt;
  std::string_view line(file);
  line.remove_suffix(1);
  if (const auto newline = line.rfind('\n'); newline != std::string_view::npos)
    line.remove_prefix(newline + 1);
  auto statuses = parse_statuses(line);
  if (!statuses) return std::nullopt;
  StageRecord record;
  record.shell_code = statuses->front();
  record.statuses.assign(statuses->begin() + 1, statuses->end());
  return record;
}

StageHistory parse_stage_history(const std::string& file) {
  StageHistory history;
  std::vector<Seen> seen;
  std::string_view own;
  std::string_view rest(file);
  while (true) {
    const std::size_t newline = rest.find('\n');
    if (newline == std::string_view::npos) break;
    const std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline + 1);
    if (line == "h truncated") history.truncated = true;
    if (line.starts_with("e ")) own = line.substr(2);
    if (!line.starts_with("h ") || seen.size() == kHistoryMax) continue;
    if (auto one = parse_seen(line.substr(2))) seen.push_back(std::move(*one));
  }
  for (Seen& one : seen) {
    if (one.before != own) history.pipelines.push_back(std::move(one.statuses));
  }
  return history;
}

Stages claim_stages(const std::string& command, const Exit& exit, const StageEvidence& evidence) {
  if (!may_hold_pipeline(command)) return none(StagesReason::single);
  const CommandShape shape = shape_of(command);
  const std::optional<StageRecord>& record = evidence.record;
  const std::size_t count = record ? record->statuses.size() : 0;
  if (shape.understood && !shape.holds_pipeline && count < 2) return none(StagesReason::single);
  if (!evidence.captured || evidence.shell == Shell::other)
    return none(StagesReason::shell_unsupported);
  if (exit.kind == ExitKind::unknown) return none(StagesReason::lost);
  if (exit.kind == ExitKind::not_started) return none(StagesReason::not_last);
  const bool agrees = !record || exit.kind == ExitKind::signaled || exit.code == record->shell_code;
  if (!agrees) return none(StagesReason::mismatch);
  Stages stages = claim_last(command, exit, shape, record);
  if (exit.kind == ExitKind::exited && may_keep_history(evidence.shell, command))
    add_history(stages, command, shape, evidence.history);
  return stages;
}

}  // namespace waybill::core
