// What outlives a command that ended by itself: killed or kept, named, and stopped later.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

bool has_receipt(const json::value& job, const std::string& name) {
  const auto receipts = items_at(job, "receipts");
  return std::ranges::any_of(receipts,
                             [&](const json::value& one) { return text_at(one, "name") == name; });
}

// A command that leaves one sleeper behind, and says its pid.
std::string leaves_a_sleeper() { return "sleep 3571 & echo $!; exit 3"; }

pid_t sleeper_of(Daemon& daemon, const std::string& job) {
  return std::stoi(daemon.cli({"logs", "--raw", job}).out);
}

pid_t supervisor_of(Daemon& daemon, const std::string& job) {
  return static_cast<pid_t>(number_at(
      json::parse(read_file(daemon.data_dir() + "/jobs/" + job + "/start.json")), "shim_pid"));
}

// Returns once what was left behind has a record of its own.
json::value settled(Daemon& daemon, const std::string& job, const std::string& receipt) {
  json::value shown = daemon.show(job);
  while (!has_receipt(shown, receipt)) {
    // A wait on the revision, not a poll: the record raises it.
    const std::int64_t seen = number_at(daemon.json({"session", "show"}), "session.revision");
    shown = daemon.show(job);
    if (has_receipt(shown, receipt)) break;
    const Output waited =
        daemon.cli({"session", "wait", "--revision", std::to_string(seen), "--timeout", "60s"});
    if (waited.exit_code != 0) {
      ADD_FAILURE() << waited.describe();
      break;
    }
  }
  return shown;
}

TEST(LeftoversTest, I7_leftovers_are_killed_by_default) {
  Daemon daemon;
  daemon.start();
  const std::string id = daemon.accept(leaves_a_sleeper());
  const json::value job = daemon.finished(id);
  EXPECT_EQ(number_at(job, "exit.code"), 3) << "its end is the command's, whatever is left";
  EXPECT_TRUE(await_end(sleeper_of(daemon, id)));
  const json::value later = settled(daemon, id, "leftovers");
  ASSERT_EQ(items_at(later, "leftovers").size(), 1U);
  EXPECT_EQ(text_at(later, "leftovers.0.comm"), "sleep");
  EXPECT_FALSE(at(later, "leftovers_kept").get_bool());
  EXPECT_TRUE(items_at(later, "survivors").empty());
}

