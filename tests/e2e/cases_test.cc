// Faults that people reported of such systems: who hears what, when, how often, and what is true of
// an ending. Each test is named after its case.

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

// ---- what a host hears -------------------------------------------------------------------------

// Takes hand-over after hand-over, as a consumer that is attached all the time, until each event
// that is expected has been heard; every one must be heard exactly once.
std::map<std::string, json::value> take_all(Daemon& daemon, std::size_t expected) {
  std::map<std::string, json::value> heard;
  while (heard.size() < expected) {
    const Output output = daemon.cli({"--json", "inbox", "--timeout", "60s"});
    EXPECT_EQ(output.exit_code, 0) << "nothing came; heard " << heard.size() << output.describe();
    if (output.exit_code != 0) break;
    const json::value hand_over = output.json();
    for (const json::value& event : items_at(hand_over, "events")) {
      EXPECT_FALSE(at(event, "repeat").as_bool()) << json::serialize(event);
      const std::string id = text_at(event, "id");
      EXPECT_NE(text_at(hand_over, "text").find(id), std::string::npos) << id;
      EXPECT_TRUE(heard.emplace(id, event).second) << id << " was heard twice";
    }
  }
  return heard;
}

void expect_inbox_empty(Daemon& daemon) {
  const Output output = daemon.cli({"--json", "inbox"});
  EXPECT_EQ(output.exit_code, 0) << output.describe();
  EXPECT_EQ(output.out, "");
}

void jobs_that_end_together(std::size_t count) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=" + std::to_string(count)};
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("many");
  TempDir temp;
  StartLine line(temp.path() + "/line");
  std::map<std::string, std::size_t> wanted;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string code = std::to_string(i % 4);
    wanted[daemon.accept(line.command() + "; echo out-" + std::to_string(i) + "; exit " + code)] =
        i;
  }
  line.open();
  const auto heard = take_all(daemon, count);
  EXPECT_EQ(heard.size(), count);
  for (const auto& [id, event] : heard) {
    const auto job = wanted.find(text_at(event, "job.id"));
    ASSERT_NE(job, wanted.end()) << id;
    EXPECT_EQ(number_at(event, "job.exit.code"), job->second % 4);
    EXPECT_EQ(text_at(event, "tail"), "out-" + std::to_string(job->second) + "\n");
  }
  expect_inbox_empty(daemon);  // and acknowledges what was printed last
  for (const auto& [id, index] : wanted) {
    const json::value job = daemon.show(id);
    EXPECT_EQ(text_at(job, "events.0.state"), "acked") << json::serialize(job);
    EXPECT_EQ(number_at(job, "events.0.tries"), 0);
  }
  EXPECT_EQ(number_at(daemon.json({"status"}), "undelivered"), 0);
  EXPECT_EQ(daemon.log().find("\"level\":\"error\""), std::string::npos) << daemon.log();
}

TEST(CasesTest, O01_three_jobs_that_finish_together) { jobs_that_end_together(3); }
TEST(CasesTest, O01_fifty_jobs_that_finish_together) { jobs_that_end_together(50); }

TEST(CasesTest, O05_a_wait_of_the_owner_is_the_delivery) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("reader");
  daemon.json({"turn", "begin", "--turn", "t1"});
  std::vector<std::string> wait{"wait", "--timeout", "60s"};
  for (int i = 1; i <= 5; ++i) {
    wait.push_back(daemon.accept("expr " + std::to_string(i) + " \\* 7", {"--turn", "t1"}));
  }
  EXPECT_EQ(daemon.cli(wait).exit_code, 0);
  const json::value end = daemon.json({"turn", "end", "--turn", "t1"});
  EXPECT_EQ(text_at(end, "state"), "closed");
  EXPECT_TRUE(items_at(end, "messages").empty()) << json::serialize(end);
  expect_inbox_empty(daemon);
  for (std::size_t i = 3; i < wait.size(); ++i) {
    EXPECT_EQ(text_at(daemon.show(wait[i]), "events.0.acked_as"), "reported");
  }
}

TEST(CasesTest, O05_a_wait_whose_answer_was_never_read_is_none) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("reader");
  json::array jobs;
  for (int i = 1; i <= 5; ++i) {
    jobs.emplace_back(daemon.accept("expr " + std::to_string(i) + " \\* 7"));
  }
  {
    RawClient client(daemon.socket());
    const json::value answer = client.call(
        "job.wait",
        {{"session", "reader"}, {"host_key", "key"}, {"jobs", jobs}, {"timeout_ms", 60000}});
    EXPECT_FALSE(at(answer, "result.reported").is_null()) << json::serialize(answer);
  }  // written by the daemon, and the client is gone before it confirmed
  std::set<std::string> heard;
  while (heard.size() < jobs.size()) {
    const Output output = daemon.cli({"--json", "inbox", "--timeout", "60s"});
    ASSERT_EQ(output.exit_code, 0) << output.describe();
    for (const json::value& event : items_at(output.json(), "events")) {
      EXPECT_TRUE(at(event, "repeat").as_bool()) << json::serialize(event);
      heard.insert(text_at(event, "job.id"));
    }
  }
  for (const json::value& job : jobs) EXPECT_TRUE(heard.contains(std::string(job.get_string())));
}

