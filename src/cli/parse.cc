#include "cli/parse.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <list>
#include <memory>

namespace waybill::cli {
namespace {

tl::unexpected<Error> usage(std::string message) {
  return fail(ErrorCode::bad_request, std::move(message));
}

// Where the parser puts what it finds, one per (command, flag).
struct Slot {
  const CommandInfo* command = nullptr;  // null: a common flag
  const FlagInfo* flag = nullptr;        // null: the operands
  std::vector<std::string> values;
  bool set = false;
  CLI::Option* option = nullptr;
};

class Parser {
 public:
  Parser() : app_("Background jobs for coding agents.", "waybill") {
    app_.require_subcommand(1);
    for (const FlagInfo& flag : common_flags()) add_flag(app_, nullptr, flag);
    for (const CommandInfo& command : commands()) add_command(command);
  }

  Result<Parsed> parse(std::vector<std::string> before) {
    std::reverse(before.begin(), before.end());  // the library takes arguments from the back
    try {
      app_.parse(std::move(before));
    } catch (const CLI::CallForHelp&) {
      Parsed parsed;
      parsed.help = app_.help();
      return parsed;
    } catch (const CLI::RequiredError& error) {
      return usage(unknown_command().value_or(error.what()));
    } catch (const CLI::ParseError& error) {
      return usage(std::string(error.what()));
    }
    return collect();
  }

 private:
  // The word where a command is wanted and none is known by it.
  std::optional<std::string> unknown_command() const {
    const CLI::App* app = &app_;
    while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
    if (app->get_require_subcommand_min() == 0) return std::nullopt;
    for (const std::string& word : app_.remaining(true)) {
      if (!word.starts_with("-"))
        return "There is no command \"" + word + "\"; see waybill --help.";
    }
    return std::nullopt;
  }

  void add_flag(CLI::App& to, const CommandInfo* command, const FlagInfo& flag) {
    Slot& slot = slots_.emplace_back();
    slot.command = command;
    slot.flag = &flag;
    const std::string name(flag.name);
    const std::string description(flag.description);
    if (flag.value.empty()) {
      slot.option = to.add_flag(name, slot.set, description);
      return;
    }
    slot.option = to.add_option(name, slot.values, description)
                      ->allow_extra_args(false)
                      ->type_name(std::string(flag.value));
    if (!flag.repeated)
      slot.option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  }

  CLI::App& parent_of(const CommandInfo& command) {
    if (command.group.empty()) return app_;
    const std::string group(command.group);
    CLI::App*& app = groups_[group];
    // A command that has others below it, like `owners` and `owners release`.
    for (const auto& [above, own] : apps_) {
      if (above->group.empty() && above->name == group) return *own;
    }
    if (app == nullptr) {
      app = app_.add_subcommand(group, group == "turn" ? "A host written in shell: one turn."
                                                       : "The session and its host.");
      app->require_subcommand(1);
      app->fallthrough();
    }
    return *app;
  }

  void add_command(const CommandInfo& command) {
    CLI::App* app =
        parent_of(command).add_subcommand(std::string(command.name), std::string(command.summary));
    app->fallthrough();
    apps_.emplace_back(&command, app);
    for (const FlagInfo& flag : command.flags) add_flag(*app, &command, flag);
    if (command.operands.empty()) return;
    Slot& slot = slots_.emplace_back();
    slot.command = &command;
    slot.option = app->add_option(std::string(command.operands), slot.values)->expected(0, -1);
  }

  Parsed collect() {
    Parsed parsed;
    for (const auto& [command, app] : apps_) {
      if (app->parsed()) parsed.command = command;
    }
    for (const Slot& slot : slots_) {
      if (slot.option->count() == 0) continue;
      if (slot.flag == nullptr) {
        parsed.operands = slot.values;
      } else {
        parsed.values[std::string(slot.flag->name)] = slot.values;
      }
    }
    return parsed;
  }

  CLI::App app_;
  std::list<Slot> slots_;  // addresses must stay
  std::map<std::string, CLI::App*> groups_;
  std::vector<std::pair<const CommandInfo*, CLI::App*>> apps_;
};

bool is_flag(std::string_view word) { return word.size() > 1 && word.front() == '-'; }

// The first word that is neither a flag nor the value of a common one.
std::string command_word(const std::vector<std::string>& before) {
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!is_flag(before[i])) return before[i];
    for (const FlagInfo& flag : common_flags()) {
      if (before[i] == flag.name && !flag.value.empty()) ++i;
      if (i >= before.size()) return "";
    }
  }
  return "";
}

