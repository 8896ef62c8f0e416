// The crash matrix. For every named point of the daemon (kDaemonCrashPoints) and of the supervisor
// (shim::kCrashPoints), and for every passage of it on the way of one job: kill -9 there, start the
// daemon again, go on, and look what became of the promises. Both lists are read here, so a new
// point is in the matrix by itself, and one that no journey passes fails.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "base/crash_point.h"
#include "e2e/harness.h"
#include "shim/crash_points.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

// A host and its job, from attach to the end of the turn. Whatever it calls goes on through crashes
// of the daemon.
class Journey {
 public:
  explicit Journey(const std::vector<std::string>& armed)
      : daemon_(Daemon::Options{.env = armed}),
        runs_(temp_.path() + "/runs"),
        bell_(temp_.path() + "/bell"),
        gate_(temp_.path() + "/gate") {
    daemon_.act_as_host("host");
    daemon_.start();
    first_ = daemon_.pid();
  }

  void attach() { call({"session", "attach"}); }
  void begin() { call({"turn", "begin", "--turn", "t1"}); }

  // The command writes its id, then goes on with `rest`.
  void run(const std::string& owner, const std::string& rest,
           const std::vector<std::string>& flags = {}) {
    const std::string command = "echo $WAYBILL_JOB >> '" + runs_ + "'; " + rest;
    std::vector<std::string> words{"run", "--turn", "t1", "--owner", owner, "--grace", "200ms"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", command});
    launch_ = words;
    const json::value answer = call(words);
    job_ = text_at(answer, "job.id");
  }

  // Hears what the end of the turn hands over, until the turn is closed.
  void end_turn() {
    for (int rounds = 0; rounds < kRoundsMax; ++rounds) {
      const json::value answer =
          call({"turn", "end", "--turn", "t1", "--wait", "--timeout", "60s"});
      for (const json::value& message : items_at(answer, "messages")) hear(message);
      const std::string state = text_at(answer, "state");
      if (state == "closed") return;
      ASSERT_EQ(state, "open") << json::serialize(answer);
    }
    ADD_FAILURE() << "the turn does not close";
  }

  void take_inbox() {
    while (heard_.empty()) {
      const Output output = daemon_.cli_through_crashes({"--json", "inbox", "--timeout", "60s"});
      ASSERT_EQ(output.exit_code, 0) << output.describe();
      if (!output.out.empty()) hear(output.json());
    }
  }

  void acknowledge() {
    for (const auto& [event, times] : heard_) call({"ack", event});
  }

  // Not made again when the daemon dies under it: what it had recorded must be enough.
  void close_input() { daemon_.cli({"write", job_, "--close"}); }

  void stop() { call({"stop", job_, "--reason", "test", "--wait", "--timeout", "60s"}); }

  void prune() { call({"prune", "--older-than", "0s"}); }

  // The launch once more, word by word.
  Output run_again() { return daemon_.cli(launch_); }

  Gate& gate() { return gate_; }
  Bell& bell() { return bell_; }
  bool crashed() const { return daemon_.pid() != first_; }
  // Notices a crash after the last call.
  void settle() { daemon_.cli_through_crashes({"status"}); }

  json::value job() { return at(call({"show", job_}), "job"); }
  std::string runs() const { return read_file(runs_); }
  const std::string& job_id() const { return job_; }
  const std::map<std::string, int>& heard() const { return heard_; }
  json::value session() { return at(call({"session", "show"}), "session"); }
  Daemon& daemon() { return daemon_; }

 private:
  static constexpr int kRoundsMax = 8;

  json::value call(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "--json");
    const Output output = daemon_.cli_through_crashes(arguments);
    EXPECT_EQ(output.exit_code, 0) << arguments[1] << ": " << output.describe();
    return output.json();
  }

