// Damaged, missing, full: what is refused, for whom, and what is kept.

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "e2e/harness.h"
#include "e2e/small_disk.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int kStateRefused = 123;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string store_of(const Daemon& daemon) { return daemon.data_dir() + "/waybill.db"; }

void sql(const Daemon& daemon, const std::string& text) {
  Launch launch;
  launch.argv = {"/usr/bin/sqlite3", "-bail", store_of(daemon), text};
  const Output output = run(std::move(launch));
  ASSERT_EQ(output.exit_code, 0) << text << output.describe();
}

// What the schema refuses, too, has to go before a row can be damaged.
void drop_guards(const Daemon& daemon) {
  sql(daemon,
      "DROP TRIGGER job_status_needs_its_receipt; DROP TRIGGER job_terminal_row_never_changes;"
      "DROP TRIGGER inbox_ending_never_changes;");
}

void expect_refused(Daemon& daemon, const std::string& word, const std::string& says) {
  const Output output = daemon.serve_and_finish();
  EXPECT_EQ(output.exit_code, kStateRefused) << output.describe();
  EXPECT_TRUE(contains(output.err, word)) << output.err;
  EXPECT_TRUE(contains(output.err, says)) << output.err;
  EXPECT_FALSE(fs::exists(daemon.socket()));
}

// ---- the whole store ---------------------------------------------------------------------------

// A store with something in it, closed.
void fill_and_end(Daemon& daemon) {
  daemon.start();
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(daemon.cli({"run", "--wait", "--cwd", "/", "--", "exit 3"}).exit_code, 3);
  }
  ASSERT_EQ(daemon.terminate().exit_code, 0);
  sql(daemon, "PRAGMA wal_checkpoint(TRUNCATE)");  // from here on, the file is all there is
}

void expect_left_alone(Daemon& daemon) {
  const std::string before = read_file(store_of(daemon));
  expect_refused(daemon, "state_corrupt", "store");
  EXPECT_TRUE(read_file(store_of(daemon)) == before);
}

TEST(DamageTest, I12_a_chopped_store_is_refused_and_left_as_it_is) {
  Daemon daemon;
  fill_and_end(daemon);
  fs::resize_file(store_of(daemon), fs::file_size(store_of(daemon)) - 7);
  expect_left_alone(daemon);
}

TEST(DamageTest, I12_a_scribbled_page_is_refused_and_left_as_it_is) {
  Daemon daemon;
  fill_and_end(daemon);
  constexpr std::size_t kPage = 4096;
  std::fstream file(store_of(daemon), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(2 * kPage);
  file << std::string(kPage, '\xA5');
  file.close();
  expect_left_alone(daemon);
}

// A large file is served before it was read as a whole; then it is read.
TEST(DamageTest, I12_damage_in_what_nobody_reads_is_found_while_the_store_is_served) {
  Daemon daemon;
  fill_and_end(daemon);
  sql(daemon,
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) "
      "INSERT INTO idempotency SELECT 'local', 'old', printf('%02000d', i), 'j', 'f', 0, NULL "
      "FROM n; PRAGMA wal_checkpoint(TRUNCATE)");
  constexpr std::size_t kPage = 4096;
  std::fstream file(store_of(daemon), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-static_cast<std::streamoff>(kPage), std::ios::end);
  file << std::string(kPage, '\xA5');
  file.close();
  daemon.start();
  Output refused;
  for (int i = 0; i < 1000 && refused.exit_code != kStateRefused; ++i) {
    refused = daemon.cli({"run", "--", "true"});
  }
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "damaged")) << refused.err;
  EXPECT_TRUE(contains(refused.err, "[state_corrupt]")) << refused.err;
  EXPECT_EQ(daemon.cli({"list"}).exit_code, 0) << "reads go on";
  EXPECT_TRUE(contains(text_at(daemon.json({"status"}), "poisoned"), "damaged"));
  EXPECT_EQ(daemon.cli({"doctor"}).exit_code, 1);
}

