// A job's own cgroup: entered before the command runs, verified, killed as a whole, removed; and
// what it proves when the supervisor is lost. Without a writable cgroup of version 2 the tests of
// the fallback still run, and those of the cgroup say why they did not.

#include <gtest/gtest.h>

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "shim/cgroup.h"
#include "supervise/cgroup_root.h"
#include "supervise/channel_fixture.h"

namespace waybill::supervise {
namespace {

namespace fs = std::filesystem;
using core::EndedBy;
using core::Proof;
using core::Supervision;

constexpr char kNoCgroup[] =
    "no writable cgroup of version 2 here; the tests of the fallback run instead";

void put(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

class FallbackTest : public ChannelTest {
 protected:
  FallbackTest() { setenv("WAYBILL_CRASH_SHIM", "allowed", 1); }
  ~FallbackTest() override { unsetenv("WAYBILL_CRASH_SHIM"); }

  LaunchOrder quick(const std::string& command) {
    LaunchOrder launch = order(command);
    launch.grace = Millis(200);
    return launch;
  }

  // `hidden` runs where neither session nor environment nor descent lead to it once the supervisor
  // is gone.
  static std::string hide(const std::string& hidden) {
    return "(env -i setsid " + hidden + " >/dev/null 2>&1 &); ";
  }

  core::JobFacts stop_without_supervisor(const JobId& job) {
    kill(pid_in(job, "shim_pid"), SIGKILL);
    wait_for(job, [](const Facts& f) { return f.supervision == Supervision::orphaned; });
    stop(job);
    return wait_for(job, [](const Facts& f) { return f.supervision == Supervision::lost; });
  }
};

class CgroupTest : public FallbackTest {
 protected:
  void SetUp() override {
    cgroup_root_ = "auto";
    root_ = find_cgroup_root("auto", data_dir_).path;
    if (root_.empty()) GTEST_SKIP() << kNoCgroup;
  }
  void TearDown() override {
    close_channel();
    EXPECT_TRUE(root_.empty() || eventually([&] { return !fs::exists(root_); }))
        << "nothing may be left in " << root_;
  }

  std::string group(const JobId& job) const { return cgroup_of_job(root_, job); }
  std::string top() const { return root_.substr(0, root_.rfind('/')); }

  std::string root_;
};

TEST_F(CgroupTest, I7_the_command_starts_inside_and_the_group_goes_with_the_job) {
  const JobId job = run(quick("cat /proc/self/cgroup"));
  const core::JobFacts facts = wait_finished(job);
  EXPECT_NE(facts.tail.find("/job-" + job.str() + "\n"), std::string::npos) << facts.tail;
  EXPECT_NE(file(job, "start.json").find("\"cgroup\":\"" + group(job) + "\""), std::string::npos);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_TRUE(eventually([&] { return !fs::exists(group(job)); }));
}

TEST_F(CgroupTest, I7_a_stop_kills_the_frozen_and_groups_of_the_jobs_own) {
  LaunchOrder launch = quick("");
  const std::string sleep = "sleep " + unique_seconds();
  const std::string below = group(launch.job) + "/below";
  launch.command = "trap '' TERM; mkdir " + below + "; (" + sleep + ") & echo $! > " + below +
                   "/cgroup.procs; setsid " + sleep + " & echo up; wait";
  const JobId job = run(std::move(launch));
  wait_output(job, "up");
  ASSERT_TRUE(eventually([&] { return processes_with(sleep).size() >= 3; }));
  put(group(job) + "/cgroup.freeze", "1");
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_EQ(facts.exit->signal, SIGKILL);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_TRUE(processes_with(sleep).empty());
}

// ECHILD alone would call this gone.
TEST_F(CgroupTest, I7_who_was_put_into_the_group_is_of_the_job) {
  const JobId job = run(quick("echo up; sleep " + unique_seconds()));
  wait_output(job, "up");
  const pid_t guest = fork();
  if (guest == 0) {
    signal(SIGTERM, SIG_IGN);  // so that it outlives the grace, when no child is left
    execl("/bin/sleep", "sleep", unique_seconds().c_str(), nullptr);
    _exit(127);
  }
  put(group(job) + "/cgroup.procs", std::to_string(guest));
  stop(job);
  wait_finished(job);
  int status = 0;
  EXPECT_EQ(waitpid(guest, &status, WNOHANG), guest) << "before the end was recorded";
  EXPECT_TRUE(WIFSIGNALED(status));
  if (!WIFSIGNALED(status)) kill(guest, SIGKILL);
}

TEST_F(CgroupTest, I7_a_stop_without_supervisor_reaches_who_hides_and_is_proven) {
  const std::string sleep = "sleep " + unique_seconds();
  const JobId job = run(quick("trap '' TERM; " + hide(sleep) + "echo up; " + sleep + "; exit 0"));
  wait_output(job, "up");
  const core::JobFacts facts = stop_without_supervisor(job);
  EXPECT_EQ(facts.proof, Proof::cgroup);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_FALSE(facts.exit->success());
  EXPECT_TRUE(processes_with(sleep).empty());
  EXPECT_FALSE(fs::exists(group(job)));
}

TEST_F(FallbackTest, I7_without_a_cgroup_a_stop_without_supervisor_proves_nothing) {
  const std::string hidden = "sleep " + unique_seconds();
  const std::string sleep = "sleep " + unique_seconds();
  const JobId job = run(quick(hide(hidden) + "echo up; " + sleep + "; exit 0"));
  wait_output(job, "up");
  ASSERT_TRUE(eventually([&] { return !processes_with(hidden).empty(); }));
  EXPECT_EQ(stop_without_supervisor(job).proof, Proof::unproven);
  EXPECT_TRUE(processes_with(sleep).empty());
  // This is what the scan may not find, and why nothing is proven.
  const std::vector<int> left = processes_with(hidden);
  EXPECT_LE(left.size(), 1U);
  for (int pid : left) kill(pid, SIGKILL);
}

// Who moves out shows that the group speaks for nothing. It is found and killed, and not proven.
TEST_F(CgroupTest, I7_a_group_that_was_left_is_no_proof) {
  const std::string sleep = "sleep " + unique_seconds();
  const JobId job =
      run(quick("echo $$ > " + top() + "/cgroup.procs; echo up; " + sleep + "; exit 0"));
  wait_output(job, "up");
  EXPECT_EQ(shim::is_in_cgroup(pid_in(job, "main_pid"), group(job)), shim::Answer::no);
  const core::JobFacts facts = stop_without_supervisor(job);
  EXPECT_EQ(facts.proof, Proof::unproven);
  EXPECT_TRUE(processes_with(sleep).empty());
  // Under a supervisor the proof is another, and holds.
  const JobId watched =
      run(quick("echo $$ > " + top() + "/cgroup.procs; echo up; " + sleep + "; exit 0"));
  wait_output(watched, "up");
  stop(watched);
  EXPECT_EQ(wait_finished(watched).proof, Proof::subreaper);
  EXPECT_TRUE(processes_with(sleep).empty());
}

TEST_F(CgroupTest, I7_an_end_by_itself_without_supervisor_is_proven_too) {
  const JobId job =
      run(quick("echo up; until [ -e \"$DATA/go\" ]; do sleep 0.02; done; echo after; exit 9"));
  wait_output(job, "up");
  kill(pid_in(job, "shim_pid"), SIGKILL);
  wait_for(job, [](const Facts& f) { return f.supervision == Supervision::orphaned; });
  put(data_dir_ + "/go", "x");
  const core::JobFacts facts =
      wait_for(job, [](const Facts& f) { return f.supervision == Supervision::lost; });
  EXPECT_EQ(facts.proof, Proof::cgroup);
  EXPECT_EQ(facts.ended_by, EndedBy::itself);
}

TEST_F(CgroupTest, I10_a_second_launch_goes_into_the_same_group) {
  LaunchOrder launch = quick("cat /proc/self/cgroup; exit 4");
  launch.crash_point = "shim.before_start";
  const JobId job = run(std::move(launch));
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->code, 4);
  EXPECT_NE(facts.tail.find("/job-" + job.str() + "\n"), std::string::npos) << facts.tail;
}

TEST_F(CgroupTest, I14_empty_groups_of_dead_jobs_go_at_the_next_start_and_live_ones_stay) {
  const JobId live = run(quick("echo up; sleep " + unique_seconds()));
  wait_output(live, "up");
  close_channel();
  ASSERT_EQ(mkdir(cgroup_of_job(root_, JobId("dead")).c_str(), 0700), 0);
  open_channel();
  EXPECT_FALSE(fs::exists(cgroup_of_job(root_, JobId("dead"))));
  EXPECT_TRUE(fs::exists(group(live)));
  look(live);
  stop(live);
  EXPECT_EQ(wait_finished(live).proof, Proof::subreaper);
}

// A place that is none, or that the child cannot be moved to, keeps nothing from running.
TEST_F(FallbackTest, I7_no_cgroup_is_no_reason_not_to_run) {
  cgroup_root_ = data_dir_;
  open_channel();
  EXPECT_EQ(warning_count(), 1U) << "said, since it was asked for";
  LaunchOrder launch = quick("setsid sleep " + unique_seconds() + " & echo up; wait");
  launch.cgroup = data_dir_ + "/none/job-x";
  const JobId job = run(std::move(launch));
  wait_output(job, "up");
  EXPECT_NE(file(job, "start.json").find("\"cgroup\":\"\",\"cgroup_why\":\"No such device\""),
            std::string::npos)
      << file(job, "start.json");
  EXPECT_FALSE(fs::exists(data_dir_ + "/none"));
  stop(job);
  EXPECT_EQ(wait_finished(job).proof, Proof::subreaper);
}

}  // namespace
}  // namespace waybill::supervise
