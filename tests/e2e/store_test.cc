// Backups, what happens when one is put back, and directories that are nobody's (docs/storage.md).

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/crash_point.h"
#include "e2e/harness.h"
#include "e2e/small_disk.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int kRefused = 121;
constexpr int kStateRefused = 123;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string store_of(const Daemon& daemon) { return daemon.data_dir() + "/waybill.db"; }

void back_up(Daemon& daemon, const std::string& file) {
  const Output output = daemon.cli({"--json", "backup", file});
  ASSERT_EQ(output.exit_code, 0) << output.describe();
  EXPECT_EQ(text_at(output.json(), "path"), file);
  EXPECT_EQ(mode_of(file), 0600U);
}

// As the documentation says: the daemon is down, and no log of the old store is left.
void put_back(Daemon& daemon, const std::string& file) {
  ASSERT_FALSE(daemon.running());
  fs::remove(store_of(daemon) + "-wal");
  fs::remove(store_of(daemon) + "-shm");
  fs::copy_file(file, store_of(daemon), fs::copy_options::overwrite_existing);
}

void expect_regressed(Daemon& daemon) {
  const Output refused = daemon.cli({"run", "--", "true"});
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "[store_regressed]")) << refused.err;
  EXPECT_TRUE(contains(refused.err, "waybill reconcile")) << refused.err;
}

// Every event that the session's host takes until nothing comes any more, and its repeat mark.
std::map<std::string, bool> take_all(Daemon& daemon) {
  std::map<std::string, bool> heard;
  for (;;) {
    const Output output = daemon.cli({"--json", "inbox"});
    EXPECT_EQ(output.exit_code, 0) << output.describe();
    if (output.exit_code != 0 || output.out.empty()) return heard;
    for (const json::value& event : items_at(output.json(), "events")) {
      const bool is_new = heard.emplace(text_at(event, "id"), at(event, "repeat").as_bool()).second;
      EXPECT_TRUE(is_new || at(event, "repeat").as_bool()) << json::serialize(event);
    }
  }
}

std::set<std::string> jobs_in(const json::value& answer, const std::string& list) {
  std::set<std::string> jobs;
  for (const json::value& one : items_at(answer, list)) jobs.insert(text_at(one, "job"));
  return jobs;
}

// ---- backup ------------------------------------------------------------------------------------

TEST(Backup, replaces_nothing_and_leaves_nothing_half_done) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  const std::string file = temp.path() + "/backup.db";
  back_up(daemon, file);
  const std::string before = read_file(file);
  const Output again = daemon.cli({"backup", file});
  EXPECT_EQ(again.exit_code, kRefused) << again.describe();
  EXPECT_TRUE(contains(again.err, "[conflict]")) << again.err;
  EXPECT_TRUE(read_file(file) == before);
  const Output nowhere = daemon.cli({"backup", temp.path() + "/no/such/folder"});
  EXPECT_NE(nowhere.exit_code, 0);
  EXPECT_TRUE(contains(nowhere.err, temp.path())) << nowhere.err;
  // A path is the caller's, not the daemon's.
  Launch relative = daemon.command({"backup", "second.db"});
  relative.cwd = temp.path();
  EXPECT_EQ(run(std::move(relative)).exit_code, 0);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(temp.path()))
    names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"backup.db", "second.db"}));
}

TEST(Backup, a_full_disk_is_said_and_nothing_is_left_on_it) {
  SmallDisk disk(1);
  if (!disk.mounted()) GTEST_SKIP() << disk.why();
  Daemon daemon;
  daemon.start();
  disk.fill();
  const Output refused = daemon.cli({"backup", disk.path() + "/backup.db"});
  EXPECT_EQ(refused.exit_code, kRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "[store_full]")) << refused.err;
  EXPECT_EQ(std::distance(fs::directory_iterator(disk.path()), fs::directory_iterator{}), 1);
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 3"}).exit_code, 3);
}

// Nothing has happened since: the same jobs, the same results, another incarnation (I16).
TEST(Backup, of_the_newest_state_serves_at_once) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  HeldJob held(daemon);
  const std::string job = daemon.accept("exit 4");
  daemon.set_env({"WAYBILL_SESSION=s"});
  daemon.finished(job);
  const std::string before = text_at(daemon.json({"status"}), "incarnation");
  back_up(daemon, temp.path() + "/backup.db");
  daemon.kill_9();
  put_back(daemon, temp.path() + "/backup.db");
  daemon.start();
  daemon.act_as_host("s");
  EXPECT_NE(text_at(daemon.json({"status"}), "incarnation"), before);
  EXPECT_EQ(take_all(daemon), (std::map<std::string, bool>{{job + ".failed.1", true}}));
  held.end();
  const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(taken.json(), "events.0.id"), held.id() + ".failed.1");
  EXPECT_FALSE(at(taken.json(), "events.0.repeat").as_bool());
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 5"}).exit_code, 5);
}

