#include "text/line_scan.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "text/line_pattern.h"

namespace waybill::text {
namespace {

std::vector<std::string> lines_of(const std::vector<std::string>& pieces, LineScan& scan) {
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    scan.push(piece, [&](std::string_view line) { lines.emplace_back(line); });
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(LineScan, lines_are_those_a_person_reads) {
  LineScan scan(0);
  const Lines lines = lines_of(
      {"one\ntw", "o\r\n\x1b[31mred\x1b[0m\n", "pct 1\rpct 2\r", "pct 3\n\n", "rest"}, scan);
  EXPECT_EQ(lines, (Lines{"one", "two", "red", "pct 3", ""}));
}

TEST(LineScan, every_cut_gives_the_same_lines) {
  const std::string text = "a\xe2\x82\xac\nb\r\n\x1b[1mc\x1b[m\xff\n\nlast\n";
  LineScan whole(0);
  const Lines expected = lines_of({text}, whole);
  for (std::size_t at = 0; at <= text.size(); ++at) {
    LineScan scan(0);
    EXPECT_EQ(lines_of({text.substr(0, at), text.substr(at)}, scan), expected) << at;
  }
}

TEST(LineScan, a_new_scan_from_line_start_finds_the_rest) {
  const std::string text = "one\ntwo\nthree\nfour\n";
  for (std::size_t at = 0; at <= text.size(); ++at) {
    LineScan first(0);
    Lines lines = lines_of({text.substr(0, at)}, first);
    LineScan second(first.line_start());
    for (const std::string& line : lines_of({text.substr(first.line_start())}, second)) {
      lines.push_back(line);
    }
    EXPECT_EQ(lines, (Lines{"one", "two", "three", "four"})) << at;
  }
}

TEST(LineScan, I14_a_line_without_end_takes_bounded_memory) {
  LineScan scan(0);
  const std::string piece(1024 * 1024, 'x');
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 50; ++i) {
    scan.push(piece, [&](std::string_view line) { sizes.push_back(line.size()); });
  }
  scan.push("\nnext\n", [&](std::string_view line) { sizes.push_back(line.size()); });
  EXPECT_EQ(sizes, (std::vector<std::size_t>{LineScan::kLineBytesMax, 4}));
  EXPECT_EQ(scan.line_start(), 50 * piece.size() + 6);
}

TEST(LineScan, of_frames_without_end_the_last_one_counts) {
  LineScan scan(0);
  std::string frames;
  for (int i = 0; i < 20'000; ++i) frames += "\rpct " + std::to_string(i) + "\x1b[K";
  std::vector<std::string> pieces;
  for (std::size_t at = 0; at < frames.size(); at += 999) pieces.push_back(frames.substr(at, 999));
  pieces.emplace_back("\n");
  EXPECT_EQ(lines_of(pieces, scan), Lines{"pct 19999"});
}

TEST(LineScan, a_gap_drops_the_line_that_it_cuts) {
  LineScan scan(0);
  EXPECT_EQ(lines_of({"one\ntorn"}, scan), Lines{"one"});
  scan.skip_to(1000);
  EXPECT_EQ(scan.line_start(), 1000U);
  EXPECT_EQ(lines_of({"two\n"}, scan), Lines{"two"});
}

bool fits(std::string_view pattern, std::string_view line) {
  const auto compiled = LinePattern::compile(pattern);
  EXPECT_TRUE(compiled);
  return compiled && compiled->fits(line);
}

TEST(LinePattern, what_fits) {
  EXPECT_TRUE(fits("error", "an error here"));
  EXPECT_FALSE(fits("^error", "an error here"));
  EXPECT_TRUE(fits("(?i)ERROR$", "an error"));
  EXPECT_TRUE(fits("", ""));
  EXPECT_TRUE(fits("ä.ü", "xäöüx"));
}

TEST(LinePattern, I14_what_is_refused) {
  EXPECT_EQ(LinePattern::compile("(").error().code, ErrorCode::bad_request);
  EXPECT_EQ(LinePattern::compile("(a)\\1").error().code, ErrorCode::bad_request);
  EXPECT_EQ(LinePattern::compile("((a{100}){100}){100}").error().code, ErrorCode::bad_request);
  EXPECT_EQ(LinePattern::compile(std::string(1001, 'a')).error().code, ErrorCode::too_large);
  EXPECT_EQ(LinePattern::compile("\xff").error().code, ErrorCode::bad_request);
}

}  // namespace
}  // namespace waybill::text
