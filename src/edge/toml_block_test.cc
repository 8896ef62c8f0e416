#include "edge/toml_block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace waybill::edge {
namespace {

using ::testing::HasSubstr;

const TomlMarkers kMarkers{"# ours: begin (v2)", "# ours: begin", "# ours: end"};
const std::string kBody = "[servers.ours]\ncommand = \"x\"\n";

using Text = std::optional<std::string>;

TEST(TomlBlock, TheOldBytesComeBack) {
  for (const Text& old :
       {Text(), Text(""), Text("\n"), Text("\n\n"), Text("a = 1"), Text("a = 1\n"),
        Text("a = 1\n\n"), Text("# only a comment"), Text("a = 1\r\nb = 2"),
        Text("a = 1\r\nb = 2\r\n"),
        Text("\xEF\xBB\xBF"
             "a = 1\n"),
        Text("s = '''\n# \xC3\xA9 \n'''\nf = nan\n[servers.theirs]\nd = 1979-05-27T07:32:00Z\n"),
        Text("[servers]\n[[list]]\nx = {a = 1}\n")}) {
    const Result<std::string> with = with_toml_block(old, kMarkers, kBody, "c.toml");
    ASSERT_TRUE(with) << old.value_or("") << with.error().message;
    EXPECT_EQ(toml_text_at(*with, {"servers", "ours", "command"}), "x");
    EXPECT_EQ(*with_toml_block(*with, kMarkers, kBody, "c.toml"), *with);
    const Result<Text> without = without_toml_block(*with, kMarkers, "c.toml");
    ASSERT_TRUE(without) << without.error().message;
    EXPECT_EQ(*without, old) << *with;
    const std::string moved = *with_toml_block(*with, kMarkers, "[servers.ours]\nb = 2\n", "c");
    EXPECT_EQ(*without_toml_block(moved, kMarkers, "c.toml"), old);
  }
}

TEST(TomlBlock, AnOlderVersionIsReplacedWhereItIs) {
  const std::string old =
      "a = 1\n\n# ours: begin (v1)\n[servers.ours]\nold = 1\n# ours: end\n[b]\nc = 2\n";
  EXPECT_EQ(*with_toml_block(old, kMarkers, kBody, "c.toml"),
            "a = 1\n\n# ours: begin (v2)\n" + kBody + "# ours: end\n[b]\nc = 2\n");
  EXPECT_EQ(*without_toml_block(old, kMarkers, "c.toml"), "a = 1\n[b]\nc = 2\n");
}

TEST(TomlBlock, ALineIsNotJoinedWithWhatFollowsTheBlock) {
  std::string text = *with_toml_block("a = 1", kMarkers, kBody, "c.toml");
  text += "[b]\n";
  EXPECT_EQ(*without_toml_block(text, kMarkers, "c.toml"), "a = 1\n[b]\n");
}

TEST(TomlBlock, Refusals) {
  const auto code = [](const std::string& text) {
    const Result<std::string> out = with_toml_block(text, kMarkers, kBody, "c.toml");
    return out ? std::optional<ErrorCode>() : out.error().code;
  };
  EXPECT_EQ(code("a = \n"), ErrorCode::bad_request);
  EXPECT_THAT(with_toml_block("a = 1\nb = \n", kMarkers, kBody, "c.toml").error().message,
              HasSubstr("c.toml:2:"));
  EXPECT_EQ(code("[servers.ours]\ncommand = \"y\"\n"), ErrorCode::conflict);
  EXPECT_EQ(code("servers = { ours = {} }\n"), ErrorCode::conflict);
  EXPECT_EQ(code("servers = 1\n"), ErrorCode::conflict);
  EXPECT_EQ(code("# ours: begin (v1)\n"), ErrorCode::conflict);
  EXPECT_EQ(code("# ours: end\n"), ErrorCode::conflict);
  // The key that follows the block is in the block's table.
  const std::string follows = "# ours: begin\n[servers.ours]\n# ours: end\nkey = 1\n";
  EXPECT_EQ(without_toml_block(follows, kMarkers, "c.toml").error().code, ErrorCode::conflict);
  // Marker lines inside a text are not a block.
  const std::string inside = "s = '''\n# ours: begin\n# ours: end\n'''\n";
  EXPECT_EQ(without_toml_block(inside, kMarkers, "c.toml").error().code, ErrorCode::conflict);
}

TEST(TomlBlock, QuotesAnyText) {
  const std::string odd = "a\"b\\c\n\t\x7F \xC3\xA9'";
  EXPECT_EQ(toml_text_at("k = " + toml_quote(odd) + "\n", {"k"}), odd);
  EXPECT_FALSE(toml_text_at("k = 1\n", {"k"}));
  EXPECT_TRUE(toml_has("[a.b]\n", {"a", "b"}));
  EXPECT_FALSE(toml_has("[a.b]\n", {"a", "b", "c"}));
  EXPECT_FALSE(toml_has("not toml", {"a"}));
}

}  // namespace
}  // namespace waybill::edge
