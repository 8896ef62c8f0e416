#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "text/page.h"
#include "text/preview.h"

namespace waybill::text {
namespace {

// Bytes that are likely to meet at the edges of characters.
std::string random_bytes(std::mt19937& random, std::size_t size_max) {
  static const std::vector<std::string> pieces{"a",
                                               "\n",
                                               "\xE2\x82\xAC",
                                               "\xE2\x82",
                                               "\xF0\x9F\x98\x80",
                                               "\xF0\x9F",
                                               "\xC3\xA9",
                                               "\xC3",
                                               "\x80",
                                               "\xFF",
                                               "\xED\xA0\x80",
                                               "\xC0\xAF",
                                               "\xF4\x90\x80\x80",
                                               "\xE0\x80",
                                               std::string(1, 0)};
  std::string bytes;
  const std::size_t size = random() % size_max;
  while (bytes.size() < size) bytes += pieces[random() % pieces.size()];
  return bytes;
}

TEST(Utf8, one_mark_for_each_maximal_subpart) {
  EXPECT_EQ(decode_lossy("a\xFF"
                         "b"),
            "a\uFFFDb");
  EXPECT_EQ(decode_lossy("\xE2\x82"), "\uFFFD");
  EXPECT_EQ(decode_lossy("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(decode_lossy("\xE2\x82"
                         "a"),
            "\uFFFDa");
  EXPECT_EQ(decode_lossy("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(decode_lossy("\xC0\xAF"), "\uFFFD\uFFFD");
  EXPECT_EQ(decode_lossy("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(decode_lossy("\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63"), "\uFFFD\uFFFD\uFFFDb\uFFFDc");
  EXPECT_EQ(decode_lossy("€ é 😀"), "€ é 😀");
}

TEST(Utf8, O17_character_in_two_pieces) {
  Utf8Decoder decoder;
  EXPECT_EQ(decoder.push("\xE2\x82"), "");
  EXPECT_EQ(decoder.push("\xAC ok\n"), "€ ok\n");
  EXPECT_EQ(decoder.push("\xE2"), "");
  EXPECT_EQ(decoder.push("\x82"), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.push("\xAC"), "\uFFFD");
}

TEST(Utf8, O17_decoding_does_not_depend_on_the_pieces) {
  std::mt19937 random(17);
  for (int round = 0; round < 20'000; ++round) {
    const std::string bytes = random_bytes(random, 40);
    const std::string whole = decode_lossy(bytes);
    ASSERT_TRUE(is_valid_utf8(whole));
    Utf8Decoder decoder;
    std::string joined;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t size = random() % 4;
      joined += decoder.push(std::string_view(bytes).substr(at, size));
      ASSERT_TRUE(is_valid_utf8(joined));
      at += size;
    }
    joined += decoder.finish();
    ASSERT_EQ(joined, whole);
    ASSERT_EQ(count_code_points(bytes), count_code_points(whole));
    if (is_valid_utf8(bytes)) {
      ASSERT_EQ(whole, bytes);
    }
  }
}

TEST(Utf8, cuts_at_characters) {
  const std::string text = "a€b";
  EXPECT_EQ(boundary_before(text, 1), 1U);
  EXPECT_EQ(boundary_before(text, 2), 1U);
  EXPECT_EQ(boundary_before(text, 3), 1U);
  EXPECT_EQ(boundary_before(text, 4), 4U);
  EXPECT_EQ(boundary_before(text, 99), 5U);
  EXPECT_EQ(boundary_after(text, 2), 4U);
  EXPECT_EQ(boundary_after(text, 4), 4U);
  EXPECT_EQ(prefix(text, 3), "a");
  EXPECT_EQ(count_code_points(text), 3U);
  for (std::size_t limit = 0; limit <= 12; ++limit)
    EXPECT_TRUE(is_valid_utf8(prefix("é😀€ü😀", limit))) << limit;
}

TEST(Page, pages_join_to_the_text) {
  std::mt19937 random(10);
  for (int round = 0; round < 5'000; ++round) {
    const std::string bytes = random_bytes(random, 80);
    const std::string text = round % 2 == 0 ? bytes : decode_lossy(bytes);
    const std::size_t max = random() % 12;
    std::string joined;
    std::optional<std::size_t> offset = 0;
    while (offset) {
      const Page page =
          round % 3 == 0 ? page_of_serialised(text, *offset, max) : page_of(text, *offset, max);
      ASSERT_EQ(page.offset, *offset);
      if (round % 2 == 1) {
        ASSERT_TRUE(is_valid_utf8(page.text));
      }
      ASSERT_LE(page.text.size(), std::max<std::size_t>(max, 4));
      ASSERT_TRUE(!page.text.empty() || text.empty());
      joined += page.text;
      offset = page.next_offset;
    }
    ASSERT_EQ(joined, text);
  }
}

TEST(Page, edges) {
  EXPECT_EQ(page_of("abc", 0, 3).next_offset, std::nullopt);
  EXPECT_EQ(page_of("abc", 0, 2).next_offset, 2U);
  EXPECT_EQ(page_of("abc", 99, 2).text, "");
  EXPECT_EQ(page_of("abc", 99, 2).next_offset, std::nullopt);
  EXPECT_EQ(page_of("a€", 2, 9).offset, 1U);
  EXPECT_EQ(page_of("a€", 1, 1).text, "€");
  EXPECT_EQ(page_of_serialised("\"\"\"", 0, 4).text, "\"\"");
  EXPECT_EQ(page_of_serialised(std::string("\x01\x01", 2), 0, 11).text.size(), 1U);
}

TEST(Preview, one_bounded_line) {
  EXPECT_EQ(preview("cargo test"), "cargo test");
  EXPECT_EQ(preview("  a\n b\r\nc\t\n"), "a⏎ b⏎c");
  EXPECT_EQ(preview("a\tb"), "a b");
  EXPECT_EQ(preview(std::string("a\0b\x1b[31m\x7f", 9)), "a␀b␛[31m␡");
  EXPECT_EQ(preview("a\xE2\x80\xAE"
                    "b"),
            "a\\u{202e}b");
  EXPECT_EQ(preview("a\xFF"), "a\uFFFD");
  EXPECT_EQ(preview("abcdef", 6), "abcdef");
  EXPECT_EQ(preview("abcdefg", 6), "abcde…");
  EXPECT_EQ(preview("€€€€", 3), "€€…");
  EXPECT_EQ(preview("ab\xE2\x80\xAE", 6), "ab…");
  EXPECT_EQ(preview("", 6), "");
  EXPECT_EQ(preview("abc", 0), "");
  EXPECT_EQ(preview("abc", 1), "…");
}

TEST(Preview, I14_preview_is_bounded_and_valid) {
  std::mt19937 random(14);
  for (int round = 0; round < 5'000; ++round) {
    const std::string bytes = random_bytes(random, 120);
    const std::size_t max = 1 + random() % 40;
    const std::string line = preview(bytes, max);
    ASSERT_TRUE(is_valid_utf8(line));
    ASSERT_LE(count_code_points(line), max);
    for (const char c : line) ASSERT_GE(static_cast<unsigned char>(c), 0x20);
  }
  EXPECT_EQ(count_code_points(preview(std::string(1'000'000, 'x'))), 200U);
}

}  // namespace
}  // namespace waybill::text
