#include "cli/identity.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <set>

#include "base/ids.h"
#include "cli/answer.h"
#include "core/scope.h"
#include "edge/hook.h"

namespace waybill::cli {
namespace {

constexpr std::string_view kCodexTurn = "x-codex-turn-metadata";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string id_or_none(std::string text) {
  if (!check_id(text, "id")) text.clear();
  return text;
}

// Once per session and key, so that the lease lasts as long as the client. A session that another
// host has is not taken over by a tool call: then nothing is handed over here.
Result<void> attach_once(Client& client, const Context& context, Identity& identity) {
  static std::mutex mutex;
  static std::set<std::pair<std::string, std::string>> attached;
  const std::pair<std::string, std::string> pair{identity.session, identity.host_key};
  const std::lock_guard lock(mutex);
  if (identity.host_key.empty() || attached.contains(pair)) return {};
  json::object params;
  if (!context.tenant.empty()) params["tenant"] = context.tenant;
  params["session"] = identity.session;
  params["host_key"] = identity.host_key;
  params["join"] = true;
  if (identity.host.pid > 0) params["host_pid"] = identity.host.pid;
  const auto made = client.call("session.attach", params);
  if (!made && made.error().code == ErrorCode::fenced) {
    identity.host_key.clear();
    return {};
  }
  if (!made) return fail(made.error());
  attached.insert(pair);
  return {};
}

HostProcess host_of(std::string_view client) {
  return find_host(client).value_or(HostProcess{::getppid(), 0});
}

// Claude Code: hooks have said whose call this is; without hooks, the mark in the environment.
Result<Identity> identify_claude(Client& client, const Context& context, const json::object& meta) {
  static const HostProcess host = host_of("claude");
  Identity identity;
  identity.client = "claude";
  identity.host = host;
  identity.host_key = host_key_of(identity.client, host);
  identity.call = id_or_none(text_of(meta, "claudecode/toolUseId"));
  identity.cwd = variable("CLAUDE_PROJECT_DIR");
  json::object params{{"host_key", identity.host_key}};
  if (!context.tenant.empty()) params["tenant"] = context.tenant;
  if (!identity.call.empty()) params["call"] = identity.call;
  TRY_ASSIGN(const json::object found, client.call("host.session", params));
  identity.session = text_of(found, "session");
  identity.turn = text_of(found, "turn");
  identity.subagent = flag_of(found, "subagent");
  if (!identity.session.empty()) return identity;
  const std::string mark = variable("CLAUDE_CODE_SESSION_ID");
  identity.session = edge::hook_session(edge::HookClient::claude, mark);
  if (mark.empty() || !check_id(identity.session, "session")) {
    identity.session = host_key_of("claude-process", host);
  }
  TRY(attach_once(client, context, identity));
  return identity;
}

// Codex starts its MCP servers with next to no environment. Jobs get what Codex itself was started
// with, less what looks like a credential: Codex keeps those from its own commands too.
std::vector<std::string> environment_for_jobs(const HostProcess& host) {
  constexpr std::array<std::string_view, 5> kSecretive{"KEY", "SECRET", "TOKEN", "PASSWORD",
                                                       "CREDENTIAL"};
  std::vector<std::string> out;
  for (std::string& entry : environment_of(host.pid)) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    std::string name = entry.substr(0, equals);
    for (char& c : name) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const bool secretive =
        std::any_of(kSecretive.begin(), kSecretive.end(),
                    [&](std::string_view word) { return name.find(word) != std::string::npos; });
    if (!secretive) out.push_back(std::move(entry));
  }
  return out;
}

// Where Codex's hooks are not trusted yet, its calls are all that tells of a turn that a user
// caused; said once per turn.
Result<void> tell_of_user(Client& client, const Context& context, const Identity& identity,
                          const std::string& trigger) {
  static std::mutex mutex;
  static std::set<std::string> told;
  constexpr std::size_t kToldMax = 10'000;
  // What Waybill itself has started is nobody's doing.
  const bool woken = variable_of(environment_of(identity.host.pid), "WAYBILL_WAKE").has_value();
  const bool user = !woken && (trigger == "user" || trigger == "exec");
  if (!user || identity.turn.empty() || identity.call.empty() || identity.host_key.empty())
    return {};
  const std::lock_guard lock(mutex);
  if (told.size() > kToldMax) told.clear();
  if (!told.insert(identity.session + " " + identity.turn).second) return {};
  json::object params{{"session", identity.session},
                      {"host_key", identity.host_key},
                      {"call", identity.call},
                      {"turn", identity.turn},
                      {"by_user", true}};
  if (!context.tenant.empty()) params["tenant"] = context.tenant;
  TRY(client.call("host.call", params));
  return {};
}

// Codex says everything with the call itself.
Result<Identity> identify_codex(Client& client, const Context& context, const json::object& meta) {
  static const HostProcess host = host_of("codex");
  const json::object& turn = object_of(meta, kCodexTurn);
  Identity identity;
  identity.client = "codex";
  identity.host = host;
  identity.host_key = host_key_of(identity.client, host);
  identity.session =
      edge::hook_session(edge::HookClient::codex, id_or_none(text_of(meta, "threadId")));
  identity.turn = id_or_none(text_of(turn, "turn_id"));
  identity.call = id_or_none(text_of(meta, "callId"));
  identity.environment = environment_for_jobs(host);
  TRY(attach_once(client, context, identity));
  TRY(tell_of_user(client, context, identity, text_of(turn, "turn_trigger")));
  return identity;
}

// Any other client: named by whoever configured it, or its process.
Result<Identity> identify_other(Client& client, const Context& context,
                                std::string_view client_name) {
  static const HostProcess host = host_of("mcp");
  Identity identity;
  identity.client = std::string(client_name);
  identity.host = host;
  identity.host_key = context.host_key.empty() ? host_key_of("mcp", host) : context.host_key;
  const std::string own = "mcp-" + std::to_string(host.start) + "-" + std::to_string(::getpid());
  const bool named = !context.session.empty() && context.session != core::kUserSession;
  identity.session = named ? context.session : own;
  TRY(attach_once(client, context, identity));
  return identity;
}

}  // namespace

Result<Identity> identify(Client& client, const Context& context, const json::object& meta,
                          std::string_view client_name) {
  // Who configured a session or a key for this server means it. What stands in the environment may
  // be that of a job which runs the client.
  const Parsed& flags = context.parsed;
  if (flags.has("--session") || flags.has("--host-key")) {
    return identify_other(client, context, client_name);
  }
  if (field(meta, "threadId") != nullptr) {
    return identify_codex(client, context, meta);
  }
  const bool claude = client_name.starts_with("claude") || field(meta, "claudecode/toolUseId");
  if (claude) return identify_claude(client, context, meta);
  return identify_other(client, context, client_name);
}

}  // namespace waybill::cli
