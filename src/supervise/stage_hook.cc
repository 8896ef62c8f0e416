#include "supervise/stage_hook.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <iterator>
#include <optional>

#include "shim/files.h"
#include "supervise/launch_files.h"

namespace waybill::supervise {
namespace {

constexpr std::string_view kBashEnv = "BASH_ENV";
constexpr std::string_view kZdotdir = "ZDOTDIR";
constexpr const char* kGlobalZshenv[] = {"/etc/zshenv", "/etc/zsh/zshenv"};

// Of the command's main shell. More commands are not watched: a loop should not pay for it.
constexpr int kWatchedCommands = 1000;
constexpr int kHistoryLines = 200;
constexpr int kHistoryStages = 32;

bool has_variable(const std::vector<std::string>& env, std::string_view name) {
  return std::any_of(env.begin(), env.end(), [&](const std::string& entry) {
    return entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=';
  });
}

// Sets the variable; gives the value that was there.
std::optional<std::string> exchange_variable(std::vector<std::string>& env, std::string_view name,
                                             const std::string& value) {
  std::optional<std::string> old;
  std::erase_if(env, [&](const std::string& entry) {
    const bool same = entry.starts_with(name) && entry.substr(name.size(), 1) == "=";
    if (same) old = entry.substr(name.size() + 1);
    return same;
  });
  env.push_back(std::string(name) + "=" + value);
  return old;
}

std::string restore(std::string_view name, const std::optional<std::string>& value) {
  if (!value) return "unset " + std::string(name) + "\n";
  return std::string(name) + "=" + shell_quote(*value) + "\n";
}

constexpr const char* kHookBuiltins[] = {"trap", "builtin", "unset", "printf", "export",
                                         "set",  "eval",    "true",  "test",   "["};

std::string function_named(const std::string& name) { return "BASH_FUNC_" + name + "%%="; }

// In POSIX mode bash does not read BASH_ENV; a bash further down would take it for its own.
// SHELLOPTS can turn that mode on, and traces that would show the hook.
bool reads_bash_env(const std::vector<std::string>& env) {
  // A function of the caller's in the place of a builtin would run inside the hook.
  const bool shadowed = std::any_of(env.begin(), env.end(), [](const std::string& entry) {
    return std::any_of(std::begin(kHookBuiltins), std::end(kHookBuiltins),
                       [&](const char* name) { return entry.starts_with(function_named(name)); });
  });
  return !shadowed && !has_variable(env, "POSIXLY_CORRECT") && !has_variable(env, "SHELLOPTS") &&
         !has_variable(env, "BASH_XTRACEFD");
}

bool reads_zdotdir() {
  return std::all_of(std::begin(kGlobalZshenv), std::end(kGlobalZshenv), [](const char* path) {
    std::ifstream file(path);
    return leaves_start_files_alone(
        std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
  });
}

// ---- bash --------------------------------------------------------------------------------------

// Everything a trap runs stands in one group without stderr, so that `set -x` does not show it, and
// begins with one assignment: the next command would change `$?`, PIPESTATUS and `$_`. Nothing in
// it may fail openly (`set -e`, ERR), nothing depends on IFS, and `\builtin` is no alias.
std::string debug_trap(const std::string& path) {
  const std::string file = shell_quote(path);
  return "{ __wb_u=$_ __wb_p=(\"${PIPESTATUS[@]}\"); "
         "(( ++__wb_n > " +
         std::to_string(kWatchedCommands) + " || __wb_m > " + std::to_string(kHistoryLines) +
         " )) && { \\builtin trap - DEBUG; \\builtin printf \"h truncated\\n\" >>" + file +
         " || \\builtin true; }; "
         "[[ ${#__wb_p[@]} -gt 1 && $BASH_SUBSHELL == 0 && -z ${FUNCNAME-} ]] && { "
         "\\builtin printf -v __wb_h \" %s\" \"${__wb_p[@]}\"; "
         "[[ $__wb_h == *[1-9]* && $__wb_h != \"$__wb_l\" ]] && { __wb_l=$__wb_h; "
         "(( ++__wb_m )); [[ ${#__wb_p[@]} -gt " +
         std::to_string(kHistoryStages) +
         " ]] || \\builtin printf \"h %s%s\\n\" \"$__wb_n\" \"$__wb_h\" >>" + file +
         " || \\builtin true; }; }; "
         // What is assigned under `set -a` is exported.
         "[[ $- != *a* ]] || \\builtin export -n __wb_u __wb_p __wb_n __wb_m __wb_l __wb_h; "
         "\\builtin : \"$__wb_u\"; } 2>/dev/null";
}

std::string exit_trap(const std::string& path, bool history) {
  std::string body = "{ __wb_rc=$? __wb_ps=(\"${PIPESTATUS[@]}\")" +
                     std::string(history ? " __wb_e=$__wb_n" : "") + "; ";
  if (history) body += "\\builtin trap - DEBUG; ";
  body += "set +x; { ";
  if (history) body += "\\builtin printf \"e %s\\n\" \"$__wb_e\"; ";
  body +=
      "\\builtin printf \"%s\" \"$__wb_rc\"; \\builtin printf \" %s\" \"${__wb_ps[@]}\"; "
      "\\builtin printf \"\\n\"; } >>" +
      shell_quote(path) + " || \\builtin true; } 2>/dev/null";
  return body;
}

// As bash itself would have done: expanded as if in double quotes, silent when unreadable. It is
// the last command, so that `$?` is what the file left.
std::string read_bash_env(const std::string& value) {
  std::string quoted;
  bool escaped = false;
  for (char c : value) {
    // A character behind a backslash is what the caller says it is.
    if (c == '"' && !escaped) quoted.push_back('\\');
    quoted.push_back(c);
    escaped = c == '\\' && !escaped;
  }
  return "eval " + shell_quote("__wb_env=\"" + quoted + "\"") +
         "\nif [ -r \"$__wb_env\" ]; then . \"$__wb_env\"; else : \"$BASH\"; fi\n";
}

std::string bash_text(const std::string& stages, const std::optional<std::string>& user_bash_env,
                      bool history) {
  std::string text = restore(kBashEnv, user_bash_env);
  text += "trap -- " + shell_quote(exit_trap(stages, history)) + " EXIT\n";
  if (history) {
    // The first command that it sees is the last one here.
    text += "__wb_n=-1 __wb_m=0 __wb_l=\ntrap -- " + shell_quote(debug_trap(stages)) + " DEBUG\n";
  }
  const bool own = user_bash_env && !user_bash_env->empty();
  return text + (own ? read_bash_env(*user_bash_env) : ": \"$BASH\"\n");
}

// ---- zsh ---------------------------------------------------------------------------------------

// `trap … EXIT` and not zshexit: that one is not called under ERR_EXIT and sees no pipeline inside
// `{ }`. The list is joined here, whatever IFS and KSH_ARRAYS say.
std::string zsh_text(const std::string& stages, const std::optional<std::string>& user_zdotdir) {
  std::string text = restore(kZdotdir, user_zdotdir);
  text += "trap -- " +
          shell_quote(
              "{ __wb_s=\"$? ${(j: :)pipestatus[@]}\"; [[ $ZSH_SUBSHELL == 0 ]] && "
              "builtin print -r -- \"$__wb_s\" >>|" +
              shell_quote(stages) + " || builtin true; } 2>/dev/null") +
          " EXIT\n";
  text +=
      "if [[ -r ${ZDOTDIR-$HOME}/.zshenv && ! -d ${ZDOTDIR-$HOME}/.zshenv ]]; then "
      "builtin source \"${ZDOTDIR-$HOME}/.zshenv\"; fi\n";
  return text;
}

std::string head(std::string_view variable) {
  return "# Made by Waybill for one job: the shell reads it once, through " +
         std::string(variable) +
         ", and records how\n# the stages of pipelines ended. The command itself is passed to the "
         "shell unchanged.\n";
}

// A launch wrapper may itself be a script: only the shell that has this command may take the hook.
std::string only_for(const std::string& command, const std::string& text) {
  return "if [[ ${BASH_EXECUTION_STRING-} == " + shell_quote(command) + " ]]; then\n" + text +
         "fi\n";
}

}  // namespace

core::Shell captured_shell(const LaunchOrder& order) {
  const core::Shell shell = core::shell_of(order.shell);
  if (order.shell.empty() || !core::may_watch(shell, order.command)) return core::Shell::other;
  // Behind a wrapper bash is told from other shells by its command, which a file does not show.
  if (!order.wrapper.empty() && needs_command_file(order)) return core::Shell::other;
  // The wrapper sets it inside, where ours would have stood.
  const auto sets = [](const std::string& word) { return word.starts_with("BASH_ENV="); };
  if (std::any_of(order.wrapper.begin(), order.wrapper.end(), sets)) return core::Shell::other;
  if (shell == core::Shell::bash) return reads_bash_env(order.env) ? shell : core::Shell::other;
  // Behind a wrapper the file may not be there, and then the job would see ZDOTDIR.
  return order.wrapper.empty() && reads_zdotdir() ? shell : core::Shell::other;
}

StageHook make_stage_hook(const LaunchOrder& order, const std::string& job_dir_path,
                          std::vector<std::string>& env) {
  const std::string stages = job_dir_path + "/" + shim::kStages;
  switch (captured_shell(order)) {
    case core::Shell::bash: {
      const auto old =
          exchange_variable(env, kBashEnv, bash_env_for(job_dir_path + "/" + shim::kHook));
      const bool history = core::may_keep_history(core::Shell::bash, order.command);
      const std::string text = bash_text(stages, old, history);
      return {shim::kHook,
              head(kBashEnv) + (order.wrapper.empty() ? text : only_for(order.command, text))};
    }
    case core::Shell::zsh: {
      const auto old = exchange_variable(env, kZdotdir, job_dir_path);
      return {shim::kHookZsh, head(kZdotdir) + zsh_text(stages, old)};
    }
    case core::Shell::other:
      break;
  }
  return {};
}

std::string shell_quote(std::string_view text) {
  std::string word = "'";
  for (char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word.push_back(c);
    }
  }
  word.push_back('\'');
  return word;
}

std::string bash_env_for(std::string_view path) {
  std::string value;
  for (char c : path) {
    if (c == '$' || c == '`' || c == '\\') value.push_back('\\');
    value.push_back(c);
  }
  return value;
}

bool leaves_start_files_alone(std::string_view global_zshenv) {
  while (!global_zshenv.empty()) {
    const std::size_t end = std::min(global_zshenv.find('\n'), global_zshenv.size());
    std::string line(global_zshenv.substr(0, end));
    global_zshenv.remove_prefix(std::min(end + 1, global_zshenv.size()));
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] == '#') continue;
    std::erase(line, '_');
    std::transform(line.begin(), line.end(), line.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (const std::string_view word : {"zdotdir", "rcs", "emulate", "source", ". /", "trap"}) {
      if (line.find(word) != std::string::npos) return false;
    }
  }
  return true;
}

}  // namespace waybill::supervise
