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

// A writer that punches all the time, and a reader beside it: every byte that is returned is the
// right one, whatever became of it meanwhile.
TEST_F(OutputReaderTest, I14_a_live_reader_never_takes_a_hole_for_zeros) {
  std::atomic<bool> done{false};
  shim::OutputFile out;
  ASSERT_EQ(out.create(fd_, {256 << 10, 64 << 10}), 0);
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