TEST(LeftoversTest, I7_kept_leftovers_live_until_their_job_is_stopped) {
  Daemon daemon;
  daemon.start();
  const std::string id = daemon.accept(leaves_a_sleeper(), {"--leftovers", "keep"});
  const json::value job = daemon.finished(id);
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(number_at(job, "exit.code"), 3);
  const pid_t sleeper = sleeper_of(daemon, id);
  const json::value kept = settled(daemon, id, "leftovers");
  EXPECT_TRUE(at(kept, "leftovers_kept").get_bool());
  ASSERT_EQ(items_at(kept, "survivors").size(), 1U);
  EXPECT_EQ(::kill(sleeper, 0), 0);
  // Its output may expire while they live: the supervisor holds it no longer.
  const std::string held =
      run({{"/bin/ls", "-l", "/proc/" + std::to_string(supervisor_of(daemon, id)) + "/fd"}}).out;
  EXPECT_NE(held.find("/ctl"), std::string::npos) << held;
  EXPECT_EQ(held.find("/out\n"), std::string::npos) << held;

  daemon.restart();
  EXPECT_EQ(::kill(sleeper, 0), 0);
  const Output stopped = daemon.cli({"stop", id, "--reason", "no longer needed"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.describe();
  EXPECT_EQ(daemon.cli({"stop", id}).exit_code, 0) << "a second stop is harmless";
  EXPECT_EQ(daemon.cli({"stop", id, "--wait", "--timeout", "60s"}).exit_code, 0);
  EXPECT_NE(::kill(sleeper, 0), 0) << "the wait is for what is being stopped";
  const json::value gone = daemon.show(id);
  EXPECT_TRUE(items_at(gone, "survivors").empty()) << json::serialize(gone);
  EXPECT_EQ(text_at(gone, "status"), "failed") << "a terminal row never changes";
  EXPECT_EQ(number_at(gone, "exit.code"), 3);
  EXPECT_TRUE(has_receipt(gone, "stop_requested"));
  EXPECT_EQ(endings_of(gone), std::vector<std::string>{"failed"});
  EXPECT_EQ(items_at(gone, "events").size(), 1U) << "they wake nobody";
}

TEST(LeftoversTest, I7_kept_leftovers_of_a_lost_supervisor_are_stopped_too) {
  Daemon daemon;
  daemon.start();
  const std::string id =
      daemon.accept("(trap '' TERM; exec sleep 3573) & echo $!; exit 3", {"--leftovers", "keep"});
  daemon.finished(id);
  const pid_t sleeper = sleeper_of(daemon, id);
  settled(daemon, id, "leftovers");
  ASSERT_EQ(::kill(supervisor_of(daemon, id), SIGKILL), 0);
  EXPECT_EQ(daemon.cli({"stop", id}).exit_code, 0);
  EXPECT_TRUE(await_end(sleeper));
}

// The end of the job is on record while they still live: whoever kills them is needed until then.
TEST(LeftoversTest, I7_leftovers_of_a_lost_supervisor_that_ignore_being_asked_are_killed) {
  for (const bool restarted : {false, true}) {
    Daemon daemon;
    daemon.start();
    TempDir temp;
    Gate gate(temp.path() + "/gate");
    const std::string said = temp.path() + "/said";
    ASSERT_EQ(::mkfifo(said.c_str(), 0600), 0);
    const std::string id = daemon.accept("(trap '' TERM; exec sleep 3572) & echo $! > '" + said +
                                         "'; " + gate.command() + "; exit 3");
    const pid_t sleeper = std::stoi(read_file(said));
    if (restarted) daemon.kill_9();
    ASSERT_EQ(::kill(supervisor_of(daemon, id), SIGKILL), 0);
    if (restarted) daemon.start();
    gate.open();
    EXPECT_EQ(text_at(daemon.finished(id), "cause"), "supervisor_lost");
    EXPECT_TRUE(await_end(sleeper));
    const json::value later = settled(daemon, id, "leftovers");
    EXPECT_EQ(items_at(later, "leftovers").size(), 1U);
    EXPECT_TRUE(items_at(later, "survivors").empty()) << json::serialize(later);
  }
}

TEST(LeftoversTest, I7_kept_leftovers_without_a_supervisor_are_seen_to_end) {
  Daemon daemon;
  daemon.start();
  const std::string id = daemon.accept(leaves_a_sleeper(), {"--leftovers", "keep"});
  daemon.finished(id);
  const pid_t sleeper = sleeper_of(daemon, id);
  settled(daemon, id, "leftovers");
  ASSERT_EQ(::kill(supervisor_of(daemon, id), SIGKILL), 0);
  daemon.restart();
  EXPECT_EQ(items_at(daemon.show(id), "survivors").size(), 1U);
  ASSERT_EQ(::kill(sleeper, SIGKILL), 0);
  json::value shown = daemon.show(id);
  while (!items_at(shown, "survivors").empty()) {
    const std::int64_t seen = number_at(daemon.json({"session", "show"}), "session.revision");
    shown = daemon.show(id);
    if (items_at(shown, "survivors").empty()) break;
    const Output waited =
        daemon.cli({"session", "wait", "--revision", std::to_string(seen), "--timeout", "60s"});
    ASSERT_EQ(waited.exit_code, 0) << waited.describe();
    shown = daemon.show(id);
  }
}

TEST(LeftoversTest, I14_a_job_that_queued_too_long_is_not_started) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=1"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  const std::string first = daemon.accept(gate.command());
  const std::string second =
      daemon.accept("touch " + temp.path() + "/ran", {"--start-within", "200ms"});
  const json::value job = daemon.finished(second);
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "verdict"), "not_started");
  EXPECT_EQ(text_at(job, "cause"), "deadline");
  EXPECT_EQ(daemon.cli({"wait", second}).exit_code, 126);
  gate.open();
  EXPECT_EQ(text_at(daemon.finished(first), "status"), "succeeded");
  EXPECT_NE(run({{"/bin/test", "-e", temp.path() + "/ran"}}).exit_code, 0);
}

}  // namespace
}  // namespace waybill::e2e
