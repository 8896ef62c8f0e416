#include "edge/hook.h"

#include <array>
#include <boost/json.hpp>
#include <utility>

#include "base/ids.h"
#include "edge/json.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;

constexpr std::array<std::pair<std::string_view, HookEvent>, 8> kEvents{{
    {"SessionStart", HookEvent::session_start},
    {"UserPromptSubmit", HookEvent::user_prompt_submit},
    {"PreToolUse", HookEvent::pre_tool_use},
    {"PostToolUse", HookEvent::post_tool_use},
    {"Stop", HookEvent::stop},
    {"Notification", HookEvent::notification},
    {"SessionEnd", HookEvent::session_end},
    {"Wake", HookEvent::wake},
}};

constexpr std::string_view kWakeMark = "[waybill: wake]";
// How Claude Code begins what it tells a session on its own.
constexpr std::string_view kTaskNotification = "<task-notification>";
// A notice that was put into the session as a message of its own.
constexpr std::string_view kNotice = "<waybill_notice ";

std::string text_member(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(json::string_view(name.data(), name.size()));
  if (value == nullptr || !value->is_string()) return {};
  return std::string(value->get_string());
}

// An id of a client's that can be one of ours; "" otherwise.
std::string id_member(const json::object& object, std::string_view name) {
  std::string text = text_member(object, name);
  if (!check_id(text, name)) text.clear();
  return text;
}

}  // namespace

std::optional<HookClient> hook_client(std::string_view word) {
  if (word == "claude") return HookClient::claude;
  if (word == "codex") return HookClient::codex;
  return std::nullopt;
}

std::string_view hook_client_word(HookClient client) {
  switch (client) {
    case HookClient::claude:
      return "claude";
    case HookClient::codex:
      return "codex";
  }
  return {};
}

std::optional<HookEvent> hook_event(std::string_view name) {
  for (const auto& [known, event] : kEvents) {
    if (known == name) return event;
  }
  return std::nullopt;
}

std::string_view hook_event_name(HookEvent event) {
  return kEvents.at(static_cast<std::size_t>(event)).first;
}

Result<HookInput> parse_hook(HookClient client, std::string_view text) {
  if (text.size() > kHookInputMax) {
    return fail(ErrorCode::too_large,
                "The hook's input has more than " + std::to_string(kHookInputMax) + " bytes.");
  }
  TRY_ASSIGN(const json::value value, parse_json(text));
  const json::object* object = value.if_object();
  if (object == nullptr) {
    return fail(ErrorCode::bad_request, "The hook's input is not a JSON object.");
  }
  HookInput input;
  input.session = text_member(*object, "session_id");
  TRY(check_id(hook_session(client, input.session), "session_id"));
  if (input.session.empty()) {
    return fail(ErrorCode::bad_request, "The hook's input names no session_id.");
  }
  input.turn = id_member(*object, client == HookClient::claude ? "prompt_id" : "turn_id");
  input.call = id_member(*object, "tool_use_id");
  input.cwd = text_member(*object, "cwd");
  input.event = text_member(*object, "hook_event_name");
  input.source = text_member(*object, "source");
  input.reason = text_member(*object, "reason");
  input.prompt = text_member(*object, "prompt");
  input.subagent = !text_member(*object, "agent_id").empty();
  return input;
}

std::string hook_session(HookClient client, std::string_view session) {
  return std::string(hook_client_word(client)) + "-" + std::string(session);
}

std::string hook_context(HookEvent event, std::string_view text) {
  const std::string_view name = hook_event_name(event);
  return to_text(json::object{
      {"hookSpecificOutput",
       json::object{{"hookEventName", json::string_view(name.data(), name.size())},
                    {"additionalContext", json::string_view(text.data(), text.size())}}}});
}

std::string hook_block(std::string_view reason) {
  return to_text(json::object{{"decision", "block"},
                              {"reason", json::string_view(reason.data(), reason.size())}});
}

std::string wake_prompt() {
  return std::string(kWakeMark) +
         " Background work of this session has ended. This is no message from the user. The notice "
         "comes with it; if none does, call the waybill `inbox` tool.";
}

bool is_wake_prompt(std::string_view prompt) {
  // Of a client's own making, or the whole prompt that a closed client was started with. A person
  // who quotes a wake has not written one.
  const std::string wake = wake_prompt();
  return prompt == wake ||
         (prompt.starts_with(kTaskNotification) && prompt.find(wake) != std::string_view::npos);
}

bool is_automatic_prompt(std::string_view prompt) {
  return prompt.starts_with(kTaskNotification) || prompt == wake_prompt() ||
         prompt.starts_with(kNotice);
}

}  // namespace waybill::edge