// Taken while sixteen clients work; what runs meanwhile is in it or is found in its directory.
TEST(Backup, I2_I3_I4_I10_taken_under_load_put_back_and_reconciled_everything_is_heard) {
  constexpr int kClients = 16;
  constexpr int kJobsEach = 5;
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=8", "--set", "undelivered_per_session=10000"};
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  const std::string runs = temp.path() + "/runs";
  std::vector<std::unique_ptr<Process>> clients;
  std::string loop = "for i in";
  for (int i = 0; i < kJobsEach; ++i) loop += " " + std::to_string(i);
  for (int i = 0; i < kClients; ++i) {
    Launch client = daemon.command({"run", "--", "echo $WAYBILL_JOB >> '" + runs + "'; exit 3"});
    std::string call;
    for (const std::string& word : client.argv) {
      std::string quoted;
      for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
      call += " '" + quoted + "'";
    }
    client.argv = {"/bin/bash", "-c", loop + "; do " + call + " || exit 1; done"};
    clients.push_back(std::make_unique<Process>(std::move(client)));
  }
  ASSERT_TRUE(clients.front()->line());  // the first one was accepted
  back_up(daemon, temp.path() + "/backup.db");
  for (auto& client : clients) EXPECT_EQ(client->finish().exit_code, 0);
  const HeldJob held(daemon);  // still runs when the store is put back
  daemon.kill_9();
  put_back(daemon, temp.path() + "/backup.db");
  daemon.start();
  expect_regressed(daemon);
  EXPECT_EQ(daemon.cli({"list"}).exit_code, 0);
  const Output doctor = daemon.cli({"--json", "doctor"});
  EXPECT_EQ(doctor.exit_code, 1);
  EXPECT_TRUE(contains(doctor.out, "store_regressed")) << doctor.out;
  const json::value made = daemon.json({"reconcile"});
  EXPECT_TRUE(at(made, "regressed").as_bool());
  EXPECT_TRUE(jobs_in(made, "rebuilt").contains(held.id())) << json::serialize(made);
  EXPECT_TRUE(jobs_in(made, "quarantined").empty()) << json::serialize(made);
  const json::value again = daemon.json({"reconcile"});
  EXPECT_FALSE(at(again, "regressed").as_bool());

  // Whoever ran is known, ended once, is heard, and has run once.
  std::map<std::string, int> ran;
  std::map<std::string, bool> heard;
  for (;;) {
    for (const auto& [event, repeat] : take_all(daemon)) heard.emplace(event, repeat);
    const json::value session = at(daemon.json({"session", "show"}), "session");
    if (number_at(session, "running_jobs") == 1 && number_at(session, "queued_jobs") == 0) break;
    const auto seen = std::to_string(number_at(session, "revision"));
    daemon.cli({"session", "wait", "--revision", seen, "--timeout", "10s"});
  }
  for (const auto& [event, repeat] : take_all(daemon)) heard.emplace(event, repeat);
  std::ifstream lines(runs);
  for (std::string line; std::getline(lines, line);) ++ran[line];
  EXPECT_EQ(ran.size(),
            static_cast<std::size_t>(kClients * kJobsEach) - jobs_in(made, "ended").size());
  for (const auto& [job, times] : ran) {
    EXPECT_EQ(times, 1) << job;
    const bool known = heard.contains(job + ".failed.1");
    EXPECT_TRUE(known) << job << " was not heard";
    EXPECT_EQ(endings_of(daemon.show(job)).size(), 1U);
  }
  EXPECT_EQ(text_at(daemon.show(held.id()), "status"), "running");
}

// ---- another place -----------------------------------------------------------------------------

TEST(Backup, I12_put_into_another_directory_it_is_refused_until_it_is_reconciled) {
  Daemon first;
  first.start();
  first.act_as_host("s");
  TempDir temp;
  const std::string job = first.accept("exit 4");
  first.set_env({"WAYBILL_SESSION=s"});
  first.finished(job);
  first.act_as_host("s");
  const HeldJob held(first);
  back_up(first, temp.path() + "/backup.db");

  Daemon second;
  fs::create_directories(second.data_dir());
  fs::permissions(second.data_dir(), fs::perms::owner_all);
  put_back(second, temp.path() + "/backup.db");
  second.start();
  second.act_as_host("s");
  EXPECT_EQ(mode_of(second.data_dir() + "/seal.key"), 0600U);  // the copy carries it
  expect_regressed(second);
  // What ran there is not run here, and nobody says that it has ended well.
  const json::value made = second.json({"reconcile"});
  EXPECT_EQ(take_all(second), (std::map<std::string, bool>{{job + ".failed.1", true},
                                                           {held.id() + ".failed.1", true}}))
      << json::serialize(made);
  const json::value lost = second.show(held.id());
  EXPECT_EQ(text_at(lost, "exit.kind"), "unknown");
  EXPECT_EQ(text_at(lost, "proof"), "unproven");
  EXPECT_EQ(second.cli({"run", "--wait", "--", "exit 5"}).exit_code, 5);
}

