#include "core/rules.h"

#include <gtest/gtest.h>

namespace waybill::core {
namespace {

TEST(Rules, a_star_stands_for_any_bytes_and_the_whole_text_must_match) {
  EXPECT_TRUE(pattern_matches("cargo *", "cargo test"));
  EXPECT_FALSE(pattern_matches("cargo *", "cargo"));
  EXPECT_FALSE(pattern_matches("cargo *", "xcargo test"));
  EXPECT_TRUE(pattern_matches("*rm -rf*", "cd / && rm -rf \n*"));
  EXPECT_TRUE(pattern_matches("a*b*c", "abbbcc c"));
  EXPECT_FALSE(pattern_matches("a*b*c", "abbbcc d"));
  EXPECT_TRUE(pattern_matches("a?c", "abc"));
  EXPECT_FALSE(pattern_matches("a?c", "ac"));
  EXPECT_TRUE(pattern_matches("", ""));
  EXPECT_TRUE(pattern_matches("***", ""));
  EXPECT_FALSE(pattern_matches("", "x"));
}

TEST(Rules, I14_a_hostile_pattern_costs_no_more_than_its_lengths) {
  std::string pattern;
  for (int i = 0; i < 2000; ++i) pattern += "*a";
  pattern += "b";
  EXPECT_FALSE(pattern_matches(pattern, std::string(20'000, 'a')));
}

TEST(Rules, deny_is_stronger_than_allow_and_names_its_pattern) {
  const Rules rules{{"cargo *", "make*"}, {"*publish*"}};
  EXPECT_FALSE(refused_by(rules, "cargo test"));
  ASSERT_TRUE(refused_by(rules, "cargo publish"));
  EXPECT_NE(refused_by(rules, "cargo publish")->find("*publish*"), std::string::npos);
  ASSERT_TRUE(refused_by(rules, "rm -rf /"));
  EXPECT_FALSE(refused_by(Rules{}, "anything at all"));
}

}  // namespace
}  // namespace waybill::core
