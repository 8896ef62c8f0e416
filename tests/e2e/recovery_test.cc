// The recovery table of docs/files.md, row by row: the supervisor is stopped at a named point, so
// that the moment is known, then it, the daemon, or both are killed there.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "base/crc32.h"
#include "e2e/recovery_fixture.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// ---- before the command runs -------------------------------------------------------------------

TEST_F(RecoveryTest, I10_launching_a_living_supervisor_is_waited_for) {
  start_with_supervisors_that_stop_at("shim.before_start");
  const std::string id = accept("exit 3");
  const pid_t shim = stopped_supervisor();
  daemon.restart();
  EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
  EXPECT_EQ(supervisors(), std::vector<pid_t>{shim}) << "none beside one that holds the lock";
  expect_runs(id, 0);
  ::kill(shim, SIGCONT);
  expect_exited(heard_once(id));
  expect_runs(id, 1);
}

TEST_F(RecoveryTest,
       I10_not_launched_a_supervisor_that_died_before_its_start_record_has_a_successor) {
  start_with_supervisors_that_stop_at("shim.after_start_tmp");
  const std::string id = accept("exit 3");
  const pid_t shim = stopped_supervisor();
  daemon.kill_9();
  kill_9(shim);
  expect_runs(id, 0);
  daemon.start();
  expect_exited(heard_once(id));
  expect_runs(id, 1);
}

TEST_F(RecoveryTest, I10_in_the_gate_what_may_have_run_is_not_run_again) {
  for (const bool with_daemon : {false, true}) {
    SCOPED_TRACE(with_daemon);
    start_with_supervisors_that_stop_at("shim.after_start");
    const std::string id = accept("exit 3");
    const pid_t shim = stopped_supervisor();
    if (with_daemon) daemon.kill_9();
    kill_9(shim);
    if (with_daemon) daemon.start();
    const json::value job = heard_once(id);
    expect_lost(job);
    EXPECT_EQ(text_at(job, "exit.kind"), "unknown") << "the child at the gate is not the command";
    EXPECT_EQ(read_file(path("runs")), "");
    daemon.kill_9();
  }
}

// ---- while it runs -----------------------------------------------------------------------------