TEST(DamageTest, I12_a_client_that_starts_the_daemon_says_why_it_does_not) {
  Daemon daemon;
  fill_and_end(daemon);
  fs::resize_file(store_of(daemon), fs::file_size(store_of(daemon)) - 7);
  Launch list = daemon.command({"list"});
  std::erase(list.argv, "--no-autostart");
  const Output output = run(std::move(list));
  EXPECT_EQ(output.exit_code, kStateRefused) << output.describe();
  EXPECT_TRUE(contains(output.err, "[state_corrupt]")) << output.err;
}

// The last commits may be gone with it; nothing may be doubled for that, nothing be served wrongly.
TEST(DamageTest, I10_a_chopped_log_makes_no_job_run_again) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  Bell bell(temp.path() + "/bell");
  const std::string kept = daemon.accept("echo kept >> '" + temp.path() + "/runs'");
  daemon.finished(kept);
  daemon.accept("echo cut >> '" + temp.path() + "/runs'; " + bell.command("up") + "; " +
                gate.command());
  ASSERT_TRUE(bell.word());
  daemon.kill_9();
  const std::string log = store_of(daemon) + "-wal";
  ASSERT_TRUE(fs::exists(log));
  fs::resize_file(log, fs::file_size(log) - 7);
  gate.open();
  daemon.start();
  EXPECT_TRUE(contains(daemon.log(), "the store's log ended inside a frame")) << daemon.log();
  daemon.json({"reconcile"});  // if the commit that was cut off had receipts, it is behind
  EXPECT_EQ(text_at(daemon.show(kept), "status"), "succeeded");
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 3"}).exit_code, 3);
  EXPECT_EQ(read_file(temp.path() + "/runs"), "kept\ncut\n");
}

// ---- the key -----------------------------------------------------------------------------------

TEST(DamageTest, I12_I13_without_its_key_a_store_is_refused) {
  Daemon daemon;
  fill_and_end(daemon);
  const std::string key = daemon.data_dir() + "/seal.key";
  EXPECT_EQ(mode_of(key), 0600U);
  fs::rename(key, key + ".away");
  expect_refused(daemon, "state_corrupt", key);
  EXPECT_FALSE(fs::exists(key));  // none is made: it would not open what is there
  std::ofstream(key) << "short";
  expect_refused(daemon, "state_corrupt", key);
  fs::rename(key + ".away", key);
  daemon.start();
  EXPECT_EQ(at(daemon.json({"list"}), "jobs").get_array().size(), 3U);
}

TEST(DamageTest, I12_somebody_elses_database_is_refused_and_left_as_it_is) {
  Daemon daemon;
  daemon.start();
  daemon.terminate();
  for (const char* suffix : {"", "-wal", "-shm"})
    std::filesystem::remove(store_of(daemon) + suffix);
  ASSERT_EQ(run({{"/usr/bin/sqlite3", store_of(daemon), "CREATE TABLE t (a)"}}).exit_code, 0);
  const std::string before = read_file(store_of(daemon));
  expect_refused(daemon, "state_corrupt", "not a store of Waybill's");
  EXPECT_TRUE(read_file(store_of(daemon)) == before);
  EXPECT_FALSE(std::filesystem::exists(store_of(daemon) + "-wal"));
}

TEST(DamageTest, I12_another_key_opens_nothing_and_discards_nothing) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=1"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  daemon.set_env({"WAYBILL_SESSION=bad"});
  daemon.accept(gate.command());
  const std::string queued = daemon.accept("exit 3");
  daemon.terminate();
  const std::string key = daemon.data_dir() + "/seal.key";
  const std::string good = read_file(key);
  std::ofstream(key, std::ios::trunc) << std::string(32, 'k');
  gate.open();
  expect_refused(daemon, "state_corrupt", "seal.key");
  std::ofstream(key, std::ios::trunc) << good;
  daemon.start();
  EXPECT_EQ(number_at(daemon.finished(queued), "exit.code"), 3);
}

// ---- one row -----------------------------------------------------------------------------------

struct Damage {
  const char* name;
  const char* hurt;
  const char* heal;
};