TEST(CasesTest, O05_a_stranger_who_waits_is_not_the_owner) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("reader");
  const std::string id = daemon.accept("exit 3");
  daemon.set_env({"WAYBILL_SESSION=reader"});
  EXPECT_EQ(daemon.cli({"wait", id, "--timeout", "60s"}).exit_code, 3);
  daemon.act_as_host("reader");
  EXPECT_TRUE(take_all(daemon, 1).contains(id + ".failed.1"));
}

// ---- stops -------------------------------------------------------------------------------------

TEST(CasesTest, O06a_what_its_owner_stopped_comes_back_as_nothing_else) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("owner");
  const std::string id = daemon.accept("exec sleep 300");
  ASSERT_EQ(daemon.cli({"stop", id, "--reason", "not needed", "--wait"}).exit_code, 0);
  const json::value job = daemon.show(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "stopped");
  EXPECT_EQ(text_at(job, "cause"), "model");  // it was the session's host
  EXPECT_EQ(text_at(job, "actor"), "owner");
  EXPECT_EQ(text_at(job, "reason"), "not needed");
  EXPECT_EQ(endings_of(job), std::vector<std::string>{"cancelled"});
  // The next thing the owner hears is the next job, and nothing of this one.
  const std::string next = daemon.accept("true");
  const auto heard = take_all(daemon, 1);
  EXPECT_TRUE(heard.contains(next + ".completed.1"));
  expect_inbox_empty(daemon);
  EXPECT_EQ(daemon.show(id), job);
}

TEST(CasesTest, O06b_what_somebody_else_killed_is_failed_with_that_signal) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("owner");
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  const std::string id = daemon.accept(bell.command("$$") + "; exec sleep 300");
  const auto pid = bell.word();
  ASSERT_TRUE(pid);
  ASSERT_EQ(::kill(std::stoi(*pid), SIGKILL), 0);
  const json::value job = daemon.finished(id);
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "verdict"), "signaled");
  EXPECT_EQ(text_at(job, "cause"), "signal");
  EXPECT_EQ(number_at(job, "exit.signal"), 9);
  EXPECT_TRUE(at(job, "exit.code").is_null());
  EXPECT_EQ(endings_of(job), std::vector<std::string>{"failed"});
  EXPECT_EQ(daemon.cli({"wait", id}).exit_code, 137);
}

// One race: the job's end and the wish to stop it, `distance` calls apart.
std::string race(RawClient& client, const std::string& path, int distance) {
  Gate gate(path);
  const json::value accepted =
      client.call("job.run", {{"command", gate.command()}, {"cwd", "/"}, {"session", "race"}});
  const std::string id = text_at(accepted, "result.job.id");
  gate.open();
  for (int i = 0; i < distance; ++i) client.call("version");
  client.call("job.stop", {{"jobs", json::array{id}}, {"session", "race"}});
  const json::value ended = client.call(
      "job.wait", {{"jobs", json::array{id}}, {"session", "race"}, {"timeout_ms", 60000}});
  EXPECT_FALSE(at(ended, "result.timed_out").as_bool()) << json::serialize(ended);
  return id;
}

TEST(CasesTest, O06c_I4_a_stop_that_races_the_end_leaves_one_ending) {
  constexpr int kRounds = 200;
  constexpr int kStep = 40;
  Daemon daemon;
  daemon.start();
  TempDir temp;
  RawClient client(daemon.socket());
  std::map<std::string, json::value> first;
  int distance = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string id = race(client, temp.path() + "/" + std::to_string(round), distance);
    const json::value shown = client.call("job.show", {{"job", id}, {"session", "race"}});
    first[id] = at(shown, "result.job");
    // Towards the distance at which either may win, and around it.
    const bool stopped = text_at(first[id], "status") == "stopped";
    distance = std::max(0, distance + (stopped ? kStep : -kStep) + round % 3 - 1);
  }
  std::map<std::string, int> endings;
  client.close();
  daemon.restart();
  RawClient later(daemon.socket());
  for (const auto& [id, before] : first) {
    const json::value shown = later.call("job.show", {{"job", id}, {"session", "race"}});
    const json::value job = at(shown, "result.job");
    ASSERT_EQ(endings_of(job).size(), 1U) << json::serialize(job);
    const std::string status = text_at(job, "status");
    EXPECT_EQ(endings_of(job).front(), status == "stopped" ? "cancelled" : "completed");
    for (const char* field : {"status", "exit", "verdict", "cause", "actor", "finished_at"}) {
      EXPECT_EQ(at(job, field), at(before, field)) << field << " of " << id << " changed";
    }
    ++endings[status];
  }
  EXPECT_EQ(first.size(), static_cast<std::size_t>(kRounds));
  EXPECT_GT(endings["stopped"], 0);
  EXPECT_GT(endings["succeeded"], 0);
  RecordProperty("stopped", endings["stopped"]);
}

