#include "daemon/doctor.h"

#include <gtest/gtest.h>

#include "engine/output_room.h"

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

TEST(Doctor, I14_free_space_is_judged_by_the_floor_in_force) {
  constexpr std::uint64_t kMebibyte = 1024 * 1024;
  Settings settings;
  const auto level = [&](std::uint64_t free_mebibytes, std::uint64_t all_mebibytes) {
    const supervise::DiskSpace space{all_mebibytes * kMebibyte, free_mebibytes * kMebibyte};
    return judge_space("/d", space, engine::floor_in_force(settings, space)).level;
  };
  EXPECT_EQ(level(1, 100), Level::problem);
  EXPECT_EQ(level(2, 100), Level::warning);
  EXPECT_EQ(level(4, 100), Level::ok);
  EXPECT_EQ(level(19, 1000), Level::problem);
  EXPECT_EQ(level(511, 1000000), Level::problem);
  EXPECT_EQ(level(512, 1000000), Level::warning);
  EXPECT_EQ(level(1024, 1000000), Level::ok);
  settings.free_space_floor_bytes = 50 * kMebibyte;
  EXPECT_EQ(level(49, 1000), Level::problem);
  EXPECT_EQ(level(100, 1000), Level::ok);
}

}  // namespace
}  // namespace waybill::daemon
