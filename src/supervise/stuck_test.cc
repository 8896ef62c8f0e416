// What cannot be killed now: it is named with the reason, the job stays running, and ends when it
// is gone. A group of the freezer of version 1 stands for a process that waits in the kernel.

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "supervise/channel_fixture.h"

namespace waybill::supervise {
namespace {

using core::EndedBy;
using core::Proof;
using core::Supervision;

constexpr char kFreezer[] = "/sys/fs/cgroup/freezer";

class StuckTest : public ChannelTest {
 protected:
  void SetUp() override {
    path_ = std::string(kFreezer) + "/waybill-test-" + std::to_string(getpid());
    if (mkdir(path_.c_str(), 0700) != 0) path_.clear();
  }
  void TearDown() override {
    if (path_.empty()) return;
    thaw();
    for (int pid : processes_with(data_dir_)) kill(pid, SIGKILL);
    EXPECT_TRUE(eventually([&] { return rmdir(path_.c_str()) == 0; }));
  }

  void freeze(int pid) {
    std::ofstream(path_ + "/cgroup.procs") << pid;
    std::ofstream(path_ + "/freezer.state") << "FROZEN";
    ASSERT_TRUE(eventually([&] {
      std::ifstream in(path_ + "/freezer.state");
      std::string state;
      return std::getline(in, state) && state == "FROZEN";
    }));
  }
  void thaw() { std::ofstream(path_ + "/freezer.state") << "THAWED"; }

  // The process of the job that runs `sleep`.
  int sleeper(const std::string& sleep) {
    int found = 0;
    EXPECT_TRUE(eventually([&] {
      for (int pid : processes_with(sleep)) {
        std::ifstream in("/proc/" + std::to_string(pid) + "/comm");
        std::string comm;
        if (std::getline(in, comm) && comm == "sleep") found = pid;
      }
      return found != 0;
    }));
    return found;
  }

  static bool named_with_reason(const Facts& facts, int pid) {
    for (const core::ProcessNote& note : facts.survivors) {
      if (note.pid == pid && note.state == "D" && note.reason == "D_state") return true;
    }
    return false;
  }

  std::string path_;
};

TEST_F(StuckTest, I7_a_process_in_D_state_keeps_the_stop_open_until_it_is_gone) {
  if (path_.empty()) GTEST_SKIP() << "no writable freezer of version 1 at " << kFreezer;
  const std::string sleep = "sleep " + unique_seconds();
  LaunchOrder launch = order(sleep + " & echo up; wait");
  launch.grace = Millis(100);
  const JobId job = run(std::move(launch));
  wait_output(job, "up");
  const int pid = sleeper(sleep);
  freeze(pid);
  stop(job);
  const core::JobFacts stuck =
      wait_for(job, [&](const Facts& f) { return named_with_reason(f, pid); });
  EXPECT_NE(stuck.supervision, Supervision::finished);
  EXPECT_FALSE(stuck.survivors.front().wchan.empty());
  stop(job);  // again: nothing changes
  // Ten seconds after it was killed the supervisor calls it stuck.
  ASSERT_TRUE(eventually(
      [&] { return file(job, "stop.json").find("\"stuck\":true") != std::string::npos; }));
  EXPECT_FALSE(has_file(job, "final.json"));
  thaw();
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_TRUE(processes_with(sleep).empty());
}

TEST_F(StuckTest, I7_a_deadline_kill_that_cannot_be_confirmed_names_who_survives) {
  if (path_.empty()) GTEST_SKIP() << "no writable freezer of version 1 at " << kFreezer;
  const std::string sleep = "sleep " + unique_seconds();
  LaunchOrder launch = order("exec " + sleep);
  launch.grace = Millis(100);
  launch.deadline = Millis(1000);
  const JobId job = run(std::move(launch));
  wait_running(job);
  const int pid = sleeper(sleep);
  freeze(pid);
  const core::JobFacts stuck =
      wait_for(job, [&](const Facts& f) { return named_with_reason(f, pid); });
  EXPECT_FALSE(stuck.exit);
  thaw();
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.ended_by, EndedBy::deadline);
  EXPECT_EQ(facts.exit->kind, core::ExitKind::signaled);
  EXPECT_EQ(facts.proof, Proof::subreaper);
}

TEST_F(StuckTest, I7_without_a_supervisor_the_daemon_names_it_and_waits_too) {
  if (path_.empty()) GTEST_SKIP() << "no writable freezer of version 1 at " << kFreezer;
  const std::string sleep = "sleep " + unique_seconds();
  LaunchOrder launch = order(sleep + " & echo up; wait");
  launch.grace = Millis(100);
  const JobId job = run(std::move(launch));
  wait_output(job, "up");
  const int pid = sleeper(sleep);
  freeze(pid);
  kill(pid_in(job, "shim_pid"), SIGKILL);
  wait_for(job, [](const Facts& f) { return f.supervision == Supervision::orphaned; });
  stop(job);
  const core::JobFacts stuck =
      wait_for(job, [&](const Facts& f) { return named_with_reason(f, pid); });
  EXPECT_EQ(stuck.supervision, Supervision::orphaned);
  EXPECT_FALSE(has_file(job, "final.json"));
  thaw();
  const core::JobFacts facts =
      wait_for(job, [](const Facts& f) { return f.supervision == Supervision::lost; });
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_EQ(facts.proof, Proof::unproven);
  EXPECT_TRUE(processes_with(sleep).empty());
}

}  // namespace
}  // namespace waybill::supervise
