// kill -9 of the daemon at every point that only an agent client passes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/crash_point.h"
#include "e2e/harness.h"
#include "e2e/scripted_client.h"

namespace waybill::e2e {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

std::vector<std::string_view> client_points() {
  std::vector<std::string_view> points(kDaemonCrashPoints.begin(), kDaemonCrashPoints.end());
  std::erase_if(points, [](std::string_view point) { return !point.starts_with("client."); });
  return points;
}

std::string point_name(std::string_view point) {
  std::string name(point);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

// A client that is closed and started again, from its start to what the started one heard. The
// daemon dies on the way; whoever asks next starts another.
class ClientCrashTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(ClientCrashTest, I2_I3_hold_when_the_daemon_dies) {
  TempDir temp;
  Bell bell(temp.path() + "/bell");
  Gate gate(temp.path() + "/gate");
  Daemon daemon({.env = {"WAYBILL_CRASH=" + std::string(GetParam())}});
  daemon.start();
  const pid_t first = daemon.pid();
  ScriptedClient client(
      daemon, {"claude",
               "33333333-cccc",
               temp.path(),
               {"SCRIPTED_LOG=" + temp.path() + "/bell", "SCRIPTED_WAYBILL=" + waybill_program(),
                "SCRIPTED_DATA=" + daemon.data_dir()}});
  client.flags({"--resume-when-closed"});
  client.start();
  client.prompt("t1");
  const std::string job = client.start_job("t1", gate.command());
  client.stop("t1");
  client.flags({});
  client.hook("SessionEnd", {{"reason", "other"}});
  client.finish();
  gate.open();
  EXPECT_TRUE(await_end(first)) << "no journey passes the point";
  EXPECT_TRUE(daemon.crashed());
  daemon.set_daemon_env({});
  // Where it died last, nobody else is there to start a daemon.
  const Output shown = run(daemon.command({"--json", "status"}));
  if (shown.exit_code != 0) daemon.start();
  const auto line = bell.word();
  ASSERT_TRUE(line) << "the client was not started";
  EXPECT_THAT(text_at(json::parse(*line), "heard.0"), HasSubstr(job));
  const json::value jobs = daemon.json({"list", "--session", "user"});
  ASSERT_EQ(items_at(jobs, "jobs").size(), 1U) << "started once";
  EXPECT_EQ(daemon.cli({"wait", text_at(jobs, "jobs.0.id"), "--session", "user"}).exit_code, 0);
  await_state(daemon, client, job, "acked");
  const json::value after = daemon.json({"show", job, "--session", client.session()});
  EXPECT_EQ(text_at(after, "job.events.0.state"), "acked");
  EXPECT_EQ(endings_of(at(after, "job")).size(), 1U);
  EXPECT_EQ(daemon.cli({"shutdown"}).exit_code, 0);
}

INSTANTIATE_TEST_SUITE_P(Points, ClientCrashTest, ::testing::ValuesIn(client_points()),
                         [](const auto& row) { return point_name(row.param); });

}  // namespace
}  // namespace waybill::e2e
