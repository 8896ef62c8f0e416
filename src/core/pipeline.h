#pragma once
// A conservative look at shell text (bash and zsh): does it hold a pipe, and what are the stages of
// its last pipeline? When in doubt it says "cannot tell"; nothing here ever changes what is run.
//
// Pure functions, linear in the length of the text, nesting bounded at 64.

#include <string>
#include <string_view>
#include <vector>

namespace waybill::core {

// True when the text holds a `|` that is not part of `||`: a superset, quotes are ignored on
// purpose.
bool may_hold_pipeline(std::string_view command);

// A foreground pipeline of two or more stages at the top level.
struct PipelineShape {
  std::vector<std::string> stages;  // trimmed
  bool negated = false;             // behind `!`
  bool and_follows = false;         // the next thing is `&&`
  bool or_follows = false;          // a `||` stands behind it in its list
  bool is_last = false;             // no other foreground command stands behind it
};

// What the tokenizer makes of a whole command. It gives up (`understood` false) on here-documents,
// functions, arrays, control structures (if, for, while, case …) and on anything unbalanced.
struct CommandShape {
  bool understood = false;
  bool holds_pipeline = false;  // one of two or more stages stands unquoted, or may be read in
  bool replaces_shell = false;  // `exec program` as a command of the main shell
  bool negated = false;         // the last pipeline stands behind `!`
  // The stages are those of the last pipeline only if the shell ended with 0: an earlier pipeline
  // of as many stages stands before it in the same `&&` chain.
  bool after_success_only = false;
  // Another pipeline of as many stages stands before it: a shell that a signal ended may have
  // written down that one.
  bool has_rival = false;
  // Stages of the last top-level foreground pipeline of two or more, trimmed; empty when there is
  // none, or when another pipeline of as many stages could have been the last one that ran.
  std::vector<std::string> stages;
  std::vector<PipelineShape> pipelines;  // all of them, in order
  bool hides_pipelines = false;  // the main shell may run others: a group, eval, a trap's action
  bool may_set_traps = false;    // whose actions would run behind the last pipeline
  bool reads_statuses = false;   // PIPESTATUS is read by more than echo and printf
};
CommandShape shape_of(std::string_view command);

// The stages of the last top-level pipeline, trimmed; empty when the tokenizer is not sure.
std::vector<std::string> last_pipeline(std::string_view command);

// The first word of a stage without its folder, past assignments, redirections and plain uses of
// command, builtin, exec, env, nice, nohup, time, timeout and sudo; "" if unsure.
std::string stage_program(std::string_view stage);

// grep, diff, test …: programs for which exit 1 is an answer, not a failure.
bool is_predicate(std::string_view stage);

// head, `grep -q`, `sed q`: programs that stop reading early.
bool closes_early(std::string_view stage);

}  // namespace waybill::core
