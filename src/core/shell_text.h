#pragma once
// The parser behind core/pipeline.h: what stands at the top level of a piece of shell text (bash
// and zsh). It gives up rather than guess. Pure, linear, nesting bounded at 64.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace waybill::core {

enum class Form { simple, group, subshell };

struct Command {
  std::size_t begin = 0;
  std::size_t end = 0;
  Form form = Form::simple;
  std::string_view program;  // raw first word past assignments; "" none
  bool has_arguments = false;
};

enum class Join { first, after_and, after_or };

struct Pipeline {
  std::vector<Command> stages;
  std::size_t list = 0;  // number of its and-or list
  Join join = Join::first;
  bool negated = false;
  bool background = false;
};

struct ShellText {
  std::vector<Pipeline> pipelines;  // of the top level, in order
  bool quits = false;               // something may end the main shell, or change when it ends
  bool saw_pipe = false;            // a pipe stands unquoted somewhere, or may be read in
};

// nullopt when anything is not understood. Views point into `text`.
std::optional<ShellText> parse_shell_text(std::string_view text);

// A word without quotes, expansions and patterns.
bool is_plain(std::string_view word);

}  // namespace waybill::core
