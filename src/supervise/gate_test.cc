// A stop that meets a launch on its way, at every point between the spawn and the exec: either the
// command never runs, or its stop is confirmed. The supervisor waits at the point until the wish,
// which continues it, has come.

#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>

#include "shim/proc.h"
#include "supervise/channel_fixture.h"

namespace waybill::supervise {
namespace {

using core::EndedBy;
using core::ExitKind;
using core::Proof;
using core::Supervision;

class GateTest : public ChannelTest {
 protected:
  GateTest() { setenv("WAYBILL_CRASH_SHIM", "allowed", 1); }
  ~GateTest() override { unsetenv("WAYBILL_CRASH_SHIM"); }

  bool ran() const { return std::filesystem::exists(data_dir_ + "/ran"); }

  // The job whose supervisor has stopped at the point.
  JobId launch_to(const std::string& point) {
    LaunchOrder launch = order("echo x > \"$DATA/ran\"; exec sleep " + unique_seconds());
    launch.crash_point = "pause:" + point;
    const JobId job = run(std::move(launch));
    EXPECT_TRUE(eventually([&] {
      for (int pid : processes_with("waybill-shim " + job_path(job))) {
        shim::ProcStat stat;
        if (shim::read_proc_stat(pid, stat) && stat.state == 'T') return true;
      }
      return false;
    })) << point;
    return job;
  }
};

// Nothing has been written that says it started: as if it had never been launched.
TEST_F(GateTest, I10_I8_a_stop_before_the_start_record_leaves_a_job_that_was_never_launched) {
  for (const char* point : {"shim.after_lock", "shim.before_start"}) {
    SCOPED_TRACE(point);
    const JobId job = launch_to(point);
    stop(job);
    wait_for(job, [](const Facts& f) {
      return f.supervision == Supervision::not_launched && f.launch_error.empty();
    });
    EXPECT_FALSE(has_file(job, "start.json"));
    EXPECT_TRUE(processes_with("WAYBILL_JOB=" + job.str()).empty());
    EXPECT_TRUE(processes_with(job_path(job)).empty());
    EXPECT_FALSE(ran());
  }
}

// The start is on record, and the command still does not run: the end says so, and is proven.
TEST_F(GateTest, I10_I8_a_stop_between_the_start_record_and_the_gate_runs_nothing) {
  for (const char* point : {"shim.after_start_tmp", "shim.after_start"}) {
    SCOPED_TRACE(point);
    const JobId job = launch_to(point);
    stop(job);
    const core::JobFacts facts = wait_finished(job);
    EXPECT_EQ(facts.exit->kind, ExitKind::not_started);
    EXPECT_EQ(facts.exit->step, "gate");
    EXPECT_EQ(facts.ended_by, EndedBy::stop);
    EXPECT_EQ(facts.proof, Proof::subreaper);
    EXPECT_TRUE(processes_with("WAYBILL_JOB=" + job.str()).empty());
    EXPECT_FALSE(ran());
  }
}

TEST_F(GateTest, I7_I8_a_stop_after_the_gate_has_opened_is_confirmed) {
  const JobId job = launch_to("shim.after_gate");
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->kind, ExitKind::signaled);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_TRUE(processes_with("WAYBILL_JOB=" + job.str()).empty());
}

}  // namespace
}  // namespace waybill::supervise
