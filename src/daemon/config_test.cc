#include "daemon/config.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace waybill::daemon {
namespace {

TEST(Config, values_are_text_with_a_unit_or_whole_numbers) {
  Settings settings;
  const auto applied = apply_config(
      settings, "stop_grace = \"7s\"\noutput_cap_bytes = \"8MiB\"\nrunning_per_session = 3\n",
      "c.toml");
  ASSERT_TRUE(applied) << applied.error().message;
  EXPECT_EQ(settings.stop_grace, Millis{7000});
  EXPECT_EQ(settings.output_cap_bytes, 8U * 1024 * 1024);
  EXPECT_EQ(settings.running_per_session, 3U);
}

TEST(Config, unknown_keys_and_wrong_values_name_the_file_and_the_line) {
  for (const char* text : {"# first\nno_such_key = 1\n", "# first\nstop_grace = true\n",
                           "# first\nstop_grace = -1\n", "# first\nstop_grace = \"soon\"\n",
                           "# first\nstop_grace = \n", "# first\n[table]\nx = 1\n"}) {
    Settings settings;
    const auto applied = apply_config(settings, text, "c.toml");
    ASSERT_FALSE(applied) << text;
    EXPECT_EQ(applied.error().code, ErrorCode::bad_request) << text;
    EXPECT_EQ(applied.error().message.find("c.toml:2: "), 0U) << applied.error().message;
  }
}

class ConfigFile : public testing::Test {
 protected:
  ConfigFile() {
    char name[] = "/tmp/waybill-config-XXXXXX";
    dir_ = ::mkdtemp(name);
  }
  ~ConfigFile() override { std::filesystem::remove_all(dir_); }
  void write(const std::string& text) { std::ofstream(dir_ + "/config.toml") << text; }
  std::string dir_;
};

TEST_F(ConfigFile, no_file_means_defaults) {
  const auto settings = load_settings(dir_, {});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->stop_grace, Settings{}.stop_grace);
}

TEST_F(ConfigFile, set_wins_over_the_file) {
  write("stop_grace = \"7s\"\nrunning_per_session = 3\n");
  const auto settings = load_settings(dir_, {{"stop_grace", "9s"}});
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->stop_grace, Millis{9000});
  EXPECT_EQ(settings->running_per_session, 3U);
}

TEST_F(ConfigFile, what_holds_between_settings_is_checked_at_the_end) {
  const auto settings =
      load_settings(dir_, {{"output_cap_bytes", "1MiB"}, {"output_head_bytes", "2MiB"}});
  ASSERT_FALSE(settings);
  EXPECT_EQ(settings.error().code, ErrorCode::bad_request);
}

TEST_F(ConfigFile, a_key_that_is_set_must_exist) {
  const auto settings = load_settings(dir_, {{"no_such_key", "1"}});
  ASSERT_FALSE(settings);
  EXPECT_NE(settings.error().message.find("no_such_key"), std::string::npos);
}

}  // namespace
}  // namespace waybill::daemon
