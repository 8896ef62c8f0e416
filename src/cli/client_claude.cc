// Claude Code: hooks in its user settings, the MCP server in its own file.

#include <utility>

#include "cli/answer.h"
#include "cli/client_config.h"
#include "cli/hook_groups.h"
#include "edge/json_edit.h"

namespace waybill::cli {
namespace {

using edge::JsonPath;
using edge::JsonText;

constexpr HookEvent kEvents[] = {
    {"SessionStart", nullptr, true, true},
    {"UserPromptSubmit", nullptr, false, true},
    {"PreToolUse", "mcp__waybill__.*", false, false},
    {"PostToolUse", "*", false, false},
    {"Notification", "idle_prompt", false, false},
    {"Stop", nullptr, true, false},
    {"SessionEnd", nullptr, false, false},
};

const JsonPath kServer{"mcpServers", "waybill"};

Result<HookFile> hook_file() {
  TRY_ASSIGN(const std::string directory, client_directory("CLAUDE_CONFIG_DIR", ".claude"));
  return HookFile{ClientId::claude, directory + "/settings.json", kEvents};
}

// Beside the settings only when their directory was chosen by the variable.
Result<std::string> servers_path() {
  TRY_ASSIGN(const std::string directory, client_directory("CLAUDE_CONFIG_DIR", ""));
  return directory + "/.claude.json";
}

Result<JsonText> document_of(const FileChange& file) {
  return file.before ? JsonText::parse(*file.before, file.path)
                     : Result<JsonText>(JsonText::fresh(file.path));
}

// The command of the server that has our name.
struct Server {
  bool there = false;
  bool ours = false;
  std::string program;
};

Server server_in(const JsonText& document) {
  Server out;
  out.there = document.kind(kServer).has_value();
  JsonPath path = kServer;
  path.emplace_back("command");
  if (const auto command = document.parsed(path); command && command->is_string()) {
    out.program = command->get_string();
    out.ours = is_our_program(out.program);
  }
  return out;
}

// Only what differs is written, so that an environment or another setting of the user stays.
Result<void> put_server(JsonText& document, const Wiring& wiring, const std::string& name) {
  json::array arguments;
  for (const std::string& word : mcp_arguments(wiring)) arguments.emplace_back(word);
  const Server server = server_in(document);
  if (!server.there) {
    return document.set(kServer, json::object{{"type", "stdio"},
                                              {"command", wiring.program},
                                              {"args", arguments},
                                              {"env", json::object{}}});
  }
  if (!server.ours) {
    return fail(ErrorCode::conflict,
                name +
                    " has another MCP server named `waybill`; rename or remove "
                    "it first. Nothing was changed.");
  }
  const json::object wanted{{"command", wiring.program}, {"args", arguments}};
  for (const json::key_value_pair& member : wanted) {
    JsonPath path = kServer;
    path.emplace_back(std::string(member.key()));
    if (document.parsed(path) != member.value()) TRY(document.set(path, member.value()));
  }
  return {};
}

Result<FileChange> plan_server(const Wiring& wiring) {
  TRY_ASSIGN(const std::string path, servers_path());
  TRY_ASSIGN(FileChange file, read_file(path));
  TRY_ASSIGN(JsonText document, document_of(file));
  TRY(put_server(document, wiring, path));
  file.after = document.text();
  return file;
}

Result<FileChange> undo_server() {
  TRY_ASSIGN(const std::string path, servers_path());
  TRY_ASSIGN(FileChange file, read_file(path));
  if (!file.before) return file;
  TRY_ASSIGN(JsonText document, JsonText::parse(*file.before, path));
  if (!server_in(document).ours) return file;
  if (document.remove(kServer)) {
    file.after = document.text();
  } else {
    file.after = std::nullopt;
  }
  return file;
}

}  // namespace

Result<std::vector<FileChange>> plan_claude(const Wiring& wiring) {
  TRY_ASSIGN(const HookFile file, hook_file());
  TRY_ASSIGN(FileChange hooks, plan_hooks(file, wiring));
  TRY_ASSIGN(FileChange server, plan_server(wiring));
  return std::vector<FileChange>{std::move(hooks), std::move(server)};
}

Result<std::vector<FileChange>> undo_claude() {
  TRY_ASSIGN(const HookFile file, hook_file());
  TRY_ASSIGN(FileChange hooks, undo_hooks(file));
  TRY_ASSIGN(FileChange server, undo_server());
  return std::vector<FileChange>{std::move(hooks), std::move(server)};
}

Result<Wired> look_at_claude() {
  Wired out;
  TRY_ASSIGN(const HookFile file, hook_file());
  TRY_ASSIGN(const FoundHooks hooks, find_hooks(file));
  TRY_ASSIGN(const std::string path, servers_path());
  TRY_ASSIGN(const FileChange servers, read_file(path));
  TRY_ASSIGN(const JsonText document, document_of(servers));
  const Server server = server_in(document);
  out.any = server.ours || !hooks.hooks.empty();
  out.complete = server.ours && hooks.complete;
  out.resume_when_closed = hooks.resume_when_closed;
  if (!hooks.hooks.empty()) out.program = hooks.hooks.front().ours.program;
  if (server.ours) out.program = server.program;
  return out;
}

}  // namespace waybill::cli