  // I3: what is heard again has the same id and says that it is a repeat.
  void hear(const json::value& hand_over) {
    for (const json::value& event : items_at(hand_over, "events")) {
      const int times = ++heard_[text_at(event, "id")];
      EXPECT_TRUE(times == 1 || at(event, "repeat").as_bool()) << json::serialize(event);
    }
  }

  TempDir temp_;
  Daemon daemon_;
  pid_t first_ = -1;
  std::string runs_;
  Bell bell_;
  Gate gate_;
  std::string job_;
  std::vector<std::string> launch_;
  std::map<std::string, int> heard_;
};

// ---- the ways of one job -----------------------------------------------------------------------

// A job of the turn, heard at its end.
void turn_journey(Journey& journey) {
  journey.attach();
  journey.begin();
  journey.run("turn", "exit 3");
  journey.end_turn();
  journey.acknowledge();
}

// A job of the session, heard through the inbox.
void inbox_journey(Journey& journey) {
  journey.attach();
  journey.begin();
  journey.run("session", "exit 3");
  journey.take_inbox();
  journey.acknowledge();
  journey.end_turn();
}

// A job that leaves a process behind, which holds its output.
void leftover_journey(Journey& journey) {
  journey.attach();
  journey.begin();
  journey.run("turn", "sleep 300 & exit 3");
  journey.end_turn();
  journey.acknowledge();
}

// A job that is stopped by its owner; it ignores TERM.
void stop_journey(Journey& journey) {
  journey.attach();
  journey.begin();
  journey.run("turn", "trap '' TERM; " + journey.bell().command("up") + "; sleep 300");
  ASSERT_TRUE(journey.bell().word()) << "the job was not started";
  journey.stop();
  journey.end_turn();
}

// A job with a monitor, which tells of a line before the job ends.
void monitor_journey(Journey& journey) {
  journey.attach();
  journey.begin();
  journey.run("turn", "echo boom; " + journey.gate().command() + "; exit 3", {"--monitor", "boom"});
  journey.take_inbox();
  journey.gate().open();
  journey.end_turn();
  journey.acknowledge();
}

// A job that waits for the end of its input.
void input_journey(Journey& journey) {
  journey.attach();
  journey.begin();
  journey.run("turn", "cat; exit 3", {"--stdin"});
  journey.close_input();
  journey.settle();
  journey.end_turn();
  journey.acknowledge();
}

// A job that is over, heard and removed.
void prune_journey(Journey& journey) {
  journey.attach();
  journey.begin();
  journey.run("session", "exit 3", {"--key", "once"});
  journey.take_inbox();
  journey.acknowledge();
  journey.end_turn();
  journey.prune();
}

struct Way {
  const char* name;
  void (*go)(Journey&);
};

const Way kWays[] = {{"turn", turn_journey},          {"inbox", inbox_journey},
                     {"leftovers", leftover_journey}, {"input", input_journey},
                     {"stop", stop_journey},          {"monitor", monitor_journey},
                     {"prune", prune_journey}};

const Way& way_named(std::string_view name) {
  return *std::ranges::find_if(kWays, [&](const Way& way) { return way.name == name; });
}

// The shortest way that passes a point.
const Way& way_to(std::string_view point) {
  const auto speaks_of = [&](std::string_view word) {
    return point.find(word) != std::string_view::npos;
  };
  if (speaks_of("prune")) return way_named("prune");
  if (speaks_of("in_close")) return way_named("input");
  if (speaks_of("stop") || speaks_of("ctl")) return way_named("stop");
  if (speaks_of("leftovers") || speaks_of("draining")) return way_named("leftovers");
  if (speaks_of("monitor")) return way_named("monitor");
  if (speaks_of("inbox")) return way_named("inbox");
  return way_named("turn");
}

