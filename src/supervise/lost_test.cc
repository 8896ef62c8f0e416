// The supervisor killed at each of its named points: at most one start, no invented success, no
// lost output, and a restart finds the same.

#include <gtest/gtest.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <filesystem>

#include <filesystem>
#include <fstream>

#include "base/crc32.h"
#include "supervise/channel_fixture.h"
#include "supervise/launcher.h"
#include "supervise/process_scan.h"

namespace waybill::supervise {
namespace {

using core::ExitKind;
using core::Proof;
using core::Supervision;

class LostTest : public ChannelTest {
 protected:
  LostTest() { setenv("WAYBILL_CRASH_SHIM", "allowed", 1); }
  ~LostTest() override { unsetenv("WAYBILL_CRASH_SHIM"); }

  // Counts its own runs in a file beside the job directories.
  LaunchOrder counting(const std::string& point, const std::string& rest) {
    LaunchOrder launch = order("echo ran >> \"$DATA/runs\"; " + rest);
    launch.crash_point = point;
    launch.grace = Millis(300);
    return launch;
  }

  int runs() const {
    std::ifstream in(data_dir_ + "/runs");
    int count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  }

  static bool ended(const Facts& facts) {
    return facts.supervision == Supervision::finished || facts.supervision == Supervision::lost;
  }
  Facts wait_ended(const JobId& job) {
    return wait_for(job, [](const Facts& f) { return ended(f); });
  }
  Facts wait_lost(const JobId& job) {
    return wait_for(job, [](const Facts& f) { return f.supervision == Supervision::lost; });
  }

  // What a new daemon reads must be what this one reported.
  void expect_same_after_restart(const JobId& job, const Facts& before) {
    close_channel();
    const std::size_t seen = reports(job).size();
    open_channel();
    look(job);
    ASSERT_TRUE(eventually([&] { return reports(job).size() > seen; }));
    const Facts after = reports(job)[seen];
    EXPECT_EQ(after.supervision, before.supervision);
    ASSERT_TRUE(after.exit && before.exit);
    EXPECT_EQ(after.exit->kind, before.exit->kind);
    EXPECT_EQ(after.exit->code, before.exit->code);
    EXPECT_EQ(after.exit->signal, before.exit->signal);
    EXPECT_EQ(after.proof, before.proof);
    EXPECT_EQ(after.tail, before.tail);
    ASSERT_TRUE(after.output && before.output);
    EXPECT_EQ(after.output->bytes, before.output->bytes);
    EXPECT_EQ(after.output->digest, before.output->digest);
  }

