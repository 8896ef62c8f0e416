#include "edge/hook.h"

#include <gtest/gtest.h>

#include <random>

namespace waybill::edge {
namespace {

Result<HookInput> claude(std::string_view text) { return parse_hook(HookClient::claude, text); }

TEST(Hook, the_shapes_of_claude_code_are_read) {
  const auto prompt = claude(
      R"({"session_id":"ce6240b2-6906","transcript_path":"/t.jsonl","cwd":"/w","prompt_id":"77f7",)"
      R"("permission_mode":"default","hook_event_name":"UserPromptSubmit","prompt":"run \"it\""})");
  ASSERT_TRUE(prompt) << prompt.error().message;
  EXPECT_EQ(prompt->session, "ce6240b2-6906");
  EXPECT_EQ(prompt->turn, "77f7");
  EXPECT_EQ(prompt->cwd, "/w");
  EXPECT_EQ(prompt->prompt, "run \"it\"");
  EXPECT_FALSE(prompt->subagent);
  const auto tool = claude(
      R"({"session_id":"s","prompt_id":"p","agent_id":"a1","agent_type":"Explore",)"
      R"("effort":{"level":"high"},"hook_event_name":"PreToolUse","tool_name":"mcp__waybill__start",)"
      R"("tool_input":{"command":"make"},"tool_use_id":"toolu_01"})");
  ASSERT_TRUE(tool);
  EXPECT_EQ(tool->call, "toolu_01");
  EXPECT_TRUE(tool->subagent);
  const auto start = claude(R"({"session_id":"s","source":"compact"})");
  ASSERT_TRUE(start);
  EXPECT_EQ(start->source, "compact");
  EXPECT_EQ(start->turn, "");
}

TEST(Hook, the_shapes_of_codex_are_read) {
  const auto stop = parse_hook(
      HookClient::codex,
      R"({"session_id":"01a2","turn_id":"01a3","cwd":"/w","hook_event_name":"Stop","model":"m",)"
      R"("permission_mode":"bypassPermissions","stop_hook_active":true})");
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->turn, "01a3");
  EXPECT_EQ(hook_session(HookClient::codex, stop->session), "codex-01a2");
}

TEST(Hook, what_is_no_such_object_is_an_error_and_odd_fields_are_left_alone) {
  for (const char* bad : {"", "null", "[]", "5", "{", R"({"session_id":5})", R"({"session_id":""})",
                          R"({"session_id":"a b"})", R"({"session_id":"a\u0000b"})",
                          "{\"session_id\":\"\xff\"}", R"({"session_id":"s"} x)"}) {
    EXPECT_FALSE(claude(bad)) << bad;
  }
  EXPECT_FALSE(claude(std::string(100, '[') + std::string(100, ']')));
  const auto odd = claude(
      R"({"session_id":"s","prompt_id":{"a":1},"tool_use_id":"has blank","prompt":7,"cwd":null})");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->turn, "");
  EXPECT_EQ(odd->call, "");
  EXPECT_EQ(odd->prompt, "");
  EXPECT_FALSE(claude("{\"session_id\":\"s\",\"x\":\"" + std::string(kHookInputMax, 'x') + "\"}"));
}

TEST(Hook, I14_mutated_input_never_crashes) {
  const std::string good =
      R"({"session_id":"ce62","prompt_id":"77f7","tool_use_id":"t","prompt":"x","agent_id":"a"})";
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text = good;
    for (int i = 0; i < 3; ++i) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    (void)claude(text);
  }
}

TEST(Hook, answers_are_one_line_of_json_whatever_the_text) {
  const std::string context =
      hook_context(HookEvent::post_tool_use, "a\n\"b\" \\ </waybill_notice>");
  EXPECT_EQ(context, R"({"hookSpecificOutput":{"hookEventName":"PostToolUse","additionalContext":)"
                     R"("a\n\"b\" \\ </waybill_notice>"}})");
  EXPECT_EQ(hook_block("x\ny"), R"({"decision":"block","reason":"x\ny"})");
}

TEST(Hook, a_wake_is_told_from_what_a_person_writes) {
  const std::string wake = wake_prompt();
  EXPECT_TRUE(is_wake_prompt(wake));
  EXPECT_TRUE(is_wake_prompt("<task-notification>\n<summary>x</summary>\n" + wake));
  EXPECT_FALSE(is_wake_prompt("what is " + wake));
  EXPECT_FALSE(is_wake_prompt(wake + "\nplease fix the bug"));
  EXPECT_FALSE(is_wake_prompt("[waybill: wake] what does this line in my log mean?"));
  EXPECT_FALSE(is_automatic_prompt("[waybill: wake] what does this line in my log mean?"));
  EXPECT_FALSE(is_wake_prompt("<task-notification>another's</task-notification>"));
  EXPECT_TRUE(is_automatic_prompt("<task-notification>another's</task-notification>"));
  EXPECT_FALSE(is_automatic_prompt("please <task-notification>"));
  EXPECT_TRUE(is_automatic_prompt("<waybill_notice delivery=\"d1\" events=\"1\">"));
  EXPECT_FALSE(is_wake_prompt("<waybill_notice delivery=\"d1\" events=\"1\">"));
  EXPECT_FALSE(is_automatic_prompt("what is <waybill_notice >?"));
}

TEST(Hook, events_are_known_by_their_own_names) {
  for (const char* name : {"SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop",
                           "Notification", "SessionEnd", "Wake"}) {
    const auto event = hook_event(name);
    ASSERT_TRUE(event) << name;
    EXPECT_EQ(hook_event_name(*event), name);
  }
  EXPECT_FALSE(hook_event("stop"));
  EXPECT_FALSE(hook_client("gemini"));
}

}  // namespace
}  // namespace waybill::edge