TEST(Backup, I12_another_key_in_its_place_opens_nothing) {
  Daemon first;
  first.start();
  TempDir temp;
  back_up(first, temp.path() + "/backup.db");
  Daemon second;
  second.start();
  second.terminate();
  const std::string key = read_file(second.data_dir() + "/seal.key");
  put_back(second, temp.path() + "/backup.db");
  const Output refused = second.serve_and_finish();
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "seal.key")) << refused.err;
  EXPECT_EQ(read_file(second.data_dir() + "/seal.key"), key);
}

// The store before it was killed and has left its log, which SQLite would play into the copy.
TEST(Backup, I12_the_log_of_the_store_before_is_not_played_into_it) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  back_up(daemon, temp.path() + "/backup.db");
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 3"}).exit_code, 3);
  daemon.kill_9();
  const std::string log = store_of(daemon) + "-wal";
  ASSERT_GT(fs::file_size(log), 0U);
  fs::copy_file(temp.path() + "/backup.db", store_of(daemon), fs::copy_options::overwrite_existing);
  const std::string before = read_file(store_of(daemon)) + read_file(log);
  const Output refused = daemon.serve_and_finish();
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, log)) << refused.err;
  EXPECT_TRUE(read_file(store_of(daemon)) + read_file(log) == before);
}

// ---- a store that is lost ----------------------------------------------------------------------

class LostStore : public ::testing::TestWithParam<const char*> {};

// Removed, or cut to nothing: a new one does not pretend that nothing ever was.
TEST_P(LostStore, I2_I12_jobs_are_made_again_from_their_directories) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  const std::string told = daemon.accept("echo out; exit 4", {"--label", "first", "--key", "k"});
  daemon.set_env({"WAYBILL_SESSION=s"});
  daemon.finished(told);
  daemon.act_as_host("s");
  EXPECT_EQ(take_all(daemon).size(), 1U);
  HeldJob held(daemon);
  daemon.kill_9();
  for (const char* suffix : {"-wal", "-shm"}) fs::remove(store_of(daemon) + suffix);
  if (std::string_view(GetParam()) == "removed") {
    fs::remove(store_of(daemon));
  } else {
    fs::resize_file(store_of(daemon), 0);
  }
  daemon.start();
  expect_regressed(daemon);
  const json::value made = daemon.json({"reconcile"});
  EXPECT_EQ(jobs_in(made, "rebuilt"), (std::set<std::string>{told, held.id()}))
      << json::serialize(made);
  EXPECT_EQ(take_all(daemon), (std::map<std::string, bool>{{told + ".failed.1", true}}));
  const json::value job = daemon.show(told);
  EXPECT_EQ(number_at(job, "exit.code"), 4);
  EXPECT_EQ(text_at(job, "label"), "first");
  EXPECT_EQ(text_at(job, "receipts.0.actor"), "reconcile");
  EXPECT_EQ(daemon.cli({"logs", "--raw", told}).out, "out\n");
  EXPECT_EQ(daemon.accept("echo out; exit 4", {"--label", "first", "--key", "k"}), told);
  held.end();
  const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(taken.json(), "events.0.id"), held.id() + ".failed.1");
  EXPECT_FALSE(at(taken.json(), "events.0.repeat").as_bool());
}

// With a cgroup the stop of what a lost supervisor left is confirmed; without one it is not. Either
// way a store that is made again says what was said before, and nobody hears their own stop (I8).
TEST(Reconcile, I8_a_stop_that_the_daemon_has_made_stays_one) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const std::string id = daemon.accept(bell.command("up") + "; sleep 1000");
  ASSERT_TRUE(bell.word());
  const std::string start = daemon.data_dir() + "/jobs/" + id + "/start.json";
  const auto supervisor = static_cast<pid_t>(number_at(json::parse(read_file(start)), "shim_pid"));
  ::kill(supervisor, SIGKILL);
  ASSERT_TRUE(await_end(supervisor));
  daemon.cli({"stop", id, "--wait", "--timeout", "60s"});
  const std::string before = text_at(daemon.show(id), "status");
  daemon.kill_9();
  for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(store_of(daemon) + suffix);
  daemon.start();
  daemon.json({"reconcile"});
  EXPECT_EQ(text_at(daemon.show(id), "status"), before);
  const bool stopped = before == "stopped";
  for (const auto& [event, repeat] : take_all(daemon)) {
    EXPECT_FALSE(stopped && contains(event, ".failed.")) << event;
  }
}

