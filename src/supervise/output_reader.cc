#include "supervise/output_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "shim/files.h"
#include "shim/output_file.h"

namespace waybill::supervise {
namespace {

constexpr int kGapTries = 50;
constexpr std::size_t kLookBack = 64 * 1024;

UniqueFd open_file(const std::string& path) {
  return UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
}

// Sorted, and joined where they touch.
std::vector<core::Gap> merge(std::vector<core::Gap> gaps) {
  std::sort(gaps.begin(), gaps.end(),
            [](const core::Gap& a, const core::Gap& b) { return a.from < b.from; });
  std::vector<core::Gap> merged;
  for (const core::Gap& gap : gaps) {
    if (!merged.empty() && gap.from <= merged.back().to) {
      merged.back().to = std::max(merged.back().to, gap.to);
    } else {
      merged.push_back(gap);
    }
  }
  return merged;
}

std::uint64_t size_of(int fd) {
  struct stat info{};
  return fd >= 0 && fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

}  // namespace

OutputReader::OutputReader(std::string job_dir, std::optional<core::OutputFacts> final_output)
    : job_dir_(std::move(job_dir)), final_(std::move(final_output)) {}

bool OutputReader::open() {
  if (!out_.valid()) out_ = open_file(job_dir_ + "/" + shim::kOut);
  if (!gaps_.valid()) gaps_ = open_file(job_dir_ + "/" + shim::kOutGaps);
  return out_.valid();
}

// The writer overwrites the list in place; a list that is just being written does not check, so it
// is read again.
bool OutputReader::live_map(shim::OutputMap& map) const {
  map = {};
  if (!gaps_.valid()) return false;
  for (int i = 0; i < kGapTries; ++i) {
    char text[shim::kGapsReserve];
    const ssize_t n = pread(gaps_.get(), text, sizeof text, 0);
    if (n <= 0 || text[0] == '\0') return false;
    if (shim::parse_map({text, static_cast<std::size_t>(n)}, map)) return true;
  }
  map = {};
  return false;
}

OutputReader::Seen OutputReader::look() const {
  Seen seen;
  shim::OutputMap map;
  live_map(map);
  seen.ring = map.ring;
  for (std::size_t i = 0; i < map.count; ++i) {
    seen.gaps.push_back({map.gaps[i].from, map.gaps[i].to});
  }
  if (final_) {
    seen.gaps.insert(seen.gaps.end(), final_->gaps.begin(), final_->gaps.end());
    seen.gaps = merge(std::move(seen.gaps));
    seen.end = final_->bytes;
    return seen;
  }
  seen.end = seen.ring.size > 0 ? seen.ring.end : size_of(out_.get());
  if (!seen.gaps.empty()) seen.end = std::max(seen.end, seen.gaps.back().to);
  return seen;
}

std::vector<core::Gap> OutputReader::gaps() {
  open();
  return look().gaps;
}

std::uint64_t OutputReader::end() {
  open();
  return look().end;
}

std::string OutputReader::pread_all(const shim::OutputRing& ring, std::uint64_t offset,
                                    std::size_t size) const {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const shim::OutputPlace place = shim::place_of(ring, offset + done);
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(size - done, place.run));
    const ssize_t n =
        pread(out_.get(), bytes.data() + done, want, static_cast<off_t>(place.position));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

// The writer publishes a gap before it gives the bytes back or writes others over them. So: read,
// then look at the gaps, and throw away what has become one meanwhile.
Result<OutputPiece> OutputReader::read(std::uint64_t offset, std::size_t max) {
  if (!open()) return fail(ErrorCode::unavailable, "This job has no output file.");
  const Seen before = look();
  // In a ring, what stands behind the end is old.
  const bool round = before.ring.size > 0;
  const std::uint64_t there = before.end > offset ? before.end - offset : 0;
  std::string bytes =
      pread_all(before.ring, offset, round ? std::min<std::uint64_t>(max, there) : max);
  const Seen now = look();
  OutputPiece piece;
  piece.end = now.end;
  piece.offset = std::min(offset, piece.end);
  piece.next_offset = piece.offset;
  if (offset >= piece.end) return piece;
  std::uint64_t limit = piece.end;
  for (const core::Gap& gap : now.gaps) {
    if (gap.to <= offset) continue;
    if (gap.from <= offset) {
      piece.gap = core::Gap{offset, gap.to};
      piece.next_offset = gap.to;
      return piece;
    }
    limit = std::min(limit, gap.from);
  }
  if (bytes.size() > limit - offset) bytes.resize(static_cast<std::size_t>(limit - offset));
  piece.bytes = std::move(bytes);
  piece.next_offset = offset + piece.bytes.size();
  if (piece.bytes.empty() && max > 0 && final_) {
    // The record says there are more bytes than the file has: they were lost with the machine.
    piece.gap = core::Gap{offset, limit};
    piece.next_offset = limit;
  }
  return piece;
}

std::uint64_t OutputReader::find_tail_offset(std::size_t lines, std::uint64_t max_bytes) {
  if (!open()) return 0;
  const Seen now = look();
  const std::uint64_t last = now.end;
  if (lines == 0) return last;
  std::uint64_t floor = last > max_bytes ? last - max_bytes : 0;
  for (const core::Gap& gap : now.gaps) floor = std::max(floor, gap.to);
  floor = std::min(floor, last);
  std::uint64_t at = last;
  std::size_t seen = 0;
  bool first = true;
  while (at > floor) {
    const std::uint64_t size = std::min<std::uint64_t>(kLookBack, at - floor);
    const std::string bytes = pread_all(now.ring, at - size, static_cast<std::size_t>(size));
    for (std::size_t i = bytes.size(); i > 0; --i) {
      if (bytes[i - 1] == '\n' && !first && ++seen == lines) return at - size + i;
      first = false;
    }
    at -= size;
  }
  return floor;
}

std::string OutputReader::tail(std::size_t max) {
  if (!open()) return {};
  const Seen before = look();
  const std::uint64_t last = before.end;
  std::uint64_t from = last > max ? last - max : 0;
  for (const core::Gap& gap : before.gaps) from = std::max(from, gap.to);
  if (from >= last) return {};
  std::string bytes = pread_all(before.ring, from, static_cast<std::size_t>(last - from));
  // What went meanwhile is no tail any more.
  std::uint64_t gone = from;
  for (const core::Gap& gap : look().gaps) {
    if (gap.from < last) gone = std::max(gone, std::min(gap.to, last));
  }
  return bytes.substr(std::min<std::size_t>(bytes.size(), static_cast<std::size_t>(gone - from)));
}

std::vector<core::Gap> with_holes(const std::string& job_dir, std::vector<core::Gap> gaps) {
  const UniqueFd out = open_file(job_dir + "/" + shim::kOut);
  const std::uint64_t size = size_of(out.get());
  std::uint64_t at = 0;
  while (out.valid() && at < size) {
    const off_t hole = lseek(out.get(), static_cast<off_t>(at), SEEK_HOLE);
    if (hole < 0 || static_cast<std::uint64_t>(hole) >= size) break;
    const off_t data = lseek(out.get(), hole, SEEK_DATA);
    const std::uint64_t to = data < 0 ? size : static_cast<std::uint64_t>(data);
    gaps.push_back({static_cast<std::uint64_t>(hole), to});
    at = to;
  }
  return merge(std::move(gaps));
}

}  // namespace waybill::supervise
