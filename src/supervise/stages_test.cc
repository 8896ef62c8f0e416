// The stage hook under the nasty commands of the contract, on the level of facts: exit, record,
// output.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "supervise/channel_fixture.h"
#include "supervise/launch_files.h"
#include "supervise/stage_hook.h"

namespace waybill::supervise {
namespace {

struct StageCase {
  int number;  // of the table of commands
  const char* command;
  int code;
  std::vector<int> stages;  // empty: no record that could be claimed
  const char* output = nullptr;
};

const StageCase kCases[] = {
    {1, "sh -c 'exit 101' | tail -n 20", 0, {101, 0}, ""},
    {2, "yes | head -n 1", 0, {141, 0}, "y\n"},
    {3, "false | true; exit 0", 0, {1, 0}},
    {4, "exit 7 | cat", 0, {7, 0}},
    {6, "exec sh -c 'exit 5' | cat", 0, {5, 0}},
    {9, "cat <<E | cat\nbody", 0, {0, 0}},
    {10, "set -e; true | false; echo no", 1, {0, 1}, ""},
    {11, "set -eo pipefail; false | true; echo no", 1, {1, 0}, ""},
    {12, "false | true # c", 0, {1, 0}},
    {12, "false \\\n | true", 0, {1, 0}},
    {16, "grep zzz /etc/hosts | wc -l", 0, {1, 0}, "0\n"},
    {17, "IFS=0123456789; false | true", 0, {1, 0}},
    {18, "set -x; false | true", 0, {1, 0}},
    {19, "sh -c 'kill -9 $$' | cat", 0, {137, 0}},
    {21, "bash -c 'false | true' | cat", 0, {0, 0}},
    {31, "exec 1>&-; false | true", 0, {1, 0}},
    {32, "set -C; false | true", 0, {1, 0}},
    {33, "cd /; false | true", 0, {1, 0}},
    {34, "for i in 1 2; do false | true; done", 0, {1, 0}},
    {35, "printf() { :; }; set() { :; }; false | true", 0, {1, 0}},
};

using StageTest = ChannelTest;

TEST_F(StageTest, I9_stages_are_what_the_shell_saw_and_its_exit_is_unchanged) {
  for (const StageCase& expected : kCases) {
    SCOPED_TRACE(expected.command);
    const core::JobFacts facts = wait_finished(run(expected.command));
    EXPECT_EQ(facts.exit->code, expected.code);
    EXPECT_TRUE(facts.captured);
    ASSERT_TRUE(facts.stages);
    EXPECT_EQ(facts.stages->shell_code, expected.code);
    EXPECT_EQ(facts.stages->statuses, expected.stages);
    if (expected.output != nullptr) {
      EXPECT_EQ(facts.tail, expected.output);
    }
  }
}

TEST_F(StageTest, S18_the_hook_is_invisible_under_set_x) {
  const core::JobFacts facts = wait_finished(run("set -x; false | true"));
  EXPECT_EQ(std::count(facts.tail.begin(), facts.tail.end(), '\n'), 2) << facts.tail;
}

TEST_F(StageTest, S9_only_the_body_and_the_shells_own_warning) {
  const core::JobFacts facts = wait_finished(run("cat <<E | cat\nbody"));
  EXPECT_TRUE(facts.tail.ends_with("body") || facts.tail.ends_with("body\n")) << facts.tail;
  EXPECT_NE(facts.tail.find("warning: here-document"), std::string::npos) << facts.tail;
}

TEST_F(StageTest, I9_what_was_not_captured_is_not_claimed) {
  struct Case {
    const char* command;
    int code;
    const char* output;
  };
  for (const Case& expected : {Case{"false | true; exec true", 0, ""},
                               Case{"trap 'echo bye' EXIT; false | true", 0, "bye\n"}}) {
    const core::JobFacts facts = wait_finished(run(expected.command));
    EXPECT_EQ(facts.exit->code, expected.code) << expected.command;
    EXPECT_TRUE(facts.captured);
    EXPECT_FALSE(facts.stages) << expected.command;
    EXPECT_EQ(facts.tail, expected.output);
  }
  // One element: nothing about a pipeline.
  for (const char* command :
       {"false | true && echo done", "false | true; echo rc=$?", "false | true & wait"}) {
    const core::JobFacts facts = wait_finished(run(command));
    ASSERT_TRUE(facts.stages) << command;
    EXPECT_EQ(facts.stages->statuses.size(), 1U) << command;
  }
  const core::JobFacts syntax = wait_finished(run("false | true\necho )"));
  EXPECT_EQ(syntax.exit->code, 2);
  EXPECT_NE(syntax.tail.find("line 2"), std::string::npos) << syntax.tail;
  const core::JobFacts killed = wait_finished(run("true | true; kill -9 $$"));
  EXPECT_EQ(killed.exit->signal, 9);
  EXPECT_FALSE(killed.stages);
  LaunchOrder dash = order("false | true");
  dash.shell = "/bin/sh";
  const core::JobFacts plain = wait_finished(run(std::move(dash)));
  EXPECT_FALSE(plain.captured);
  EXPECT_FALSE(plain.stages);
}

TEST_F(StageTest, the_jobs_own_BASH_ENV_is_restored_and_read) {
  const std::string path = data_dir_ + "/my env.sh";
  FILE* file = fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  fputs("FROM_MINE=yes\n", file);
  fclose(file);
  LaunchOrder launch =
      order("echo \"$FROM_MINE $BASH_ENV\"; bash -c 'echo $FROM_MINE'; false | true");
  launch.env.push_back("BASH_ENV=$DATA/my env.sh");  // bash expands it
  const core::JobFacts facts = wait_finished(run(std::move(launch)));
  EXPECT_EQ(facts.tail, "yes $DATA/my env.sh\nyes\n");
  ASSERT_TRUE(facts.stages);
  EXPECT_EQ(facts.stages->statuses, (std::vector<int>{1, 0}));
  LaunchOrder missing = order("false | true; echo x | cat");
  missing.env.push_back("BASH_ENV=/no/such \"file\" `");
  const core::JobFacts quiet = wait_finished(run(std::move(missing)));
  ASSERT_TRUE(quiet.stages);
  EXPECT_EQ(quiet.stages->statuses, (std::vector<int>{0, 0}));
}

TEST_F(StageTest, data_directories_with_strange_names_work) {
  const std::string top = data_dir_;
  for (const char* name : {"with blank", "quo'te\"s", "do$llar`tick\\back", "new\nline", "$(id)"}) {
    data_dir_ = top + "/" + name;
    ASSERT_EQ(mkdir(data_dir_.c_str(), 0700), 0);
    open_channel();
    const core::JobFacts facts = wait_finished(run("false | true"));
    ASSERT_TRUE(facts.stages) << name;
    EXPECT_EQ(facts.stages->statuses, (std::vector<int>{1, 0})) << name;
    EXPECT_EQ(facts.tail, "") << name;
  }
  channel_.reset();
  data_dir_ = top;
}

TEST(LaunchFiles, only_bash_commands_with_a_pipe_are_captured) {
  LaunchOrder order;
  order.shell = "/bin/bash";
  order.command = "a | b";
  EXPECT_EQ(captured_shell(order), core::Shell::bash);
  order.command = "a || b";
  EXPECT_EQ(captured_shell(order), core::Shell::other);
  order.command = "a | b";
  order.env = {"POSIXLY_CORRECT=1"};
  EXPECT_EQ(captured_shell(order), core::Shell::other);
  order.env.clear();
  order.shell = "/bin/dash";
  EXPECT_EQ(captured_shell(order), core::Shell::other);
  order.shell.clear();
  EXPECT_EQ(captured_shell(order), core::Shell::other);
}

TEST(LaunchFiles, shell_words_survive_quoting) {
  EXPECT_EQ(shell_quote("a'b"), "'a'\\''b'");
  EXPECT_EQ(bash_env_for("/a$b`c\\d\"e"), "/a\\$b\\`c\\\\d\"e");
}

TEST(LaunchFiles, crash_points_are_ignored_without_the_variable) {
  LaunchOrder order;
  order.job = JobId("j1");
  order.argv = {"true"};
  order.cwd = "/";
  order.crash_point = "shim.after_start";
  unsetenv("WAYBILL_CRASH_SHIM");
  const LaunchFiles files = make_launch_files(order, "/d");
  EXPECT_EQ(files.launch.find("shim.after_start"), std::string::npos);
}

}  // namespace
}  // namespace waybill::supervise