INSTANTIATE_TEST_SUITE_P(Store, LostStore, ::testing::Values("removed", "emptied"),
                         [](const auto& row) { return std::string(row.param); });

TEST(Quarantine, I12_a_directory_without_a_row_is_named_kept_and_never_run) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  const std::string job = daemon.accept("echo ran >> '" + temp.path() + "/runs'");
  daemon.finished(job);
  daemon.terminate();
  // Somebody has put it there; nothing in it says whose it is.
  const fs::path stranger = daemon.data_dir() + "/jobs/stranger";
  fs::create_directory(stranger);
  for (const auto& file : fs::directory_iterator(daemon.data_dir() + "/jobs/" + job)) {
    if (file.is_regular_file()) fs::copy_file(file.path(), stranger / file.path().filename());
  }
  daemon.start();
  const Output doctor = daemon.cli({"--json", "doctor"});
  EXPECT_TRUE(contains(doctor.out, "stranger")) << doctor.out;
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 3"}).exit_code, 3);  // all else goes on
  const json::value named = daemon.json({"reconcile"});
  EXPECT_FALSE(at(named, "regressed").as_bool());
  ASSERT_EQ(jobs_in(named, "quarantined"), std::set<std::string>{"stranger"});
  EXPECT_EQ(text_at(named, "quarantined.0.path"), fs::canonical(stranger).string());
  EXPECT_FALSE(at(named, "quarantined.0.runs").as_bool());
  daemon.restart();
  EXPECT_TRUE(fs::exists(stranger / "start.json"));
  EXPECT_EQ(read_file(temp.path() + "/runs"), "ran\n");
  EXPECT_EQ(daemon.cli({"show", "stranger"}).exit_code, kRefused);
}

// ---- killed in between -------------------------------------------------------------------------

class StorageCrashTest : public ::testing::TestWithParam<std::string_view> {};

// The whole way: a backup, a job after it, the backup put back, reconciled.
TEST_P(StorageCrashTest, I2_I4_I10_hold_through_a_crash) {
  Daemon daemon(Daemon::Options{.env = {"WAYBILL_CRASH=" + std::string(GetParam())}});
  daemon.start();
  const pid_t first = daemon.pid();
  daemon.act_as_host("s");
  TempDir temp;
  const std::string file = temp.path() + "/backup.db";
  const Output copied = daemon.cli_through_crashes({"backup", file});
  // Asked again it may find what was there before it could be said.
  EXPECT_TRUE(copied.exit_code == 0 || contains(copied.err, "[conflict]")) << copied.err;
  ASSERT_TRUE(fs::exists(file));
  const bool crashed = daemon.pid() != first;
  EXPECT_EQ(crashed, GetParam().starts_with("backup.")) << GetParam();
  const std::string job =
      daemon.accept("echo $WAYBILL_JOB >> '" + temp.path() + "/runs'; exit 4", {"--key", "k"});
  daemon.set_env({"WAYBILL_SESSION=s"});
  daemon.finished(job);
  daemon.terminate();
  put_back(daemon, file);
  if (!crashed) daemon.set_daemon_env({"WAYBILL_CRASH=" + std::string(GetParam())});
  daemon.start();
  const pid_t second = daemon.pid();
  daemon.act_as_host("s");
  expect_regressed(daemon);
  const Output made = daemon.cli_through_crashes({"--json", "reconcile"});
  EXPECT_EQ(made.exit_code, 0) << made.describe();
  EXPECT_TRUE(crashed || daemon.pid() != second) << "this point is not passed";
  EXPECT_EQ(take_all(daemon), (std::map<std::string, bool>{{job + ".failed.1", true}}));
  EXPECT_EQ(endings_of(daemon.show(job)), std::vector<std::string>{"failed"});
  EXPECT_EQ(read_file(temp.path() + "/runs"), job + "\n");
  EXPECT_EQ(
      daemon.accept("echo $WAYBILL_JOB >> '" + temp.path() + "/runs'; exit 4", {"--key", "k"}),
      job);
}

std::vector<std::string_view> points_of_storage() {
  std::vector<std::string_view> points(kDaemonCrashPoints.begin(), kDaemonCrashPoints.end());
  std::erase_if(points, [](std::string_view point) {
    return !point.starts_with("backup.") && !point.starts_with("reconcile.");
  });
  return points;
}

INSTANTIATE_TEST_SUITE_P(Points, StorageCrashTest, ::testing::ValuesIn(points_of_storage()),
                         [](const auto& row) {
                           std::string name(row.param);
                           std::ranges::replace(name, '.', '_');
                           return name;
                         });

}  // namespace
}  // namespace waybill::e2e
