#include "supervise/output_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "shim/output_file.h"
#include "supervise/output_keep.h"

namespace waybill::supervise {
namespace {

class OutputReaderTest : public ::testing::Test {
 protected:
  OutputReaderTest() {
    char path[] = "/tmp/waybill-reader-XXXXXX";
    dir_ = mkdtemp(path);
    fd_ = open(dir_.c_str(), O_RDONLY | O_DIRECTORY);
  }
  ~OutputReaderTest() override {
    close(fd_);
    std::filesystem::remove_all(dir_);
  }
  std::string dir_;
  int fd_ = -1;
};

// 16 bytes per line, so that the right content of every offset is known.
std::string line_at(std::uint64_t index) {
  char line[32];
  std::snprintf(line, sizeof line, "line %010llu\n", static_cast<unsigned long long>(index));
  return line;
}

TEST_F(OutputReaderTest, no_file_is_unavailable_and_beyond_the_end_is_empty) {
  OutputReader reader(dir_);
  EXPECT_EQ(reader.read(0, 10).error().code, ErrorCode::unavailable);
  shim::OutputFile out;
  ASSERT_EQ(out.create(fd_, {}), 0);
  out.append("abc", 3);
  EXPECT_EQ(reader.read(1, 10)->bytes, "bc");
  EXPECT_EQ(reader.read(1, 1)->bytes, "b");
  const auto beyond = reader.read(100, 10);
  EXPECT_EQ(beyond->bytes, "");
  EXPECT_EQ(beyond->offset, 3U);
  EXPECT_EQ(beyond->end, 3U);
}

class LiveReaderTest : public OutputReaderTest, public ::testing::WithParamInterface<bool> {};

// A writer that gives bytes back all the time, and a reader beside it: every byte that is returned
// is the right one, whatever became of it meanwhile.
TEST_P(LiveReaderTest, I14_what_was_given_back_is_a_gap_and_nothing_else) {
  std::atomic<bool> done{false};
  shim::OutputFile out;
  ASSERT_EQ(out.create(fd_, {256 << 10, 64 << 10, GetParam()}), 0);
  std::thread writer([&] {
    std::uint64_t index = 0;
    for (int i = 0; i < 4000; ++i) {
      std::string part;
      for (int l = 0; l < 512; ++l) part += line_at(index++);
      out.append(part.data(), part.size());
    }
    done = true;
  });
  std::uint64_t checked = 0;
  std::uint64_t gaps_seen = 0;
  OutputReader reader(dir_);
  while (!done) {
    const std::uint64_t end = reader.end();
    // Near the edge of what is given back.
    std::uint64_t at = end > (4U << 20) + (256U << 10) ? end - (4U << 20) - (256U << 10) : 0;
    for (int i = 0; i < 40; ++i) {
      const auto piece = reader.read(at, 64 << 10);
      ASSERT_TRUE(piece);
      if (piece->gap) ++gaps_seen;
      for (std::size_t b = 0; b < piece->bytes.size(); ++b) {
        const std::uint64_t offset = at + b;
        ASSERT_EQ(piece->bytes[b], line_at(offset / 16)[offset % 16]) << offset;
      }
      checked += piece->bytes.size();
      if (piece->next_offset == at) break;
      at = piece->next_offset;
    }
  }
  writer.join();
  EXPECT_GT(checked, 1U << 20);
  EXPECT_GT(gaps_seen, 0U);
}

INSTANTIATE_TEST_SUITE_P(Output, LiveReaderTest, ::testing::Bool(),
                         [](const auto& row) { return row.param ? "holes" : "ring"; });

// One that asks for a little each time is overtaken by the cap again and again.
TEST_P(LiveReaderTest, O19_a_slow_reader_gets_gaps_and_comes_to_the_end) {
  shim::OutputFile out;
  ASSERT_EQ(out.create(fd_, {256 << 10, 64 << 10, GetParam()}), 0);
  OutputReader slow(dir_);
  OutputReader other(dir_);
  std::uint64_t index = 0;
  std::uint64_t at = 0;
  std::uint64_t gaps = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string part;
    for (int l = 0; l < 512; ++l) part += line_at(index++);
    out.append(part.data(), part.size());
    const auto piece = slow.read(at, 1000);
    ASSERT_TRUE(piece);
    ASSERT_EQ(piece->offset, at);
    ASSERT_GT(piece->next_offset, at);
    for (std::size_t b = 0; b < piece->bytes.size(); ++b) {
      ASSERT_EQ(piece->bytes[b], line_at((at + b) / 16)[(at + b) % 16]);
    }
    if (piece->gap) ++gaps;
    at = piece->next_offset;
    ASSERT_EQ(other.read(0, 16)->bytes, line_at(0));  // the head is there for everybody
  }
  EXPECT_GT(gaps, 1U);
  core::OutputFacts facts;
  facts.bytes = out.bytes();
  for (std::size_t i = 0; i < out.gap_count(); ++i) {
    facts.gaps.push_back({out.gap(i).from, out.gap(i).to});
  }
  OutputReader last(dir_, facts);
  while (at < facts.bytes) {
    const auto piece = last.read(at, 1U << 20);
    ASSERT_TRUE(piece);
    ASSERT_GT(piece->next_offset, at);
    at = piece->next_offset;
  }
  EXPECT_EQ(at, index * 16);
}

// Shortened after its end, while somebody has it open with the record of the end.
TEST_F(OutputReaderTest, a_shortened_output_is_a_gap_for_those_who_know_only_its_record) {
  const std::string jobs = dir_ + "/jobs/j1";
  std::filesystem::create_directories(jobs);
  const int fd = open(jobs.c_str(), O_RDONLY | O_DIRECTORY);
  core::OutputFacts facts;
  {
    shim::OutputFile out;
    ASSERT_EQ(out.create(fd, {}), 0);
    for (std::uint64_t i = 0; i < 200'000; ++i) {
      const std::string line = line_at(i);
      out.append(line.data(), line.size());
    }
    facts.bytes = facts.kept_bytes = out.bytes();
  }
  close(fd);
  OutputReader reader(jobs, facts);
  ASSERT_EQ(reader.read(1U << 20, 16)->bytes, line_at((1U << 20) / 16));
  const std::uint64_t before = output_allocated(dir_, JobId("j1"));
  const auto kept = shorten_output(dir_, JobId("j1"), 256 << 10);
  ASSERT_TRUE(kept);
  EXPECT_LE(kept->kept_bytes, (256U << 10) + 8192);
  EXPECT_EQ(kept->bytes, facts.bytes);
  EXPECT_LT(output_allocated(dir_, JobId("j1")), before / 4);
  const auto piece = reader.read(1U << 20, 16);
  ASSERT_TRUE(piece->gap);
  EXPECT_EQ(reader.read(piece->next_offset, 16)->bytes, line_at(piece->next_offset / 16));
  EXPECT_EQ(reader.gaps(), kept->gaps);
  EXPECT_EQ(reader.tail(16), line_at(199'999));
  // Nothing to give back: what there is is told, for a row that missed the time before.
  const auto again = shorten_output(dir_, JobId("j1"), 1U << 20);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->kept_bytes, kept->kept_bytes);
  EXPECT_EQ(again->gaps, kept->gaps);
  EXPECT_TRUE(remove_output(dir_, JobId("j1")));
  EXPECT_TRUE(remove_output(dir_, JobId("j1")));
  EXPECT_EQ(OutputReader(jobs, facts).read(0, 1).error().code, ErrorCode::unavailable);
  EXPECT_FALSE(shorten_output(dir_, JobId("j1"), 1));
  EXPECT_FALSE(std::filesystem::exists(jobs + "/out"));
}

TEST_F(OutputReaderTest, tail_offsets_count_lines) {
  shim::OutputFile out;
  ASSERT_EQ(out.create(fd_, {}), 0);
  const std::string text = "one\ntwo\n\nfour\nlast";
  out.append(text.data(), text.size());
  OutputReader reader(dir_);
  EXPECT_EQ(text.substr(reader.find_tail_offset(1, 1000)), "last");
  EXPECT_EQ(text.substr(reader.find_tail_offset(2, 1000)), "four\nlast");
  EXPECT_EQ(text.substr(reader.find_tail_offset(3, 1000)), "\nfour\nlast");
  EXPECT_EQ(reader.find_tail_offset(99, 1000), 0U);
  EXPECT_EQ(reader.find_tail_offset(0, 1000), text.size());
  EXPECT_EQ(reader.find_tail_offset(99, 6), text.size() - 6);
  out.append("\n", 1);
  EXPECT_EQ(reader.find_tail_offset(1, 1000), text.size() - 4);
  EXPECT_EQ(reader.tail(8), "ur\nlast\n");
}

TEST_F(OutputReaderTest, neither_tail_nor_lines_reach_across_a_gap) {
  shim::OutputFile out;
  ASSERT_EQ(out.create(fd_, {64 << 10, 32 << 10}), 0);
  for (std::uint64_t i = 0; i < 400'000; ++i) {
    const std::string line = line_at(i);
    out.append(line.data(), line.size());
  }
  OutputReader reader(dir_);
  ASSERT_EQ(reader.gaps().size(), 1U);
  const core::Gap gap = reader.gaps()[0];
  EXPECT_EQ(reader.find_tail_offset(10'000'000, UINT64_MAX), gap.to);
  EXPECT_LE(reader.tail(100U << 20).size(), reader.end() - gap.to);
  EXPECT_EQ(with_holes(dir_, {}).size(), 1U);
  EXPECT_EQ(with_holes(dir_, {gap}), std::vector<core::Gap>{gap});
}

}  // namespace
}  // namespace waybill::supervise