  // The kernel tells an end that we did not wait for.
  static bool kernel_tells() {
    static const bool known = [] {
      const pid_t pid = fork();
      if (pid == 0) _exit(7);
      const UniqueFd fd = open_pidfd(pid);
      int status = 0;
      waitpid(pid, &status, 0);
      return fd.valid() && exit_status_of(fd.get()).has_value();
    }();
    return known;
  }
};

TEST_F(LostTest, I10_killed_before_the_start_record_it_is_launched_again_and_runs_once) {
  for (const char* point : {"shim.after_lock", "shim.before_start", "shim.after_start_tmp"}) {
    const int before = runs();
    const JobId job = run(counting(point, "exit 4"));
    const core::JobFacts facts = wait_finished(job);
    EXPECT_EQ(facts.exit->code, 4) << point;
    EXPECT_EQ(runs(), before + 1) << point;
  }
}

TEST_F(LostTest, I10_gate_closed_never_ran) {
  const JobId job = run(counting("shim.after_start", "exit 4"));
  const core::JobFacts facts = wait_lost(job);
  EXPECT_EQ(runs(), 0);
  EXPECT_EQ(facts.exit->kind, ExitKind::unknown);  // not the status of the child at the gate
  EXPECT_FALSE(std::filesystem::exists(job_path(job) + "/launch.env"));
  EXPECT_EQ(facts.proof, Proof::unproven);
  expect_same_after_restart(job, facts);
  // And never launched again, whatever is asked.
  LaunchOrder again = counting("", "exit 4");
  again.job = job;
  run(std::move(again));
  wait_for(job, [n = 0](const Facts& f) mutable { return ended(f) && ++n >= 3; });
  EXPECT_EQ(runs(), 0);
}

TEST_F(LostTest, S30_supervisor_killed_while_the_job_runs) {
  const JobId job = run(counting(
      "", "echo before; until [ -e \"$DATA/go\" ]; do sleep 0.02; done; echo after; exit 9"));
  wait_output(job, "before");
  kill(pid_in(job, "shim_pid"), SIGKILL);
  wait_for(job, [](const Facts& f) { return f.supervision == Supervision::orphaned; });
  std::ofstream(data_dir_ + "/go").put('x');
  const core::JobFacts facts = wait_lost(job);
  if (kernel_tells()) {
    EXPECT_EQ(facts.exit->kind, ExitKind::exited);
    EXPECT_EQ(facts.exit->code, 9);
  } else {
    EXPECT_EQ(facts.exit->kind, ExitKind::unknown);
    EXPECT_FALSE(facts.exit->code);
  }
  EXPECT_EQ(facts.tail, "before\nafter\n");
  EXPECT_EQ(facts.output->incomplete, "supervisor_lost");
  EXPECT_EQ(facts.proof, Proof::unproven);
  EXPECT_EQ(runs(), 1);
  expect_same_after_restart(job, facts);
}

TEST_F(LostTest, S30_supervisor_and_daemon_gone_the_next_daemon_adopts) {
  const JobId job = run(counting(
      "", "echo before; until [ -e \"$DATA/go\" ]; do sleep 0.02; done; echo after; exit 0"));
  wait_output(job, "before");
  close_channel();
  kill(pid_in(job, "shim_pid"), SIGKILL);
  open_channel();
  look(job);
  wait_for(job, [](const Facts& f) { return f.supervision == Supervision::orphaned; });
  std::ofstream(data_dir_ + "/go").put('x');
  const core::JobFacts facts = wait_lost(job);
  EXPECT_EQ(facts.exit->success(), kernel_tells());
  EXPECT_EQ(facts.tail, "before\nafter\n");
  EXPECT_EQ(facts.proof, Proof::unproven);
}

TEST_F(LostTest, O09_supervisor_and_job_gone_is_unknown_and_not_run_again) {
  const JobId job = run(counting("", "echo out; echo $$ ; exec sleep " + unique_seconds()));
  wait_output(job, "out");
  close_channel();
  kill(pid_in(job, "shim_pid"), SIGKILL);
  kill(pid_in(job, "main_pid"), SIGKILL);
  ASSERT_TRUE(eventually([&] { return processes_with("WAYBILL_JOB=" + job.str()).empty(); }));
  open_channel();
  LaunchOrder again = counting("", "exit 0");
  again.job = job;
  run(std::move(again));
  const core::JobFacts facts = wait_lost(job);
  EXPECT_FALSE(facts.exit->success());
  EXPECT_TRUE(facts.tail.starts_with("out\n"));
  EXPECT_EQ(runs(), 1);
}

TEST_F(LostTest, I9_killed_around_the_exit_record) {
  struct Case {
    const char* point;
    Supervision supervision;
  };
  for (const Case& expected :
       {Case{"shim.main_exited", Supervision::lost}, Case{"shim.after_exit_tmp", Supervision::lost},
        Case{"shim.after_exit_rename", Supervision::finished}}) {
    SCOPED_TRACE(expected.point);
    const JobId job = run(counting(expected.point, "echo text; exit 5"));
    const core::JobFacts facts = wait_ended(job);
    EXPECT_EQ(facts.supervision, expected.supervision);
    EXPECT_TRUE(facts.exit->kind == ExitKind::unknown || facts.exit->code == 5);
    if (expected.supervision == Supervision::finished) {
      EXPECT_EQ(facts.exit->code, 5);
    }
    EXPECT_EQ(facts.proof, Proof::unproven);
    EXPECT_EQ(facts.output->incomplete, "supervisor_lost");
    expect_same_after_restart(job, facts);
  }
}

TEST_F(LostTest, I7_killed_in_the_drain_leftovers_are_found_and_killed) {
  const std::string seconds = unique_seconds();
  const JobId job =
      run(counting("shim.draining", "echo text; setsid sleep " + seconds + " & exit 5"));
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->code, 5);
  EXPECT_EQ(facts.tail, "text\n");
  EXPECT_FALSE(facts.leftovers->found.empty());
  EXPECT_TRUE(facts.leftovers->survived.empty());
  EXPECT_TRUE(processes_with("sleep " + seconds).empty());
  EXPECT_EQ(facts.proof, Proof::unproven);
}

TEST_F(LostTest, I7_killed_after_the_final_record_leftovers_are_still_settled) {
  const std::string seconds = unique_seconds();
  LaunchOrder launch = counting("shim.after_final", "sleep " + seconds + " & exit 5");
  launch.drain_grace = Millis(50);
  const JobId job = run(std::move(launch));
  const core::JobFacts facts = wait_finished(job);
  EXPECT_EQ(facts.exit->code, 5);
  EXPECT_TRUE(facts.leftovers->survived.empty());
  EXPECT_TRUE(processes_with("sleep " + seconds).empty());
  const core::JobFacts plain = wait_finished(run(counting("shim.after_final", "exit 0")));
  EXPECT_TRUE(plain.exit->success());
  EXPECT_EQ(plain.proof, Proof::subreaper);
}

TEST_F(LostTest, I7_killed_during_the_stop_nothing_survives_and_nothing_is_proven) {
  for (const char* point : {"shim.stop_term", "shim.stop_kill"}) {
    SCOPED_TRACE(point);
    const std::string sleep = "sleep " + unique_seconds();
    const JobId job = run(
        counting(point, "trap '' TERM; setsid " + sleep + " & echo up; " + sleep + "; " + sleep));
    wait_output(job, "up");
    stop(job);
    const core::JobFacts facts = wait_ended(job);
    EXPECT_EQ(facts.supervision, Supervision::lost);
    EXPECT_EQ(facts.proof, Proof::unproven) << "never a confirmed stop";
    EXPECT_FALSE(facts.exit->success());
    EXPECT_TRUE(eventually([&] { return processes_with(sleep).empty(); }));
    EXPECT_TRUE(processes_with("WAYBILL_JOB=" + job.str()).empty());
  }
}

TEST_F(LostTest, I7_an_adopted_job_is_stopped_by_the_daemon) {
  const std::string sleep = "sleep " + unique_seconds();
  const JobId job =
      run(counting("", "trap '' TERM; (setsid " + sleep + " &); echo up; " + sleep + "; exit 0"));
  wait_output(job, "up");
  kill(pid_in(job, "shim_pid"), SIGKILL);
  wait_for(job, [](const Facts& f) { return f.supervision == Supervision::orphaned; });
  stop(job);
  const core::JobFacts facts = wait_lost(job);
  EXPECT_EQ(facts.proof, Proof::unproven);
  EXPECT_EQ(facts.ended_by, core::EndedBy::stop);
  EXPECT_FALSE(facts.exit->success());
  EXPECT_TRUE(processes_with(sleep).empty());
}

// The daemon keeps the deadline of a job that has lost its supervisor, from the start on record.
TEST_F(LostTest, I7_a_lost_supervisors_deadline_is_kept_by_the_daemon) {
  for (const bool restarted : {false, true}) {
    const std::string sleep = "sleep " + unique_seconds();
    LaunchOrder launch = counting("", "trap 'echo asked' TERM; setsid " + sleep +
                                          " & echo up; while :; do " + "read -t 1 <> <(:); done");
    launch.deadline = Millis(700);
    const JobId job = run(std::move(launch));
    wait_output(job, "up");
    if (restarted) close_channel();
    kill(pid_in(job, "shim_pid"), SIGKILL);
    if (restarted) {
      open_channel();
      look(job);
    }
    const core::JobFacts facts = wait_lost(job);
    EXPECT_EQ(facts.ended_by, core::EndedBy::deadline);
    EXPECT_NE(facts.tail.find("asked"), std::string::npos) << "TERM comes first";
    EXPECT_EQ(facts.proof, Proof::unproven);
    EXPECT_TRUE(processes_with(sleep).empty());
    EXPECT_TRUE(processes_with("WAYBILL_JOB=" + job.str()).empty());
  }
}

// The wall time in the record is two hours off, as after the clock was set: neither early nor late.
TEST_F(LostTest, O23_setting_the_clock_moves_no_deadline) {
  struct Case {
    Millis deadline;
    Millis clock;
    core::EndedBy ended_by;
  };
  constexpr Millis kTwoHours{7'200'000};
  constexpr Millis kHour{3'600'000};
  for (const Case& expected : {Case{kHour, -kTwoHours, core::EndedBy::itself},
                               Case{Millis(700), kTwoHours, core::EndedBy::deadline}}) {
    LaunchOrder launch =
        counting("", "echo up; until [ -e \"$DATA/go" + std::to_string(expected.deadline.count()) +
                         "\" ]; do sleep 0.02; done; exit 0");
    launch.deadline = expected.deadline;
    const JobId job = run(std::move(launch));
    wait_output(job, "up");
    close_channel();
    kill(pid_in(job, "shim_pid"), SIGKILL);
    std::string text = file(job, "start.json");
    const std::string key = "\"started_at_ms\":";
    const std::size_t at = text.find(key);
    ASSERT_NE(at, std::string::npos);
    const std::size_t from = at + key.size();
    const std::size_t end = text.find(',', from);
    const auto started = std::stoll(text.substr(from, end - from));
    text.replace(from, end - from, std::to_string(started + expected.clock.count()));
    text.resize(text.rfind(",\"crc\""));
    char digits[8];
    crc32_hex(crc32(text.data(), text.size()), digits);
    std::ofstream(job_path(job) + "/start.json")
        << text << ",\"crc\":\"" << std::string(digits, 8) << "\"}\n";
    open_channel();
    look(job);
    wait_for(job, [](const Facts& f) { return f.supervision == Supervision::orphaned; });
    if (expected.ended_by == core::EndedBy::itself) {
      std::ofstream(data_dir_ + "/go" + std::to_string(expected.deadline.count())).put('x');
    }
    const core::JobFacts facts = wait_lost(job);
    EXPECT_EQ(facts.ended_by, expected.ended_by);
    ASSERT_TRUE(facts.duration);
    EXPECT_GE(*facts.duration, Millis(0));
    EXPECT_LT(*facts.duration, kHour);
  }
}

TEST_F(LostTest, O22_a_stranger_with_the_pid_is_never_touched) {
  const JobId job = run(counting("shim.after_start", "exit 4"));
  wait_lost(job);
  close_channel();
  const pid_t stranger = fork();
  if (stranger == 0) {
    setsid();
    execl("/bin/sleep", "sleep", unique_seconds().c_str(), nullptr);
    _exit(127);
  }
  // The record now names the stranger's pid with another start time.
  const std::string path = job_path(job) + "/start.json";
  std::string text = file(job, "start.json");
  const std::string pid = std::to_string(pid_in(job, "main_pid"));
  for (const char* key : {"\"main_pid\":", "\"session\":"}) {
    const std::size_t at = text.find(key + pid);
    ASSERT_NE(at, std::string::npos);
    text.replace(at, std::string(key).size() + pid.size(), key + std::to_string(stranger));
  }
  text.resize(text.rfind(",\"crc\""));
  char digits[8];
  crc32_hex(crc32(text.data(), text.size()), digits);
  std::ofstream(path) << text << ",\"crc\":\"" << std::string(digits, 8) << "\"}\n";
  for (const char* name : {"exit.json", "final.json"}) unlink((job_path(job) + "/" + name).c_str());
  open_channel();
  const std::size_t seen = reports(job).size();
  stop(job);
  ASSERT_TRUE(eventually([&] {
    const auto all = reports(job);
    return all.size() > seen && all.back().supervision == Supervision::lost;
  }));
  EXPECT_EQ(reports(job).back().started_at.has_value(), true);
  EXPECT_EQ(kill(stranger, 0), 0);
  EXPECT_EQ(waitpid(stranger, nullptr, WNOHANG), 0) << "the stranger must live";
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
}

TEST_F(LostTest, O09_another_machine_generation_is_gone_and_nothing_is_signalled) {
  const JobId job = run(counting("shim.after_start", "exit 4"));
  wait_lost(job);
  close_channel();
  std::string text = file(job, "start.json");
  const std::size_t at = text.find("\"boot_id\":\"");
  ASSERT_NE(at, std::string::npos);
  text[at + 11] = text[at + 11] == '0' ? '1' : '0';
  text.resize(text.rfind(",\"crc\""));
  char digits[8];
  crc32_hex(crc32(text.data(), text.size()), digits);
  std::ofstream(job_path(job) + "/start.json")
      << text << ",\"crc\":\"" << std::string(digits, 8) << "\"}\n";
  for (const char* name : {"exit.json", "final.json"}) unlink((job_path(job) + "/" + name).c_str());
  open_channel();
  LaunchOrder again = counting("", "exit 0");
  again.job = job;
  run(std::move(again));
  const core::JobFacts facts =
      wait_for(job, [](const Facts& f) { return f.supervision == Supervision::generation_gone; });
  EXPECT_EQ(facts.proof, Proof::generation);
  EXPECT_EQ(facts.exit->kind, ExitKind::unknown);
  EXPECT_EQ(runs(), 0);
}

TEST_F(LostTest, I12_torn_records_are_never_success_and_never_a_rerun) {
  const JobId job = run(counting("", "echo text; exit 0"));
  wait_finished(job);
  close_channel();
  const std::string exit_text = file(job, "exit.json");
  const std::string start_text = file(job, "start.json");
  std::ofstream(job_path(job) + "/exit.json") << exit_text.substr(0, exit_text.size() / 2);
  open_channel();
  look(job);
  const core::JobFacts facts = wait_for(job, [](const Facts& f) { return f.exit_torn; });
  EXPECT_EQ(facts.exit->kind, ExitKind::unknown);
  EXPECT_FALSE(facts.exit->code);
  close_channel();
  for (const char* name : {"exit.json", "final.json"}) unlink((job_path(job) + "/" + name).c_str());
  std::ofstream(job_path(job) + "/start.json") << start_text.substr(0, 20);
  open_channel();
  LaunchOrder again = counting("", "exit 0");
  again.job = job;
  run(std::move(again));
  const core::JobFacts torn =
      wait_for(job, [](const Facts& f) { return f.supervision == Supervision::lost; });
  EXPECT_TRUE(torn.start_torn);
  EXPECT_EQ(torn.exit->kind, ExitKind::unknown);
  EXPECT_EQ(runs(), 1);
}

TEST_F(LostTest, I10_a_torn_launch_file_is_written_again) {
  const JobId first = run(counting("", "exit 0"));
  wait_finished(first);
  LaunchOrder launch = counting("", "exit 3");
  const std::string dir = job_path(launch.job);
  ASSERT_EQ(mkdir(dir.c_str(), 0700), 0);
  std::ofstream(dir + "/launch") << "garbage";
  std::ofstream(dir + "/lock").flush();
  EXPECT_EQ(wait_finished(run(std::move(launch))).exit->code, 3);
}

TEST_F(LostTest, S30_a_job_that_kills_its_parent_or_removes_its_directory) {
  const JobId job = run(counting("", "kill -9 $PPID; echo on; exit 9"));
  const core::JobFacts facts = wait_lost(job);
  EXPECT_EQ(facts.tail, "on\n");
  EXPECT_TRUE(facts.exit->code == 9 || facts.exit->kind == ExitKind::unknown);
  LaunchOrder remover = counting("", "");
  remover.command += "rm -rf \"$DATA/jobs/" + remover.job.str() + "\"; exit 0";
  const LaunchOrder again = remover;
  const JobId gone = run(std::move(remover));
  const core::JobFacts after = wait_lost(gone);
  EXPECT_FALSE(after.exit->success());
  const int before = runs();
  run(again);
  wait_for(gone, [n = 0](const Facts& f) mutable { return ended(f) && ++n >= 2; });
  EXPECT_EQ(runs(), before);
}

}  // namespace
}  // namespace waybill::supervise
