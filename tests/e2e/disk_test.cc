// A disk that is full, and one that nobody may write to: at each step of a job's life, with
// everything going on by itself once that has passed.

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "e2e/harness.h"
#include "e2e/small_disk.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int kNoSpace = 28;   // ENOSPC
constexpr int kReadOnly = 30;  // EROFS
constexpr int kUnavailable = 122;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Launches are not refused for want of space: what happens then is the question.
Daemon::Options without_a_floor(const std::string& directory) {
  Daemon::Options options;
  options.data_dir = directory + "/data";
  options.arguments = {"--set", "free_space_floor_bytes=1", "--set", "backoff_first=50ms",
                       "--set", "backoff_max=200ms"};
  return options;
}

// The one hand-over there must be, with the one event it must carry.
void expect_heard_once(Daemon& daemon, const std::string& event) {
  const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  ASSERT_EQ(taken.exit_code, 0) << event << " was lost; " << taken.describe();
  EXPECT_EQ(items_at(taken.json(), "events").size(), 1U);
  EXPECT_EQ(text_at(taken.json(), "events.0.id"), event);
  EXPECT_EQ(daemon.cli({"--json", "inbox"}).out, "");
}

class FullDiskTest : public ::testing::TestWithParam<SmallDisk::Kind> {
 protected:
  FullDiskTest() : disk_(96, GetParam()) {}
  void SetUp() override {
    if (!disk_.mounted()) GTEST_SKIP() << disk_.why();
  }
  SmallDisk disk_;
};

INSTANTIATE_TEST_SUITE_P(Disk, FullDiskTest,
                         ::testing::Values(SmallDisk::Kind::tmpfs, SmallDisk::Kind::ext4),
                         [](const auto& row) {
                           return row.param == SmallDisk::Kind::tmpfs ? "tmpfs" : "ext4";
                         });

TEST_P(FullDiskTest, I10_what_cannot_be_recorded_is_not_started) {
  Daemon daemon(without_a_floor(disk_.path()));
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  disk_.fill();
  const Output refused = daemon.cli({"run", "--", "true"});
  EXPECT_EQ(refused.exit_code, 121) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "[store_full]")) << refused.err;
  EXPECT_TRUE(items_at(daemon.json({"list"}), "jobs").empty());  // nothing is half done
  disk_.free_one_block();
  // The store has room of its own for that, so the launch is accepted, and fails where it stands.
  const std::string id = daemon.accept("echo ran >> '" + temp.path() + "/runs'");
  const Output waited = daemon.cli({"--session", "s", "wait", id, "--timeout", "60s"});
  EXPECT_EQ(waited.exit_code, 126) << waited.describe();
  const json::value job = daemon.show(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "verdict"), "not_started");
  EXPECT_EQ(text_at(job, "exit.kind"), "not_started");
  EXPECT_EQ(number_at(job, "exit.errno"), kNoSpace);
  EXPECT_EQ(endings_of(job).size(), 1U);
  EXPECT_FALSE(fs::exists(temp.path() + "/runs"));
  disk_.free();
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 4"}).exit_code, 4);
}

