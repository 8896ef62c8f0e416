#include "cli/client_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace waybill::cli
