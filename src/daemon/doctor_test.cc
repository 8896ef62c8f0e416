#include "daemon/doctor.h"

#include <gtest/gtest.h>

namespace waybill::daemon {
namespace {

using Level = edge::Finding::Level;

TEST(Doctor, survival_is_judged_by_where_the_daemon_runs) {
  EXPECT_EQ(judge_survival("/user.slice/user-1000.slice/session-3.scope", true, false).level,
            Level::warning);
  EXPECT_EQ(
      judge_survival("/user.slice/user-1000.slice/user@1000.service/app.slice", true, false).level,
      Level::warning);
  EXPECT_EQ(
      judge_survival("/user.slice/user-1000.slice/user@1000.service/app.slice", true, true).level,
      Level::ok);
  EXPECT_EQ(judge_survival("/system.slice/waybill.service", true, false).level, Level::ok);
  EXPECT_EQ(judge_survival("/", false, false).level, Level::ok);
}

}  // namespace
}  // namespace waybill::daemon