std::string test_name(std::string_view point) {
  std::string name(point);
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

// ---- what must be true afterwards --------------------------------------------------------------

// Nothing lost, nothing doubled: one ending, its event acknowledged, the turn closed.
void audit_delivery(Journey& journey, const json::value& job, bool monitored = false) {
  EXPECT_EQ(endings_of(job).size(), 1U) << "I4";
  const json::value session = journey.session();
  EXPECT_TRUE(at(session, "turn").is_null()) << json::serialize(session);
  EXPECT_EQ(number_at(session, "undelivered"), 0);
  EXPECT_EQ(number_at(session, "running_jobs"), 0);
  json::value events = at(job, "events");
  if (monitored) {  // one event more, before that of the end
    ASSERT_EQ(events.get_array().size(), 2U);
    EXPECT_EQ(text_at(events, "0.id"), journey.job_id() + ".monitor.1");
    EXPECT_EQ(text_at(events, "0.state"), "acked") << "I2";
    EXPECT_EQ(journey.heard().count(text_at(events, "0.id")), 1U);
    events.get_array().erase(events.get_array().begin());
  }
  if (text_at(job, "status") == "stopped") {  // by its owner, who needs no news of it
    EXPECT_TRUE(events.get_array().empty());
    EXPECT_TRUE(journey.heard().empty());
    return;
  }
  ASSERT_EQ(events.get_array().size(), 1U);
  EXPECT_EQ(text_at(events, "0.id"), journey.job_id() + "." + endings_of(job).front() + ".1");
  EXPECT_EQ(text_at(events, "0.state"), "acked") << "I2";
  // Told in the answer to its owner's stop, or handed over.
  const bool reported = text_at(events, "0.acked_as") == "reported";
  const std::size_t others = monitored ? 1 : 0;
  EXPECT_EQ(journey.heard().size(), others + (reported ? 0U : 1U)) << "I3";
  EXPECT_EQ(journey.heard().count(text_at(events, "0.id")), reported ? 0U : 1U);
}

// Heard once and gone, with its files, and its key still speaks.
void audit_pruned(Journey& journey) {
  EXPECT_EQ(journey.runs(), journey.job_id() + "\n") << "I10";
  EXPECT_EQ(journey.heard().size(), 1U) << "I2, I3";
  Daemon& daemon = journey.daemon();
  EXPECT_EQ(daemon.cli({"show", journey.job_id()}).exit_code, 121);
  EXPECT_FALSE(std::filesystem::exists(daemon.data_dir() + "/jobs/" + journey.job_id()));
  EXPECT_EQ(number_at(journey.session(), "undelivered"), 0);
  const Output again = journey.run_again();
  EXPECT_EQ(again.exit_code, 121) << again.describe();
  EXPECT_NE(again.err.find("[not_found]"), std::string::npos) << again.err;
  EXPECT_EQ(journey.runs(), journey.job_id() + "\n") << "I10";
}

// What is true although a daemon died: the supervisor was there all the time.
void audit_daemon_crash(Journey& journey, const Way& way) {
  const json::value job = journey.job();
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(journey.runs(), journey.job_id() + "\n") << "I10";
  audit_delivery(journey, job, std::string_view(way.name) == "monitor");
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
  if (std::string_view(way.name) == "stop") {
    EXPECT_EQ(text_at(job, "status"), "stopped");
    EXPECT_EQ(text_at(job, "reason"), "test");
    return;
  }
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(number_at(job, "exit.code"), 3);
}

// The supervisor died: unknown is allowed, a second run and a lost end are not (I9, I10).
void audit_shim_crash(Journey& journey) {
  const json::value job = journey.job();
  SCOPED_TRACE(json::serialize(job));
  const std::string runs = journey.runs();
  EXPECT_TRUE(runs.empty() || runs == journey.job_id() + "\n") << runs;
  audit_delivery(journey, job);
  const std::string kind = text_or_empty_at(job, "exit.kind");
  const std::string status = text_at(job, "status");
  EXPECT_NE(status, "succeeded");
  if (kind == "exited") {
    EXPECT_EQ(number_at(job, "exit.code"), 3);
  } else {
    EXPECT_TRUE(at(job, "exit.code").is_null());
  }
  // Stopped is claimed with proof only (I7).
  if (status == "stopped") {
    EXPECT_NE(text_at(job, "proof"), "unproven");
  }
  if (status == "failed" && kind == "unknown") {
    EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
  }
}

// ---- the daemon --------------------------------------------------------------------------------

class DaemonCrashTest : public ::testing::TestWithParam<std::string_view> {};

// Every passage of the point on this way; how many there were.
int crash_at_every_passage(std::string_view point, const Way& way) {
  constexpr int kPassagesMax = 16;
  for (int passage = 1; passage <= kPassagesMax; ++passage) {
    SCOPED_TRACE("passage " + std::to_string(passage) + " on the way " + way.name);
    Journey journey({"WAYBILL_CRASH=" + std::string(point) + ":" + std::to_string(passage)});
    way.go(journey);
    if (::testing::Test::HasFailure()) return passage;
    journey.settle();
    if (!journey.crashed()) return passage - 1;
    if (std::string_view(way.name) == "prune") {
      audit_pruned(journey);
    } else {
      audit_daemon_crash(journey, way);
    }
    if (::testing::Test::HasFailure()) return passage;
  }
  return kPassagesMax;
}

TEST_P(DaemonCrashTest, I2_I3_I4_I10_hold_through_a_crash) {
  const int passages = crash_at_every_passage(GetParam(), way_to(GetParam()));
  EXPECT_GE(passages, 1) << "no journey passes this point; add one";
  RecordProperty("passages", passages);
}

// What only an agent client passes is in the matrix of clients_test.cc.
std::vector<std::string_view> points_of_a_job() {
  std::vector<std::string_view> points(kDaemonCrashPoints.begin(), kDaemonCrashPoints.end());
  std::erase_if(points, [](std::string_view point) { return point.starts_with("client."); });
  return points;
}

INSTANTIATE_TEST_SUITE_P(Points, DaemonCrashTest, ::testing::ValuesIn(points_of_a_job()),
                         [](const auto& row) { return test_name(row.param); });

// ---- the supervisor ----------------------------------------------------------------------------

class ShimCrashTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(ShimCrashTest, I2_I7_I9_I10_hold_when_the_supervisor_dies) {
  const Way& way = way_to(GetParam());
  Journey journey({"WAYBILL_CRASH_SHIM=" + std::string(GetParam())});
  way.go(journey);
  audit_shim_crash(journey);
}

// The daemon dies just after it has started a supervisor that dies, too: only files are left.
TEST_P(ShimCrashTest, I2_I7_I9_I10_hold_when_daemon_and_supervisor_die) {
  const Way& way = way_to(GetParam());
  Journey journey(
      {"WAYBILL_CRASH_SHIM=" + std::string(GetParam()), "WAYBILL_CRASH=supervise.after_spawn"});
  way.go(journey);
  EXPECT_TRUE(journey.crashed());
  audit_shim_crash(journey);
}

INSTANTIATE_TEST_SUITE_P(Points, ShimCrashTest, ::testing::ValuesIn(shim::kCrashPoints),
                         [](const auto& row) { return test_name(row.param); });

// ---- started by itself -------------------------------------------------------------------------

TEST(CrashTest, I2_the_next_call_starts_the_daemon_that_died) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("host");
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  const std::string id = daemon.accept(gate.command() + "; exit 3");
  daemon.kill_9();
  gate.open();
  Launch wait = daemon.command({"wait", id, "--timeout", "60s"});
  std::erase(wait.argv, "--no-autostart");
  const Output output = run(std::move(wait));
  EXPECT_EQ(output.exit_code, 3) << output.describe();
  EXPECT_EQ(endings_of(daemon.show(id)), std::vector<std::string>{"failed"});
  EXPECT_EQ(daemon.cli({"shutdown"}).exit_code, 0);
}

}  // namespace
}  // namespace waybill::e2e
