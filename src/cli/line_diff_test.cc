#include "cli/line_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace waybill::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(LineDiff, OnlyWhatIsNewIsShown) {
  EXPECT_EQ(line_diff("a\n", "a\n"), "");
  EXPECT_EQ(line_diff(std::nullopt, "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
  EXPECT_EQ(line_diff("a\nb\nc\n", "a\nc\n"), "@@ -2,1 +1,0 @@\n-b\n");
  EXPECT_EQ(
      line_diff("{\n  \"key\": \"secret\"\n}\n", "{\n  \"key\": \"secret\",\n  \"x\": 1\n}\n"),
      "@@ -2,1 +2,2 @@\n-…\n+…,\n+  \"x\": 1\n");
  EXPECT_EQ(line_diff("{\"key\":\"secret\"}", "{\"key\":\"secret\",\"x\":1}"),
            "@@ -1,1 +1,1 @@\n-…\n+…,\"x\":1…\n");
}

TEST(LineDiff, AReplacedStringIsShownWhole) {
  EXPECT_EQ(line_diff("k=\"s\", \"/a/waybill hook\", z", "k=\"s\", \"/bc/waybill hook\", z"),
            "@@ -1,1 +1,1 @@\n-…\"/a/waybill hook\"…\n+…\"/bc/waybill hook\"…\n");
  EXPECT_EQ(line_diff("xé", "xè"), "@@ -1,1 +1,1 @@\n-…é\n+…è\n");
}

TEST(LineDiff, ManyLinesAreCounted) {
  std::string many;
  for (int i = 0; i < 5000; ++i) many += std::to_string(i) + "\n";
  EXPECT_EQ(line_diff(many, "x\n"), "@@ 5000 lines become 1, too many to show @@\n");
  EXPECT_EQ(line_diff(many, many + "x\n"), "@@ -5000,0 +5001,1 @@\n+x\n");
}

// Whole lines only, no two of which share a character, so that nothing is elided.
std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string patched(const std::string& before, const std::string& diff) {
  const std::vector<std::string> old = lines_of(before);
  std::string out;
  std::size_t next = 0;
  for (const std::string& line : lines_of(diff)) {
    if (line.starts_with('@')) {
      std::size_t first = 0;
      std::size_t count = 0;
      EXPECT_EQ(std::sscanf(line.c_str(), "@@ -%zu,%zu", &first, &count), 2);
      const std::size_t until = count == 0 ? first : first - 1;
      while (next < until) out += old.at(next++) + "\n";
    } else if (line.starts_with('-')) {
      EXPECT_EQ(old.at(next++), line.substr(1));
    } else {
      out += line.substr(1) + "\n";
    }
  }
  while (next < old.size()) out += old.at(next++) + "\n";
  return out;
}

TEST(LineDiff, AnyDiffGivesTheNewText) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string texts[2];
    for (std::string& text : texts) {
      for (std::size_t n = random() % 12; n > 0; --n) {
        text += static_cast<char>('a' + random() % 4);
        text += '\n';
      }
    }
    EXPECT_EQ(patched(texts[0], line_diff(texts[0], texts[1])), texts[1]);
  }
}

}  // namespace
}  // namespace waybill::cli
