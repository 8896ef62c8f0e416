// Monitors through the whole program: lines of a running job's output, told as they come.

#include <gtest/gtest.h>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;

// The next hand-over of the session's host.
json::value take(Daemon& daemon) {
  const Output output = daemon.cli({"--json", "inbox", "--timeout", "60s"});
  EXPECT_EQ(output.exit_code, 0) << output.describe();
  return output.json();
}

TEST(MonitorsTest, I2_lines_that_fit_are_told_while_the_job_runs) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("host");
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  daemon.json({"session", "attach"});
  daemon.json({"turn", "begin", "--turn", "t1"});
  const std::string id = daemon.accept(
      "printf 'building\\n\\033[31merror:\\033[0m \\303\\244\\nall done\\n'; " + gate.command(),
      {"--monitor", "^error: ä$", "--monitor", "no such line"});
  const json::value told = take(daemon);
  ASSERT_EQ(items_at(told, "events").size(), 1U) << json::serialize(told);
  EXPECT_EQ(text_at(told, "events.0.type"), "job.monitor");
  EXPECT_EQ(text_at(told, "events.0.id"), id + ".monitor.1");
  EXPECT_EQ(number_at(told, "events.0.monitor.number"), 1);
  EXPECT_EQ(text_at(told, "events.0.tail"), "error: ä\n");
  EXPECT_EQ(text_at(told, "events.0.job.status"), "running");
  EXPECT_NE(text_at(told, "text").find("error: ä"), std::string::npos) << text_at(told, "text");
  EXPECT_NE(text_at(told, "text").find("monitor 1"), std::string::npos) << text_at(told, "text");
  daemon.cli({"ack", text_at(told, "events.0.id")});

  // Not told twice, also not by a daemon that comes back.
  daemon.restart();
  daemon.json({"session", "attach"});
  daemon.json({"turn", "resume", "--turn", "t1"});
  gate.open();
  const json::value end = take(daemon);
  ASSERT_EQ(items_at(end, "events").size(), 1U) << json::serialize(end);
  EXPECT_EQ(text_at(end, "events.0.type"), "job.completed");
  const json::value job = daemon.show(id);
  EXPECT_EQ(number_at(job, "monitors.0.events"), 1);
  EXPECT_EQ(number_at(job, "monitors.1.lines"), 0);
}

TEST(MonitorsTest, I14_a_flood_of_lines_is_few_events) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("host");
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  daemon.json({"session", "attach"});
  daemon.json({"turn", "begin", "--turn", "t1"});
  const std::string id =
      daemon.accept("seq 1 200000; " + gate.command() + "; echo end; " + gate.command(),
                    {"--monitor", "", "--monitor-events", "2", "--monitor-rate", "600"});
  std::int64_t lines = 0;
  json::value told = take(daemon);
  EXPECT_LE(text_at(told, "events.0.tail").size(), 4096U);
  lines += number_at(told, "events.0.monitor.lines");
  gate.open();
  told = take(daemon);
  lines += number_at(told, "events.0.monitor.lines");
  EXPECT_NE(text_at(told, "text").find("the last of its 2 events"), std::string::npos);
  EXPECT_GE(number_at(told, "events.0.monitor.untold"), 0);
  gate.open();
  EXPECT_EQ(text_at(daemon.finished(id), "status"), "succeeded");
  const json::value job = daemon.show(id);
  EXPECT_EQ(number_at(job, "monitors.0.events"), 2);
  EXPECT_EQ(number_at(job, "monitors.0.lines"), lines);
}

TEST(MonitorsTest, I14_patterns_that_cannot_be_are_refused) {
  Daemon daemon;
  daemon.start();
  const Output pattern = daemon.cli({"run", "--monitor", "(", "--", "true"});
  EXPECT_EQ(pattern.exit_code, 120) << pattern.describe();
  EXPECT_NE(pattern.err.find("regular expression"), std::string::npos) << pattern.err;
  std::vector<std::string> many{"run"};
  for (int i = 0; i < 6; ++i) many.insert(many.end(), {"--monitor", "x"});
  many.insert(many.end(), {"--", "true"});
  const Output refused = daemon.cli(many);
  EXPECT_EQ(refused.exit_code, 121) << refused.describe();
  EXPECT_EQ(daemon.cli({"run", "--monitor-rate", "5", "--", "true"}).exit_code, 120);
  EXPECT_TRUE(items_at(daemon.json({"list"}), "jobs").empty());
}

}  // namespace
}  // namespace waybill::e2e
