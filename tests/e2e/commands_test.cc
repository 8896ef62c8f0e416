// Nasty commands and the right result of each, through the whole program: the shell, its hook, the
// supervisor, the verdict and the exit code that `run --wait` gives.

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

struct Row {
  const char* name;
  const char* command;
  int shell_exit;           // exit.code; with `signal` that instead
  std::vector<int> stages;  // exits; empty: not claimed
  const char* findings;     // blanks between
  const char* verdict;
  const char* status;
  int run_exit;             // of `run --wait`
  const char* output;       // nullptr: not looked at
  const char* reason = "";  // why stages are not claimed
  int signal = 0;
  const char* shell = "bash";
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.command; }

const Row kRows[] = {
    {"row01_failing_suite_behind_tail",
     "sh -c 'exit 101' | tail -n 20",
     0,
     {101, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"row02_reader_that_stops_early",
     "yes | head -n 1",
     0,
     {141, 0},
     "closed_early ok",
     "ok",
     "succeeded",
     0,
     "y\n"},
    {"row03_exit_after_the_pipeline",
     "false | true; exit 0",
     0,
     {1, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"row04_exit_is_a_stage",
     "exit 7 | cat",
     0,
     {7, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"row05_exec_after_the_pipeline",
     "false | true; exec true",
     0,
     {},
     "",
     "ok",
     "succeeded",
     0,
     "",
     "exec"},
    {"row06_exec_is_a_stage",
     "exec sh -c 'exit 5' | cat",
     0,
     {5, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"row07_own_exit_trap",
     "trap 'echo bye' EXIT; false | true",
     0,
     {},
     "",
     "ok",
     "succeeded",
     0,
     "bye\n",
     "user_exit_trap"},
    {"row10_errexit",
     "set -e; true | false; echo no",
     1,
     {0, 1},
     "ok failed",
     "failed",
     "failed",
     1,
     ""},
    {"row11_pipefail",
     "set -eo pipefail; false | true; echo no",
     1,
     {1, 0},
     "failed ok",
     "failed",
     "failed",
     1,
     ""},
    {"row12_comment_after_the_pipeline",
     "false | true # c",
     0,
     {1, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"row13_command_after_the_pipeline",
     "false | true && echo done",
     0,
     {},
     "",
     "ok",
     "succeeded",
     0,
     "done\n",
     "not_last"},
    {"row15_pipeline_in_the_background",
     "false | true & wait",
     0,
     {},
     "",
     "ok",
     "succeeded",
     0,
     "",
     "not_last"},
    {"row16_grep_without_a_match",
     "grep zzz-none /etc/hosts | wc -l",
     0,
     {1, 0},
     "no_match ok",
     "ok",
     "succeeded",
     0,
     "0\n"},
    {"row17_digits_in_IFS",
     "IFS=0123456789; false | true",
     0,
     {1, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"row18_xtrace_shows_no_hook",
     "set -x; false | true",
     0,
     {1, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     nullptr},
    {"row19_killed_stage",
     "sh -c 'kill -9 $$' | cat",
     0,
     {137, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"row20_kills_itself", "kill -9 $$", 0, {}, "", "signaled", "failed", 137, "", "single", 9},
    {"row21_inner_pipeline",
     "bash -c 'false | true' | cat",
     0,
     {0, 0},
     "ok ok",
     "ok",
     "succeeded",
     0,
     ""},
    {"row28_writes_through_dev_stdout",
     "echo a; echo b >/dev/stdout; echo c",
     0,
     {},
     "",
     "ok",
     "succeeded",
     0,
     "a\nb\nc\n",
     "single"},
    {"more_closed_stdout",
     "exec 1>&-; false | true",
     0,
     {1, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"more_noclobber",
     "set -C; false | true",
     0,
     {1, 0},
     "failed ok",
     "stage_failed",
     "failed",
     119,
     ""},
    {"more_unset_variable",
     "set -u; echo $nope",
     127,
     {},
     "",
     "failed",
     "failed",
     127,
     nullptr,
     "single"},
    {"more_raw_bytes",
     R"(printf '\377\376\r50%%')",
     0,
     {},
     "",
     "ok",
     "succeeded",
     0,
     "\377\376\r50%",
     "single"},
    {"more_own_code_119", "exit 119", 119, {}, "", "failed", "failed", 119, "", "single"},
    {"more_zsh",
     "false | true",
     0,
     {},
     "",
     "ok",
     "succeeded",
     0,
     "",
     "shell_unsupported",
     0,
     "zsh"},
    {"more_sh_is_not_captured",
     "false | true",
     0,
     {},
     "",
     "ok",
     "succeeded",
     0,
     "",
     "shell_unsupported",
     0,
     "sh"},
};

class CommandTest : public ::testing::TestWithParam<Row> {};

std::string findings_of(const json::value& job) {
  std::string text;
  const json::value stages = at(job, "stages");
  if (!stages.is_array()) return text;
  for (const json::value& stage : stages.get_array()) {
    text += (text.empty() ? "" : " ") + text_at(stage, "finding");
  }
  return text;
}

std::vector<int> stage_exits_of(const json::value& job) {
  std::vector<int> exits;
  const json::value stages = at(job, "stages");
  if (!stages.is_array()) return exits;
  for (const json::value& stage : stages.get_array()) {
    exits.push_back(static_cast<int>(number_at(stage, "exit.code")));
  }
  return exits;
}

void expect_exit(const json::value& job, const Row& row) {
  if (row.signal != 0) {
    EXPECT_EQ(text_at(job, "exit.kind"), "signaled");
    EXPECT_EQ(number_at(job, "exit.signal"), row.signal);
    EXPECT_TRUE(at(job, "exit.code").is_null());
    return;
  }
  EXPECT_EQ(text_at(job, "exit.kind"), "exited");
  EXPECT_EQ(number_at(job, "exit.code"), row.shell_exit);
  EXPECT_TRUE(at(job, "exit.signal").is_null());
}

TEST_P(CommandTest, I9_truth) {
  const Row& row = GetParam();
  Daemon daemon;
  daemon.start();
  const Output waited = daemon.cli({"run", "--shell", row.shell, "--wait", "--", row.command});
  EXPECT_EQ(waited.exit_code, row.run_exit) << waited.describe();
  const json::value jobs = at(daemon.json({"list"}), "jobs");
  ASSERT_EQ(jobs.get_array().size(), 1U);
  const json::value job = daemon.show(text_at(jobs, "0.id"));
  SCOPED_TRACE(json::serialize(job));
  expect_exit(job, row);
  EXPECT_EQ(stage_exits_of(job), row.stages);
  EXPECT_EQ(findings_of(job), row.findings);
  EXPECT_EQ(text_or_empty_at(job, "stages_reason"), row.reason);
  EXPECT_EQ(text_at(job, "verdict"), row.verdict);
  EXPECT_EQ(text_at(job, "status"), row.status);
  EXPECT_EQ(endings_of(job).size(), 1U);
  const Output raw = daemon.cli({"logs", "--raw", text_at(job, "id")});
  if (row.output != nullptr) {
    EXPECT_EQ(raw.out, row.output);
  }
  const Output again = daemon.cli({"wait", text_at(job, "id")});
  EXPECT_EQ(again.exit_code, row.run_exit) << again.describe();
}

INSTANTIATE_TEST_SUITE_P(Commands, CommandTest, ::testing::ValuesIn(kRows),
                         [](const auto& row) { return std::string(row.param.name); });

// ---- rows whose output is for people -----------------------------------------------------------

TEST(CommandsTest, row08_a_syntax_error_names_its_line) {
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"run", "--wait", "--", "false | true\necho )"});
  EXPECT_EQ(output.exit_code, 2) << output.describe();
  EXPECT_NE(output.out.find("line 2"), std::string::npos) << output.describe();
}

TEST(CommandsTest, row09_a_here_document_without_its_end) {
  Daemon daemon;
  daemon.start();
  const json::value job = daemon.finished(daemon.accept("cat <<E | cat\nbody"));
  EXPECT_EQ(stage_exits_of(job), (std::vector<int>{0, 0}));
  const Output raw = daemon.cli({"logs", "--raw", text_at(job, "id")});
  EXPECT_NE(raw.out.find("body\n"), std::string::npos) << raw.out;
  EXPECT_EQ(raw.out.find("PIPESTATUS"), std::string::npos) << raw.out;
}

TEST(CommandsTest, row18_xtrace_has_two_lines) {
  Daemon daemon;
  daemon.start();
  const json::value job = daemon.finished(daemon.accept("set -x; false | true"));
  const std::string raw = daemon.cli({"logs", "--raw", text_at(job, "id")}).out;
  EXPECT_EQ(std::count(raw.begin(), raw.end(), '\n'), 2) << raw;
}

// ---- leftovers ---------------------------------------------------------------------------------

// The leftover is named and killed, and the end did not wait for it.
void expect_leftover_sleep(Daemon& daemon, const std::string& command) {
  const std::string id = daemon.accept(command);
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(number_at(job, "exit.code"), 0);
  EXPECT_EQ(text_at(job, "status"), "succeeded");
  EXPECT_EQ(items_at(job, "leftovers").size(), 1U);  // by the name it has at that moment
  expect_none_left("WAYBILL_JOB=" + id);
}

TEST(CommandsTest, I7_row22_a_leftover_that_holds_the_output) {
  Daemon daemon;
  daemon.start();
  expect_leftover_sleep(daemon, "sleep 300 &");
}

TEST(CommandsTest, I7_row23_a_leftover_in_a_session_of_its_own) {
  Daemon daemon;
  daemon.start();
  expect_leftover_sleep(daemon, "setsid sleep 300 >/dev/null 2>&1 &");
}

// ---- cancelled ---------------------------------------------------------------------------------

struct Stopped {
  const char* name;
  const char* command;  // after the bell
  int signal;           // 0: whatever
};

void PrintTo(const Stopped& row, std::ostream* out) { *out << row.command; }

const Stopped kStopped[] = {
    {"row24_setsid_escapee", "(setsid sh -c 'sleep 300 & exit' &); sleep 300", 15},
    {"row25_ignores_TERM", "sleep 300", 9},
    {"row26_stopped_process", "kill -STOP $$", 15},
    {"row27_fork_loop", "while :; do (sleep 0.01 &) ; done", 0},
};

class StoppedTest : public ::testing::TestWithParam<Stopped> {};

TEST_P(StoppedTest, I7_stop_is_confirmed) {
  const Stopped& row = GetParam();
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const bool ignores = row.signal == 9;
  const std::string id =
      daemon.accept((ignores ? "trap '' TERM; " : "") + bell.command("up") + "; " + row.command,
                    {"--grace", ignores ? "200ms" : "5s"});
  ASSERT_TRUE(bell.word());
  const Output output = daemon.cli({"stop", id, "--wait", "--timeout", "60s"});
  EXPECT_EQ(output.exit_code, 0) << output.describe();
  const json::value job = daemon.show(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_TRUE(processes_with("WAYBILL_JOB=" + id).empty());  // at once, not after a while
  EXPECT_EQ(text_at(job, "status"), "stopped");
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
  EXPECT_EQ(endings_of(job), std::vector<std::string>{"cancelled"});
  if (row.signal != 0) {
    EXPECT_EQ(number_at(job, "exit.signal"), row.signal);
    EXPECT_EQ(daemon.cli({"wait", id}).exit_code, 128 + row.signal);
  }
}

INSTANTIATE_TEST_SUITE_P(Commands, StoppedTest, ::testing::ValuesIn(kStopped),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(CommandsTest, I7_the_stop_of_a_well_behaved_command_keeps_its_last_line) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const std::string id = daemon.accept("trap 'echo cleaned; exit 0' TERM; " + bell.command("up") +
                                       "; sleep 300 & wait");
  ASSERT_TRUE(bell.word());
  EXPECT_EQ(daemon.cli({"stop", id, "--reason", "enough", "--wait"}).exit_code, 0);
  const json::value job = daemon.show(id);
  EXPECT_EQ(text_at(job, "status"), "stopped");
  EXPECT_EQ(text_at(job, "reason"), "enough");
  EXPECT_EQ(number_at(job, "exit.code"), 0);
  EXPECT_EQ(daemon.cli({"logs", "--raw", id}).out, "cleaned\n");
}

TEST(CommandsTest, what_is_run_is_on_record_with_its_shell) {
  Daemon daemon;
  daemon.start();
  EXPECT_EQ(text_at(daemon.show(daemon.accept("true")), "shell"), "/bin/bash");
  EXPECT_EQ(text_at(daemon.show(daemon.accept("true", {"--shell", "/bin/sh"})), "shell"),
            "/bin/sh");
  EXPECT_TRUE(at(daemon.show(daemon.accept("true", {"--argv"})), "shell").is_null());
}

}  // namespace
}  // namespace waybill::e2e
