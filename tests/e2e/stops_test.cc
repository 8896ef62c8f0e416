// Stops, deadlines and kills of the assembled program: CASES O11, O12, O23, and what is said when a
// stop cannot be confirmed.

#include <gtest/gtest.h>

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// Looks again and again, for what nothing tells of.
bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kCap;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    ::poll(nullptr, 0, 10);
  }
  return true;
}

// ---- O11 ---------------------------------------------------------------------------------------

TEST(StopsTest, O11_a_stop_ends_everything_the_shell_has_started) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  // Numbers of this test alone.
  const std::string base = "77" + std::to_string(::getpid());
  const auto sleep = [&](int i) { return "sleep " + base + std::to_string(i); };
  const std::string id = daemon.accept("bash -c 'bash -c \"" + sleep(1) + " & " + sleep(2) +
                                       "\" & setsid " + sleep(3) + " & (setsid " + sleep(4) +
                                       " &) ; wait' & " + bell.command("up") + "; wait");
  ASSERT_TRUE(bell.word());
  ASSERT_TRUE(eventually([&] {
    for (int i = 1; i <= 4; ++i) {
      if (processes_with(std::string("sleep") + '\0' + base + std::to_string(i)).empty()) {
        return false;
      }
    }
    return true;
  }));
  ASSERT_EQ(daemon.cli({"stop", id, "--wait"}).exit_code, 0);
  const json::value job = daemon.show(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "stopped");
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
  for (int i = 1; i <= 4; ++i) {
    EXPECT_TRUE(processes_with(std::string("sleep") + '\0' + base + std::to_string(i)).empty());
  }
  EXPECT_TRUE(items_at(job, "survivors").empty());
}

// ---- O12 ---------------------------------------------------------------------------------------

// Two jobs that ignore TERM, asked in the same moment: the one with the shorter grace is gone while
// the other still has its time.
TEST(StopsTest, O12_the_grace_is_kept_and_a_second_stop_harms_nothing) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("owner");
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const std::string stubborn = "trap : TERM HUP; " + bell.command("up") +
                               "; n=0; until [ $n -ge 900 ]; do sleep 1; n=$((n+1)); done";
  const std::string patient = daemon.accept(stubborn, {"--grace", "20s"});
  const std::string brief = daemon.accept(stubborn, {"--grace", "2s"});
  const std::string tidy = daemon.accept(
      "trap 'sleep 1; echo cleaned; exit 0' TERM; " + bell.command("up") + "; sleep 300 & wait",
      {"--grace", "20s"});
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(bell.word());
  for (const std::string& id : {patient, brief, tidy}) {
    const json::value answer = daemon.json({"stop", id});
    EXPECT_TRUE(at(answer, "jobs.0.stopping").as_bool()) << json::serialize(answer);
    EXPECT_EQ(text_at(answer, "jobs.0.status"), "running");
  }
  for (const std::string& id : {patient, brief}) {  // while it is stopping
    EXPECT_EQ(daemon.cli({"stop", id}).exit_code, 0);
  }
  const json::value ended = daemon.finished(brief);
  EXPECT_EQ(text_at(daemon.show(patient), "status"), "running") << "its grace is not over";
  EXPECT_EQ(text_at(ended, "status"), "stopped") << json::serialize(ended);
  EXPECT_EQ(number_at(ended, "exit.signal"), SIGKILL);
  EXPECT_GE(number_at(ended, "duration_ms"), 2000);
  EXPECT_EQ(text_at(daemon.finished(tidy), "status"), "stopped");
  EXPECT_NE(daemon.cli({"logs", "--raw", tidy}).out.find("cleaned\n"), std::string::npos);
  const json::value last = daemon.finished(patient);
  EXPECT_EQ(number_at(last, "exit.signal"), SIGKILL);
  EXPECT_GE(number_at(last, "duration_ms"), 20'000);
  for (const std::string& id : {patient, brief, tidy}) {
    EXPECT_EQ(daemon.cli({"stop", id}).exit_code, 0) << "after its end";
    EXPECT_EQ(endings_of(daemon.show(id)), std::vector<std::string>{"cancelled"});
  }
}

// ---- a stop that races the end -----------------------------------------------------------------

// What one racer does: a job that waits at a gate, the gate opened, the stop some calls later.
struct Racer {
  std::string socket;
  std::string path;
  int rounds = 0;
  std::map<std::string, std::string> seen;  // job to what it was when it first was terminal

