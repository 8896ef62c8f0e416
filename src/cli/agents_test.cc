// What runs beside an agent: the process it belongs to, its sandbox, how it is started again.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>

#include "cli/codex_sandbox.h"
#include "cli/host_process.h"
#include "cli/quote.h"
#include "cli/resume.h"
#include "edge/hook.h"

namespace waybill::cli {
namespace {

namespace json = boost::json;
using Words = std::vector<std::string>;

// ---- the sandbox that Codex states -------------------------------------------------------------

// As Codex 0.171.0 sends it, shortened; `codex` is a program that is there.
json::object stated(const std::string& profile, const std::string& codex = "/bin/true") {
  return json::parse(R"({"callId":"call_1","threadId":"t","x-codex-turn-metadata":)"
                     R"({"turn_id":"u","sandbox":"seccomp","sandbox_mode":"read-only"},)"
                     R"("codex/sandbox-state-meta":{"permissionProfile":)" +
                     profile +
                     R"(,"codexLinuxSandboxExe":"/x","sandboxCwd":"file:///w/a%20b"},)"
                     R"("codex/sandbox-launcher":{"codexExecutable":")" +
                     codex + R"("}})")
      .as_object();
}

const std::string kManaged = R"({"type":"managed","network":"restricted"})";

TEST(CodexSandbox, a_stated_sandbox_goes_around_the_command_with_its_very_state) {
  const json::object meta = stated(kManaged);
  const StatedSandbox sandbox = codex_sandbox(meta, "/other", "/w/a b");
  EXPECT_EQ(sandbox.refused, "");
  ASSERT_EQ(sandbox.wrapper.size(), 5U);
  EXPECT_EQ(sandbox.wrapper[0], "/bin/true");
  EXPECT_EQ(sandbox.wrapper[1], "sandbox");
  EXPECT_EQ(sandbox.wrapper[2], "--sandbox-state-json");
  EXPECT_EQ(json::parse(sandbox.wrapper[3]), meta.at("codex/sandbox-state-meta"));
  EXPECT_EQ(sandbox.wrapper[4], "--");
}

TEST(CodexSandbox, another_directory_is_entered_inside_of_it) {
  const StatedSandbox sandbox = codex_sandbox(stated(kManaged), "", "/elsewhere");
  const Words tail(sandbox.wrapper.end() - 3, sandbox.wrapper.end());
  EXPECT_EQ(tail, (Words{"/usr/bin/env", "-C", "/elsewhere"}));
}

TEST(CodexSandbox, no_sandbox_is_no_wrapper) {
  EXPECT_TRUE(codex_sandbox(stated(R"({"type":"disabled"})"), "", "/").wrapper.empty());
  const json::object full = json::parse(R"({"x-codex-turn-metadata":{"sandbox":"none",)"
                                        R"("sandbox_mode":"danger-full-access"}})")
                                .as_object();
  EXPECT_EQ(codex_sandbox(full, "", "/").refused, "");
  EXPECT_TRUE(codex_sandbox(full, "", "/").wrapper.empty());
}

TEST(CodexSandbox, what_cannot_be_honoured_is_refused) {
  const json::object silent =
      json::parse(R"({"x-codex-turn-metadata":{"sandbox":"seccomp"}})").as_object();
  EXPECT_NE(codex_sandbox(silent, "/bin/true", "/").refused, "");
  const json::object workspace =
      json::parse(R"({"x-codex-turn-metadata":{"sandbox_mode":"workspace-write"}})").as_object();
  EXPECT_NE(codex_sandbox(workspace, "/bin/true", "/").refused, "");
  EXPECT_NE(codex_sandbox(stated(kManaged, "/nowhere/codex"), "", "/").refused, "");
  EXPECT_NE(codex_sandbox(stated(kManaged, "relative"), "", "/").refused, "");
  for (const char* odd :
       {"{}", R"({"x-codex-turn-metadata":null})", R"({"x-codex-turn-metadata":"none"})",
        R"({"x-codex-turn-metadata":{"sandbox_mode":5,"sandbox":"none"}})"}) {
    EXPECT_NE(codex_sandbox(json::parse(odd).as_object(), "/bin/true", "/").refused, "") << odd;
  }
  // A state that is no object says nothing of being disabled.
  json::object odd = stated(kManaged);
  odd["codex/sandbox-state-meta"] = "disabled";
  EXPECT_NE(codex_sandbox(odd, "/bin/true", "/").refused, "");
}

// ---- starting again ----------------------------------------------------------------------------

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST(Resume, the_client_keeps_what_configures_it_and_no_leave_to_skip_approvals) {
  const Words command =
      resume_command(edge::HookClient::claude, "ce62", "/opt/claude",
                     {"claude", "--settings", "/s.json", "--dangerously-skip-permissions",
                      "--mcp-config", "a.json", "b.json", "--permission-mode", "bypassPermissions",
                      "--model=opus", "--allowedTools", "mcp__waybill__start", "--resume", "old",
                      "-p", "the prompt of that time"});
  const auto at = std::find(command.begin(), command.end(), "/opt/claude");
  ASSERT_NE(at, command.end());
  EXPECT_EQ(Words(at, at + 5),
            (Words{"/opt/claude", "-p", edge::wake_prompt(), "--resume", "ce62"}));
  for (const char* kept : {"--settings", "/s.json", "--mcp-config", "a.json", "b.json",
                           "--model=opus", "--allowedTools", "mcp__waybill__start"}) {
    EXPECT_TRUE(has(command, kept)) << kept;
  }
  for (const char* gone : {"--dangerously-skip-permissions", "--permission-mode",
                           "bypassPermissions", "old", "the prompt of that time"}) {
    EXPECT_FALSE(has(command, gone)) << gone;
  }
}