TEST_F(RecoveryTest, O10_running_the_next_daemon_attaches_and_its_stop_is_proven) {
  daemon.start();
  const std::string id = held_job();
  daemon.restart();
  EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
  const Output stopped = daemon.cli({"--json", "stop", id, "--wait", "--timeout", "60s"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.describe();
  EXPECT_EQ(state_of(main_), 'X') << "stop has said that it is gone";
  const json::value job = daemon.show(id);
  EXPECT_EQ(text_at(job, "status"), "stopped");
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
  EXPECT_EQ(daemon.cli({"--json", "inbox"}).out, "") << "I8";
  expect_runs(id, 1);
}

TEST_F(RecoveryTest, I9_orphaned_the_command_is_watched_to_its_end_and_its_output_kept) {
  for (const bool with_daemon : {false, true}) {
    SCOPED_TRACE(with_daemon);
    fs::remove(path("runs"));
    daemon.start();
    const std::string id = held_job();
    if (with_daemon) daemon.kill_9();
    kill_9(supervisor());
    if (with_daemon) daemon.start();
    EXPECT_NE(state_of(main_), 'X') << "the command lives on";
    EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
    gate.open();
    expect_lost(heard_once(id));
    EXPECT_EQ(output_of(id), "before\nafter\n");
    expect_runs(id, 1);
    daemon.kill_9();
  }
}

TEST_F(RecoveryTest, O09_lost_daemon_supervisor_and_job_killed_is_an_end_like_others) {
  daemon.start();
  const std::string id = held_job({"--key", "k"});
  daemon.kill_9();
  kill_9(supervisor());
  ::kill(main_, SIGKILL);
  EXPECT_TRUE(await_end(main_));
  daemon.start();
  const json::value job = heard_once(id);
  expect_lost(job);
  EXPECT_FALSE(at(job, "finished_at").is_null()) << "its clock has stopped";
  EXPECT_FALSE(text_or_empty_at(job, "reason").empty());
  EXPECT_EQ(output_of(id), "before\n");
  // A stop finds it ended, and says so.
  const Output stopped = daemon.cli({"--json", "stop", id});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.describe();
  EXPECT_EQ(text_at(stopped.json(), "jobs.0.status"), "failed");
  // Its key is its own for as long as it is on record: the same call is answered with it, and what
  // is to run again takes a key of its own.
  const std::string command = "echo $WAYBILL_JOB >> '" + path("runs") + "'; echo before; " +
                              bell.command("$$") + "; " + gate.command() + "; echo after; exit 3";
  const json::value again = daemon.json({"run", "--key", "k", "--grace", "100ms", "--", command});
  EXPECT_EQ(text_at(again, "job.id"), id);
  EXPECT_EQ(at(again, "replayed"), true);
  expect_runs(id, 1);
}

TEST_F(RecoveryTest, I7_lost_what_the_command_left_behind_is_killed) {
  for (const bool with_daemon : {false, true}) {
    SCOPED_TRACE(with_daemon);
    daemon.start();
    const std::string id = accept("(trap '' TERM; exec sleep 300) & " + bell.command("$!") + "; " +
                                  bell.command("$$") + "; " + gate.command() + "; exit 3");
    const auto left = bell.word();
    const auto word = bell.word();
    ASSERT_TRUE(left && word);
    if (with_daemon) daemon.kill_9();
    kill_9(supervisor());
    gate.open();
    EXPECT_TRUE(await_end(std::stoi(*word)));
    if (with_daemon) daemon.start();
    expect_lost(heard_once(id));
    EXPECT_TRUE(await_end(std::stoi(*left)));
    daemon.kill_9();
  }
}

// ---- at its end --------------------------------------------------------------------------------

TEST_F(RecoveryTest, I2_draining_a_living_supervisor_finishes_it) {
  start_with_supervisors_that_stop_at("shim.draining");
  const std::string id = accept("sleep 300 & exit 3");
  const pid_t shim = stopped_supervisor();
  daemon.restart();
  EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
  ::kill(shim, SIGCONT);
  const json::value job = heard_once(id);
  expect_exited(job, text_or_empty_at(job, "proof").c_str());
  EXPECT_EQ(text_or_empty_at(job, "output.incomplete"), "");
}

TEST_F(RecoveryTest, I9_draining_the_end_of_a_dead_supervisor_is_known_and_its_output_may_not_be) {
  for (const bool with_daemon : {false, true}) {
    SCOPED_TRACE(with_daemon);
    start_with_supervisors_that_stop_at("shim.draining");
    const std::string id = accept("sleep 300 & exit 3");
    const pid_t shim = stopped_supervisor();
    if (with_daemon) daemon.kill_9();
    kill_9(shim);
    if (with_daemon) daemon.start();
    const json::value job = heard_once(id);
    expect_exited(job, "unproven");
    EXPECT_EQ(text_at(job, "output.incomplete"), "supervisor_lost");
    daemon.kill_9();
  }
}

// At each moment of a stop the supervisor dies, and the daemon with it: the wish is on record, and
// the next one goes on with it.
TEST_F(RecoveryTest, I7_a_stop_goes_on_whoever_dies_of_it) {
  for (const char* point : {"shim.stop_term", "shim.stop_kill", "shim.stop_killed"}) {
    SCOPED_TRACE(point);
    start_with_supervisors_that_stop_at(point);
    const std::string id = accept("trap '' TERM; (trap '' TERM; exec setsid sleep 300) & " +
                                  bell.command("$!") + "; sleep 300");
    const auto left = bell.word();
    ASSERT_TRUE(left);
    daemon.cli({"stop", id, "--reason", "enough"});
    const pid_t shim = stopped_supervisor();
    daemon.kill_9();
    kill_9(shim);
    daemon.start();
    const Output ended = daemon.cli({"--json", "stop", id, "--wait", "--timeout", "60s"});
    EXPECT_EQ(ended.exit_code, 0) << ended.describe();
    EXPECT_TRUE(await_end(std::stoi(*left)));
    const json::value job = daemon.show(id);
    EXPECT_EQ(endings_of(job).size(), 1U);
    // Nobody saw that the last one went, unless a cgroup shows it.
    const bool proven = text_at(job, "proof") == "cgroup";
    EXPECT_EQ(text_at(job, "status"), proven ? "stopped" : "failed") << json::serialize(job);
    daemon.kill_9();
  }
}

TEST_F(RecoveryTest, I7_killing_leftovers_goes_on_whoever_dies_of_it) {
  start_with_supervisors_that_stop_at("shim.leftovers_term");
  const std::string id =
      accept("(trap '' TERM; exec sleep 300) & " + bell.command("$!") + "; exit 3");
  const auto left = bell.word();
  ASSERT_TRUE(left);
  const pid_t shim = stopped_supervisor();
  daemon.kill_9();
  EXPECT_NE(state_of(std::stoi(*left)), 'X');
  kill_9(shim);
  daemon.start();
  const json::value job = heard_once(id);
  expect_exited(job, text_or_empty_at(job, "proof").c_str());
  EXPECT_TRUE(await_end(std::stoi(*left)));
  EXPECT_TRUE(eventually([&] { return !at(daemon.show(id), "leftovers_kept").is_null(); }));
}

// ---- another generation ------------------------------------------------------------------------

// As a record of an earlier boot, with the checksum that it would have.
void rewrite_generation(const std::string& file) {
  std::string text = read_file(file);
  const std::string key = "\"boot_id\":\"";
  const std::size_t at = text.find(key) + key.size();
  text[at] = text[at] == '0' ? '1' : '0';
  const std::size_t crc = text.rfind(",\"crc\":\"");
  char digits[8];
  crc32_hex(crc32(text.data(), crc), digits);
  text.replace(crc + 8, 8, std::string(digits, 8));
  std::ofstream(file, std::ios::trunc) << text;
}

TEST_F(RecoveryTest, O09_generation_gone_nobody_is_signalled_and_nothing_runs_again) {
  daemon.start();
  const std::string id = held_job();
  daemon.kill_9();
  kill_9(supervisor());
  rewrite_generation(file(id, "start.json"));
  daemon.start();
  const json::value job = heard_once(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "cause"), "sandbox_replaced");
  EXPECT_EQ(text_at(job, "proof"), "generation");
  EXPECT_EQ(text_at(job, "exit.kind"), "unknown");
  EXPECT_NE(state_of(main_), 'X') << "its number means another process there";
  expect_runs(id, 1);
  kill_9(main_);
}

// The real thing, as far as it can be had: pid 1 of a namespace takes everything with it, and the
// next daemon is pid 1 of another one.
TEST(GenerationTest, O09_a_container_that_was_replaced_ends_what_ran_in_it) {
  if (run({{"/usr/bin/unshare", "--pid", "--fork", "--mount-proc", "/bin/true"}}).exit_code != 0) {
    GTEST_SKIP() << "pid namespaces cannot be made here";
  }
  TempDir temp;
  const std::string program = temp.path() + "/waybill";
  std::ofstream(program) << "#!/bin/sh\n[ \"$1\" = serve ] && set -- unshare --pid --fork "
                            "--kill-child --mount-proc '"
                         << waybill_program() << "' \"$@\" || set -- '" << waybill_program()
                         << "' \"$@\"\nexec \"$@\"\n";
  fs::permissions(program, fs::perms::owner_all);
  Daemon::Options options;
  options.program = program;
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("s");
  Bell bell(temp.path() + "/bell");
  const std::string id = daemon.accept("echo ran >> '" + temp.path() + "/runs'; " +
                                       bell.command("up") + "; sleep 300");
  ASSERT_TRUE(bell.word());
  daemon.kill_9();
  expect_none_left(daemon.data_dir());
  daemon.start();
  const json::value told = daemon.json({"inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(told, "events.0.job.id"), id);
  const json::value job = daemon.show(id);
  EXPECT_EQ(text_at(job, "status"), "failed") << json::serialize(job);
  EXPECT_EQ(text_at(job, "cause"), "sandbox_replaced");
  EXPECT_EQ(text_at(job, "proof"), "generation");
  EXPECT_EQ(read_file(temp.path() + "/runs"), "ran\n");
  EXPECT_EQ(daemon.cli({"shutdown"}).exit_code, 0);
}

// ---- files without a row -----------------------------------------------------------------------

std::map<std::string, std::string> contents_of(const std::string& dir) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::directory_iterator(dir)) {
    if (entry.is_regular_file()) {
      all[entry.path().filename()] = read_file(entry.path());
    } else {
      all[entry.path().filename()] = "no file";
    }
  }
  return all;
}

TEST_F(RecoveryTest, I10_I12_a_directory_without_a_row_is_never_run_and_never_deleted) {
  daemon.start();
  const std::string id = held_job();
  daemon.kill_9();
  kill_9(supervisor());
  kill_9(main_);
  // As after a restored backup: started, perhaps running, or ready to be launched; and no row.
  const std::string jobs = daemon.data_dir() + "/jobs/";
  for (const char* name : {"jstarted", "jlaunch"}) {
    fs::create_directory(jobs + name);
    fs::permissions(jobs + name, fs::perms::owner_all);
    for (const char* part : {"launch", "launch.env", "start.json", "lock", "out"}) {
      std::ofstream(jobs + name + "/" + part) << read_file(file(id, part));
    }
  }
  fs::remove(jobs + "jlaunch/start.json");
  const auto started = contents_of(jobs + "jstarted");
  const auto launch = contents_of(jobs + "jlaunch");
  daemon.start();
  heard_once(id);
  daemon.cli({"run", "--wait", "--", "true"});
  EXPECT_EQ(contents_of(jobs + "jstarted"), started);
  EXPECT_EQ(contents_of(jobs + "jlaunch"), launch);
  expect_runs(id, 1);
  for (const json::value& job : items_at(daemon.json({"list"}), "jobs")) {
    EXPECT_FALSE(text_at(job, "id") == "jstarted" || text_at(job, "id") == "jlaunch");
  }
}

// ---- a directory that is gone ------------------------------------------------------------------

// What is known to have started is never launched again, and it does not run for ever.
// Its lock file is what a supervisor is found by; without it the start record says who it is.
TEST_F(RecoveryTest, I9_a_supervisor_whose_lock_file_was_removed_is_not_lost) {
  daemon.start();
  const std::string id = held_job();
  const pid_t shim = supervisor();
  daemon.kill_9();
  fs::remove(daemon.data_dir() + "/jobs/" + id + "/lock");
  daemon.start();
  EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
  gate.open();
  EXPECT_TRUE(await_end(shim));
  const json::value job = heard_once(id);
  EXPECT_EQ(number_at(job, "exit.code"), 3) << json::serialize(job);
  EXPECT_EQ(text_at(job, "cause"), "exit");
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
  expect_runs(id, 1);
}

TEST_F(RecoveryTest, I10_I7_a_started_job_without_its_directory_ends_when_nobody_of_it_is_left) {
  for (const bool stopped : {false, true}) {
    SCOPED_TRACE(stopped);
    fs::remove(path("runs"));
    daemon.start();
    const std::string id = held_job();
    // Its start is on record, in the store too: afterwards only the store can tell of it.
    EXPECT_TRUE(eventually([&] { return !at(daemon.show(id), "started_at").is_null(); }));
    daemon.kill_9();
    const pid_t shim = supervisor();
    fs::remove_all(daemon.data_dir() + "/jobs/" + id);
    kill_9(shim);
    daemon.start();
    EXPECT_EQ(text_at(daemon.show(id), "status"), "running") << "somebody of it is there";
    if (stopped) {
      EXPECT_EQ(daemon.cli({"stop", id, "--wait", "--timeout", "60s"}).exit_code, 0);
      EXPECT_TRUE(await_end(main_));
    } else {
      kill_9(main_);
      EXPECT_EQ(daemon.cli({"--json", "inbox", "--timeout", "60s"}).exit_code, 0);
    }
    const json::value job = daemon.show(id);
    expect_lost(job);
    EXPECT_EQ(text_at(job, "proof"), "unproven") << "I7";
    EXPECT_EQ(endings_of(job).size(), 1U);
    expect_runs(id, 1);
    daemon.kill_9();
  }
}

}  // namespace
}  // namespace waybill::e2e