  void run() {
    RawClient client(socket);
    int distance = 0;
    for (int round = 0; round < rounds; ++round) {
      Gate gate(path + std::to_string(round));
      const json::value accepted =
          client.call("job.run", {{"command", gate.command()}, {"cwd", "/"}, {"session", "race"}});
      const std::string id = text_at(accepted, "result.job.id");
      gate.open();
      for (int i = 0; i < distance; ++i) client.call("version");
      client.call("job.stop", {{"jobs", json::array{id}}, {"session", "race"}});
      client.call("job.wait",
                  {{"jobs", json::array{id}}, {"session", "race"}, {"timeout_ms", 60000}});
      const json::value job =
          at(client.call("job.show", {{"job", id}, {"session", "race"}}), "result.job");
      seen[id] = fields_of(job);
      const bool stopped = text_at(job, "status") == "stopped";
      distance = std::max(0, distance + (stopped ? 8 : -8) + round % 3 - 1);
    }
  }

  static std::string fields_of(const json::value& job) {
    std::string all;
    for (const char* field :
         {"status", "exit", "verdict", "cause", "actor", "finished_at", "proof"}) {
      all += json::serialize(at(job, field)) + " ";
    }
    return all;
  }
};

TEST(StopsTest, O06c_I8_of_a_thousand_stops_that_race_the_end_each_has_one_ending_for_ever) {
  constexpr int kRacers = 8;
  constexpr int kRounds = 125;
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=100", "--set",
                       "undelivered_per_session=10000"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  std::vector<Racer> racers;
  for (int i = 0; i < kRacers; ++i) {
    racers.push_back({daemon.socket(), temp.path() + "/" + std::to_string(i) + "-", kRounds, {}});
  }
  std::vector<std::thread> threads;
  for (Racer& racer : racers) threads.emplace_back([&racer] { racer.run(); });
  for (std::thread& thread : threads) thread.join();
  daemon.restart();
  RawClient later(daemon.socket());
  std::map<std::string, int> endings;
  for (const Racer& racer : racers) {
    EXPECT_EQ(racer.seen.size(), static_cast<std::size_t>(kRounds));
    for (const auto& [id, before] : racer.seen) {
      const json::value job =
          at(later.call("job.show", {{"job", id}, {"session", "race"}}), "result.job");
      EXPECT_EQ(endings_of(job).size(), 1U) << json::serialize(job);
      EXPECT_EQ(Racer::fields_of(job), before) << id;
      // A stop that came before the start needs no proof: nothing ran, and nothing has an exit.
      const bool never = at(job, "exit").is_null() && at(job, "started_at").is_null();
      EXPECT_EQ(text_or_empty_at(job, "proof"), never ? "" : "subreaper") << json::serialize(job);
      ++endings[text_at(job, "status")];
    }
  }
  EXPECT_EQ(endings["stopped"] + endings["succeeded"], kRacers * kRounds);
  EXPECT_GT(endings["stopped"], 0);
  EXPECT_GT(endings["succeeded"], 0);
  RecordProperty("stopped", endings["stopped"]);
}

// ---- what cannot be killed ---------------------------------------------------------------------

// A group of the freezer of version 1 stands for a process that waits in the kernel.
class StuckStop : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = "/sys/fs/cgroup/freezer/waybill-e2e-" + std::to_string(::getpid());
    if (::mkdir(path_.c_str(), 0700) == 0) return;
    path_.clear();
    GTEST_SKIP() << "no writable freezer of version 1 at /sys/fs/cgroup/freezer";
  }
  void TearDown() override {
    if (path_.empty()) return;
    thaw();
    EXPECT_TRUE(eventually([&] { return ::rmdir(path_.c_str()) == 0; }));
  }
  void freeze(const std::string& pid) const {
    std::ofstream(path_ + "/cgroup.procs") << pid;
    std::ofstream(path_ + "/freezer.state") << "FROZEN";
    EXPECT_TRUE(eventually([&] { return read_file(path_ + "/freezer.state") == "FROZEN\n"; }));
  }
  void thaw() const { std::ofstream(path_ + "/freezer.state") << "THAWED"; }

  static json::value stuck_job(Daemon& daemon, const std::string& id) {
    json::value job;
    EXPECT_TRUE(eventually([&] {
      job = daemon.show(id);
      return !items_at(job, "survivors").empty() && !items_at(job, "events").empty();
    }));
    return job;
  }

  std::string path_;
};

