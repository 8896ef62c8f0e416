#pragma once
// A job of session `s` that counts its runs, supervisors that stand still at a named point, and
// what must be true of the job at its end.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "e2e/harness.h"
#include "e2e/supervisors.h"

namespace waybill::e2e {

class RecoveryTest : public ::testing::Test {
 protected:
  RecoveryTest() : RecoveryTest(Daemon::Options{}) {}
  explicit RecoveryTest(Daemon::Options options)
      : daemon(std::move(options)), gate(path("gate")), bell(path("bell")) {
    daemon.act_as_host("s");
  }

  std::string path(const std::string& name) const { return temp.path() + "/" + name; }
  std::string file(const std::string& id, const std::string& name) const {
    return daemon.data_dir() + "/jobs/" + id + "/" + name;
  }

  void start_with_supervisors_that_stop_at(const std::string& point) {
    daemon.set_daemon_env({"WAYBILL_CRASH_SHIM=pause:" + point});
    daemon.start();
    daemon.set_daemon_env({});
  }

  std::string accept(const std::string& rest, std::vector<std::string> flags = {}) {
    flags.insert(flags.end(), {"--grace", "100ms"});
    return daemon.accept("echo $WAYBILL_JOB >> '" + path("runs") + "'; echo before; " + rest,
                         std::move(flags));
  }
  // Runs until it is let go; its main process has said its number.
  std::string held_job(std::vector<std::string> flags = {}) {
    const std::string id =
        accept(bell.command("$$") + "; " + gate.command() + "; echo after; exit 3", flags);
    const auto word = bell.word();
    EXPECT_TRUE(word) << "the job was not started";
    if (word) main_ = std::stoi(*word);
    return id;
  }

  std::vector<pid_t> supervisors() const { return supervisors_of(daemon.data_dir()); }
  // The one there is, once it stands still at its point.
  pid_t stopped_supervisor() const {
    pid_t stopped = -1;
    eventually([&] {
      for (const pid_t pid : supervisors()) {
        if (state_of(pid) == 'T') stopped = pid;
      }
      return stopped > 0;
    });
    EXPECT_GT(stopped, 0) << "no supervisor comes to its point";
    return stopped;
  }
  pid_t supervisor() const {
    const std::vector<pid_t> all = supervisors();
    EXPECT_EQ(all.size(), 1U);
    return all.empty() ? -1 : all.front();
  }
  static void kill_9(pid_t pid) {
    ASSERT_GT(pid, 0);
    ::kill(pid, SIGKILL);
    EXPECT_TRUE(await_end(pid));
  }

  // Its end was told once, is acknowledged, and does not come again; then the job as it stands.
  boost::json::value heard_once(const std::string& id) {
    const Output first = daemon.cli({"--json", "inbox", "--timeout", "60s"});
    EXPECT_EQ(first.exit_code, 0) << first.describe() << daemon.log();
    const boost::json::value told = first.json();
    EXPECT_EQ(items_at(told, "events").size(), 1U);
    EXPECT_EQ(text_at(told, "events.0.job.id"), id);
    EXPECT_EQ(daemon.cli({"ack", text_at(told, "events.0.id")}).exit_code, 0);
    EXPECT_EQ(daemon.cli({"--json", "inbox"}).out, "");
    daemon.restart();
    EXPECT_EQ(daemon.cli({"--json", "inbox"}).out, "");
    const boost::json::value job = daemon.show(id);
    EXPECT_EQ(endings_of(job).size(), 1U) << "I4";
    return job;
  }
  void expect_runs(const std::string& id, int times) const {
    std::string wanted;
    for (int i = 0; i < times; ++i) wanted += id + "\n";
    EXPECT_EQ(read_file(path("runs")), wanted) << "I10";
  }
  static void expect_exited(const boost::json::value& job, const char* proof = "subreaper") {
    EXPECT_EQ(text_at(job, "status"), "failed") << boost::json::serialize(job);
    EXPECT_EQ(text_at(job, "exit.kind"), "exited");
    EXPECT_EQ(number_at(job, "exit.code"), 3);
    EXPECT_EQ(text_or_empty_at(job, "proof"), proof);
  }
  // Nobody saw the end; the kernel may have told it.
  static void expect_lost(const boost::json::value& job) {
    SCOPED_TRACE(boost::json::serialize(job));
    EXPECT_EQ(text_at(job, "status"), "failed");
    EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
    if (text_at(job, "exit.kind") == "exited") {
      EXPECT_EQ(number_at(job, "exit.code"), 3);
    } else {
      EXPECT_TRUE(at(job, "exit.code").is_null());
    }
  }
  std::string output_of(const std::string& id) { return daemon.cli({"logs", id, "--raw"}).out; }

  TempDir temp;
  Daemon daemon;
  Gate gate;
  Bell bell;
  pid_t main_ = -1;
};

}  // namespace waybill::e2e
