#include "daemon/logs.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "text/render.h"

namespace waybill::daemon {
namespace {

class LogsTest : public testing::Test {
 protected:
  LogsTest() {
    char name[] = "/tmp/waybill-logs-XXXXXX";
    data_dir_ = ::mkdtemp(name);
    std::filesystem::create_directories(data_dir_ + "/jobs/j1");
    target_.job = JobId("j1");
    request_.job = target_.job;
  }
  ~LogsTest() override { std::filesystem::remove_all(data_dir_); }

  void write(const std::string& bytes) {
    std::ofstream(data_dir_ + "/jobs/j1/out", std::ios::binary) << bytes;
    target_.output.bytes = target_.output.kept_bytes = bytes.size();
  }
  LogsPage page() {
    auto result = read_output(target_, data_dir_, request_);
    EXPECT_TRUE(result) << result.error().message;
    return result ? *result : LogsPage{};
  }
  // All pages from the start, joined.
  std::string all() {
    std::string joined;
    request_.offset = 0;
    for (int i = 0; i < 10000; ++i) {
      const LogsPage next = page();
      joined += next.reply.data;
      if (next.reply.complete || next.nothing_new) return joined;
      EXPECT_GT(next.reply.next_offset, *request_.offset);
      request_.offset = next.reply.next_offset;
    }
    return "endless";
  }