// ---- leftovers that hold the output ------------------------------------------------------------

struct Held {
  const char* name;
  const char* command;
  int code;
  const char* output;
};

void PrintTo(const Held& row, std::ostream* out) { *out << row.command; }

const Held kHeld[] = {
    {"a_process_substitution", "echo done > >(cat; sleep 900); exit 3", 3, "done\n"},
    {"b_background_child", "echo x; sleep 900 & exit 0", 0, "x\n"},
    {"c_setsid_with_stderr_only", "setsid sleep 900 >/dev/null & exit 5", 5, ""},
};

class HeldTest : public ::testing::TestWithParam<Held> {};

TEST_P(HeldTest, O13_a_leftover_that_holds_the_output_holds_no_job) {
  const Held& row = GetParam();
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"run", "--wait", "--", row.command});
  EXPECT_EQ(output.exit_code, row.code) << output.describe();
  EXPECT_EQ(output.out, row.output);
  const json::value jobs = at(daemon.json({"list"}), "jobs");
  const json::value job = daemon.show(text_at(jobs, "0.id"));
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(number_at(job, "exit.code"), row.code);
  EXPECT_EQ(text_at(job, "cause"), "exit");
  EXPECT_FALSE(items_at(job, "leftovers").empty());
  expect_none_left("WAYBILL_JOB=" + text_at(job, "id"));
}

INSTANTIATE_TEST_SUITE_P(Cases, HeldTest, ::testing::ValuesIn(kHeld),
                         [](const auto& row) { return std::string(row.param.name); });

// ---- exit codes --------------------------------------------------------------------------------

struct Code {
  const char* name;
  const char* command;
  int code;
  const char* status;
};

void PrintTo(const Code& row, std::ostream* out) { *out << row.command; }

const Code kCodes[] = {
    {"false_cat", "false | cat", 119, "failed"},
    {"subshell_tee", "(exit 7) | tee /dev/null", 119, "failed"},
    {"not_the_last_command", "(exit 7) | tail; echo rc=$?", 119, "failed"},
    {"inner_shell_to_a_file", "bash -c 'exit 4' > \"$TMP/l\" 2>&1", 4, "failed"},
    {"only_the_last_command_counts", "false; echo tail-ok", 0, "succeeded"},
    {"pipefail_is_the_callers_choice", "set -o pipefail; false | cat", 1, "failed"},
    {"plain_exit", "exit 4", 4, "failed"},
};

class CodeTest : public ::testing::TestWithParam<Code> {};

TEST_P(CodeTest, O14_failing_pipeline_is_not_success) {
  const Code& row = GetParam();
  Daemon daemon;
  daemon.start();
  TempDir temp;
  const std::string variable = "TMP=" + temp.path();
  const Output waited = daemon.cli({"run", "--wait", "--env", variable, "--", row.command});
  EXPECT_EQ(waited.exit_code, row.code) << waited.describe();
  const std::string id = daemon.accept(row.command, {"--env", variable});
  EXPECT_EQ(daemon.cli({"wait", id, "--timeout", "60s"}).exit_code, row.code);
  const json::value job = daemon.show(id);
  EXPECT_EQ(text_at(job, "status"), row.status) << json::serialize(job);
}

INSTANTIATE_TEST_SUITE_P(Cases, CodeTest, ::testing::ValuesIn(kCodes),
                         [](const auto& row) { return std::string(row.param.name); });

// ---- output ------------------------------------------------------------------------------------

TEST(CasesTest, O16a_what_was_printed_before_the_deadline_is_there) {
  Daemon daemon;
  daemon.start();
  const Output output =
      daemon.cli({"run", "--deadline", "300ms", "--wait", "--", "seq 1 40; exec sleep 300"});
  EXPECT_EQ(output.exit_code, 143) << output.describe();
  std::string lines;
  for (int i = 1; i <= 40; ++i) lines += std::to_string(i) + "\n";
  EXPECT_EQ(output.out, lines);
  const json::value job = daemon.show(text_at(daemon.json({"list"}), "jobs.0.id"));
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "cause"), "deadline") << json::serialize(job);
}

