#include "cli/client_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace waybill::cli {
namespace {

TEST(ClientConfig, HooksOfOursAreKnownByTheirProgram) {
  struct Row {
    const char* command;
    const char* program;  // nullptr: not ours
  };
  for (const Row& row :
       std::initializer_list<Row>{{"/usr/bin/waybill hook claude Stop", "/usr/bin/waybill"},
                                  {"'/a b/waybill' hook claude Stop --data '/d e'", "/a b/waybill"},
                                  {"\"/a b/waybill\" hook claude Stop", "/a b/waybill"},
                                  {R"('/it'\''s/waybill' hook claude Stop)", "/it's/waybill"},
                                  {R"(/a\ b/waybill hook claude Stop)", "/a b/waybill"},
                                  {"waybill hook claude Stop", nullptr},
                                  {"/usr/bin/waybill hook codex Stop", nullptr},
                                  {"/usr/bin/waybill hook claude", nullptr},
                                  {"/usr/bin/waybill  hook claude Stop", nullptr},
                                  {"/usr/bin/mywaybill hook claude Stop", nullptr},
                                  {"echo /usr/bin/waybill hook claude Stop", nullptr},
                                  {"'/usr/bin/waybill hook claude Stop", nullptr},
                                  {"", nullptr}}) {
    const std::optional<OurHook> hook = our_hook(row.command, ClientId::claude);
    ASSERT_EQ(hook.has_value(), row.program != nullptr) << row.command;
    if (!hook) continue;
    EXPECT_EQ(hook->program, row.program);
    EXPECT_EQ(hook->event, "Stop");
  }
}

TEST(ClientConfig, WhatIsPutInIsKnownAgain) {
  for (const char* program : {"/waybill", "/a b/waybill", "/it's/$x`y`\"z\\/waybill"}) {
    for (const char* data : {"", "/d", "/d e'f"}) {
      const Wiring wiring{program, data, false};
      const std::string command = hook_command(wiring, ClientId::codex, "Stop");
      const std::optional<OurHook> hook = our_hook(command, ClientId::codex);
      ASSERT_TRUE(hook) << command;
      EXPECT_EQ(hook->program, program);
      EXPECT_EQ(hook->event, "Stop");
      EXPECT_EQ(mcp_arguments(wiring).size(), *data == '\0' ? 1U : 3U);
    }
  }
}

// The hashes are those that Codex 0.171.0 gave for these hooks.
TEST(ClientConfig, HooksThatCodexTrustsAreKnown) {
  std::string home = "/tmp/waybill-codex-XXXXXX";
  ASSERT_NE(::mkdtemp(home.data()), nullptr);
  ::setenv("CODEX_HOME", home.c_str(), 1);
  ASSERT_TRUE(write_changes(*plan_setup(ClientId::codex, {"/opt/waybill", "", false})));
  EXPECT_FALSE(look_at_client(ClientId::codex)->trusted);
  const std::pair<const char*, const char*> rows[] = {
      {"pre_tool_use", "9471a07ccd2f869b58d7e37a23afccbc5b339ff40788e18ce914744ba3119bb5"},
      {"post_tool_use", "969a60b5cd9487026969e0ac1e56005dad783f6bb4595699a6c65f98fff416d3"},
      {"session_start", "e3329aa9b5608029d199e354e9726c38bacfa54ad0d40e8da40acbdb5a8c57fb"},
      {"user_prompt_submit", "84ab8bcaa99fcc5ad2a4f36c71530649942c17ef75fe80177af12c69bf048a99"},
      {"stop", "2c3fb968c0bd17e4b134ab39f8748883b23556516fde90787cdeab206cd7d150"}};
  for (const auto& [event, hash] : rows) {
    EXPECT_FALSE(look_at_client(ClientId::codex)->trusted);
    std::ofstream(home + "/config.toml", std::ios::app)
        << "\n[hooks.state.\"" << home << "/hooks.json:" << event << ":0:0\"]\n"
        << "trusted_hash = \"sha256:" << hash << "\"\n";
  }
  const Result<Wired> wired = look_at_client(ClientId::codex);
  EXPECT_TRUE(wired->trusted);
  EXPECT_TRUE(wired->complete);
  EXPECT_EQ(wired->program, "/opt/waybill");
  // Another command is another hook, which nobody has trusted.
  ASSERT_TRUE(write_changes(*plan_setup(ClientId::codex, {"/opt/waybill", "/d", false})));
  EXPECT_FALSE(look_at_client(ClientId::codex)->trusted);
  ::unsetenv("CODEX_HOME");
  std::filesystem::remove_all(home);
}

}  // namespace
}  // namespace waybill::cli