TEST_P(FullDiskTest, O19_output_stops_being_stored_and_the_job_goes_on) {
  Daemon daemon(without_a_floor(disk_.path()));
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  Bell bell(temp.path() + "/bell");
  const std::string go = temp.path() + "/go";
  const std::string id =
      daemon.accept("echo first; " + bell.command("up") + "; " + gate.command() +
                    "; seq 1 200000; " + bell.command("full") + "; until [ -e '" + go +
                    "' ]; do echo again; sleep 0.02; "
                    "done; exit 3");
  ASSERT_EQ(bell.word(), "up");
  auto follower = daemon.spawn({"logs", id, "--follow", "--raw"});
  ASSERT_EQ(follower->line(), "first");
  disk_.fill();
  gate.open();
  ASSERT_EQ(bell.word(), "full");  // it was not held up
  EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
  disk_.free();
  // Stored again, behind a gap; whoever follows the output sees that.
  std::optional<std::string> line = follower->line();
  while (line && *line != "again") line = follower->line();
  EXPECT_EQ(line, "again");
  std::ofstream(go) << "go";
  expect_heard_once(daemon, id + ".failed.1");
  const json::value job = daemon.show(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(number_at(job, "exit.code"), 3);
  EXPECT_EQ(endings_of(job).size(), 1U);
  EXPECT_EQ(text_at(job, "output.incomplete"), "enospc");
  EXPECT_FALSE(items_at(job, "output.gaps").empty());
  EXPECT_LT(number_at(job, "output.kept_bytes"), number_at(job, "output.bytes"));
  EXPECT_GT(number_at(job, "output.bytes"), 1288895);  // every byte was counted
  EXPECT_FALSE(text_at(job, "output.digest").empty());
  const std::string kept = daemon.cli({"logs", id, "--raw"}).out;
  EXPECT_EQ(kept.size(), static_cast<std::size_t>(number_at(job, "output.kept_bytes")));
  EXPECT_EQ(kept.find('\0'), std::string::npos);
  EXPECT_TRUE(kept.starts_with("first\n"));
  EXPECT_TRUE(kept.ends_with("again\n"));
}

TEST_P(FullDiskTest, I2_an_end_on_a_full_disk_is_heard_once) {
  Daemon daemon(without_a_floor(disk_.path()));
  daemon.start();
  daemon.act_as_host("s");
  HeldJob job(daemon);
  disk_.fill();
  job.end();  // its end is on record all the same
  disk_.free();
  expect_heard_once(daemon, job.id() + ".failed.1");
  const json::value shown = daemon.show(job.id());
  EXPECT_EQ(number_at(shown, "exit.code"), 3);
  EXPECT_EQ(endings_of(shown).size(), 1U);
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 4"}).exit_code, 4);
}

TEST_P(FullDiskTest, I2_an_end_on_a_full_disk_is_heard_after_a_restart) {
  Daemon daemon(without_a_floor(disk_.path()));
  daemon.start();
  daemon.act_as_host("s");
  HeldJob job(daemon);
  disk_.fill();
  daemon.kill_9();
  job.end();
  disk_.free();
  daemon.start();
  expect_heard_once(daemon, job.id() + ".failed.1");
  EXPECT_EQ(endings_of(daemon.show(job.id())).size(), 1U);
}

TEST_P(FullDiskTest, I7_a_stop_works_on_a_full_disk) {
  Daemon daemon(without_a_floor(disk_.path()));
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const std::string id =
      daemon.accept("trap '' TERM; " + bell.command("up") + "; while :; do sleep 300; done",
                    {"--grace", "100ms"});
  ASSERT_TRUE(bell.word());
  disk_.fill();
  const Output stopped = daemon.cli({"stop", id, "--wait", "--reason", "enough"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.describe() << daemon.log();
  const json::value job = daemon.show(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "stopped");
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
  EXPECT_EQ(text_at(job, "reason"), "enough");
  EXPECT_EQ(endings_of(job), std::vector<std::string>{"cancelled"});
  expect_none_left("WAYBILL_JOB=" + id);
  disk_.free();
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 4"}).exit_code, 4);
}

// ---- read-only ---------------------------------------------------------------------------------

// Nobody may write below this directory by its name, while this lives. What is open stays open.
class ReadOnly {
 public:
  explicit ReadOnly(std::string path) : path_(std::move(path)) {
    good_ = ::mount(path_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) == 0;
    good_ = good_ &&
            ::mount("", path_.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }
  ~ReadOnly() { undo(); }
  ReadOnly(const ReadOnly&) = delete;
  ReadOnly& operator=(const ReadOnly&) = delete;
  bool good() const { return good_; }
  void undo() {
    if (std::exchange(good_, false)) ::umount2(path_.c_str(), MNT_DETACH);
  }

 private:
  std::string path_;
  bool good_ = false;
};

TEST(ReadOnlyTest, I2_jobs_that_run_run_on_and_nothing_new_is_started_half) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  Bell bell(temp.path() + "/bell");
  const std::string ends =
      daemon.accept(bell.command("up") + "; " + gate.command() + "; echo printed; exit 3");
  const std::string stops = daemon.accept(bell.command("up") + "; exec sleep 300");
  ASSERT_TRUE(bell.word());
  ASSERT_TRUE(bell.word());
  ReadOnly frozen(daemon.data_dir() + "/jobs");
  if (!frozen.good()) {
    daemon.cli({"stop", "--all", "--wait"});
    GTEST_SKIP() << "no read-only mount: not root";
  }
  const std::string refused = daemon.accept("true");
  daemon.cli({"--session", "s", "wait", refused, "--timeout", "60s"});
  const json::value not_started = daemon.show(refused);
  EXPECT_EQ(text_at(not_started, "exit.kind"), "not_started") << json::serialize(not_started);
  EXPECT_EQ(number_at(not_started, "exit.errno"), kReadOnly);
  // The wish cannot be written there; the supervisor hears it all the same.
  EXPECT_EQ(daemon.cli({"stop", stops, "--wait"}).exit_code, 0) << daemon.log();
  EXPECT_EQ(text_at(daemon.show(stops), "status"), "stopped");
  gate.open();
  daemon.cli({"--session", "s", "wait", ends, "--timeout", "60s"});
  const json::value ended = daemon.show(ends);
  EXPECT_EQ(number_at(ended, "exit.code"), 3) << json::serialize(ended);
  EXPECT_EQ(daemon.cli({"logs", ends, "--raw"}).out, "printed\n");
  frozen.undo();
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 4"}).exit_code, 4);
  for (const std::string& job : {ends, stops, refused}) {
    EXPECT_EQ(endings_of(daemon.show(job)).size(), 1U);
  }
}

// ---- quota and floor ---------------------------------------------------------------------------

std::uint64_t allocated(const Daemon& daemon, const std::string& job) {
  struct stat info{};
  const std::string path = daemon.data_dir() + "/jobs/" + job + "/out";
  return ::stat(path.c_str(), &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

std::uint64_t resident_bytes(pid_t pid) {
  const std::string status = read_file("/proc/" + std::to_string(pid) + "/status");
  const std::size_t at = status.find("VmRSS:");
  return at == std::string::npos ? 0 : std::stoull(status.substr(at + 6)) * 1024;
}

// Until this is true; each look is a call to the daemon, which takes its time.
template <class Condition>
bool comes_true(Daemon& daemon, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + kCap;
  while (std::chrono::steady_clock::now() < end) {
    if (condition()) return true;
    daemon.cli({"status"});
  }
  return false;
}

constexpr std::uint64_t kMebi = 1024 * 1024;

TEST(QuotaTest, O19_old_output_expires_and_says_so) {
  Daemon::Options options;
  options.arguments = {"--set", "session_disk_quota_bytes=2MiB"};
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("s");
  const std::string print = "head -c 1500000 /dev/zero | tr '\\0' x";
  const std::string first = daemon.accept(print);
  daemon.cli({"wait", first, "--timeout", "60s"});  // the owner has heard it
  const json::value before = daemon.show(first);
  EXPECT_TRUE(at(before, "output.expired_at").is_null());
  const std::string second = daemon.accept(print);
  daemon.cli({"wait", second, "--timeout", "60s"});
  ASSERT_TRUE(
      comes_true(daemon, [&] { return !at(daemon.show(first), "output.expired_at").is_null(); }));
  const json::value after = daemon.show(first);
  EXPECT_EQ(number_at(after, "output.kept_bytes"), 0);
  EXPECT_EQ(number_at(after, "output.bytes"), 1500000);
  EXPECT_EQ(text_at(after, "output.digest"), text_at(before, "output.digest"));
  EXPECT_EQ(allocated(daemon, first), 0U);
  const Output logs = daemon.cli({"logs", first});
  EXPECT_EQ(logs.exit_code, kUnavailable) << logs.describe();
  EXPECT_TRUE(contains(logs.err, "[unavailable]") && contains(logs.err, "expired")) << logs.err;
  EXPECT_TRUE(contains(daemon.cli({"show", first}).out, "expired at"));
  EXPECT_EQ(daemon.cli({"logs", second, "--raw"}).out.size(), 1500000U);
  daemon.restart();
  EXPECT_EQ(daemon.cli({"logs", first}).exit_code, kUnavailable);
}

// What is left of so many bytes by a list of gaps (docs/files.md section 5).
std::uint64_t kept_of(const std::string& gaps_path, std::uint64_t bytes) {
  std::istringstream words(read_file(gaps_path));
  std::string word;
  while (words >> word) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    if (std::sscanf(word.c_str(), "%" SCNu64 "-%" SCNu64, &from, &to) == 2) bytes -= to - from;
  }
  return bytes;
}

TEST(QuotaTest, I14_a_running_job_is_made_to_keep_less) {
  Daemon::Options options;
  options.arguments = {"--set", "session_disk_quota_bytes=2MiB", "--set",
                       "disk_check_interval=20ms"};
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  Bell bell(temp.path() + "/bell");
  const std::string id = daemon.accept("seq 1 1000000; " + bell.command("up") + "; " +
                                       gate.command() + "; seq 1000001 1000010; exit 3");
  ASSERT_TRUE(bell.word());
  // What the supervisor has given up, in its own words: a file system may count blocks late.
  const std::string gaps = daemon.data_dir() + "/jobs/" + id + "/out.gaps";
  ASSERT_TRUE(comes_true(daemon, [&] { return kept_of(gaps, 6888896) <= 2 * kMebi; }))
      << read_file(gaps);
  EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
  gate.open();
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(number_at(job, "exit.code"), 3);
  EXPECT_TRUE(text_or_empty_at(job, "output.incomplete").empty());
  EXPECT_FALSE(items_at(job, "output.gaps").empty());
  const std::string kept = daemon.cli({"logs", id, "--raw"}).out;
  EXPECT_TRUE(kept.starts_with("1\n2\n3\n"));
  EXPECT_TRUE(kept.ends_with("1000009\n1000010\n"));
  EXPECT_EQ(kept.find('\0'), std::string::npos);
}

TEST(QuotaTest, I14_without_holes_the_output_goes_round) {
  Daemon::Options options;
  options.env = {"WAYBILL_CRASH_SHIM=shim.no_holes"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  Bell bell(temp.path() + "/bell");
  const std::string id =
      daemon.accept("seq 1 2000000; " + bell.command("up") + "; " + gate.command() + "; echo last",
                    {"--cap", "1MiB"});
  ASSERT_TRUE(bell.word());
  struct stat info{};
  const std::string out = daemon.data_dir() + "/jobs/" + id + "/out";
  ASSERT_EQ(::stat(out.c_str(), &info), 0);
  EXPECT_LE(info.st_size, static_cast<off_t>(5 * kMebi));
  EXPECT_EQ(daemon.cli({"logs", id, "--tail", "1"}).out, "2000000\n");  // live
  gate.open();
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(number_at(job, "output.bytes"), 14888896 + 5);
  EXPECT_EQ(items_at(job, "output.gaps").size(), 1U);
  const std::string kept = daemon.cli({"logs", id, "--raw"}).out;
  EXPECT_TRUE(kept.starts_with("1\n2\n3\n"));
  EXPECT_TRUE(kept.ends_with("1999999\n2000000\nlast\n"));
  EXPECT_EQ(kept.size(), static_cast<std::size_t>(number_at(job, "output.kept_bytes")));
}

// A job without an end whose owner has gone, one that reads its own output, old output, and others
// that want to live, on 200 MB.
TEST(QuotaTest, O19_an_orphan_that_writes_for_ever_fills_no_disk) {
  SmallDisk disk(200, SmallDisk::Kind::tmpfs);
  if (!disk.mounted()) GTEST_SKIP() << disk.why();
  Daemon::Options options;
  options.data_dir = disk.path() + "/data";
  options.arguments = {"--set", "output_cap_bytes=20MiB",       "--set", "disk_check_interval=50ms",
                       "--set", "free_space_floor_bytes=110MiB"};
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("old");
  std::vector<std::string> old;
  for (int i = 0; i < 4; ++i) {
    old.push_back(daemon.accept("head -c 10000000 /dev/zero | tr '\\0' y"));
    daemon.cli({"wait", old.back(), "--timeout", "60s"});
  }
  daemon.act_as_host("orphan");
  const std::string yes = daemon.accept("yes 0123456789");
  daemon.act_as_host("reader");
  const std::string self =
      daemon.accept("while :; do cat '" + daemon.data_dir() + "'/jobs/*/out 2>/dev/null; done");
  daemon.set_env({"WAYBILL_SESSION=orphan"});
  const auto dropped = [&](const std::string& session, const std::string& job) {
    const json::value page =
        daemon.json({"--session", session, "logs", job, "--raw", "--offset", "4000000"});
    return !items_at(page, "gaps").empty();
  };
  EXPECT_TRUE(comes_true(daemon, [&] { return dropped("orphan", yes); }));
  EXPECT_TRUE(comes_true(daemon, [&] { return dropped("reader", self); }));
  daemon.set_env({"WAYBILL_SESSION=old"});
  EXPECT_TRUE(
      comes_true(daemon, [&] { return !at(daemon.show(old[0]), "output.expired_at").is_null(); }));
  // What a quiet hour would do to it, in short: the others record their receipts, and the daemon
  // does not grow.
  daemon.act_as_host("others");
  daemon.cli({"run", "--wait", "--", "exit 5"});
  const std::uint64_t before = resident_bytes(daemon.pid());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 5"}).exit_code, 5);
    EXPECT_LE(allocated(daemon, yes), 24 * kMebi + 8192);
    EXPECT_LE(allocated(daemon, self), 24 * kMebi + 8192);
    EXPECT_GT(disk.free_bytes(), 50 * kMebi);
  }
  if (!kSanitized) {
    EXPECT_LE(resident_bytes(daemon.pid()), before + 16 * kMebi);
  }
  daemon.set_env({"WAYBILL_SESSION=orphan"});
  daemon.cli({"stop", yes, "--wait"});
  const json::value job = daemon.show(yes);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "stopped");
  EXPECT_GT(number_at(job, "output.bytes"), number_at(job, "output.kept_bytes"));
  const std::string head = daemon.cli({"logs", yes, "--raw", "--bytes", "22"}).out;
  EXPECT_EQ(head.substr(0, 22), "0123456789\n0123456789\n");
  daemon.set_env({"WAYBILL_SESSION=reader"});
  daemon.cli({"stop", self, "--wait"});
}

}  // namespace
}  // namespace waybill::e2e
