#include "supervise/found_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "supervise/launch_files.h"

namespace waybill::supervise {
namespace {

class FoundJobTest : public ::testing::Test {
 protected:
  FoundJobTest() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "waybill-found-XXXXXX").string();
    data_ = ::mkdtemp(pattern.data());
    std::filesystem::create_directories(directory());
  }
  ~FoundJobTest() override { std::filesystem::remove_all(data_); }

  std::string directory() const { return data_ + "/jobs/j1"; }

  LaunchOrder order() const {
    LaunchOrder order;
    order.job = JobId("j1");
    order.node_seq = 41;
    order.shell = "/bin/bash";
    order.command = "-x; echo 'a=b' \"$PATH\"\nline two";
    order.cwd = "/tmp";
    order.env = {"A=b"};
    order.grace = Millis(700);
    order.deadline = Millis(90'000);
    order.cap_bytes = 1 << 20;
    order.head_bytes = 4096;
    order.leftovers = core::LeftoverPolicy::keep;
    order.stdin_policy = core::StdinPolicy::open;
    order.pty = true;
    order.umask = 027;
    order.origin.scope = {
        {TenantId("local"), SessionId("s1")}, TurnId("t1"), SandboxId("local"), GenerationId("g1")};
    order.origin.owner = core::OwnerKind::turn;
    order.origin.wake = core::WakePolicy::on_failure;
    order.origin.label = "the label, with = and 'quotes'";
    order.origin.key = "k1";
    order.origin.fingerprint = "f1";
    order.origin.incarnation = "i1";
    order.origin.accepted_at = WallTime(Millis(1'796'040'000'123));
    return order;
  }

  void write(const LaunchOrder& order) {
    int error = 0;
    const auto dir = JobDir::open(data_, JobId("j1"), error);
    ASSERT_TRUE(dir);
    ASSERT_EQ(write_launch_files(order, *dir).what, "");
  }

  FoundJob find() {
    auto found = find_job_directory(data_, JobId("j1"), read_machine_generation());
    EXPECT_TRUE(found);
    return found ? std::move(*found) : FoundJob{};
  }

  std::string data_;
};

void expect_same(const LaunchOrder& found, const LaunchOrder& written) {
  EXPECT_EQ(found.job, written.job);
  EXPECT_EQ(found.node_seq, written.node_seq);
  EXPECT_EQ(found.shell, written.shell);
  EXPECT_EQ(found.command, written.command);
  EXPECT_EQ(found.argv, written.argv);
  EXPECT_EQ(found.wrapper, written.wrapper);
  EXPECT_EQ(found.cwd, written.cwd);
  EXPECT_EQ(found.grace, written.grace);
  EXPECT_EQ(found.deadline, written.deadline);
  EXPECT_EQ(found.cap_bytes, written.cap_bytes);
  EXPECT_EQ(found.head_bytes, written.head_bytes);
  EXPECT_EQ(found.leftovers, written.leftovers);
  EXPECT_EQ(found.stdin_policy, written.stdin_policy);
  EXPECT_EQ(found.pty, written.pty);
  EXPECT_EQ(found.umask, written.umask);
  const Origin& origin = written.origin;
  EXPECT_EQ(found.origin.scope.owner, origin.scope.owner);
  EXPECT_EQ(found.origin.scope.turn, origin.scope.turn);
  EXPECT_EQ(found.origin.scope.sandbox, origin.scope.sandbox);
  EXPECT_EQ(found.origin.scope.generation, origin.scope.generation);
  EXPECT_EQ(found.origin.owner, origin.owner);
  EXPECT_EQ(found.origin.wake, origin.wake);
  EXPECT_EQ(found.origin.label, origin.label);
  EXPECT_EQ(found.origin.key, origin.key);
  EXPECT_EQ(found.origin.fingerprint, origin.fingerprint);
  EXPECT_EQ(found.origin.incarnation, origin.incarnation);
  EXPECT_EQ(found.origin.accepted_at, origin.accepted_at);
}

TEST_F(FoundJobTest, a_launch_file_says_everything_that_the_row_did) {
  std::vector<LaunchOrder> orders(4, order());
  orders[1].wrapper = {"/usr/bin/bwrap", "--dev-bind", "/", "/"};
  orders[2].shell.clear();
  orders[2].command.clear();
  orders[2].argv = {"printf", "%s", "-c"};
  orders[2].wrapper = {"/usr/bin/env", "X=y"};
  orders[3].command = "echo " + std::string(200'000, 'x');  // in a file of its own
  for (const LaunchOrder& one : orders) {
    write(one);
    const FoundJob found = find();
    EXPECT_TRUE(found.there);
    EXPECT_FALSE(found.started || found.runs || found.told || found.stop);
    ASSERT_TRUE(found.launch) << found.why;
    expect_same(*found.launch, one);
  }
  EXPECT_EQ(*newest_launched(data_), 41U);
  EXPECT_EQ(*job_directories(data_), std::vector<JobId>{JobId("j1")});
}

TEST_F(FoundJobTest, I12_a_launch_file_that_does_not_check_says_nothing) {
  EXPECT_FALSE(find().launch);
  write(order());
  const std::string path = directory() + "/launch";
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(40);
  file << "Z";
  file.close();
  const FoundJob found = find();
  EXPECT_FALSE(found.launch);
  EXPECT_NE(found.why.find("does not check"), std::string::npos) << found.why;
  EXPECT_EQ(*newest_launched(data_), 0U);
}

TEST_F(FoundJobTest, a_record_of_any_kind_says_that_it_may_have_run) {
  write(order());
  for (const char* name : {"start.json", "exit.json", "final.json"}) {
    std::ofstream(directory() + "/" + name) << "torn";
    const FoundJob found = find();
    EXPECT_TRUE(found.started) << name;
    EXPECT_EQ(found.told, std::string_view(name) == "final.json");
    std::filesystem::remove(directory() + "/" + name);
  }
}

TEST_F(FoundJobTest, I8_a_wish_to_stop_counts_whatever_has_become_of_its_words) {
  write(order());
  std::ofstream(directory() + "/stop.req") << "torn";
  ASSERT_TRUE(find().stop);
  EXPECT_EQ(find().stop->actor, "unknown");
}

}  // namespace
}  // namespace waybill::supervise