TEST_F(StuckStop, I7_a_frozen_process_keeps_the_job_running_is_named_and_said_once) {
  Daemon::Options options;
  options.arguments = {"--set", "stop_stuck_after=500ms"};
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("owner");
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const std::string id =
      daemon.accept(bell.command("$$") + "; exec sleep 300", {"--grace", "100ms"});
  const auto pid = bell.word();
  ASSERT_TRUE(pid);
  freeze(*pid);
  daemon.cli({"stop", id});
  const json::value job = stuck_job(daemon, id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "running");
  EXPECT_TRUE(at(job, "stopping").as_bool());
  EXPECT_EQ(std::to_string(number_at(job, "survivors.0.pid")), *pid);
  EXPECT_EQ(text_at(job, "survivors.0.state"), "D");
  EXPECT_EQ(text_at(job, "survivors.0.reason"), "D_state");
  const Output heard = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(heard.json(), "events.0.id"), id + ".stop_stuck.1") << heard.describe();
  daemon.cli({"stop", id});
  daemon.restart();  // and the next daemon does not say it again
  daemon.cli({"stop", id});
  EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
  thaw();
  const json::value ended = daemon.finished(id);
  EXPECT_EQ(text_at(ended, "status"), "stopped") << json::serialize(ended);
  EXPECT_EQ(text_at(ended, "proof"), "subreaper");
  EXPECT_EQ(items_at(ended, "events").size(), 1U);
}

TEST_F(StuckStop, I7_a_deadline_kill_that_cannot_be_confirmed_is_said_too) {
  Daemon::Options options;
  options.arguments = {"--set", "stop_stuck_after=500ms"};
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("owner");
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const std::string id = daemon.accept(bell.command("$$") + "; exec sleep 300",
                                       {"--grace", "100ms", "--deadline", "1s"});
  const auto pid = bell.word();
  ASSERT_TRUE(pid);
  freeze(*pid);
  const json::value job = stuck_job(daemon, id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "running");
  EXPECT_TRUE(at(job, "stopping").as_bool());
  EXPECT_EQ(text_at(job, "cause"), "deadline");
  EXPECT_EQ(text_at(job, "events.0.id"), id + ".stop_stuck.1");
  thaw();
  const json::value ended = daemon.finished(id);
  EXPECT_EQ(text_at(ended, "status"), "failed") << json::serialize(ended);
  EXPECT_EQ(text_at(ended, "cause"), "deadline");
  EXPECT_EQ(text_at(ended, "proof"), "subreaper");
}

// ---- as pid 1 of a container -------------------------------------------------------------------

TEST(PidOneTest, I9_a_daemon_that_is_pid_1_reaps_what_jobs_leave_and_keeps_true_exits) {
  if (run({{"/usr/bin/unshare", "--pid", "--fork", "--mount-proc", "/bin/true"}}).exit_code != 0) {
    GTEST_SKIP() << "pid namespaces cannot be made here";
  }
  TempDir temp;
  const std::string program = temp.path() + "/waybill";
  std::ofstream(program) << "#!/bin/sh\n[ \"$1\" = serve ] && set -- unshare --pid --fork "
                            "--kill-child --mount-proc '"
                         << waybill_program() << "' \"$@\" || set -- '" << waybill_program()
                         << "' \"$@\"\nexec \"$@\"\n";
  ASSERT_EQ(::chmod(program.c_str(), 0755), 0);
  Daemon::Options options;
  options.program = program;
  Daemon daemon(options);
  daemon.start();
  std::vector<std::string> orphaned;
  std::vector<std::string> plain;
  for (int i = 0; i < 10; ++i) {
    orphaned.push_back(daemon.accept("(setsid sleep 0.01 &) ; kill -9 $PPID; exit 3"));
    plain.push_back(daemon.accept("(setsid sleep 0.01 &) ; exit 4"));
  }
  for (const std::string& id : orphaned) {
    const json::value job = daemon.finished(id);
    EXPECT_EQ(text_at(job, "status"), "failed") << json::serialize(job);
    EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
  }
  for (const std::string& id : plain) EXPECT_EQ(number_at(daemon.finished(id), "exit.code"), 4);
  // Every process of the namespace, by one of its jobs.
  const std::string look =
      "for f in /proc/[0-9]*/stat; do read -r all < \"$f\" && "
      "case \"${all##*)}\" in ' Z'*) echo zombie \"$all\";; esac; done; true";
  EXPECT_TRUE(eventually([&] {
    const Output output = daemon.cli({"run", "--wait", "--", look});
    return output.exit_code == 0 && output.out.find("zombie") == std::string::npos;
  }));
  EXPECT_EQ(daemon.cli({"shutdown", "--stop-jobs"}).exit_code, 0);
}

}  // namespace
}  // namespace waybill::e2e