TEST(Resume, codex_goes_on_with_the_thread) {
  const Words command =
      resume_command(edge::HookClient::codex, "01a2", "/opt/codex",
                     {"codex", "--dangerously-bypass-approvals-and-sandbox", "-m", "gpt", "exec",
                      "--dangerously-bypass-hook-trust", "-c", "approval_policy=never", "hello"});
  const Words tail(command.end() - 6, command.end());
  EXPECT_EQ(tail, (Words{"exec", "-m", "gpt", "resume", "01a2", edge::wake_prompt()}));
}

TEST(Resume, what_narrows_a_clients_rights_is_kept) {
  const Words codex = resume_command(edge::HookClient::codex, "01a2", "/opt/codex",
                                     {"codex", "-s", "read-only", "--sandbox=danger-full-access"});
  EXPECT_TRUE(has(codex, "read-only"));
  EXPECT_FALSE(has(codex, "danger-full-access"));
  const Words claude =
      resume_command(edge::HookClient::claude, "s", "/opt/claude",
                     {"claude", "--permission-mode=plan", "--tools", "Read", "Grep"});
  EXPECT_TRUE(has(claude, "plan"));
  EXPECT_TRUE(has(claude, "Grep"));
}

TEST(Resume, a_script_is_started_by_its_interpreter) {
  const Words command = resume_command(edge::HookClient::claude, "s", "/usr/bin/node",
                                       {"node", "/lib/cli.js", "--model", "x"});
  const auto at = std::find(command.begin(), command.end(), "/usr/bin/node");
  EXPECT_EQ(*(at + 1), "/lib/cli.js");
  EXPECT_TRUE(resume_command(edge::HookClient::claude, "s", "", {}).empty());
  EXPECT_TRUE(resume_command(edge::HookClient::claude, "s", "/usr/bin/node", {"node"}).empty());
  EXPECT_TRUE(resume_command(edge::HookClient::claude, "s", "/usr/bin/node",
                             {"node", "--max-old-space-size=9", "/lib/cli.js"})
                  .empty());
}

// ---- the client's process ----------------------------------------------------------------------

TEST(HostProcess, one_shots_are_told_from_clients_that_stay) {
  EXPECT_TRUE(is_one_shot("claude", {"claude", "-p", "hello"}));
  EXPECT_TRUE(is_one_shot("claude", {"claude", "--print"}));
  EXPECT_FALSE(is_one_shot("claude", {"claude"}));
  EXPECT_FALSE(is_one_shot("claude", {"claude", "-p", "--input-format", "stream-json"}));
  EXPECT_FALSE(is_one_shot("claude", {"claude", "-p", "--input-format=stream-json"}));
  EXPECT_TRUE(is_one_shot("claude", {"claude", "-p", "--input-format"}));
  EXPECT_TRUE(is_one_shot("codex", {"codex", "exec", "hello"}));
  EXPECT_FALSE(is_one_shot("codex", {"codex"}));
  EXPECT_FALSE(is_one_shot("other", {"x", "-p", "exec"}));
}

TEST(HostProcess, a_process_is_known_by_number_and_start) {
  const auto host = find_host("mcp");
  ASSERT_TRUE(host);
  EXPECT_GT(host->start, 0U);
  EXPECT_EQ(host_key_of("claude", {12, 34}), "claude-12-34");
  EXPECT_FALSE(command_line_of(::getpid()).empty());
  EXPECT_TRUE(command_line_of(-1).empty());
  EXPECT_NE(program_of(::getpid()), "");
  EXPECT_EQ(variable_of({"AB=1", "A=2", "A=3"}, "A"), "2");
  EXPECT_FALSE(variable_of({"AB=1"}, "A"));
}

// ---- words of a wrapper ------------------------------------------------------------------------

TEST(ShellSplit, splits_as_a_shell_would) {
  EXPECT_EQ(shell_split("bwrap  --bind '/a b' \"/c d\" e\\ f ''"),
            (Words{"bwrap", "--bind", "/a b", "/c d", "e f", ""}));
  EXPECT_EQ(shell_split("a'b'\"c\""), Words{"abc"});
  EXPECT_EQ(shell_split("'a\\b' \"a\\\"b\""), (Words{"a\\b", "a\"b"}));
  EXPECT_EQ(shell_split("  "), Words{});
  EXPECT_FALSE(shell_split("'open"));
  EXPECT_FALSE(shell_split("a \"b"));
  const Words words{"a b", "it's", "$x", "\"", ""};
  EXPECT_EQ(shell_split(shell_join(words)), words);
}

}  // namespace
}  // namespace waybill::cli