void PrintTo(const Damage& row, std::ostream* out) { *out << row.hurt; }

// Each touches one row of session `bad`, which has a finished job with its event pending, a running
// one and a queued one, and an open turn.
const Damage kDamages[] = {
    {"job_status", "UPDATE job SET status = 'dancing' WHERE session = 'bad' AND status = 'queued'",
     "UPDATE job SET status = 'queued' WHERE session = 'bad' AND status = 'dancing'"},
    {"job_kind", "UPDATE job SET kind = 'ghost' WHERE session = 'bad' AND status = 'queued'",
     "UPDATE job SET kind = 'command' WHERE kind = 'ghost'"},
    {"job_owner", "UPDATE job SET owner = 'x' WHERE session = 'bad' AND status = 'running'",
     "UPDATE job SET owner = 'session' WHERE owner = 'x'"},
    {"job_survivors",
     "UPDATE job SET survivors = '{[' WHERE session = 'bad' AND status = 'running'",
     "UPDATE job SET survivors = NULL WHERE survivors = '{['"},
    {"launch_leftovers",
     "UPDATE launch SET leftovers = 'eat' WHERE job IN "
     "(SELECT job FROM job WHERE session = 'bad' AND status = 'queued')",
     "UPDATE launch SET leftovers = 'kill' WHERE leftovers = 'eat'"},
    {"inbox_state", "UPDATE inbox SET state = 'lost' WHERE session = 'bad'",
     "UPDATE inbox SET state = 'pending' WHERE state = 'lost'"},
    {"inbox_type", "UPDATE inbox SET type = 'job.exploded' WHERE session = 'bad'",
     "UPDATE inbox SET type = 'job.failed' WHERE type = 'job.exploded'"},
    {"inbox_lane", "UPDATE inbox SET lane = 'fast' WHERE session = 'bad'",
     "UPDATE inbox SET lane = 'next_step' WHERE lane = 'fast'"},
    {"turn_state", "UPDATE turn SET state = 'ajar' WHERE session = 'bad'",
     "UPDATE turn SET state = 'open' WHERE state = 'ajar'"},
};

class RowTest : public ::testing::TestWithParam<Damage> {};

struct Life {
  std::string ended;
  std::string running;
  std::string queued;
};

Life live_in(Daemon& daemon, const std::string& session, const std::string& command) {
  daemon.act_as_host(session);
  daemon.json({"turn", "begin", "--turn", "t1"});
  Life life;
  life.ended = daemon.accept("exit 3");
  daemon.set_env({"WAYBILL_SESSION=" + session});  // who looks is not the owner
  daemon.finished(life.ended);
  daemon.act_as_host(session);
  life.running = daemon.accept(command);
  life.queued = daemon.accept("exit 4");
  return life;
}

void expect_served(Daemon& daemon, const std::string& session, const Life& life) {
  daemon.act_as_host(session);
  const json::value end = daemon.json({"turn", "step", "--turn", "t1"});
  EXPECT_TRUE(contains(json::serialize(end), life.ended + ".failed.1")) << json::serialize(end);
  EXPECT_EQ(text_at(daemon.finished(life.running), "status"), "succeeded");
  EXPECT_EQ(number_at(daemon.finished(life.queued), "exit.code"), 4);
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 5"}).exit_code, 5);
}

TEST_P(RowTest, I12_an_unparsable_row_refuses_its_owner_only) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=1"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  Gate bad_gate(temp.path() + "/bad");
  Gate good_gate(temp.path() + "/good");
  const Life bad = live_in(daemon, "bad", bad_gate.command());
  const Life good = live_in(daemon, "good", good_gate.command());
  daemon.terminate();
  drop_guards(daemon);
  sql(daemon, GetParam().hurt);
  good_gate.open();
  daemon.start();
  daemon.act_as_host("bad");
  for (const auto& call : std::vector<std::vector<std::string>>{
           {"run", "--", "true"}, {"turn", "step", "--turn", "t1"}, {"inbox"}}) {
    const Output output = daemon.cli(call);
    EXPECT_EQ(output.exit_code, kStateRefused) << call[0] << output.describe();
    EXPECT_TRUE(contains(output.err, "[state_corrupt]")) << output.err;
  }
  const json::value status = daemon.json({"status"});
  EXPECT_TRUE(contains(json::serialize(at(status, "poisoned_owners")), "bad"))
      << json::serialize(status);
  expect_served(daemon, "good", good);
  // Nothing was discarded: healed, the owner has everything.
  daemon.terminate();
  sql(daemon, GetParam().heal);
  bad_gate.open();
  daemon.start();
  expect_served(daemon, "bad", bad);
}

