#include "cli/codex_sandbox.h"

#include <unistd.h>

#include <boost/json.hpp>
#include <cctype>

#include "cli/answer.h"
#include "edge/json.h"

namespace waybill::cli {
namespace {

constexpr std::string_view kSandboxState = "codex/sandbox-state-meta";
constexpr std::string_view kSandboxStateOld = "codex/sandbox-state";
constexpr std::string_view kLauncher = "codex/sandbox-launcher";
constexpr std::string_view kCodexTurn = "x-codex-turn-metadata";

// Whether the call says that there is no sandbox. Anything that is not understood says no such
// thing.
bool states_no_sandbox(const json::object& meta) {
  const json::value* turn = field(meta, kCodexTurn);
  if (turn == nullptr || !turn->is_object()) return false;
  const json::value* mode = field(turn->get_object(), "sandbox_mode");
  if (mode != nullptr) return text_of(turn->get_object(), "sandbox_mode") == "danger-full-access";
  return text_of(turn->get_object(), "sandbox") == "none";
}

// "file:///a%20b" as a path; "" when it is no such thing.
std::string path_of_uri(const std::string& uri) {
  constexpr std::string_view kScheme = "file://";
  if (!uri.starts_with(kScheme)) return {};
  std::string path;
  for (std::size_t at = kScheme.size(); at < uri.size(); ++at) {
    const auto hex = [&](std::size_t i) -> int {
      if (i >= uri.size() || std::isxdigit(static_cast<unsigned char>(uri[i])) == 0) return -1;
      return std::stoi(uri.substr(i, 1), nullptr, 16);
    };
    if (uri[at] == '%' && hex(at + 1) >= 0 && hex(at + 2) >= 0) {
      path.push_back(static_cast<char>(hex(at + 1) * 16 + hex(at + 2)));
      at += 2;
    } else {
      path.push_back(uri[at]);
    }
  }
  return path;
}

}  // namespace

StatedSandbox codex_sandbox(const json::object& meta, const std::string& codex,
                            const std::string& cwd) {
  StatedSandbox sandbox;
  const json::value* state = field(meta, kSandboxState);
  if (state == nullptr) state = field(meta, kSandboxStateOld);
  const json::object& profile = state != nullptr && state->is_object()
                                    ? object_of(state->get_object(), "permissionProfile")
                                    : object_of(meta, "permissionProfile");
  if (text_of(profile, "type") == "disabled") return sandbox;
  if (state == nullptr || !state->is_object()) {
    if (!states_no_sandbox(meta)) {
      sandbox.refused =
          "This session of Codex is sandboxed and does not tell how, so a command started here "
          "would escape its sandbox. Use Codex's own shell tool, or a Codex that states its "
          "sandbox to MCP servers.";
    }
    return sandbox;
  }
  std::string program = text_of(object_of(meta, kLauncher), "codexExecutable");
  if (program.empty()) program = codex;
  if (program.empty() || program.front() != '/' || ::access(program.c_str(), X_OK) != 0) {
    sandbox.refused =
        "This session of Codex is sandboxed and its sandbox program was not found, so nothing was "
        "started.";
    return sandbox;
  }
  sandbox.wrapper = {program, "sandbox", "--sandbox-state-json", edge::to_text(*state), "--"};
  // The sandbox begins in the session's directory.
  const std::string begins = path_of_uri(text_of(state->get_object(), "sandboxCwd"));
  if (cwd != begins) {
    for (const char* word : {"/usr/bin/env", "-C"}) sandbox.wrapper.emplace_back(word);
    sandbox.wrapper.push_back(cwd);
  }
  return sandbox;
}

}  // namespace waybill::cli
