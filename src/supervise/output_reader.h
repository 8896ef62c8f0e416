#pragma once
// Reads a job's output file at logical offsets while someone else writes it. A gap is returned as a
// gap, never as zeros. Works on files alone: no shared state, any thread, several at once; one
// object is used by one thread.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "core/facts.h"
#include "shim/output_file.h"

namespace waybill::supervise {

// A piece of output: bytes, or a gap, or neither at the end.
struct OutputPiece {
  std::uint64_t offset = 0;      // of the first byte, or of the gap's rest
  std::string bytes;             // empty when `gap` is set or the end is reached
  std::optional<core::Gap> gap;  // [offset, next_offset) was dropped
  std::uint64_t next_offset = 0;
  std::uint64_t end = 0;  // after the last byte so far
};

class OutputReader {
 public:
  // `job_dir`: DATA/jobs/ID. `final_output`: what the final record says, once it is known: then
  // that is the end, and the gaps are those of the record and of the files together (the tail of a
  // finished job may be shortened). Until then both are read from the files at each call.
  explicit OutputReader(std::string job_dir, std::optional<core::OutputFacts> final_output = {});

  // At most `max` bytes from `offset` on, never across a gap. `unavailable` when there is no output
  // file (the job has not started, or its output has expired); an offset beyond the end gives an
  // empty piece at the end.
  Result<OutputPiece> read(std::uint64_t offset, std::size_t max);

  std::vector<core::Gap> gaps();
  std::uint64_t end();

  // Where the last `lines` lines begin: looks back at most `max_bytes`, and not across a gap. An
  // unfinished last line counts as a line.
  std::uint64_t find_tail_offset(std::size_t lines, std::uint64_t max_bytes);

  // The last bytes that are there without a gap between them, at most `max`.
  std::string tail(std::size_t max);

 private:
  // What is known at one moment.
  struct Seen {
    std::vector<core::Gap> gaps;
    shim::OutputRing ring;
    std::uint64_t end = 0;
  };
  bool open();
  bool live_map(shim::OutputMap& map) const;
  Seen look() const;
  std::string pread_all(const shim::OutputRing& ring, std::uint64_t offset, std::size_t size) const;

  std::string job_dir_;
  std::optional<core::OutputFacts> final_;
  UniqueFd out_;
  UniqueFd gaps_;
};

// Holes of the output file that no gap explains: after a machine was lost, the list of gaps may be
// older than the file. Merged into `gaps`.
std::vector<core::Gap> with_holes(const std::string& job_dir, std::vector<core::Gap> gaps);

}  // namespace waybill::supervise
