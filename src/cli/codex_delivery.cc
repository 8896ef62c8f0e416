#include "cli/codex_delivery.h"

#include <cstdlib>
#include <system_error>
#include <utility>

#include "cli/ask.h"
#include "cli/codex_queue.h"
#include "cli/codex_socket.h"
#include "cli/host_process.h"
#include "edge/hook.h"

namespace waybill::cli {
namespace {

constexpr std::size_t kSessionsMax = 8;
constexpr const char* kAppServerVariable = "WAYBILL_CODEX_APP_SERVER";

std::string configured_app_server(const Context& context) {
  if (const auto flag = context.parsed.find("--app-server")) return *flag;
  const char* variable = std::getenv(kAppServerVariable);
  return variable == nullptr ? "" : variable;
}

// Null: nothing reaches this Codex while it runs.
std::shared_ptr<CodexAdapter> adapter_for(const Context& context, const Identity& identity,
                                          const std::string& thread) {
  CodexPlace place;
  place.configured = configured_app_server(context);
  place.command_line = command_line_of(identity.host.pid);
  place.environment = environment_of(identity.host.pid);
  const bool one_shot = is_one_shot("codex", place.command_line);
  if (one_shot && place.configured.empty()) return nullptr;
  const std::string path = codex_socket_path(place);
  auto server = path.empty() ? nullptr : std::make_unique<CodexAppServer>(path, thread);
  // Only a Codex takes `codex queue`, and a place that was named is the only one.
  const std::string program = program_of(identity.host.pid);
  const bool is_codex = program.substr(program.rfind('/') + 1).starts_with("codex");
  auto queue = one_shot || !is_codex || !place.configured.empty()
                   ? nullptr
                   : std::make_unique<CodexQueue>(identity.host, thread);
  if (!server && !queue) return nullptr;
  return std::make_shared<CodexAdapter>(std::move(server), std::move(queue));
}

}  // namespace

CodexAdapter::CodexAdapter(std::unique_ptr<CodexAppServer> server,
                           std::unique_ptr<edge::Adapter> other)
    : server_(std::move(server)), other_(std::move(other)) {}

edge::Probe CodexAdapter::probe() {
  now_ = server_.get();
  edge::Probe probe{edge::ProbeState::gone, ""};
  if (server_) probe = server_->probe();
  if (probe.state != edge::ProbeState::gone || !other_) return probe;
  now_ = other_.get();
  return other_->probe();
}

edge::PutOutcome CodexAdapter::steer(const std::string& turn, std::string_view text) {
  return now_ == nullptr ? edge::PutOutcome::unreachable : now_->steer(turn, text);
}

edge::PutOutcome CodexAdapter::wake(std::string_view text) {
  return now_ == nullptr ? edge::PutOutcome::unreachable : now_->wake(text);
}

edge::PutOutcome CodexAdapter::inject(std::string_view text) {
  return now_ == nullptr ? edge::PutOutcome::unreachable : now_->inject(text);
}

void CodexAdapter::saw_turn(const std::string& turn) {
  if (server_) server_->saw_turn(turn);
}

void CodexDeliveries::saw(const Identity& identity) {
  const std::string prefix = edge::hook_session(edge::HookClient::codex, "");
  if (identity.client != "codex" || identity.host_key.empty() ||
      !identity.session.starts_with(prefix) || identity.session.size() == prefix.size()) {
    return;
  }
  const std::lock_guard lock(mutex_);
  if (ending_) return;
  // One that was replaced or refused has ended; what it waited for may be its own again.
  std::erase_if(sessions_, [](const auto& one) {
    return one.second.loop && one.second.loop->await_end(Millis{0});
  });
  const auto known = sessions_.find(identity.session);
  if (known != sessions_.end()) {
    if (known->second.adapter) known->second.adapter->saw_turn(identity.turn);
    return;
  }
  if (sessions_.size() >= kSessionsMax) return;
  One one{adapter_for(context_, identity, identity.session.substr(prefix.size())), nullptr};
  if (one.adapter) {
    one.adapter->saw_turn(identity.turn);
    try {
      one.loop = std::make_unique<DeliveryLoop>(
          client_options(context_),
          DeliveryTarget{context_.tenant, identity.session, identity.host_key, identity.client},
          one.adapter);
    } catch (const std::system_error&) {
      return;  // no thread can be started now; with the next call perhaps
    }
  }
  sessions_.emplace(identity.session, std::move(one));
}

void CodexDeliveries::ask_to_end() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  for (const auto& [session, one] : sessions_) {
    if (one.loop) one.loop->ask_to_end();
  }
}

bool CodexDeliveries::await_end(Millis most) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  const std::lock_guard lock(mutex_);
  for (const auto& [session, one] : sessions_) {
    const auto left = deadline - std::chrono::steady_clock::now();
    if (one.loop && !one.loop->await_end(std::chrono::ceil<Millis>(left))) return false;
  }
  return true;
}

}  // namespace waybill::cli
