// Out of memory, when the kernel says so: in a memory cgroup of version 1 that is limited for the
// test, which is shared by the daemon, the supervisor and the job, as such groups usually are. This
// program runs itself again in there.

#include <gtest/gtest.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <fstream>

#include "supervise/channel_fixture.h"

namespace waybill::supervise {
namespace {

using core::ExitKind;

constexpr char kInside[] = "WAYBILL_TEST_INSIDE";
constexpr char kMemory[] = "/sys/fs/cgroup/memory";

bool put(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text << std::flush;
  return out.good();
}

class OutOfMemory : public ChannelTest {
 protected:
  void SetUp() override {
    if (getenv(kInside) != nullptr) return;
    group_ = std::string(kMemory) + "/waybill-test-" + std::to_string(getpid());
    if (mkdir(group_.c_str(), 0700) != 0 || !put(group_ + "/memory.limit_in_bytes", "134217728")) {
      rmdir(group_.c_str());
      group_.clear();
      GTEST_SKIP() << "no memory cgroup of version 1 can be made at " << kMemory;
    }
    put(group_ + "/memory.memsw.limit_in_bytes", "134217728");  // where there is swap
  }
  void TearDown() override {
    if (!group_.empty()) {
      EXPECT_TRUE(eventually([&] { return rmdir(group_.c_str()) == 0; }));
    }
  }

  // True when the test has been run inside of the limited group by this call.
  bool delegated() {
    if (getenv(kInside) != nullptr) return false;
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    const std::string filter =
        std::string("--gtest_filter=") + info->test_suite_name() + "." + info->name();
    const pid_t pid = fork();
    if (pid == 0) {
      setenv(kInside, "1", 1);
      put(group_ + "/cgroup.procs", std::to_string(getpid()));
      execl("/proc/self/exe", "test", filter.c_str(), "--gtest_brief=1", nullptr);
      _exit(126);
    }
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    return true;
  }

  std::string group_;
};

// An endless line, all of it kept in memory.
constexpr char kEat[] = "tail /dev/zero";

TEST_F(OutOfMemory, I9_a_main_process_that_the_kernel_killed_for_memory) {
  if (delegated()) return;
  const core::JobFacts facts = wait_finished(run(std::string("exec ") + kEat));
  EXPECT_EQ(facts.exit->signal, SIGKILL);
  EXPECT_TRUE(facts.oom);
  EXPECT_EQ(facts.ended_by, core::EndedBy::itself);
}

TEST_F(OutOfMemory, I9_a_shell_that_tells_of_its_child_has_exited) {
  if (delegated()) return;
  const core::JobFacts facts = wait_finished(run(std::string(kEat) + "; exit $?"));
  EXPECT_EQ(facts.exit->kind, ExitKind::exited);
  EXPECT_EQ(facts.exit->code, 137);
  EXPECT_TRUE(facts.oom);
  // In a group that is shared, a shell that says something else says nothing about that.
  EXPECT_FALSE(wait_finished(run(std::string(kEat) + "; exit 5")).oom);
}

TEST_F(OutOfMemory, I9_other_kills_are_none) {
  if (delegated()) return;
  wait_finished(run(std::string("exec ") + kEat));  // the counter is not at zero
  const core::JobFacts killed = wait_finished(run("kill -9 $$"));
  EXPECT_EQ(killed.exit->signal, SIGKILL);
  EXPECT_FALSE(killed.oom);
  LaunchOrder launch = order("trap '' TERM; " + std::string(kEat) + "; echo up; sleep 300");
  launch.grace = Millis(50);
  const JobId job = run(std::move(launch));
  wait_output(job, "up");
  stop(job);
  const core::JobFacts ours = wait_finished(job);
  EXPECT_EQ(ours.exit->signal, SIGKILL);
  EXPECT_FALSE(ours.oom) << "that one was ours";
}

}  // namespace
}  // namespace waybill::supervise
