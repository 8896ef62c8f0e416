#include "text/render.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "text/utf8.h"

namespace waybill::text {
namespace {

TEST(Render, rows) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", ""},
      {"a\nb", "a\nb"},
      {"a\r\nb\r\n", "a\nb\n"},
      {"a\rb\nc\n", "b\nc\n"},
      {"a\r\r\nb", "a\nb"},
      {"10%\r100%", "100%"},
      {"done\r", "done"},
      {"busy\r\x1b[Kdone\n", "done\n"},
      {"busy\r\x1b[K\n", "\n"},
      {"busy\x1b[2K\x1b[1Gdone\n", "done\n"},
      {"busy\x1b[K\n", "busy\n"},
      {"|\b/\b-\b\\\n", "\\\n"},
      {"abc\b\bX\n", "aX\n"},
      {"abc\b\n", "abc\n"},
      {"_\ba", "a"},
      {"\b\ba", "a"},
      {"é\be", "e"},
      {"\x1b[1;31mred\x1b[0m", "red"},
      {"\x1b[?25lx\x1b[?25h", "x"},
      {"\x1b]0;title\x07x", "x"},
      {"\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"},
      {"\x1bPq#0;2;0\x1b\\x", "x"},
      {"\x1b(Bx\x1b=y\x1b"
       "7z",
       "xyz"},
      {"\xC2\x9B"
       "31mx",
       "x"},
      {"\xC2\x9D"
       "title\xC2\x9Cx",
       "x"},
      {"\x1b]torn\nnext", "\nnext"},
      {"\x1b[31\nnext", "\nnext"},
      {"\x1b[31\x1b[0mx", "x"},
      {"\x1b\x1b[0mx", "x"},
      {"x\x1b", "x"},
      {"a\x07\x0e\x0f\x7f"
       "b\xC2\x85",
       "ab"},
      {std::string("a\xFF"
                   "b\0c\n",
                   6),
       "a\uFFFDb␀c\n"},
      {"a\fb\vc", "a␌b␋c"},
      {"a\tb", "a\tb"},
      {"a\xE2\x80\xAE"
       "b\xE2\x81\xA6",
       "a\\u{202e}b\\u{2066}"},
      {"\xEF\xBB\xBFx\xE2\x80\x8B", "\\u{feff}x\\u{200b}"},
      {"a\xE2\x80\xAE\bb", "ab"},
      {"\xE2\x82", "\uFFFD"},
  };
  for (const auto& [bytes, text] : rows)
    EXPECT_EQ(render(bytes), text) << testing::PrintToString(bytes);
}

TEST(Render, O17_character_in_two_pieces) {
  Renderer renderer;
  EXPECT_EQ(renderer.push("\xE2\x82"), "");
  EXPECT_EQ(renderer.pending(), "");
  EXPECT_EQ(renderer.push("\xAC ok\nx"), "€ ok\n");
  EXPECT_EQ(renderer.pending(), "x");
  EXPECT_EQ(renderer.finish(), "x");
}

TEST(Render, O18_progress_frames_collapse) {
  std::string bytes;
  for (int i = 0; i < 20'000; ++i) bytes += "\rpct " + std::to_string(i) + "\x1b[K";
  bytes += "\nEND\n";
  EXPECT_EQ(render(bytes), "pct 19999\nEND\n");
}

TEST(Render, I14_torn_string_swallows_a_bounded_part) {
  const std::string text = render("\x1b]" + std::string(10'000, 'x'));
  EXPECT_EQ(text.size(), 10'000U - 4095U);
  EXPECT_EQ(render("\x1b[" + std::string(100, '1')).size(), 100U - 63U);
}

TEST(Render, I14_line_of_fifty_megabytes) {
  Renderer renderer;
  const std::string piece(1'000'000, 'x');
  std::size_t given = 0;
  for (int i = 0; i < 50; ++i) {
    given += renderer.push(piece).size();
    ASSERT_LE(renderer.pending().size(), Renderer::kLineBytesMax);
  }
  given += renderer.finish().size();
  EXPECT_EQ(given, 50'000'000U);
  // What has been given out cannot be rewound: the mark says so.
  EXPECT_EQ(render(std::string(Renderer::kLineBytesMax + 10, 'x') + "\rnew\n"),
            std::string(Renderer::kLineBytesMax, 'x') + "␍\nnew\n");
  EXPECT_EQ(render(std::string(Renderer::kLineBytesMax, 'x') + "\r\nnew\n"),
            std::string(Renderer::kLineBytesMax, 'x') + "\nnew\n");
}

std::string random_output(std::mt19937& random) {
  static const std::vector<std::string> pieces{"a",
                                               "bc",
                                               "\n",
                                               "\r",
                                               "\r\n",
                                               "\b",
                                               "\t",
                                               "\x1b",
                                               "\x1b[",
                                               "1;3",
                                               "m",
                                               "K",
                                               "\x1b[2K",
                                               "G",
                                               "\x1b]",
                                               "\x07",
                                               "\x1b\\",
                                               "\x1bP",
                                               "(",
                                               "\xE2\x82\xAC",
                                               "\xE2\x82",
                                               "\xF0\x9F\x98\x80",
                                               "\xF0",
                                               "\xFF",
                                               "\xC2\x9B",
                                               "\xC2",
                                               "\xE2\x80\xAE",
                                               std::string(1, 0),
                                               "\xEF\xBB\xBF",
                                               "\x7f",
                                               "\x18"};
  std::string bytes;
  const std::size_t count = random() % 60;
  for (std::size_t i = 0; i < count; ++i) bytes += pieces[random() % pieces.size()];
  if (random() % 500 == 0) bytes += std::string(70'000, 'y') + "\rz";
  return bytes;
}

TEST(Render, O17_rendering_does_not_depend_on_the_pieces) {
  std::mt19937 random(1718);
  for (int round = 0; round < 20'000; ++round) {
    const std::string bytes = random_output(random);
    const std::string whole = render(bytes);
    ASSERT_TRUE(is_valid_utf8(whole));
    for (const char c : whole) {
      const auto byte = static_cast<unsigned char>(c);
      ASSERT_TRUE(byte >= 0x20 || c == '\n' || c == '\t') << static_cast<int>(byte);
      ASSERT_NE(byte, 0x7F);
    }
    for (const char* hidden : {"\xE2\x80\xAE", "\xEF\xBB\xBF", "\xC2\x9B"})
      ASSERT_EQ(whole.find(hidden), std::string::npos);
    Renderer renderer;
    std::string joined;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = bytes.size() > 1000 ? random() % 5000 : random() % 5;
      joined += renderer.push(std::string_view(bytes).substr(at, size));
      at += size;
    }
    joined += renderer.finish();
    ASSERT_EQ(joined, whole) << testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace waybill::text
