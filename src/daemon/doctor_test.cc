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

TEST(Doctor, free_space_is_judged_by_size_and_share) {
  constexpr std::uint64_t kMebibyte = 1024 * 1024;
  const auto level = [](std::uint64_t free_mebibytes, std::uint64_t all_mebibytes) {
    return judge_space("/d", free_mebibytes * kMebibyte, all_mebibytes * kMebibyte).level;
  };
  EXPECT_EQ(level(15, 100), Level::problem);
  EXPECT_EQ(level(16, 100), Level::ok);
  EXPECT_EQ(level(19, 1000), Level::warning);
  EXPECT_EQ(level(20, 1000), Level::ok);
  EXPECT_EQ(level(511, 1000000), Level::warning);
  EXPECT_EQ(level(512, 1000000), Level::ok);
}

}  // namespace
}  // namespace waybill::daemon
