// Stop and confirm: a job counts as stopped when the kernel says that nobody is left.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "shim/proc.h"
#include "supervise/channel_fixture.h"

namespace waybill::supervise {
namespace {

using core::EndedBy;
using core::ExitKind;
using core::Proof;

class StopTest : public ChannelTest {
 protected:
  LaunchOrder nasty(const std::string& command, Millis grace) {
    LaunchOrder launch = order(command);
    launch.grace = grace;
    return launch;
  }
};

TEST_F(StopTest, I7_stop_confirms_setsid_escapee) {
  const std::string seconds = unique_seconds();
  const std::string sleep = "sleep " + seconds;
  const JobId job =
      run(nasty("bash -c '" + sleep + " & " + sleep + "' & setsid " + sleep + " & (setsid " +
                    sleep + " &) ; (setsid sh -c '" + sleep + " & exit' &); echo up; wait",
                Millis(5000)));
  wait_output(job, "up");
  EXPECT_TRUE(eventually([&] { return processes_with(sleep).size() >= 5; }));
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_EQ(facts.exit->signal, SIGTERM);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_TRUE(facts.leftovers->found.empty());
  EXPECT_TRUE(processes_with(sleep).empty());
}

TEST_F(StopTest, O12_what_ignores_TERM_is_killed_after_the_grace) {
  const JobId job = run(nasty("trap '' TERM; echo up; sleep " + unique_seconds(), Millis(300)));
  wait_output(job, "up");
  stop(job);
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->kind, ExitKind::signaled);
  EXPECT_EQ(facts.exit->signal, SIGKILL);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_EQ(facts.proof, Proof::subreaper);
}

TEST_F(StopTest, O12_a_trap_runs_to_its_end_once_and_its_output_is_kept) {
  const JobId job =
      run(nasty("trap 'echo cleaned; exit 0' TERM; echo up; sleep " + unique_seconds() + " & wait",
                Millis(60'000)));
  wait_output(job, "up");
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->code, 0);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_EQ(facts.tail, "up\ncleaned\n");
}

TEST_F(StopTest, O11_who_left_the_session_is_asked_with_TERM_too) {
  const JobId job =
      run(nasty("setsid bash -c 'trap \"echo asked; exit\" TERM; echo up; "
                "while :; do sleep 0.05; done' & wait",
                Millis(60'000)));
  wait_output(job, "up");
  stop(job);
  EXPECT_NE(wait_finished(job).tail.find("asked\n"), std::string::npos);
}

TEST_F(StopTest, S26_a_stopped_process_gets_TERM_and_CONT) {
  const JobId job = run(nasty("echo up; kill -STOP $$", Millis(60'000)));
  wait_output(job, "up");
  stop(job);
  EXPECT_EQ(wait_finished(job).exit->signal, SIGTERM);
}

TEST_F(StopTest, S27_a_fork_loop_cannot_outrun_the_sweep) {
  const JobId job =
      run(nasty("trap '' TERM; echo up; while :; do (setsid sleep 0.01 &) ; done", Millis(200)));
  wait_output(job, "up");
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->signal, SIGKILL);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_TRUE(processes_with("WAYBILL_JOB=" + job.str()).empty());
}

TEST_F(StopTest, I7_escapees_that_ignore_TERM_and_are_stopped) {
  const std::string seconds = unique_seconds();
  const std::string sleep = "sleep " + seconds;
  const JobId job =
      run(nasty("trap '' TERM; (" + sleep + ") & setsid " + sleep + " & bash -c \"trap '' TERM; " +
                    sleep + " & kill -STOP \\$!\"; echo up; wait",
                Millis(200)));
  wait_output(job, "up");
  stop(job);
  EXPECT_EQ(wait_finished(job).proof, Proof::subreaper);
  EXPECT_TRUE(processes_with(sleep).empty());
}

TEST_F(StopTest, S25_deadline_has_the_same_proof) {
  LaunchOrder launch =
      nasty("trap '' TERM; setsid sleep " + unique_seconds() + " & sleep " + unique_seconds(),
            Millis(100));
  launch.deadline = Millis(200);
  const core::JobFacts facts = wait_finished(run(std::move(launch)));
  EXPECT_EQ(facts.ended_by, EndedBy::deadline);
  EXPECT_EQ(facts.exit->signal, SIGKILL);
  EXPECT_EQ(facts.proof, Proof::subreaper);
}

TEST_F(StopTest, I8_a_stop_during_the_drain_kills_everyone_and_the_end_stays_its_own) {
  const std::string seconds = unique_seconds();
  LaunchOrder launch = nasty("sleep " + seconds + " & exit 6", Millis(5000));
  launch.drain_grace = Millis(3'600'000);
  launch.drain_max = Millis(3'600'000);
  const JobId job = run(std::move(launch));
  wait_for(job, [](const Facts& f) { return f.supervision == core::Supervision::draining; });
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->code, 6);
  EXPECT_EQ(facts.ended_by, EndedBy::itself);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_TRUE(processes_with("sleep " + seconds).empty());
}

// A tracer keeps a killed process as a zombie that its parent cannot reap: until it lets go there
// is no proof, and the job must not be called stopped.
TEST_F(StopTest, I7_what_cannot_be_reaped_is_named_and_waited_for) {
  const std::string seconds = unique_seconds();
  const JobId job = run(nasty("sleep " + seconds + " & echo up; wait", Millis(200)));
  wait_output(job, "up");
  int traced = 0;
  ASSERT_TRUE(eventually([&] {
    for (int pid : processes_with("sleep " + seconds)) {
      if (file(job, "start.json").find("\"main_pid\":" + std::to_string(pid)) ==
          std::string::npos) {
        traced = pid;
      }
    }
    return traced != 0;
  }));
  if (ptrace(PTRACE_SEIZE, traced, nullptr, nullptr) != 0) GTEST_SKIP() << "no ptrace here";
  // The record of who survives cannot be written at first: it is tried again.
  const std::string blocked = job_path(job) + "/stop.json";
  ASSERT_EQ(mkdir(blocked.c_str(), 0700), 0);
  stop(job);
  struct stat first{};
  struct stat again{};
  const std::string tried = job_path(job) + "/stop.tmp";
  ASSERT_TRUE(eventually([&] { return ::stat(tried.c_str(), &first) == 0; }));
  ASSERT_TRUE(eventually([&] {
    return ::stat(tried.c_str(), &again) == 0 && again.st_mtim.tv_sec != first.st_mtim.tv_sec;
  }));
  ASSERT_EQ(rmdir(blocked.c_str()), 0);
  const core::JobFacts stuck = wait_for(job, [](const Facts& f) { return !f.survivors.empty(); });
  EXPECT_NE(stuck.supervision, core::Supervision::finished);
  EXPECT_FALSE(has_file(job, "final.json"));
  bool named = false;
  for (const core::ProcessNote& note : stuck.survivors) named = named || note.pid == traced;
  EXPECT_TRUE(named);
  int status = 0;
  while (waitpid(traced, &status, __WALL) == traced && !WIFSIGNALED(status)) {
    ptrace(PTRACE_CONT, traced, nullptr, WIFSTOPPED(status) ? WSTOPSIG(status) : 0);
  }
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
}

TEST_F(StopTest, I8_a_stop_before_the_launch_never_runs_it) {
  open_channel();
  LaunchOrder launch = order("echo x > \"$DATA/ran\"");
  const JobId job = launch.job;
  channel_->supervise({job, launch, StopWish{WallTime(Millis(1)), "owner", ""}});
  EXPECT_EQ(wait_for(job, [](const Facts&) { return true; }).supervision,
            core::Supervision::not_launched);
  EXPECT_FALSE(has_file(job, "start.json"));
}

TEST_F(StopTest, O10_a_restarted_channel_adopts_the_supervisor_and_stops_the_job) {
  const std::string sleep = "sleep " + unique_seconds();
  const JobId job = run(nasty("echo up; " + sleep + " & " + sleep, Millis(5000)));
  wait_output(job, "up");
  close_channel();
  open_channel();
  look(job);
  wait_running(job);
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_TRUE(processes_with(sleep).empty());
}

TEST_F(StopTest, I2_what_ended_while_nobody_looked_is_read_later) {
  const JobId job = run("echo out; sleep 0.1; exit 9");
  wait_running(job);
  close_channel();
  ASSERT_TRUE(eventually([&] { return has_file(job, "final.json"); }));
  open_channel();
  look(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->code, 9);
  EXPECT_EQ(facts.tail, "out\n");
}

TEST_F(StopTest, I7_a_job_that_removed_its_directory_is_stopped_before_it_is_lost) {
  const std::string sleep = "sleep " + unique_seconds();
  LaunchOrder launch = nasty("", Millis(300));
  launch.command =
      "rm -rf \"$DATA/jobs/" + launch.job.str() + "\"; setsid " + sleep + " & " + sleep + "; true";
  const JobId job = run(std::move(launch));
  ASSERT_TRUE(
      eventually([&] { return processes_with(sleep).size() >= 3 && !has_file(job, "lock"); }));
  look(job);
  stop(job);
  const auto ended = [](const Facts& f) { return f.supervision == core::Supervision::lost; };
  const core::JobFacts facts = wait_for(job, ended);
  EXPECT_TRUE(processes_with(sleep).empty());
  EXPECT_EQ(facts.proof, Proof::unproven);
  EXPECT_FALSE(facts.exit->success());
}

TEST_F(StopTest, I7_without_directory_and_supervisor_a_stop_sweeps) {
  const std::string sleep = "sleep " + unique_seconds();
  LaunchOrder launch = nasty("", Millis(300));
  launch.command = "rm -rf \"$DATA/jobs/" + launch.job.str() + "\"; kill -9 $PPID; setsid " +
                   sleep + " & " + sleep + "; true";
  const JobId job = run(std::move(launch));
  const auto ended = [](const Facts& f) { return f.supervision == core::Supervision::lost; };
  wait_for(job, ended);
  ASSERT_TRUE(eventually([&] { return processes_with(sleep).size() >= 3; }));
  const std::size_t before = reports(job).size();
  stop(job);
  ASSERT_TRUE(
      eventually([&] { return reports(job).size() > before && ended(reports(job).back()); }));
  EXPECT_TRUE(processes_with(sleep).empty());
}

// In the place of the exit record there is something that no file can take the place of.
TEST_F(StopTest, I7_a_stop_goes_on_while_the_exit_record_cannot_be_written) {
  const std::string sleep = "sleep " + unique_seconds();
  const JobId job = run(nasty(
      "(trap '' TERM; exec " + sleep + ") & echo up; exec sleep " + unique_seconds(), Millis(200)));
  wait_output(job, "up");
  const std::string blocked = job_path(job) + "/exit.json";
  ASSERT_EQ(mkdir(blocked.c_str(), 0700), 0);
  stop(job);
  EXPECT_TRUE(eventually([&] { return processes_with(sleep).empty(); })) << "TERM is not enough";
  ASSERT_EQ(rmdir(blocked.c_str()), 0);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
  EXPECT_EQ(facts.exit->signal, SIGTERM);
  EXPECT_EQ(facts.proof, Proof::subreaper);
}

TEST_F(StopTest, I7_a_stop_or_deadline_that_comes_while_the_exit_record_cannot_be_written) {
  for (const bool by_deadline : {false, true}) {
    const std::string sleep = "sleep " + unique_seconds();
    const std::string go = "\"$DATA/go" + std::to_string(by_deadline) + "\"";
    LaunchOrder launch = nasty("(trap '' TERM; exec " + sleep + ") & echo up; until [ -e " + go +
                                   " ]; do sleep 0.02; done; exit 3",
                               Millis(200));
    if (by_deadline) launch.deadline = Millis(1500);
    const JobId job = run(std::move(launch));
    wait_output(job, "up");
    const std::string blocked = job_path(job) + "/exit.json";
    ASSERT_EQ(mkdir(blocked.c_str(), 0700), 0);
    std::ofstream(data_dir_ + "/go" + std::to_string(by_deadline)).put('x');
    const int main = pid_in(job, "main_pid");
    ASSERT_TRUE(eventually([&] {
      shim::ProcStat stat;
      return shim::read_proc_stat(main, stat) && stat.state == 'Z';
    }));
    if (!by_deadline) stop(job);
    EXPECT_TRUE(eventually([&] { return processes_with(sleep).empty(); }));
    ASSERT_EQ(rmdir(blocked.c_str()), 0);
    const core::JobFacts facts = wait_finished(job);
    if (!by_deadline) {
      EXPECT_EQ(facts.ended_by, EndedBy::itself);
      EXPECT_EQ(facts.exit->code, 3);
    }
    EXPECT_EQ(facts.proof, Proof::subreaper);
  }
}

TEST_F(StopTest, I7_a_stopped_supervisor_does_not_block_a_stop) {
  const JobId job = run(nasty(
      "echo up; kill -USR1 $PPID; kill -STOP $PPID; sleep " + unique_seconds(), Millis(5000)));
  // Perhaps before it could ring the bell: its files tell.
  ASSERT_TRUE(eventually([&] { return !processes_with(job_path(job)).empty(); }));
  ASSERT_TRUE(eventually([&] {
    for (int pid : processes_with("waybill-shim " + job_path(job))) {
      shim::ProcStat stat;
      if (shim::read_proc_stat(pid, stat) && stat.state == 'T') return true;
    }
    return false;
  }));
  stop(job);
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.proof, Proof::subreaper);
  EXPECT_EQ(facts.ended_by, EndedBy::stop);
}

}  // namespace
}  // namespace waybill::supervise
