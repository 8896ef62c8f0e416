// Codex: hooks in a file of their own, the MCP server as a table of its configuration. Codex runs
// hooks only after the person has trusted them; that is read here and never written.

#include <array>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/sha256.h"
#include "cli/answer.h"
#include "cli/client_config.h"
#include "cli/hook_groups.h"
#include "edge/toml_table.h"

namespace waybill::cli {
namespace {

constexpr HookEvent kEvents[] = {
    {"SessionStart", nullptr, false, true},
    {"UserPromptSubmit", nullptr, false, true},
    {"PreToolUse", "mcp__waybill__.*"},
    {"PostToolUse", ".*"},
    {"Stop", nullptr},
};

constexpr const char* kToolSeconds = "660";  // above the longest wait of a tool
constexpr const char* kStartSeconds = "30";

const edge::TomlPath kServer{"mcp_servers", "waybill"};

Result<std::string> directory() { return client_directory("CODEX_HOME", ".codex"); }

Result<HookFile> hook_file() {
  TRY_ASSIGN(const std::string path, directory());
  return HookFile{ClientId::codex, path + "/hooks.json", kEvents};
}

std::vector<edge::TomlEntry> entries_of(const Wiring& wiring) {
  std::string arguments;
  for (const std::string& word : mcp_arguments(wiring)) {
    arguments += (arguments.empty() ? "[" : ", ") + edge::toml_quote(word);
  }
  return {{"command", edge::toml_quote(wiring.program)},
          {"args", arguments + "]"},
          {"tool_timeout_sec", kToolSeconds, true},
          {"startup_timeout_sec", kStartSeconds, true}};
}

edge::TomlPath server_key(const char* key) {
  edge::TomlPath out = kServer;
  out.emplace_back(key);
  return out;
}

// The program of the server that has our name; "" when it has none or is not ours.
std::string own_server(const std::string& text) {
  const std::string program = edge::toml_text_at(text, server_key("command")).value_or("");
  return is_our_program(program) ? program : "";
}

Result<FileChange> plan_server(const Wiring& wiring) {
  TRY_ASSIGN(const std::string path, directory());
  TRY_ASSIGN(FileChange file, read_file(path + "/config.toml"));
  const std::string text = file.before.value_or("");
  TRY(edge::check_toml(text, file.path));
  const bool named =
      edge::toml_has(text, server_key("command")) || edge::toml_has(text, server_key("url"));
  if (named && own_server(text).empty()) {
    return fail(ErrorCode::conflict, file.path +
                                         " has another MCP server named `waybill`; rename or "
                                         "remove it first. Nothing was changed.");
  }
  TRY_ASSIGN(file.after, edge::put_toml_table(file.before, kServer, entries_of(wiring), file.path));
  return file;
}

Result<FileChange> undo_server() {
  TRY_ASSIGN(const std::string path, directory());
  TRY_ASSIGN(FileChange file, read_file(path + "/config.toml"));
  if (!file.before) return file;
  TRY(edge::check_toml(*file.before, file.path));
  if (own_server(*file.before).empty()) return file;
  TRY_ASSIGN(file.after, edge::cut_toml_table(*file.before, kServer, file.path));
  return file;
}

// "PostToolUse" as "post_tool_use".
std::string snake(std::string_view event) {
  std::string out;
  for (const char c : event) {
    const bool capital = c >= 'A' && c <= 'Z';
    if (capital && !out.empty()) out += '_';
    out += capital ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return out;
}

// What Codex notes down when the person trusts a hook of ours as we write it.
std::string trust_of(const FoundHook& hook) {
  const json::object inner{
      {"async", false}, {"command", hook.command}, {"timeout", kHookSeconds}, {"type", "command"}};
  json::object outer;
  outer["event_name"] = snake(hook.event);
  json::array hooks;
  hooks.emplace_back(inner);
  outer["hooks"] = std::move(hooks);
  if (!hook.matcher.empty()) outer["matcher"] = hook.matcher;
  const std::string text = json::serialize(outer);
  Sha256 digest;
  digest.update(text.data(), text.size());
  std::array<char, 65> hex{};
  digest.finish_hex(hex.data());
  return "sha256:" + std::string(hex.data());
}

bool is_trusted(const std::string& config, const std::string& hook_path, const FoundHook& hook) {
  const std::string key = hook_path + ":" + snake(hook.event) + ":" + std::to_string(hook.group) +
                          ":" + std::to_string(hook.index);
  return edge::toml_text_at(config, {"hooks", "state", key, "trusted_hash"}) == trust_of(hook);
}

}  // namespace

Result<std::vector<FileChange>> plan_codex(const Wiring& wiring) {
  TRY_ASSIGN(const HookFile file, hook_file());
  TRY_ASSIGN(FileChange hooks, plan_hooks(file, wiring));
  TRY_ASSIGN(FileChange server, plan_server(wiring));
  return std::vector<FileChange>{std::move(hooks), std::move(server)};
}

Result<std::vector<FileChange>> undo_codex() {
  TRY_ASSIGN(const HookFile file, hook_file());
  TRY_ASSIGN(FileChange hooks, undo_hooks(file));
  TRY_ASSIGN(FileChange server, undo_server());
  return std::vector<FileChange>{std::move(hooks), std::move(server)};
}

Result<Wired> look_at_codex() {
  Wired out;
  TRY_ASSIGN(const HookFile file, hook_file());
  TRY_ASSIGN(const FoundHooks hooks, find_hooks(file));
  TRY_ASSIGN(const std::string path, directory());
  TRY_ASSIGN(const FileChange config, read_file(path + "/config.toml"));
  const std::string text = config.before.value_or("");
  TRY(edge::check_toml(text, config.path));
  out.program = own_server(text);
  out.any = !out.program.empty() || !hooks.hooks.empty();
  out.complete = !out.program.empty() && hooks.complete;
  out.resume_when_closed = hooks.resume_when_closed;
  // Codex names the file as it is called, or with links followed.
  std::error_code error;
  const std::string real = std::filesystem::canonical(file.path, error).string();
  for (const FoundHook& hook : hooks.hooks) {
    if (out.program.empty()) out.program = hook.ours.program;
    out.trusted =
        out.trusted && (is_trusted(text, file.path, hook) || is_trusted(text, real, hook));
  }
  return out;
}

}  // namespace waybill::cli
