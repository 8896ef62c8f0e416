#pragma once
// The output file of one job: an append-only logical stream in which the middle may be missing.
// Offsets are logical for ever. Beyond the cap the middle is given back to the file system by
// punching a hole; what cannot be stored becomes a gap. Gaps are published in `out.gaps` before
// anything is punched, so a reader that looks at the gaps after reading never takes a hole for
// zeros. One writer. No exceptions, no allocation.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/sha256.h"
#include "shim/files.h"

namespace waybill::shim {

struct OutputGap {
  std::uint64_t from = 0;
  std::uint64_t to = 0;
};

struct OutputLimits {
  std::uint64_t cap = kDefaultCap;
  std::uint64_t head = kDefaultHead;
};

// Parses the first line of `out.gaps` into at most kGapsMax gaps. False when it does not check.
bool parse_gaps(std::string_view text, OutputGap* gaps, std::size_t& count);

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Creates the files of a new job. 0 or errno.
  int create(int dir, OutputLimits limits);
  // Goes on with the files that another writer left. 0 or errno.
  int resume(int dir, OutputLimits limits);

  // Takes `size` bytes. Never fails: what cannot be stored is counted as a gap.
  void append(const char* data, std::size_t size);

  // fdatasync of the file and of its gaps.
  void sync();

  // SHA-256 over what is kept, with "gap:FROM-TO" for each gap, in order. An empty string, and a
  // reason, when the file cannot be read back. Spends the running hash: call it once, at the end.
  const char* digest();
  const char* digest_reason() const { return digest_reason_; }

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t kept() const { return bytes_ - missing(); }
  std::size_t gap_count() const { return gap_count_; }
  const OutputGap& gap(std::size_t i) const { return gaps_[i]; }
  // "" or why bytes are missing that the cap does not explain.
  const char* incomplete() const { return incomplete_; }
  bool dirty() const { return dirty_; }

 private:
  int open_files(int dir, OutputLimits limits, int flags);
  std::uint64_t missing() const;
  void make_room(std::size_t size);
  bool punch(std::uint64_t from, std::uint64_t to);
  void drop(std::size_t size);
  void insert_gap(OutputGap gap);
  void publish();
  std::uint64_t line_end_before(std::uint64_t offset) const;
  std::uint64_t line_end_after(std::uint64_t offset) const;
  bool hash_range(Sha256& hash, std::uint64_t from, std::uint64_t to) const;

  int fd_ = -1;
  int gaps_fd_ = -1;
  OutputLimits limits_;
  std::uint64_t bytes_ = 0;
  OutputGap gaps_[kGapsMax] = {};
  std::size_t gap_count_ = 0;
  std::uint64_t punched_to_ = 0;
  bool can_punch_ = true;
  bool streaming_ = true;  // the running hash covers every byte so far
  bool dirty_ = false;
  std::int64_t retry_at_ms_ = 0;
  Sha256 hash_;
  char digest_[65] = {};
  const char* digest_reason_ = "";
  const char* incomplete_ = "";
};

}  // namespace waybill::shim
