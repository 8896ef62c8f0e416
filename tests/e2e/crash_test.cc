// The crash matrix. For every named point of the daemon (kDaemonCrashPoints) and of the supervisor
// (shim::kCrashPoints): kill -9 there, start the daemon again, go on, and look what became of the
// promises. Both lists are read here, so a new point is in the matrix by itself, and one that no
// journey passes fails. This is the part that continuous integration runs: each point on its
// shortest way; crash_matrix_test.cc has all passages on all ways.

#include <gtest/gtest.h>

#include <algorithm>

#include "base/crash_point.h"
#include "e2e/journey.h"
#include "shim/crash_points.h"

namespace waybill::e2e {
namespace {

std::vector<std::string> die_at(std::string_view point, int passage = 1) {
  return {"WAYBILL_CRASH=" + std::string(point) + ":" + std::to_string(passage)};
}

std::string name_of(const ::testing::TestParamInfo<std::string_view>& row) {
  return test_name(row.param);
}

Journey::Options options_of(const Way& way) {
  Journey::Options options;
  options.settings = way.settings;
  options.loses_supervisor = way.loses_supervisor;
  return options;
}

// Passed only by a daemon that starts.
bool of_a_start(std::string_view point) {
  return point.starts_with("open.") || point.starts_with("start.") || point == "supervise.attached";
}

// ---- the daemon --------------------------------------------------------------------------------

class DaemonCrashTest : public ::testing::TestWithParam<std::string_view> {};

// On its way, and the second time it comes by.
TEST_P(DaemonCrashTest, I2_I3_I4_I10_hold_through_a_crash) {
  const Way& way = way_to(GetParam());
  for (int passage = 1; passage <= 2; ++passage) {
    SCOPED_TRACE("passage " + std::to_string(passage) + " on the way " + std::string(way.name));
    Journey::Options options = options_of(way);
    options.envs = {die_at(GetParam(), passage)};
    Journey journey(std::move(options));
    way.go(journey);
    if (HasFatalFailure()) return;
    journey.settle();
    if (passage == 1) {
      ASSERT_GE(journey.deaths(), 1) << "no journey passes this point; add one";
    }
    journey.audit();
    if (journey.deaths() == 0 || HasFailure()) return;
  }
}

// What only an agent client passes is in the matrix of client_crash_test.cc, and backups and their
// return are in store_test.cc.
std::vector<std::string_view> points_of_a_job() {
  std::vector<std::string_view> points(kDaemonCrashPoints.begin(), kDaemonCrashPoints.end());
  std::erase_if(points, [](std::string_view point) {
    return point.starts_with("client.") || point.starts_with("backup.") ||
           point.starts_with("reconcile.") || of_a_start(point);
  });
  return points;
}

INSTANTIATE_TEST_SUITE_P(Points, DaemonCrashTest, ::testing::ValuesIn(points_of_a_job()), name_of);

// ---- a daemon that starts ----------------------------------------------------------------------

// The first daemon dies while a job runs, the second in its recovery, the third recovers.
class RecoveryCrashTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(RecoveryCrashTest, I2_I3_I4_I10_hold_through_a_crash_in_the_recovery) {
  const Way& way = way_to(GetParam());
  Journey::Options options = options_of(way);
  const std::string_view first =
      way.loses_supervisor ? "supervise.shim_ended" : "engine.facts.after_commit";
  options.envs = {die_at(first), die_at(GetParam())};
  Journey journey(std::move(options));
  way.go(journey);
  journey.settle();
  EXPECT_GE(journey.deaths(), 2) << "no recovery passes this point";
  journey.audit();
}

std::vector<std::string_view> points_of_a_recovery() {
  std::vector<std::string_view> points;
  for (const std::string_view point : kDaemonCrashPoints) {
    if (of_a_start(point) || point.starts_with("orphan.") || point.starts_with("owed.supervise")) {
      points.push_back(point);
    }
  }
  return points;
}

INSTANTIATE_TEST_SUITE_P(Points, RecoveryCrashTest, ::testing::ValuesIn(points_of_a_recovery()),
                         name_of);

// The very first start of all: there is no store yet, or half of one.
class FirstStartCrashTest : public ::testing::TestWithParam<std::string_view> {};

TEST_P(FirstStartCrashTest, I2_the_next_daemon_serves) {
  const Way& way = way_named("turn");
  Journey::Options options = options_of(way);
  options.envs = {die_at(GetParam()), die_at(GetParam())};
  Journey journey(std::move(options));
  EXPECT_EQ(journey.deaths(), 2);
  way.go(journey);
  journey.audit();
}

std::vector<std::string_view> points_of_a_start() {
  std::vector<std::string_view> points = points_of_a_recovery();
  std::erase_if(points, [](std::string_view point) {
    return !point.starts_with("open.") && !point.starts_with("start.");
  });
  return points;
}

INSTANTIATE_TEST_SUITE_P(Points, FirstStartCrashTest, ::testing::ValuesIn(points_of_a_start()),
                         name_of);

// ---- the supervisor ----------------------------------------------------------------------------

class ShimCrashTest : public ::testing::TestWithParam<std::string_view> {
 protected:
  Journey::Options dying_supervisor() const {
    Journey::Options options = options_of(way_);
    options.loses_supervisor = true;
    options.envs = {{"WAYBILL_CRASH_SHIM=" + std::string(GetParam())}};
    return options;
  }
  // Its successors are to have their supervisors die, too, should they have to launch.
  void and_daemon_at(Journey::Options& options, const std::string& point) const {
    options.envs[0].push_back("WAYBILL_CRASH=" + point);
  }

  const Way& way_ = way_to(GetParam());
};

TEST_P(ShimCrashTest, I2_I7_I9_I10_hold_when_the_supervisor_dies) {
  Journey journey(dying_supervisor());
  way_.go(journey);
  EXPECT_TRUE(journey.supervisor_killed()) << "no journey passes this point; add one";
  journey.audit();
}

// The daemon dies just after it has started a supervisor that dies, too: only files are left.
TEST_P(ShimCrashTest, I2_I7_I9_I10_hold_when_daemon_and_supervisor_die) {
  Journey::Options options = dying_supervisor();
  and_daemon_at(options, "supervise.after_spawn");
  Journey journey(std::move(options));
  way_.go(journey);
  EXPECT_GE(journey.deaths(), 1);
  journey.audit();
}

// The daemon dies when it learns of that death, before it has done anything about it.
TEST_P(ShimCrashTest, I2_I7_I9_I10_hold_when_the_daemon_dies_of_its_supervisors_death) {
  Journey::Options options = dying_supervisor();
  and_daemon_at(options, "supervise.shim_ended");
  Journey journey(std::move(options));
  way_.go(journey);
  // The job may be heard and done with before its supervisor has ended.
  if (journey.deaths() == 0) journey.daemon().wait_for_end();
  journey.settle();
  EXPECT_GE(journey.deaths(), 1);
  journey.audit();
}

INSTANTIATE_TEST_SUITE_P(Points, ShimCrashTest, ::testing::ValuesIn(shim::kCrashPoints), name_of);

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