// What this version does not have yet is refused by that reason, not as a misspelling.
Result<void> refuse_planned(const std::vector<std::string>& before) {
  const std::string word = command_word(before);
  for (const std::string& argument : before) {
    const std::string name = argument.substr(0, argument.find('='));
    if (word == "run" && is_planned_flag(name)) {
      return usage("`run " + name + "` does not exist yet in this version.");
    }
    if (word == "session" && argument != word && is_planned_command(argument)) {
      return usage("`session " + argument + "` does not exist yet in this version.");
    }
  }
  if (is_planned_command(word)) {
    return usage("`" + word + "` does not exist yet in this version.");
  }
  return {};
}

std::string with_run_hint(std::string message, bool dashes) {
  if (!dashes) message += " Put `--` before the command: waybill run [flags] -- COMMAND.";
  return message;
}

Result<void> check_operands(Parsed& parsed, std::vector<std::string> after, bool dashes) {
  const CommandInfo& command = *parsed.command;
  if (command.takes_command) {
    if (after.empty()) {
      return usage(with_run_hint("`run` needs a command.", dashes));
    }
    parsed.words = std::move(after);
    return {};
  }
  for (std::string& word : after) parsed.operands.push_back(std::move(word));
  const std::string name =
      (command.group.empty() ? "" : std::string(command.group) + " ") + std::string(command.name);
  if (parsed.operands.size() > command.operands_max) {
    return usage("`" + name + "` does not take \"" + parsed.operands[command.operands_max] +
                 "\"; see waybill " + name + " --help.");
  }
  if (parsed.operands.size() < command.operands_min) {
    return usage("`" + name + "` needs " + std::string(command.operands) + ".");
  }
  return {};
}

}  // namespace

std::optional<std::string> Parsed::find(std::string_view flag) const {
  const auto at = values.find(flag);
  if (at == values.end() || at->second.empty()) return std::nullopt;
  return at->second.back();
}

std::vector<std::string> Parsed::all(std::string_view flag) const {
  const auto at = values.find(flag);
  return at == values.end() ? std::vector<std::string>{} : at->second;
}

Result<Parsed> parse(const std::vector<std::string>& arguments) {
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const std::vector<std::string> before(arguments.begin(), dashes);
  std::vector<std::string> after;
  if (dashes != arguments.end()) after.assign(dashes + 1, arguments.end());
  TRY(refuse_planned(before));
  Parser parser;
  Result<Parsed> parsed = parser.parse(before);
  if (!parsed) {
    Error error = std::move(parsed.error());
    if (!error.message.empty() && error.message.back() != '.') error.message += ".";
    if (command_word(before) == "run") {
      error.message = with_run_hint(std::move(error.message), dashes != arguments.end());
    } else {
      error.message += " See waybill --help.";
    }
    return fail(std::move(error));
  }
  if (parsed->command == nullptr) return parsed;
  TRY(check_operands(*parsed, std::move(after), dashes != arguments.end()));
  return parsed;
}

Result<std::optional<Millis>> duration_of(const Parsed& parsed, std::string_view flag) {
  const std::optional<std::string> text = parsed.find(flag);
  if (!text) return std::optional<Millis>{};
  const std::optional<Millis> value = parse_duration(*text);
  if (!value) {
    return usage(std::string(flag) + " cannot be \"" + *text +
                 "\"; write a duration like 90s, 5m or 1h30m.");
  }
  return value;
}

Result<std::optional<Millis>> timeout_of(const Parsed& parsed, std::string_view flag) {
  TRY_ASSIGN(const std::optional<Millis> value, duration_of(parsed, flag));
  if (value && value->count() <= 0) {
    return usage(std::string(flag) + " must be above zero; leave it out not to wait.");
  }
  return value;
}

Result<std::optional<std::uint64_t>> size_of(const Parsed& parsed, std::string_view flag) {
  const std::optional<std::string> text = parsed.find(flag);
  if (!text) return std::optional<std::uint64_t>{};
  const std::optional<unsigned long long> value = parse_size(*text);
  if (!value) {
    return usage(std::string(flag) + " cannot be \"" + *text +
                 "\"; write a size like 4096, 64MiB or 1GiB.");
  }
  return std::optional<std::uint64_t>(*value);
}

Result<std::optional<std::uint64_t>> number_of(const Parsed& parsed, std::string_view flag) {
  const std::optional<std::string> text = parsed.find(flag);
  if (!text) return std::optional<std::uint64_t>{};
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc{} || end != text->data() + text->size() ||
      value > static_cast<std::uint64_t>(INT64_MAX)) {
    return usage(std::string(flag) + " must be a whole number, not \"" + *text + "\".");
  }
  return std::optional<std::uint64_t>(value);
}

}  // namespace waybill::cli