  std::string data_dir_;
  engine::OutputTarget target_;
  edge::LogsRequest request_;
};

TEST_F(LogsTest, raw_pages_joined_are_the_output) {
  std::string bytes;
  for (int i = 0; i < 5000; ++i) bytes += static_cast<char>(i * 7);
  write(bytes);
  target_.terminal = true;
  request_.raw = true;
  request_.bytes = 999;
  EXPECT_TRUE(all() == bytes);
}

TEST_F(LogsTest, a_rendered_page_ends_at_a_line_and_tears_nothing) {
  write("10%\r20%\rdone\nsecond \xE2\x82\xAC line\nthird");
  target_.terminal = true;
  request_.bytes = 20;
  EXPECT_EQ(page().reply.data, "done\n");
  EXPECT_EQ(page().reply.next_offset, 13U);
  EXPECT_EQ(all(), "done\nsecond \xE2\x82\xAC line\nthird");
}

std::string random_lines(std::mt19937& random) {
  static const std::vector<std::string> kPieces{"a",         "bc ",
                                                "\n",        "\r",
                                                "\r\n",      "\b",
                                                "\x1b[1;3m", "\x1b[2K",
                                                "\x1b[K",    "\xE2\x82\xAC",
                                                "\xE2\x82",  "\xF0\x9F\x98\x80",
                                                "\xFF",      "\x1b]0;title\x07",
                                                "\t",        std::string(1, '\0')};
  std::string bytes;
  for (std::size_t line = random() % 30; line > 0; --line) {
    for (std::size_t i = random() % 8; i > 0; --i) bytes += kPieces[random() % kPieces.size()];
    bytes += '\n';
  }
  for (std::size_t i = random() % 4; i > 0; --i) bytes += kPieces[random() % kPieces.size()];
  return bytes;
}

// Whatever was there at each look and however large the pages: joined, they are the rendering of
// the whole, as long as each line fits into a page.
TEST_F(LogsTest, O17_pages_joined_are_the_rendering_of_the_whole_live_and_after) {
  std::mt19937 random(1817);
  for (int round = 0; round < 500; ++round) {
    const std::string bytes = random_lines(random);
    const std::string whole = text::render(bytes);
    request_.bytes = 120 + random() % 200;
    write(bytes);
    target_.terminal = true;
    ASSERT_EQ(all(), whole) << testing::PrintToString(bytes);
    target_.terminal = false;
    request_.offset = 0;
    std::string live;
    for (std::size_t there = 0; there <= bytes.size();
         there += std::max<std::size_t>(1, random() % 40)) {
      write(bytes.substr(0, there));
      const LogsPage next = page();
      // Of a line without an end what is shown so far may still be rendered otherwise.
      if (next.reply.data.empty() || next.reply.data.back() != '\n') continue;
      live += next.reply.data;
      request_.offset = next.reply.next_offset;
    }
    write(bytes);
    target_.terminal = true;
    for (;;) {
      const LogsPage next = page();
      live += next.reply.data;
      request_.offset = next.reply.next_offset;
      if (next.reply.complete) break;
    }
    ASSERT_EQ(live, whole) << testing::PrintToString(bytes);
  }
}

TEST_F(LogsTest, a_long_line_is_cut_between_characters) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += "\xE2\x82\xAC";
  write(bytes);
  target_.terminal = true;
  request_.bytes = 10;
  EXPECT_EQ(all(), bytes);
  request_.bytes = 1;  // less than a character: counts as 4
  request_.offset = 0;
  EXPECT_EQ(page().reply.next_offset, 3U);
  EXPECT_EQ(all(), bytes);
}

TEST_F(LogsTest, a_running_job_has_nothing_new_at_its_end) {
  write("abc\n");
  request_.offset = 4;
  const LogsPage next = page();
  EXPECT_TRUE(next.nothing_new);
  EXPECT_FALSE(next.reply.complete);
  EXPECT_EQ(next.reply.end, 4U);
  target_.terminal = true;
  EXPECT_FALSE(page().nothing_new);
  EXPECT_TRUE(page().reply.complete);
}

TEST_F(LogsTest, a_character_that_is_not_finished_is_held_back) {
  write("\xE2\x82");
  EXPECT_TRUE(page().nothing_new);
  EXPECT_EQ(page().reply.data, "");
  EXPECT_EQ(page().reply.next_offset, 0U);
  EXPECT_EQ(page().reply.end, 2U);
  write("ab\xE2\x82");
  EXPECT_EQ(page().reply.data, "ab");
  EXPECT_EQ(page().reply.next_offset, 2U);
  write("\xE2\x82\xAC ok\n");
  EXPECT_EQ(page().reply.data, "\xE2\x82\xAC ok\n");
  write("\xE2\x82");
  target_.terminal = true;
  EXPECT_EQ(page().reply.data, "\xEF\xBF\xBD");
  EXPECT_TRUE(page().reply.complete);
}

TEST_F(LogsTest, a_line_that_may_be_rewound_is_held_back) {
  write("start\n\rp 1\rp 2");
  EXPECT_EQ(page().reply.data, "start\n");
  request_.offset = 6;
  EXPECT_TRUE(page().nothing_new);
  EXPECT_EQ(page().reply.next_offset, 6U);
  request_.raw = true;
  EXPECT_EQ(page().reply.data, "\rp 1\rp 2");
  request_.raw = false;
  write("start\n\rp 1\rp 2\rp 3\rp 4\n");
  EXPECT_EQ(page().reply.data, "p 4\n");
  write("start\n\rp 1\rp 2");
  target_.terminal = true;
  EXPECT_EQ(page().reply.data, "p 2");
}

TEST_F(LogsTest, a_rewound_line_that_is_too_long_or_fills_the_page_is_given_out) {
  std::string line = "\r" + std::string(32 * 1024 - 1, 'x');
  write(line);
  EXPECT_TRUE(page().nothing_new);
  line += "y\xE2\x82";
  write(line);
  EXPECT_EQ(page().reply.next_offset, line.size() - 2);
  write("\rabcdefgh");
  request_.bytes = 5;
  EXPECT_EQ(page().reply.data, "abcd");
  EXPECT_EQ(page().reply.next_offset, 5U);
}

TEST_F(LogsTest, a_page_without_a_newline_shows_a_prompt) {
  write("Go on? ");
  EXPECT_EQ(page().reply.data, "Go on? ");
  EXPECT_FALSE(page().nothing_new);
}

TEST_F(LogsTest, beyond_the_end_the_end_is_the_real_one) {
  write("abc\n");
  request_.offset = 100;
  for (const bool raw : {false, true}) {
    request_.raw = raw;
    for (const bool terminal : {false, true}) {
      target_.terminal = terminal;
      const LogsPage beyond = page();
      EXPECT_EQ(beyond.reply.data, "");
      EXPECT_EQ(beyond.reply.offset, 100U);
      EXPECT_EQ(beyond.reply.next_offset, 100U);
      EXPECT_EQ(beyond.reply.end, 4U);
      EXPECT_EQ(beyond.reply.complete, terminal);
      EXPECT_EQ(beyond.nothing_new, !terminal);
    }
  }
}

TEST_F(LogsTest, before_the_start_there_is_nothing_yet) {
  EXPECT_TRUE(page().nothing_new);
  target_.terminal = true;  // cancelled in the queue
  EXPECT_TRUE(page().reply.complete);
}

TEST_F(LogsTest, output_that_is_gone_is_said_to_be) {
  target_.terminal = true;
  target_.output.bytes = 10;
  const auto result = read_output(target_, data_dir_, request_);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::unavailable);
}

TEST_F(LogsTest, the_tail_starts_at_a_line) {
  write("one\ntwo\nthree\n");
  target_.terminal = true;
  request_.tail_lines = 2;
  EXPECT_EQ(page().reply.data, "two\nthree\n");
  EXPECT_EQ(page().reply.offset, 4U);
}

}  // namespace
}  // namespace waybill::daemon
