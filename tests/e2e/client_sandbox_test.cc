// The sandbox that Codex states goes around what its model starts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "e2e/harness.h"
#include "e2e/scripted_client.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

class CodexSandboxTest : public ::testing::Test {
 protected:
  CodexSandboxTest() : client(daemon, {"codex", "44444444-dddd", temp.path(), {}}) {
    daemon.start();
  }
  // A program in the place of Codex's, which writes down how it was called and runs what comes
  // after `--`.
  std::string sandbox_program() {
    const std::string path = temp.path() + "/codex";
    std::ofstream(path) << "#!/bin/sh\nprintf '%s\\n' \"$@\" \"preload=$LD_PRELOAD\" > '"
                        << temp.path()
                        << "/called'\nwhile [ \"$1\" != -- ]; do shift; done; shift\n"
                        << "INSIDE=yes exec \"$@\"\n";
    ::chmod(path.c_str(), 0755);
    return path;
  }
  json::object stated(const std::string& program) {
    return {{"x-codex-turn-metadata", {{"turn_id", "t1"}, {"sandbox", "seccomp"}}},
            {"codex/sandbox-state-meta",
             {{"permissionProfile", {{"type", "managed"}, {"network", "restricted"}}},
              {"sandboxCwd", "file://" + temp.path()}}},
            {"codex/sandbox-launcher", {{"codexExecutable", program}}}};
  }
  TempDir temp;
  Daemon daemon;
  ScriptedClient client;
};

TEST_F(CodexSandboxTest, a_command_is_run_through_it_and_the_models_variables_are_inside) {
  client.meta(stated(sandbox_program()));
  const json::value ran = client.call("t1", "start",
                                      {{"command", "echo $INSIDE $MINE $LD_PRELOAD; pwd"},
                                       {"cwd", "/"},
                                       {"env", {{"MINE", "x"}, {"LD_PRELOAD", "/evil.so"}}},
                                       {"yield_ms", 60000}});
  EXPECT_THAT(text_at(ran, "structuredContent.output.text"), HasSubstr("yes x /evil.so\n/\n"));
  const std::string called = read_file(temp.path() + "/called");
  EXPECT_THAT(called, HasSubstr("sandbox\n--sandbox-state-json\n{\"permissionProfile\""));
  EXPECT_THAT(called, HasSubstr("preload=\n")) << "not the sandbox's own program";
  const std::string job = text_at(ran, "structuredContent.job");
  const json::value shown = daemon.json({"show", job, "--session", client.session()});
  EXPECT_EQ(text_at(shown, "job.wrapper.0"), temp.path() + "/codex") << "part of its record";
}

TEST_F(CodexSandboxTest, what_cannot_be_set_up_is_refused_and_nothing_runs) {
  client.meta(stated(temp.path() + "/nowhere"));
  const json::value refused = client.call(
      "t1", "start", {{"command", "touch " + temp.path() + "/ran"}, {"yield_ms", 60000}});
  EXPECT_EQ(text_at(refused, "structuredContent.error.code"), "forbidden");
  EXPECT_NE(::access((temp.path() + "/ran").c_str(), F_OK), 0);
  client.meta({{"x-codex-turn-metadata", {{"sandbox_mode", "read-only"}}}});
  const json::value silent = client.call("t1", "start", {{"command", "true"}});
  EXPECT_EQ(text_at(silent, "structuredContent.error.code"), "forbidden");
}

TEST_F(CodexSandboxTest, names_of_variables_that_are_none_are_refused) {
  client.meta(stated(sandbox_program()));
  for (const char* name : {"-S", "-u", "1A", "A B"}) {
    const json::value refused =
        client.call("t1", "start", {{"command", "true"}, {"env", {{name, "x"}}}});
    EXPECT_EQ(text_at(refused, "structuredContent.error.code"), "bad_request") << name;
  }
}

}  // namespace
}  // namespace waybill::e2e
