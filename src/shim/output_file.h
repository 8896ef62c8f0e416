#pragma once
// The output file of one job: an append-only logical stream in which the middle may be missing.
// Offsets are logical for ever. Beyond the cap the middle is given back to the file system by
// punching a hole; where that is not supported, what follows the head goes round in a ring of the
// same file. What cannot be stored becomes a gap. Gaps are published in `out.gaps` before anything
// is punched or overwritten, so a reader that looks at the gaps after reading never takes a hole,
// or newer bytes, for what was there. What cannot be published is not done: then nothing is stored.
// One writer. No exceptions, no allocation.

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

// Where the file goes round: from position `from` on, offset `o` stands at
// `from + (o - from) % size`. A size of 0: nowhere, every byte stands at its offset.
struct OutputRing {
  std::uint64_t from = 0;
  std::uint64_t size = 0;
  std::uint64_t end = 0;  // offset after the last byte; the file's size no longer tells it
};

struct OutputLimits {
  std::uint64_t cap = kDefaultCap;
  std::uint64_t head = kDefaultHead;
  bool holes = true;  // false: as on a file system that has none
};

// What `out.gaps` says.
struct OutputMap {
  OutputGap gaps[kGapsMax] = {};
  std::size_t count = 0;
  OutputRing ring;
};

// Parses the first line of `out.gaps`. False when it does not check.
bool parse_map(std::string_view text, OutputMap& map);

// Where in the file a byte stands, and how many of its successors follow it there.
struct OutputPlace {
  std::uint64_t position = 0;
  std::uint64_t run = 0;
};
OutputPlace place_of(const OutputRing& ring, std::uint64_t offset);

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Nothing is stored any more: a file that is removed from now on gives its space back.
  void close();

  // Creates the files of a new job. 0 or errno.
  int create(int dir, OutputLimits limits);
  // Goes on with the files that another writer left. 0 or errno.
  int resume(int dir, OutputLimits limits);
  // The same for the output of a job that has ended, to lower its cap; never makes a file.
  int reopen(int dir);

  // Takes `size` bytes. Never fails: what cannot be stored is counted as a gap.
  void append(const char* data, std::size_t size);

  // Gives back what lies between a smaller head and a smaller tail; from now on that is the cap.
  // A greater cap than before means nothing, and a ring keeps its size.
  void lower_cap(std::uint64_t cap);

  // fdatasync of the file and of its gaps.
  void sync();

  // SHA-256 over what is kept, with "gap:FROM-TO" for each gap, in order. An empty string, and a
  // reason, when the file cannot be read back. Spends the running hash: call it once, at the end.
  const char* digest();
  const char* digest_reason() const { return digest_reason_; }

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t kept() const { return bytes_ - missing(); }
  std::size_t gap_count() const { return map_.count; }
  const OutputGap& gap(std::size_t i) const { return map_.gaps[i]; }
  // "" or why bytes are missing that the cap does not explain.
  const char* incomplete() const { return incomplete_; }
  bool dirty() const { return dirty_; }

 private:
  int open_files(int dir, OutputLimits limits, int flags);
  int load();
  std::uint64_t missing() const;
  void make_room(std::size_t size, std::uint64_t slack);
  bool make_ring_room(std::size_t size);
  bool punch(std::uint64_t from, std::uint64_t to);
  void no_more_holes();
  std::size_t store(const char* data, std::size_t size);
  bool stalled() const;
  bool cramped(std::size_t size);
  void stall(const char* why);
  void drop(std::size_t size);
  bool give_up(OutputGap gap);
  void insert_gap(OutputGap gap);
  bool publish();
  std::size_t read_at(std::uint64_t offset, char* data, std::size_t size) const;
  std::uint64_t line_end_before(std::uint64_t offset) const;
  std::uint64_t line_end_after(std::uint64_t offset) const;
  bool hash_range(Sha256& hash, std::uint64_t from, std::uint64_t to) const;

  int fd_ = -1;
  int gaps_fd_ = -1;
  OutputLimits limits_;
  std::uint64_t slack_ = kCapSlack;
  std::uint64_t bytes_ = 0;
  OutputMap map_;
  std::uint64_t punched_to_ = 0;
  std::uint64_t overwritten_to_ = 0;  // of a ring: what lies before may be gone
  std::uint64_t ring_size_ = 0;       // of the ring that there will be
  bool streaming_ = true;             // the running hash covers every byte so far
  bool dirty_ = false;
  bool published_ = true;       // `out.gaps` says what `map_` says
  bool durable_gaps_ = false;   // synced before anything is punched
  std::uint64_t unlooked_ = 0;  // bytes since the disk's free space was asked for
  std::int64_t retry_at_ms_ = 0;
  Sha256 hash_;
  char digest_[65] = {};
  const char* digest_reason_ = "";
  const char* incomplete_ = "";
};

}  // namespace waybill::shim
