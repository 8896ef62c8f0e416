#include "supervise/stage_hook.h"

#include <algorithm>

#include "core/pipeline.h"
#include "shim/files.h"

namespace waybill::supervise {
namespace {

constexpr std::string_view kBashEnv = "BASH_ENV=";

bool has_name(const std::vector<std::string>& env, std::string_view name_equals) {
  return std::any_of(env.begin(), env.end(),
                     [&](const std::string& entry) { return entry.starts_with(name_equals); });
}

}  // namespace

bool captures_stages(const LaunchOrder& order) {
  if (order.shell.empty()) return false;
  const std::size_t slash = order.shell.rfind('/');
  const std::string_view name =
      std::string_view(order.shell).substr(slash == std::string::npos ? 0 : slash + 1);
  // In POSIX mode bash does not read BASH_ENV; a bash further down would take it for its own.
  return name == "bash" && !has_name(order.env, "POSIXLY_CORRECT=") &&
         core::may_hold_pipeline(order.command);
}

std::string install_hook(const std::string& job_dir_path, std::vector<std::string>& env) {
  std::string user_value;
  bool user_has = false;
  std::erase_if(env, [&](const std::string& entry) {
    if (!entry.starts_with(kBashEnv)) return false;
    user_value = entry.substr(kBashEnv.size());
    user_has = true;
    return true;
  });
  env.push_back(std::string(kBashEnv) + bash_env_for(job_dir_path + "/" + shim::kHook));
  return hook_text(job_dir_path + "/" + shim::kStages, user_has ? &user_value : nullptr);
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

std::string hook_text(const std::string& stages_path, const std::string* user_bash_env) {
  std::string text =
      "# Made by Waybill for one job: bash reads it once, through BASH_ENV, and records how the\n"
      "# last pipeline's stages ended. The command itself is passed to bash unchanged.\n";
  text += user_bash_env == nullptr ? "unset BASH_ENV\n"
                                   : "BASH_ENV=" + shell_quote(*user_bash_env) + "\n";
  // The body of the trap stands in single quotes, so the path is quoted twice.
  std::string body =
      "{ __wb_rc=$? __wb_ps=(\"${PIPESTATUS[@]}\"); set +x; { builtin printf \"%s\" \"$__wb_rc\"; "
      "builtin printf \" %s\" \"${__wb_ps[@]}\"; builtin printf \"\\n\"; } >>" +
      shell_quote(stages_path) + "; } 2>/dev/null";
  text += "trap -- " + shell_quote(body) + " EXIT\n";
  if (user_bash_env != nullptr && !user_bash_env->empty()) {
    // As bash itself would have done: expanded as if in double quotes, silent when unreadable.
    std::string quoted;
    for (char c : *user_bash_env) {
      if (c == '"') quoted.push_back('\\');
      quoted.push_back(c);
    }
    text += "eval " + shell_quote("__wb_env=\"" + quoted + "\"") + "\n";
    text += "[ -r \"$__wb_env\" ] && . \"$__wb_env\"\nunset __wb_env\n";
  }
  text += ": \"$BASH\"\n";
  return text;
}

}  // namespace waybill::supervise
