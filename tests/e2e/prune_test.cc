// `waybill prune` of the assembled program: what it says, what goes, and what stays.

#include <gtest/gtest.h>

#include <filesystem>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int kRefused = 121;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string dir_of(const Daemon& daemon, const std::string& job) {
  return daemon.data_dir() + "/jobs/" + job;
}

// A job of the person, who has seen its end.
std::string seen(Daemon& daemon, const std::string& command) {
  const std::string id = daemon.accept(command);
  EXPECT_EQ(daemon.cli({"wait", id, "--timeout", "60s"}).exit_code, 0);
  return id;
}

TEST(PruneTest, what_was_seen_goes_with_its_files_and_what_was_not_stays) {
  Daemon daemon;
  daemon.start();
  const std::string one = seen(daemon, "echo one");
  const std::string two = seen(daemon, "echo two");
  daemon.act_as_host("s1");
  const std::string unheard = daemon.accept("echo three");
  daemon.act_as_host("s2");  // who is somebody else, and reads nothing of the first
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  const std::string runs = daemon.accept(gate.command());
  daemon.set_env({});

  const Output young = daemon.cli({"prune"});
  EXPECT_EQ(young.exit_code, 0) << young.describe();
  EXPECT_EQ(young.out, "Removed 0 job(s), 0 B.\n");
  const Output said = daemon.cli({"prune", "--older-than", "0s", "--dry-run"});
  EXPECT_TRUE(contains(said.out, one) && contains(said.out, two)) << said.out;
  EXPECT_TRUE(contains(said.out, "Would remove 2 job(s)")) << said.out;
  EXPECT_TRUE(fs::exists(dir_of(daemon, one)));

  const json::value pruned = daemon.json({"prune", "--older-than", "0s"});
  ASSERT_EQ(items_at(pruned, "jobs").size(), 2U) << json::serialize(pruned);
  EXPECT_EQ(text_at(pruned, "jobs.0.id"), one);
  EXPECT_EQ(text_at(pruned, "jobs.1.id"), two);
  EXPECT_GT(number_at(pruned, "bytes"), 0);
  EXPECT_FALSE(at(pruned, "dry_run").as_bool());
  for (const std::string& gone : {one, two}) {
    EXPECT_FALSE(fs::exists(dir_of(daemon, gone)));
    EXPECT_EQ(daemon.cli({"show", gone}).exit_code, kRefused);
    EXPECT_EQ(daemon.cli({"logs", gone}).exit_code, kRefused);
  }
  for (const std::string& kept : {unheard, runs}) EXPECT_TRUE(fs::exists(dir_of(daemon, kept)));
  gate.open();
  EXPECT_EQ(daemon.cli({"prune", "--older-than", "soon"}).exit_code, 120);
}

TEST(PruneTest, unread_events_of_a_person_go_with_their_job_and_are_counted) {
  Daemon daemon;
  daemon.start();
  const std::string id = daemon.accept("exit 3");
  daemon.act_as_host("s1");
  // Seen by somebody else: the person has read nothing.
  while (number_at(daemon.json({"status"}), "running_jobs") > 0) {
  }
  daemon.set_env({});
  const json::value pruned = daemon.json({"prune", "--older-than", "0s"});
  EXPECT_EQ(items_at(pruned, "jobs").size(), 1U) << json::serialize(pruned);
  EXPECT_EQ(number_at(pruned, "dropped_events"), 1);
  EXPECT_EQ(daemon.cli({"show", id}).exit_code, kRefused);
}

TEST(PruneTest, I16_a_restart_after_everything_is_gone_gives_no_number_twice) {
  Daemon daemon;
  daemon.start();
  const std::string id = daemon.accept("true");
  const json::value before = daemon.finished(id);
  daemon.json({"prune", "--older-than", "0s"});
  daemon.restart();
  const json::value after = daemon.finished(daemon.accept("true"));
  EXPECT_GT(number_at(after, "receipts.1.activation"), number_at(before, "receipts.1.activation"));
}

}  // namespace
}  // namespace waybill::e2e
