// The daemon killed at each named point of its side; the next one finishes what was begun.

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "supervise/channel_fixture.h"

namespace waybill::supervise {
namespace {

class DaemonCrashTest : public ChannelTest {
 protected:
  // Runs the helper until it dies; true when it was killed at its point.
  bool crash_at(const std::string& point, const LaunchOrder& launch, const char* mode) {
    close_channel();  // one reader of the bell at a time, as the data directory's lock ensures
    const pid_t pid = fork();
    if (pid == 0) {
      setenv("WAYBILL_CRASH", point.c_str(), 1);
      execl(WAYBILL_CRASH_HELPER, "crash_helper", data_dir_.c_str(), WAYBILL_SHIM_PATH,
            launch.job.str().c_str(), launch.command.c_str(), mode, nullptr);
      _exit(127);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }

  int runs() const {
    std::ifstream in(data_dir_ + "/runs");
    int count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  }
};

TEST_F(DaemonCrashTest, I10_killed_around_the_launch_it_runs_exactly_once) {
  int expected = 0;
  for (const char* point : {"supervise.after_mkdir", "supervise.after_launch_file",
                            "supervise.after_spawn", "supervise.after_spawn:1"}) {
    SCOPED_TRACE(point);
    const LaunchOrder launch = order("echo ran >> \"$DATA/runs\"; echo text; exit 3");
    ASSERT_TRUE(crash_at(point, launch, "run"));
    open_channel();
    run(launch);
    const core::JobFacts facts = wait_finished(launch.job);
    EXPECT_EQ(facts.exit->code, 3);
    EXPECT_EQ(facts.tail, "text\n");
    EXPECT_EQ(facts.proof, core::Proof::subreaper);
    EXPECT_EQ(runs(), ++expected);
  }
}

TEST_F(DaemonCrashTest, I7_killed_around_the_stop_wish_the_stop_goes_on) {
  for (const char* point : {"supervise.after_stop_req", "supervise.after_ctl"}) {
    SCOPED_TRACE(point);
    const std::string sleep = "sleep " + unique_seconds();
    const LaunchOrder launch = order("trap '' TERM; setsid " + sleep + " & " + sleep);
    ASSERT_TRUE(crash_at(point, launch, "stop"));
    open_channel();
    stop(launch.job);
    const core::JobFacts facts = wait_finished(launch.job);
    EXPECT_EQ(facts.ended_by, core::EndedBy::stop);
    EXPECT_EQ(facts.proof, core::Proof::subreaper);
    EXPECT_TRUE(processes_with(sleep).empty());
  }
}

TEST_F(DaemonCrashTest, the_third_passage_of_a_point) {
  const LaunchOrder launch = order("exit 0");
  EXPECT_FALSE(crash_at("supervise.after_mkdir:3", launch, "run")) << "passed only once";
}

// A small file system of its own for the data directory; needs root.
class FullDiskTest : public ChannelTest {
 protected:
  bool mount_small(const char* options) {
    mounted_ = mount("tmpfs", data_dir_.c_str(), "tmpfs", 0, options) == 0;
    return mounted_;
  }
  void fill() {
    std::ofstream out(data_dir_ + "/filler", std::ios::binary);
    const std::string block(4096, 'x');
    while (out.write(block.data(), 4096).flush()) {
    }
  }
  ~FullDiskTest() override {
    channel_.reset();
    if (mounted_) umount2(data_dir_.c_str(), MNT_DETACH);
  }
  bool mounted_ = false;
};

TEST_F(FullDiskTest, I10_a_full_disk_refuses_the_launch_and_nothing_runs_unrecorded) {
  if (!mount_small("size=1m")) GTEST_SKIP() << "needs root";
  open_channel();
  LaunchOrder warm = order("true");
  wait_finished(run(warm));
  fill();
  const std::string mark = "/tmp/waybill-ran-" + std::to_string(getpid());
  std::filesystem::remove(mark);
  const JobId job = run("echo x > " + mark);
  const core::JobFacts facts = wait_for(job, [](const Facts& f) { return f.launch_errno != 0; });
  EXPECT_EQ(facts.supervision, core::Supervision::not_launched);
  EXPECT_EQ(facts.launch_errno, ENOSPC);
  EXPECT_FALSE(std::filesystem::exists(mark));
}

TEST_F(FullDiskTest, O19_output_meets_a_full_disk_and_the_end_is_still_recorded) {
  if (!mount_small("size=3m")) GTEST_SKIP() << "needs root";
  const JobId job = run("yes 0123456789 | head -c 20000000; exit 7");
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->code, 7);
  EXPECT_EQ(facts.output->bytes, 20'000'000U);
  EXPECT_EQ(facts.output->incomplete, "enospc");
  EXPECT_LT(facts.output->kept_bytes, 3U << 20);
  EXPECT_EQ(facts.output->gaps.back().to, 20'000'000U);
  EXPECT_EQ(facts.proof, core::Proof::subreaper);
}

// The idle supervisor of a release build stays small.
TEST_F(DaemonCrashTest, an_idle_supervisor_uses_less_than_a_megabyte) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(__clang__)
  GTEST_SKIP() << "only the ordinary build is small";
#endif
  const JobId job = run("echo up; sleep " + unique_seconds());
  wait_output(job, "up");
  const std::string start = file(job, "start.json");
  const std::size_t at = start.find("\"shim_pid\":") + 11;
  std::ifstream status("/proc/" + std::to_string(std::atoi(start.c_str() + at)) + "/status");
  int kb = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) kb = std::atoi(line.c_str() + 6);
  }
  EXPECT_GT(kb, 0);
  EXPECT_LT(kb, 1024);
  stop(job);
  wait_finished(job);
}

}  // namespace
}  // namespace waybill::supervise
