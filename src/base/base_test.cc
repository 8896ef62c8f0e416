#include <gtest/gtest.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/sha256.h"

namespace waybill {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

TEST(Clock, durations_are_written_in_the_usual_ways) {
  EXPECT_EQ(parse_duration("90s"), Millis(90'000));
  EXPECT_EQ(parse_duration("1h30m"), Millis(minutes(90)));
  EXPECT_EQ(parse_duration("0.5s"), Millis(500));
  EXPECT_EQ(parse_duration("250ms"), Millis(250));
  EXPECT_EQ(parse_duration("3"), Millis(3000));
  for (const char* bad : {"", "s", "-1s", "1x", "1s ", "nan", "inf", "1e400s", "99999999999999d"}) {
    EXPECT_FALSE(parse_duration(bad)) << bad;
  }
}

TEST(Clock, sizes_know_both_powers) {
  EXPECT_EQ(parse_size("64MiB"), 64ULL * 1024 * 1024);
  EXPECT_EQ(parse_size("10kB"), 10'000ULL);
  EXPECT_EQ(parse_size("4096"), 4096ULL);
  for (const char* bad : {"", "MiB", "-1", "1 MiB", "1MiB1", "1QiB"})
    EXPECT_FALSE(parse_size(bad)) << bad;
}

TEST(Clock, times_are_rfc_3339_with_milliseconds) {
  EXPECT_EQ(format_rfc3339(WallTime(Millis(0))), "1970-01-01T00:00:00.000Z");
  EXPECT_EQ(format_rfc3339(WallTime(Millis(1'796'040'000'123))), "2026-11-30T12:00:00.123Z");
}

TEST(Error, every_code_has_one_word_and_finds_its_way_back) {
  for (int i = 0; i <= static_cast<int>(ErrorCode::unavailable); ++i) {
    const auto code = static_cast<ErrorCode>(i);
    EXPECT_EQ(error_code_from_word(to_word(code)), code);
    EXPECT_GE(traits(code).exit_code, 120);
    EXPECT_LE(traits(code).exit_code, 123);
  }
  EXPECT_FALSE(error_code_from_word("no_such_code"));
}

TEST(Ids, chosen_ids_are_bounded_and_printable) {
  EXPECT_TRUE(check_id("claude:0f3a/main", "session"));
  EXPECT_FALSE(check_id("", "session"));
  EXPECT_FALSE(check_id("a b", "session"));
  EXPECT_FALSE(check_id(std::string_view("a\0b", 3), "session"));
  EXPECT_FALSE(check_id("\xff", "session"));
  EXPECT_EQ(check_id(std::string(kIdBytesMax + 1, 'a'), "session").error().code,
            ErrorCode::too_large);
}

TEST(Ids, sortable_ids_sort_by_time) {
  const unsigned char random[10] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  const std::string early = make_sortable_id("j", 1000, random);
  const std::string late = make_sortable_id("j", 1001, random);
  EXPECT_LT(early, late);
  EXPECT_EQ(early.size(), 27U);
}

TEST(Settings, I14_every_setting_is_bounded_and_unknown_ones_are_refused) {
  Settings settings;
  EXPECT_TRUE(check_settings(settings));
  for (const SettingField& field : setting_fields()) {
    EXPECT_FALSE(set_setting(settings, field.key, field.max + 1)) << field.key;
    EXPECT_TRUE(set_setting(settings, field.key, get_setting(settings, field))) << field.key;
  }
  EXPECT_FALSE(set_setting(settings, "no_such_setting", "1"));
  for (const char* bad : {"", "on", "relative/path", "/"}) {
    EXPECT_FALSE(set_setting(settings, "cgroup_root", bad)) << bad;
  }
  EXPECT_TRUE(set_setting(settings, "cgroup_root", "/sys/fs/cgroup/jobs/"));
  EXPECT_EQ(settings.cgroup_root, "/sys/fs/cgroup/jobs");
  EXPECT_FALSE(set_setting(settings, "stop_grace", "soon"));
  EXPECT_TRUE(set_setting(settings, "stop_grace", "2s"));
  EXPECT_EQ(settings.stop_grace, Millis(2000));
}

TEST(Sha256, both_ways_agree_on_every_length) {
  if (best_sha256_way() == Sha256Way::portable) GTEST_SKIP() << "the processor has no SHA";
  std::string text;
  for (int length = 0; length < 600; ++length) {
    Sha256 quick(Sha256Way::processor);
    Sha256 plain(Sha256Way::portable);
    // In uneven pieces, so that the block that is held is mixed with those that are not.
    const std::size_t first = static_cast<std::size_t>(length) / 3;
    quick.update(text.data(), first);
    quick.update(text.data() + first, text.size() - first);
    plain.update(text.data(), text.size());
    char a[65];
    char b[65];
    quick.finish_hex(a);
    plain.finish_hex(b);
    ASSERT_STREQ(a, b) << length;
    text.push_back(static_cast<char>(length * 37));
  }
}

}  // namespace
}  // namespace waybill
