#include "edge/toml_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace waybill::edge {
namespace {

using ::testing::HasSubstr;

using Text = std::optional<std::string>;

const TomlPath kPath{"servers", "ours"};
const std::vector<TomlEntry> kEntries{{"command", "\"x\""}, {"wait", "660", true}};
const std::string kTable = "[servers.ours]\ncommand = \"x\"\nwait = 660\n";

std::string put(const Text& old) {
  const Result<std::string> out = put_toml_table(old, kPath, kEntries, "c.toml");
  EXPECT_TRUE(out) << old.value_or("") << (out ? "" : out.error().message);
  return out.value_or("");
}

Text cut(const std::string& text) {
  const Result<Text> out = cut_toml_table(text, kPath, "c.toml");
  EXPECT_TRUE(out) << text << (out ? "" : out.error().message);
  return out.value_or("failed");
}

TEST(TomlTable, TheOldBytesComeBack) {
  for (const Text& old :
       {Text(), Text(""), Text("\n"), Text("\n\n"), Text("a = 1"), Text("a = 1\n"),
        Text("a = 1\n\n"), Text("# only a comment"), Text("a = 1\r\nb = 2"),
        Text("a = 1\r\nb = 2\r\n"),
        Text("\xEF\xBB\xBF"
             "a = 1\n"),
        Text("\xEF\xBB\xBF"),
        Text("s = '''\n[servers.ours]\n'''\nf = nan\n[servers.theirs]\nd = 1979-05-27T07:32:00Z"),
        Text("m = \"\"\"\n[servers.ours]\\\"\"\"\"\"\"\nl = [\n  [1], # ]\n  [2]\n]\n"),
        Text("[servers]\n[[list]]\nx = {a = 1}\n"), Text("[servers.ours.tools.t]\nmode = 1\n")}) {
    const std::string with = put(old);
    EXPECT_EQ(toml_text_at(with, {"servers", "ours", "command"}), "x") << with;
    EXPECT_EQ(put(with), with);
    if (old && toml_has(*old, kPath)) continue;  // what is below ours goes with it
    EXPECT_EQ(cut(with), old) << with;
    const std::string moved =
        *put_toml_table(with, kPath, {{"command", "'y'"}, {"more", "[1, 2]"}}, "c");
    EXPECT_EQ(toml_text_at(moved, {"servers", "ours", "command"}), "y");
    EXPECT_EQ(cut(moved), old) << moved;
  }
}

TEST(TomlTable, OtherEntriesOfTheTableStay) {
  const std::string old =
      "a = 1\n\n[servers.\"ours\"] # mine\n# note\n  command = \"old\" # c\nmode = [\n  1 ]\n"
      "wait = 9\n\n# of b\n[b]\nc = 2\n";
  EXPECT_EQ(put(old),
            "a = 1\n\n[servers.\"ours\"] # mine\n# note\n  command = \"x\" # c\nmode = [\n  1 ]\n"
            "wait = 9\n\n# of b\n[b]\nc = 2\n");
  EXPECT_EQ(cut(old), "a = 1\n\n# of b\n[b]\nc = 2\n");
}

TEST(TomlTable, WhatLiesBelowGoesToo) {
  const std::string text = "a = 1\n\n" + kTable +
                           "\n[servers.ours.env]\nk = \"v\"\n\n[b]\nc = 2\n\n"
                           "[servers.ours.tools.t]\nmode = 1\n";
  EXPECT_EQ(cut(text), "a = 1\n\n[b]\nc = 2\n");
}

TEST(TomlTable, ALineIsNotJoinedWithWhatFollows) {
  EXPECT_EQ(cut(put("a = 1") + "[b]\n"), "a = 1\n[b]\n");
  EXPECT_EQ(cut(put(Text()) + "\n[b]\n"), "\n[b]\n");
}

TEST(TomlTable, Refusals) {
  const auto code = [](const std::string& text) {
    const Result<std::string> out = put_toml_table(text, kPath, kEntries, "c.toml");
    return out ? std::optional<ErrorCode>() : out.error().code;
  };
  EXPECT_EQ(code("a = \n"), ErrorCode::bad_request);
  EXPECT_THAT(check_toml("a = 1\nb = \n", "c.toml").error().message, HasSubstr("c.toml:2:"));
  EXPECT_EQ(code("[servers]\nours.command = \"y\"\n"), ErrorCode::conflict);
  EXPECT_EQ(code("servers = { ours = {} }\n"), ErrorCode::conflict);
  EXPECT_EQ(code("servers = 1\n"), ErrorCode::conflict);
  EXPECT_EQ(code("[[servers.ours]]\n"), ErrorCode::conflict);
  for (const char* text : {"servers = { ours = { command = 'x' }, b = 1 }\n",
                           "servers.ours.a = 1\n", "[servers]\nours = { }\n"}) {
    EXPECT_EQ(cut_toml_table(text, kPath, "c").error().code, ErrorCode::conflict) << text;
  }
}

// Damaged and odd texts: whatever still parses takes the table and gives its bytes back.
TEST(TomlTable, AnyTextGetsItsBytesBack) {
  const std::string seeds[] = {
      "a = 1 # c\n[b]\nc = [1, [2, \"]\"], # ]\n {d = '#'}]\n[[e]]\nf = \"\\\"\"\n[g.'h'.\"i\"]\n",
      "m = \"\"\"\n[servers.ours]\nx = 1\n\"\"\"\"\nn = '''\n[servers.ours]\n'''\n[o]\np.q = 1\r\n",
      "[servers]\n[servers.x]\nk = 1979-05-27T07:32:00Z\n\n# end\n[y]\nz = nan"};
  const std::string alphabet = "[]{}\"'#=.,\\\n\r \ta1";
  std::mt19937 random(11);
  std::size_t taken = 0;
  for (int round = 0; round < 15000; ++round) {
    std::string text = seeds[random() % 3];
    for (std::size_t n = random() % 4; n > 0; --n) {
      const std::size_t at = random() % text.size();
      const char c = alphabet[random() % alphabet.size()];
      if (random() % 2 == 0) {
        text.insert(at, 1, c);
      } else {
        text[at] = c;
      }
    }
    if (!check_toml(text, "c.toml") || toml_has(text, kPath)) continue;
    const Result<std::string> with = put_toml_table(text, kPath, kEntries, "c.toml");
    ASSERT_TRUE(with || toml_has(text, {"servers"})) << text;
    if (!with) continue;
    ++taken;
    ASSERT_EQ(cut(*with), text);
    ASSERT_EQ(*put_toml_table(*with, kPath, kEntries, "c.toml"), *with);
  }
  EXPECT_GT(taken, 1000U);
}

TEST(TomlTable, QuotesAnyText) {
  const std::string odd = "a\"b\\c\n\t\x7F \xC3\xA9'";
  EXPECT_EQ(toml_text_at("k = " + toml_quote(odd) + "\n", {"k"}), odd);
  EXPECT_FALSE(toml_text_at("k = 1\n", {"k"}));
  EXPECT_TRUE(toml_has("[a.b]\n", {"a", "b"}));
  EXPECT_FALSE(toml_has("[a.b]\n", {"a", "b", "c"}));
  EXPECT_FALSE(toml_has("not toml", {"a"}));
}

}  // namespace
}  // namespace waybill::edge
