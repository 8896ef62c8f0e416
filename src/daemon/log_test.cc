#include "daemon/log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace waybill::daemon {
namespace {

TEST(Log, text_becomes_a_json_string_whatever_its_bytes) {
  EXPECT_EQ(json_string("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(json_string("h\xC3\xA9 \xF0\x9F\x9A\x9A"), "\"h\xC3\xA9 \xF0\x9F\x9A\x9A\"");
  EXPECT_EQ(json_string("\xFFx\xC3"), "\"\xEF\xBF\xBDx\xEF\xBF\xBD\"");
  EXPECT_EQ(json_string("\xED\xA0\x80"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(Log, I14_is_rotated_at_a_bounded_size) {
  char name[] = "/tmp/waybill-log-XXXXXX";
  const std::string dir = ::mkdtemp(name);
  {
    const auto log = Log::open(dir, false);
    ASSERT_TRUE(log);
    const std::string line(64 * 1024, 'x');
    for (int i = 0; i < 400; ++i) (*log)->info(line);
    (*log)->warn("the {} last");
  }
  std::uintmax_t total = 0;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    total += entry.file_size();
    ++files;
  }
  EXPECT_EQ(files, 3);
  EXPECT_LE(total, 13U * 1024 * 1024);
  std::ifstream file(dir + "/daemon.log");
  std::string line;
  std::string last;
  while (std::getline(file, line)) last = line;
  EXPECT_EQ(last.find("{\"time\":\""), 0U);
  EXPECT_NE(last.find(R"("level":"warning","message":"the {} last"})"), std::string::npos) << last;
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace waybill::daemon
