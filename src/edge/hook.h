#pragma once
// Hooks of agent clients: what a client writes to a hook's standard input, and what it reads from
// its standard output. Claude Code and Codex speak nearly the same JSON. Pure.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace waybill::edge {

enum class HookClient { claude, codex };
enum class HookEvent {
  session_start,
  user_prompt_submit,
  pre_tool_use,
  post_tool_use,
  stop,
  notification,
  session_end,
  wake,  // ours: stays in the background until the session has to be woken
};

std::optional<HookClient> hook_client(std::string_view word);
std::string_view hook_client_word(HookClient client);
// By the client's own name of the event, "SessionStart" …
std::optional<HookEvent> hook_event(std::string_view name);
std::string_view hook_event_name(HookEvent event);

struct HookInput {
  std::string session;    // the client's id of its conversation
  std::string turn;       // of the turn, "" if it does not say
  std::string call;       // of the tool call, "" if there is none or it is no id of ours
  std::string cwd;        // "" if it does not say
  std::string event;      // the client's own name of what it is about, "" if it does not say
  std::string source;     // SessionStart: startup, resume, clear, compact …
  std::string reason;     // SessionEnd: clear, logout, prompt_input_exit, other …
  std::string prompt;     // UserPromptSubmit
  bool subagent = false;  // inside a subagent, whose context is not the session's
};

// At most this much is read from a hook's standard input.
inline constexpr std::size_t kHookInputMax = 16 * 1024 * 1024;

// bad_request for anything that is not such an object, names no session, or nests too deep. Fields
// that are not known are left alone: clients add some with every version.
Result<HookInput> parse_hook(HookClient client, std::string_view text);

// Waybill's own id of the session.
std::string hook_session(HookClient client, std::string_view session);

// Answers, one line of JSON each.
std::string hook_context(HookEvent event, std::string_view text);  // the model reads it
std::string hook_block(std::string_view reason);  // Stop: go on with it; a prompt: do not

// What a wake says to the model: the notice itself is handed over by the turn that begins.
std::string wake_prompt();
// Whether a prompt is such a wake, or a client's own wrapping of one.
bool is_wake_prompt(std::string_view prompt);
// Whether a prompt is of a client's making and not a person's.
bool is_automatic_prompt(std::string_view prompt);

}  // namespace waybill::edge
