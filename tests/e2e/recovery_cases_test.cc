// Cases of docs/cases.md in which something dies, hangs or breaks between a job and who is told.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "e2e/harness.h"
#include "e2e/supervisors.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

json::object host_params(json::object params = {}) {
  params["session"] = "s";
  params["host_key"] = "key";
  return params;
}

// As a person sees it, whose look is no delivery.
json::value looked_at(Daemon& daemon, const std::string& id) {
  RawClient client(daemon.socket());
  return at(client.call("job.show", {{"session", "s"}, {"job", id}}), "result.job");
}

// ---- O02 ---------------------------------------------------------------------------------------

TEST(RecoveryCases, O02_a_delivery_that_fails_is_tried_until_it_is_acknowledged) {
  Daemon::Options options;
  options.arguments = {"--set", "offer_deadline=200ms"};
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  const std::string id = daemon.accept("echo ran >> '" + temp.path() + "/runs'; exit 3");
  const auto take = [](RawClient& client) {
    const json::value answer =
        client.call("inbox.take", host_params({{"timeout_ms", 60000}, {"follow", true}}));
    EXPECT_EQ(items_at(answer, "result.hand_over.events").size(), 1U) << json::serialize(answer);
    return at(answer, "result.hand_over.events.0");
  };
  const auto tries = [&] { return number_at(looked_at(daemon, id), "events.0.tries"); };
  {  // it breaks before it has said that it has read it
    RawClient breaks(daemon.socket());
    EXPECT_EQ(at(take(breaks), "repeat"), false);
  }
  EXPECT_TRUE(eventually([&] { return tries() == 1; }));
  daemon.restart();
  const json::value once = looked_at(daemon, id);
  EXPECT_EQ(text_at(once, "events.0.state"), "pending") << "it survives the daemon";
  EXPECT_TRUE(contains(text_at(once, "events.0.last_error"), "connection"))
      << json::serialize(once);
  RawClient hangs(daemon.socket());
  EXPECT_EQ(at(take(hangs), "repeat"), true);
  EXPECT_TRUE(eventually([&] { return tries() == 2; })) << "its time is over";
  EXPECT_TRUE(contains(text_at(looked_at(daemon, id), "events.0.last_error"), "expired"));
  RawClient dies(daemon.socket());
  take(dies);
  daemon.restart();  // with the offer under way
  EXPECT_EQ(tries(), 3);
  EXPECT_TRUE(contains(text_at(looked_at(daemon, id), "events.0.last_error"), "restarted"));
  const json::value heard = daemon.json({"inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(heard, "events.0.id"), id + ".failed.1");
  EXPECT_EQ(at(heard, "events.0.repeat"), true);
  EXPECT_EQ(daemon.cli({"ack", id + ".failed.1"}).exit_code, 0);
  const json::value job = looked_at(daemon, id);
  EXPECT_EQ(text_at(job, "events.0.state"), "acked");
  EXPECT_EQ(number_at(job, "events.0.tries"), 3);
  EXPECT_EQ(number_at(job, "attempt"), 1);
  EXPECT_EQ(endings_of(job).size(), 1U);
  EXPECT_EQ(read_file(temp.path() + "/runs"), "ran\n");
  // A person sees how often it was tried, and what came of it last.
  const std::string shown = daemon.cli({"show", id}).out;
  EXPECT_TRUE(contains(shown, "3") && contains(shown, "restarted")) << shown;
}

// ---- O08 ---------------------------------------------------------------------------------------

TEST(RecoveryCases, O08_a_job_that_kills_its_supervisor_is_not_tried_for_ever) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  Bell bell(temp.path() + "/bell");
  const std::string healthy =
      daemon.accept(bell.command("up") + "; " + gate.command() + "; exit 3");
  ASSERT_TRUE(bell.word());
  const std::string id =
      daemon.accept("echo ran >> '" + temp.path() + "/runs'; kill -9 $PPID; exit 4");
  for (int restarts = 0; restarts < 3; ++restarts) daemon.restart();
  const json::value heard = daemon.json({"inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(heard, "events.0.id"), id + ".failed.1");
  EXPECT_EQ(daemon.cli({"ack", id + ".failed.1"}).exit_code, 0);
  for (int restarts = 0; restarts < 3; ++restarts) daemon.restart();
  EXPECT_EQ(daemon.cli({"--json", "inbox"}).out, "") << "told once";
  const json::value job = looked_at(daemon, id);
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
  EXPECT_FALSE(text_or_empty_at(job, "reason").empty());
  EXPECT_EQ(number_at(job, "attempt"), 1);
  EXPECT_EQ(endings_of(job).size(), 1U);
  EXPECT_EQ(read_file(temp.path() + "/runs"), "ran\n");
  EXPECT_LE(count_of(daemon.log(), id), 8U) << daemon.log();
  EXPECT_EQ(text_at(looked_at(daemon, healthy), "status"), "running");
  gate.open();
  const json::value last = daemon.json({"inbox", "--timeout", "60s"});
  EXPECT_EQ(text_at(last, "events.0.id"), healthy + ".failed.1");
  EXPECT_EQ(number_at(last, "events.0.job.exit.code"), 3);
}

// Supervisor and daemon are processes of the same user.
TEST(RecoveryCases, O08_a_job_that_kills_everything_it_may_is_not_run_again) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be a user of whom nothing else runs";
  Daemon::Options options;
  options.uid = 61234;
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("s");
  TempDir temp;
  ASSERT_EQ(::chmod(temp.path().c_str(), 0777), 0);
  Gate gate(temp.path() + "/gate");
  ASSERT_EQ(::chmod((temp.path() + "/gate").c_str(), 0666), 0);
  const std::string id = daemon.accept(
      "echo ran >> '" + temp.path() + "/runs'; " + gate.command() + "; kill -9 -1; exit 3",
      {"--cwd", "/"});
  Bell bell(temp.path() + "/bell");
  ASSERT_EQ(::chmod((temp.path() + "/bell").c_str(), 0666), 0);
  const std::string beside = daemon.accept(bell.command("up") + "; sleep 300", {"--cwd", "/"});
  ASSERT_TRUE(bell.word());
  gate.open();
  daemon.wait_for_end();
  EXPECT_TRUE(daemon.crashed());
  daemon.start();
  std::set<std::string> told;
  while (told.size() < 2) {
    const Output output = daemon.cli({"--json", "inbox", "--timeout", "60s"});
    ASSERT_EQ(output.exit_code, 0) << output.describe();
    for (const json::value& event : items_at(output.json(), "events")) {
      EXPECT_TRUE(told.insert(text_at(event, "id")).second);
    }
  }
  daemon.restart();
  for (const std::string& job : {id, beside}) {
    const json::value shown = looked_at(daemon, job);
    SCOPED_TRACE(json::serialize(shown));
    EXPECT_TRUE(told.contains(job + ".failed.1"));
    EXPECT_EQ(text_at(shown, "status"), "failed");
    EXPECT_EQ(text_at(shown, "cause"), "supervisor_lost");
    EXPECT_EQ(endings_of(shown).size(), 1U);
  }
  EXPECT_EQ(read_file(temp.path() + "/runs"), "ran\n");
}

// ---- O32 ---------------------------------------------------------------------------------------

// Supervisors are stopped at whatever they were doing, their ends among it, while daemons come and
// go. What was terminal once stays as it was.
TEST(RecoveryCases, O32_I4_what_was_settled_once_is_never_settled_again) {
  constexpr int kJobs = 500;
  constexpr int kStep = 12;
  constexpr int kRestarts = 15;
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=25"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  std::set<std::string> jobs;
  {
    RawClient client(daemon.socket());
    for (int i = 0; i < kJobs; ++i) {
      const json::value answer = client.call(
          "job.run",
          host_params({{"command", "echo $WAYBILL_JOB >> '" + temp.path() + "/runs'; exit 3"},
                       {"cwd", "/"}}));
      jobs.insert(text_at(answer, "result.job.id"));
    }
  }
  std::map<std::string, std::string> settled;  // its receipts when it was first seen to have ended
  const auto look = [&] {
    RawClient client(daemon.socket());
    const json::value ended = client.call(
        "job.list", {{"session", "s"}, {"limit", kJobs}, {"statuses", {"failed", "stopped"}}});
    for (const json::value& row : items_at(ended, "result.jobs")) {
      const std::string id = text_at(row, "id");
      if (settled.contains(id)) continue;
      const json::value job = client.call("job.show", {{"session", "s"}, {"job", id}});
      settled.emplace(id, json::serialize(at(job, "result.job.receipts")));
    }
  };
  const auto wait_until_left = [&](std::int64_t left) {
    RawClient client(daemon.socket());
    return eventually([&] {
      const json::value status = client.call("status");
      return number_at(status, "result.running_jobs") + number_at(status, "result.queued_jobs") <=
             left;
    });
  };
  for (int restarts = 1; restarts <= kRestarts; ++restarts) {
    const std::vector<pid_t> stopped = supervisors_of(daemon.data_dir());
    for (const pid_t pid : stopped) ::kill(pid, SIGSTOP);
    daemon.restart();
    look();
    for (const pid_t pid : stopped) ::kill(pid, SIGCONT);
    // About half of the slots go by before they are stopped again.
    wait_until_left(kJobs - restarts * kStep);
  }
  EXPECT_TRUE(wait_until_left(0));
  look();
  ASSERT_EQ(settled.size(), static_cast<std::size_t>(kJobs));
  daemon.restart();
  const std::string runs = read_file(temp.path() + "/runs");
  for (const auto& [id, receipts] : settled) {
    const json::value job = looked_at(daemon, id);
    EXPECT_EQ(json::serialize(at(job, "receipts")), receipts);
    EXPECT_EQ(endings_of(job), std::vector<std::string>{"failed"});
    EXPECT_EQ(number_at(job, "exit.code"), 3);
    EXPECT_EQ(number_at(job, "attempt"), 1);
    EXPECT_EQ(items_at(job, "events").size(), 1U);
    EXPECT_EQ(count_of(runs, id + "\n"), 1U) << "I10";
  }
}

// ---- O33 ---------------------------------------------------------------------------------------

class Broken : public ::testing::Test {
 protected:
  Broken() : daemon_(options()) {
    fs::create_directory(between());
    fs::permissions(between(), fs::perms::owner_all);
    daemon_.start();
    daemon_.act_as_host("s");
    daemon_.cli({"session", "attach"});
  }
  static Daemon::Options options() {
    Daemon::Options options;
    options.arguments = {"--set", "offer_deadline=300ms", "--set", "running_per_session=20"};
    return options;
  }
  std::string between() const { return temp_.path() + "/between"; }
  void start_proxy() {
    fs::remove(between() + "/waybill.sock");
    Launch launch;
    launch.argv = {"/usr/bin/python3", std::string(WAYBILL_SOURCE_DIR) + "/tests/e2e/proxy.py",
                   between() + "/waybill.sock", daemon_.socket()};
    proxy_ = std::make_unique<Process>(std::move(launch));
    ASSERT_EQ(proxy_->line(), "ready");
  }
  // Asks for the inbox through the proxy.
  std::unique_ptr<Process> follower() {
    Launch launch = daemon_.command({"--json", "inbox", "--follow"});
    std::ranges::replace(launch.argv, daemon_.data_dir(), between());
    return std::make_unique<Process>(std::move(launch));
  }
  bool host_is_reachable() {
    RawClient client(daemon_.socket());
    return !items_at(client.call("status"), "result.reachable").empty();
  }
  // Ten jobs that end together.
  void accept_ten() {
    for (int i = 0; i < 10; ++i) jobs_.push_back(daemon_.accept(line_.command() + "; exit 3"));
  }
  void end_all() {
    line_.open();
    EXPECT_TRUE(eventually([&] {
      RawClient client(daemon_.socket());
      return number_at(client.call("status"), "result.running_jobs") == 0;
    }));
  }
  // Reads hand-overs until each job was heard; what was heard twice in here is a failure.
  void hear_all(Process& client) {
    while (heard_.size() < jobs_.size()) {
      const json::value hand_over = client.json_line();
      if (hand_over.is_null()) break;
      for (const json::value& event : items_at(hand_over, "events")) {
        EXPECT_TRUE(heard_.insert(text_at(event, "id")).second) << json::serialize(event);
      }
    }
    for (const std::string& job : jobs_) EXPECT_TRUE(heard_.contains(job + ".failed.1"));
  }
  void acknowledge_all() {
    for (const std::string& event : heard_) {
      EXPECT_EQ(daemon_.cli({"ack", event}).exit_code, 0);
    }
    EXPECT_EQ(daemon_.cli({"--json", "inbox"}).out, "");
    daemon_.restart();
    EXPECT_EQ(daemon_.cli({"--json", "inbox"}).out, "");
  }

  TempDir temp_;
  Daemon daemon_;
  StartLine line_{temp_.path() + "/line"};
  std::unique_ptr<Process> proxy_;
  std::vector<std::string> jobs_;
  std::set<std::string> heard_;
};

// Nothing tells of the loss: no end, no reset. The offer's deadline does.
TEST_F(Broken, O33_a_half_open_connection_loses_nothing) {
  start_proxy();
  const auto deaf = follower();
  ASSERT_TRUE(eventually([&] { return host_is_reachable(); }));
  accept_ten();
  proxy_->signal(SIGSTOP);
  end_all();
  const auto other = daemon_.spawn({"--json", "inbox", "--follow"});
  hear_all(*other);
  EXPECT_TRUE(deaf->running()) << "it cannot know yet";
  acknowledge_all();
}

// It breaks while results are on their way, and the daemon is replaced, too.
TEST_F(Broken, O33_a_connection_that_breaks_and_a_daemon_that_restarts_lose_nothing) {
  start_proxy();
  const auto first = follower();
  ASSERT_TRUE(eventually([&] { return host_is_reachable(); }));
  accept_ten();
  proxy_->signal(SIGSTOP);
  end_all();
  proxy_->signal(SIGKILL);
  daemon_.restart();
  start_proxy();
  hear_all(*first);  // it has found its way by itself
  acknowledge_all();
}

}  // namespace
}  // namespace waybill::e2e