TEST(CasesTest, O16b_stdout_and_stderr_keep_their_order) {
  Daemon daemon;
  daemon.start();
  const Output output =
      daemon.cli({"run", "--wait", "--", "for i in 1 2 3; do echo o$i; echo e$i >&2; done"});
  EXPECT_EQ(output.out, "o1\ne1\no2\ne2\no3\ne3\n");
}

TEST(CasesTest, O16c_terminal_means_that_the_output_is_complete) {
  constexpr int kRounds = 100;
  constexpr std::int64_t kBytes = 1988895;  // of seq 1 300000
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  const json::object env{{"PATH", "/usr/bin:/bin"}};
  for (int round = 0; round < kRounds; ++round) {
    const json::value accepted =
        client.call("job.run", {{"command", "seq 1 300000; exit 4"}, {"cwd", "/"}, {"env", env}});
    const std::string id = text_at(accepted, "result.job.id");
    const json::value ended =
        client.call("job.wait", {{"jobs", json::array{id}}, {"timeout_ms", 60000}});
    const json::value logs =
        client.call("job.logs", {{"job", id}, {"offset", kBytes - 14}, {"raw", true}});
    ASSERT_EQ(number_at(ended, "result.jobs.0.exit.code"), 4) << json::serialize(ended);
    ASSERT_EQ(text_at(logs, "result.data"), "299999\n300000\n") << json::serialize(logs);
    ASSERT_EQ(number_at(logs, "result.end"), kBytes);
    ASSERT_TRUE(at(logs, "result.complete").as_bool());
  }
}

// ---- a daemon that is replaced -----------------------------------------------------------------

// The end of the job's supervisor: then its records are complete, whether or not a daemon runs.
void await_supervisor(const Daemon& daemon, const std::string& job) {
  const std::string record = read_file(daemon.data_dir() + "/jobs/" + job + "/start.json");
  const json::value start = json::parse(record);
  EXPECT_TRUE(await_end(static_cast<pid_t>(number_at(start, "shim_pid")))) << record;
}

TEST(CasesTest, O30_jobs_survive_the_replacement_of_their_daemon) {
  namespace fs = std::filesystem;
  TempDir temp;
  Daemon::Options options;
  options.program = temp.path() + "/waybill";
  fs::copy_file(waybill_program(), options.program);
  fs::copy_file(shim_program(), temp.path() + "/waybill-shim");
  Daemon daemon(options);
  daemon.start();
  daemon.act_as_host("owner");
  StartLine line(temp.path() + "/line");
  Bell bell(temp.path() + "/bell");
  std::vector<std::string> jobs;
  for (int i = 0; i < 4; ++i) {
    jobs.push_back(daemon.accept(bell.command("up") + "; " + line.command() + "; echo ok; exit " +
                                 std::to_string(i)));
  }
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(bell.word());
  EXPECT_EQ(daemon.terminate().exit_code, 0);
  fs::permissions(options.program, fs::perms::owner_read);
  EXPECT_NE(daemon.serve_and_finish().exit_code, 0);  // the new one cannot be executed
  line.open();
  for (const std::string& job : jobs) await_supervisor(daemon, job);
  fs::permissions(options.program, fs::perms::owner_all);
  daemon.start();
  const auto heard = take_all(daemon, 4);
  expect_inbox_empty(daemon);
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const json::value job = daemon.show(jobs[i]);
    SCOPED_TRACE(json::serialize(job));
    EXPECT_TRUE(heard.contains(jobs[i] + (i == 0 ? ".completed.1" : ".failed.1")));
    EXPECT_EQ(number_at(job, "exit.code"), i);
    EXPECT_EQ(text_at(job, "proof"), "subreaper");
    EXPECT_EQ(endings_of(job).size(), 1U);
    EXPECT_EQ(daemon.cli({"logs", "--raw", jobs[i]}).out, "ok\n");
  }
}

TEST(CasesTest, O30_a_client_of_another_protocol_gets_a_plain_sentence) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  client.send(R"({"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":99}})"
              "\n");
  const auto answer = client.line();
  ASSERT_TRUE(answer);
  const json::value value = json::parse(*answer);
  EXPECT_EQ(text_at(value, "error.data.code"), "unsupported_version") << *answer;
  EXPECT_NE(text_at(value, "error.message").find("protocol"), std::string::npos) << *answer;
  EXPECT_EQ(daemon.cli({"status"}).exit_code, 0);
}

}  // namespace
}  // namespace waybill::e2e