INSTANTIATE_TEST_SUITE_P(Refusals, RowTest, ::testing::ValuesIn(kDamages),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(DamageTest, I12_a_sealed_launch_that_does_not_open_is_kept_and_not_run) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=1"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  daemon.set_env({"WAYBILL_SESSION=bad"});
  daemon.accept(gate.command());
  const std::string queued = daemon.accept("echo ran >> '" + temp.path() + "/runs'");
  daemon.terminate();
  sql(daemon, "UPDATE launch SET sealed = CAST(x'00' || substr(sealed, 2) AS BLOB) WHERE job = '" +
                  queued + "'");
  gate.open();
  daemon.start();
  RawClient client(daemon.socket());
  // The slot is free as soon as the first job is settled; then the second one is looked at.
  const json::value waited = client.call(
      "job.wait", {{"session", "bad"}, {"jobs", json::array{queued}}, {"timeout_ms", 60000}});
  EXPECT_EQ(text_at(waited, "error.data.code"), "state_corrupt") << json::serialize(waited);
  EXPECT_EQ(daemon.cli({"run", "--", "true"}).exit_code, kStateRefused);
  EXPECT_NE(text_at(daemon.show(queued), "status"), "succeeded");
  EXPECT_FALSE(fs::exists(temp.path() + "/runs"));
  daemon.set_env({});
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 3"}).exit_code, 3);
}

// ---- the disk ----------------------------------------------------------------------------------

TEST(DamageTest, I2_a_full_disk_refuses_launches_and_loses_nothing) {
  SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << disk.why();
  Daemon::Options options;
  options.data_dir = disk.path() + "/data";
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("s");
  HeldJob job(daemon);
  disk.fill();
  const Output refused = daemon.cli({"run", "--", "true"});
  EXPECT_EQ(refused.exit_code, 121) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "[store_full]")) << refused.err;
  EXPECT_EQ(text_at(daemon.show(job.id()), "status"), "running");
  job.end();  // its end is on record all the same
  disk.free();
  const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  ASSERT_EQ(taken.exit_code, 0) << "the end was lost; " << taken.describe();
  EXPECT_EQ(text_at(taken.json(), "events.0.id"), job.id() + ".failed.1");
  EXPECT_EQ(number_at(daemon.show(job.id()), "exit.code"), 3);
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 4"}).exit_code, 4);
}

TEST(DamageTest, a_read_only_data_directory_is_refused_by_name) {
  SmallDisk disk;
  if (!disk.mounted()) GTEST_SKIP() << disk.why();
  Daemon::Options options;
  options.data_dir = disk.path() + "/data";
  Daemon daemon(options);
  fill_and_end(daemon);
  ASSERT_EQ(::mount("", disk.path().c_str(), "", MS_REMOUNT | MS_RDONLY, disk.options().c_str()),
            0);
  const Output output = daemon.serve_and_finish();
  EXPECT_NE(output.exit_code, 0) << output.describe();
  EXPECT_TRUE(contains(output.err, daemon.data_dir())) << output.err;
  ASSERT_EQ(::mount("", disk.path().c_str(), "", MS_REMOUNT, disk.options().c_str()), 0);
  daemon.start();
  EXPECT_EQ(at(daemon.json({"list"}), "jobs").get_array().size(), 3U);
}

}  // namespace
}  // namespace waybill::e2e
