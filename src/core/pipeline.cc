#include "core/pipeline.h"

#include <cstddef>
#include <optional>

#include "core/shell_text.h"

namespace waybill::core {
namespace {

std::string_view text_of(std::string_view command, const Command& stage) {
  return command.substr(stage.begin, stage.end - stage.begin);
}

// Could this command of the main shell run a pipeline that the top level does not show?
bool hides_pipeline(std::string_view text, const Command& command) {
  if (command.form == Form::group) return may_hold_pipeline(text_of(text, command));
  return command.form == Form::simple && command.program == "eval";
}

// The same, and what is read from elsewhere. A file that is sourced *before* the last pipeline
// (a virtual environment) is taken not to end the shell in the middle of a pipeline of its own.
bool hides_pipeline_behind(std::string_view text, const Command& command) {
  if (hides_pipeline(text, command)) return true;
  if (command.form != Form::simple || command.program.empty()) return false;
  return command.program == "source" || command.program == "." || !is_plain(command.program);
}

enum class Certainty { sure, sure_of_several, after_success, unsure };

// Is pipeline `last` the one that a record of as many statuses speaks of?
Certainty certainty(std::string_view text, const std::vector<Pipeline>& all, std::size_t last,
                    bool quits) {
  Certainty found = Certainty::sure;
  bool final_list = true;
  for (std::size_t i = last + 1; i < all.size(); ++i) {
    final_list = false;  // whatever follows sets the exit code anew
    if (all[i].background) continue;
    if (hides_pipeline_behind(text, all[i].stages.front())) return Certainty::unsure;
  }
  // zsh runs the last stage in the main shell.
  if (hides_pipeline(text, all[last].stages.back())) return Certainty::unsure;
  bool plain_chain = final_list;  // only `&&` between the pipeline looked at and the last one
  for (std::size_t i = last; i-- > 0;) {
    if (all[i].background) continue;
    if (all[i + 1].join == Join::after_or || all[i + 1].negated) plain_chain = false;
    const bool rival = all[i].stages.size() == all[last].stages.size() ||
                       hides_pipeline(text, all[i].stages.front());
    if (!rival) continue;
    if (quits) return Certainty::unsure;
    if (found == Certainty::sure) found = Certainty::sure_of_several;
    if (all[i].list != all[last].list) continue;
    if (!plain_chain || all[i].negated) return Certainty::unsure;
    found = Certainty::after_success;
  }
  return found;
}

bool names_statuses(std::string_view text) {
  return text.find("PIPESTATUS") != std::string_view::npos ||
         text.find("pipestatus") != std::string_view::npos;
}

// Could this command of the main shell run an earlier pipeline that the top level does not show?
bool hides_earlier(std::string_view text, const Command& command) {
  if (hides_pipeline(text, command)) return true;
  const std::string_view program = command.program;
  const bool runs_words = program == "trap" || program == "command" || program == "builtin";
  return command.form == Form::simple && runs_words && may_hold_pipeline(text_of(text, command));
}

PipelineShape pipeline_shape(std::string_view text, const std::vector<Pipeline>& all,
                             std::size_t index) {
  const Pipeline& pipeline = all[index];
  PipelineShape shape;
  for (const Command& stage : pipeline.stages) shape.stages.emplace_back(text_of(text, stage));
  shape.negated = pipeline.negated;
  shape.is_last = true;
  for (std::size_t i = index + 1; i < all.size(); ++i) {
    const bool same_list = all[i].list == pipeline.list;
    if (!all[i].background) shape.is_last = false;
    if (same_list && all[i].join == Join::after_or) shape.or_follows = true;
    if (i == index + 1 && same_list && all[i].join == Join::after_and) shape.and_follows = true;
  }
  return shape;
}

// The parts of a shape that earlier pipelines are judged by.
void add_pipelines(std::string_view text, const std::vector<Pipeline>& all, CommandShape& shape) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].background) continue;
    const Command& front = all[i].stages.front();
    const std::string_view whole = text.substr(front.begin, all[i].stages.back().end - front.begin);
    if (names_statuses(whole) && front.program != "echo" && front.program != "printf")
      shape.reads_statuses = true;
    const std::string_view program = front.program;
    if (program == "trap" || program == "." || program == "source") shape.may_set_traps = true;
    // With lastpipe the last stage is run by the main shell.
    if (hides_earlier(text, all[i].stages.back())) shape.hides_pipelines = true;
    if (all[i].stages.size() >= 2) shape.pipelines.push_back(pipeline_shape(text, all, i));
  }
}

}  // namespace

bool may_hold_pipeline(std::string_view command) {
  for (std::size_t i = 0; i < command.size();) {
    if (command[i] != '|') {
      ++i;
      continue;
    }
    std::size_t run = 0;
    while (i < command.size() && command[i] == '|') ++i, ++run;
    if (run % 2 == 1) return true;
  }
  return false;
}

CommandShape shape_of(std::string_view command) {
  CommandShape shape;
  const std::optional<ShellText> parsed = parse_shell_text(command);
  if (!parsed) return shape;
  const std::vector<Pipeline>& pipelines = parsed->pipelines;
  shape.understood = true;
  shape.holds_pipeline = parsed->saw_pipe;
  add_pipelines(command, pipelines, shape);
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < pipelines.size(); ++i) {
    const Pipeline& pipeline = pipelines[i];
    const Command& front = pipeline.stages.front();
    if (pipeline.background) continue;
    if (pipeline.stages.size() >= 2) {
      last = i;
    } else if (hides_pipeline_behind(command, front)) {
      shape.holds_pipeline = true;
    } else if (front.program == "exec" && front.has_arguments) {
      shape.replaces_shell = true;
    }
  }
  if (!last) return shape;
  const Certainty sure = certainty(command, pipelines, *last, parsed->quits);
  if (sure == Certainty::unsure) return shape;
  shape.has_rival = sure != Certainty::sure;
  shape.after_success_only = sure == Certainty::after_success;
  shape.negated = pipelines[*last].negated;
  for (const Command& stage : pipelines[*last].stages) {
    shape.stages.emplace_back(text_of(command, stage));
  }
  return shape;
}

std::vector<std::string> last_pipeline(std::string_view command) {
  CommandShape shape = shape_of(command);
  if (shape.after_success_only) return {};
  return std::move(shape.stages);
}

}  // namespace waybill::core
