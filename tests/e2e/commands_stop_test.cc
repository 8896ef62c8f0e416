// The rows of the nasty commands in which somebody else takes part: processes that outlive the
// command, a stop, a supervisor that is killed.

#include <signal.h>
#include <sys/stat.h>

#include <set>

#include "e2e/commands.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

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

TEST(CommandsTest, I7_row22_a_leftover_that_is_kept) {
  Daemon daemon;
  daemon.start();
  const std::string id = daemon.accept("sleep 300 &", {"--leftovers", "keep"});
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "succeeded");
  EXPECT_EQ(items_at(job, "leftovers").size(), 1U);
  EXPECT_EQ(processes_with("WAYBILL_JOB=" + id).size(), 1U);
  daemon.cli({"stop", id, "--wait"});
  expect_none_left("WAYBILL_JOB=" + id);
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

// ---- output beyond the cap ---------------------------------------------------------------------

TEST(CommandsTest, I14_row29_output_beyond_its_cap) {
  constexpr std::int64_t kMiB = 1024 * 1024;
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const std::string id =
      daemon.accept("yes | head -c 100M; " + bell.command("up") + "; exec yes", {"--cap", "64MiB"});
  ASSERT_TRUE(bell.word());
  EXPECT_EQ(daemon.cli({"stop", id, "--wait", "--timeout", "60s"}).exit_code, 0);
  const json::value job = daemon.show(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "stopped");
  struct stat out{};
  ASSERT_EQ(::stat((daemon.data_dir() + "/jobs/" + id + "/out").c_str(), &out), 0);
  EXPECT_LE(out.st_blocks * 512, 68 * kMiB + 4096);
  std::int64_t dropped = 0;
  for (const json::value& gap : items_at(job, "output.gaps")) {
    dropped += number_at(gap, "1") - number_at(gap, "0");
  }
  const std::int64_t bytes = number_at(job, "output.bytes");
  EXPECT_GE(bytes, 100 * kMiB);
  EXPECT_EQ(number_at(job, "output.kept_bytes"), bytes - dropped);
  EXPECT_LE(number_at(job, "output.kept_bytes"), 68 * kMiB);
  const auto piece = [&](std::int64_t from) {
    return daemon.cli({"logs", "--raw", "--offset", std::to_string(from), "--bytes", "8", id}).out;
  };
  EXPECT_EQ(piece(0), "y\ny\ny\ny\n");
  EXPECT_EQ(piece(bytes / 2 * 2 - 8), "y\ny\ny\ny\n");
}

// ---- a supervisor that is killed ---------------------------------------------------------------

TEST(CommandsTest, I9_row30_the_supervisor_is_killed) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  Gate gate(temp.path() + "/gate");
  const std::string id = daemon.accept("echo before; " + bell.command("up") + "; " +
                                       gate.command() + "; echo after; exit 9");
  ASSERT_TRUE(bell.word());
  const json::value start =
      json::parse(read_file(daemon.data_dir() + "/jobs/" + id + "/start.json"));
  const auto shim = static_cast<pid_t>(number_at(start, "shim_pid"));
  ASSERT_EQ(kill(shim, SIGKILL), 0);
  EXPECT_TRUE(await_end(shim));
  gate.open();
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
  // The kernel tells the code from Linux 6.15 on.
  if (text_at(job, "exit.kind") == "exited") {
    EXPECT_EQ(number_at(job, "exit.code"), 9);
  } else {
    EXPECT_EQ(text_at(job, "exit.kind"), "unknown");
    EXPECT_TRUE(at(job, "exit.code").is_null());
  }
  EXPECT_TRUE(at(job, "stages").is_null());
  EXPECT_EQ(daemon.cli({"logs", "--raw", id}).out, "before\nafter\n");
}

// A command that kills its parent kills its supervisor, and neither daemon nor job.
TEST(CommandsTest, I9_more_kills_its_parent) {
  Daemon daemon;
  daemon.start();
  const std::string id = daemon.accept("kill -9 $PPID; echo on; exit 3");
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_NE(text_at(job, "verdict"), "ok");
  EXPECT_EQ(daemon.cli({"logs", "--raw", id}).out, "on\n");
  EXPECT_EQ(text_at(daemon.finished(daemon.accept("true")), "status"), "succeeded");
}

// What `kill -9 -1` does as the daemon's user: supervisor and daemon are gone at once.
TEST(CommandsTest, I10_more_kills_supervisor_and_daemon) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  const std::string runs = temp.path() + "/runs";
  const pid_t pid = daemon.pid();
  const std::string id = daemon.accept("echo run >> '" + runs + "'; " + gate.command() +
                                       "; kill -9 $PPID " + std::to_string(pid) + "; exit 0");
  gate.open();
  EXPECT_TRUE(await_end(pid));
  ASSERT_TRUE(daemon.crashed());
  daemon.start();
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "verdict"), "unknown");
  EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
  EXPECT_EQ(read_file(runs), "run\n");
}

TEST(CommandsTest, I9_more_removes_the_directory_of_the_job) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  const std::string command = "rm -rf \"$JOBS/$WAYBILL_JOB\"; false | true";
  const std::string id = daemon.accept(command, {"--env", "JOBS=" + daemon.data_dir() + "/jobs"});
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_NE(text_at(job, "verdict"), "ok");
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(daemon.finished(daemon.accept("true")), "status"), "succeeded");
}

TEST(CommandsTest, I9_more_a_working_directory_that_is_missing) {
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"run", "--cwd", "/no/such/folder", "--", "true"});
  EXPECT_EQ(output.exit_code, 121) << output.describe();
  EXPECT_TRUE(items_at(daemon.json({"list"}), "jobs").empty());
}

// ---- all of them -------------------------------------------------------------------------------

// The contract's thirty rows; each has a test of its own in this program.
TEST(CommandsTest, no_row_is_missing) {
  std::set<std::string> names;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k) {
      const std::string name = suite.GetTestInfo(k)->name();
      const std::size_t row = name.find("row");
      if (row != std::string::npos) names.insert(name.substr(row, 5));
    }
  }
  for (int number = 1; number <= 30; ++number) {
    const std::string name = std::string("row") + (number < 10 ? "0" : "") + std::to_string(number);
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

}  // namespace
}  // namespace waybill::e2e
