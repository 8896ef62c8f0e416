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
std::vector<core::Gap> OutputReader::live_gaps() const {
  if (!gaps_.valid()) return {};
  shim::OutputGap found[shim::kGapsMax];
  for (int i = 0; i < kGapTries; ++i) {
    char text[shim::kGapsReserve];
    const ssize_t n = pread(gaps_.get(), text, sizeof text, 0);
    if (n <= 0 || text[0] == '\0') return {};
    std::size_t count = 0;
    if (!shim::parse_gaps({text, static_cast<std::size_t>(n)}, found, count)) continue;
    std::vector<core::Gap> gaps;
    for (std::size_t g = 0; g < count; ++g) gaps.push_back({found[g].from, found[g].to});
    return gaps;
  }
  return {};
}

std::vector<core::Gap> OutputReader::gaps() {
  open();
  return final_ ? final_->gaps : live_gaps();
}

std::uint64_t OutputReader::end_of(const std::vector<core::Gap>& gaps) const {
  if (final_) return final_->bytes;
  const std::uint64_t size = size_of(out_.get());
  return gaps.empty() ? size : std::max(size, gaps.back().to);
}

std::uint64_t OutputReader::end() { return end_of(gaps()); }

std::string OutputReader::pread_all(std::uint64_t offset, std::size_t size) const {
  std::string bytes(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n =
        pread(out_.get(), bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

// The writer publishes a gap before it gives the bytes back. So: read, then look at the gaps, and
// throw away what has become one meanwhile.
Result<OutputPiece> OutputReader::read(std::uint64_t offset, std::size_t max) {
  if (!open()) return fail(ErrorCode::unavailable, "This job has no output file.");
  std::string bytes = pread_all(offset, max);
  const std::vector<core::Gap> now = gaps();
  OutputPiece piece;
  piece.end = end_of(now);
  piece.offset = std::min(offset, piece.end);
  piece.next_offset = piece.offset;
  if (offset >= piece.end) return piece;
  std::uint64_t limit = piece.end;
  for (const core::Gap& gap : now) {
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
  const std::vector<core::Gap> now = gaps();
  const std::uint64_t last = end_of(now);
  if (lines == 0) return last;
  std::uint64_t floor = last > max_bytes ? last - max_bytes : 0;
  for (const core::Gap& gap : now) floor = std::max(floor, gap.to);
  floor = std::min(floor, last);
  std::uint64_t at = last;
  std::size_t seen = 0;
  bool first = true;
  while (at > floor) {
    const std::uint64_t size = std::min<std::uint64_t>(kLookBack, at - floor);
    const std::string bytes = pread_all(at - size, static_cast<std::size_t>(size));
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
  const std::vector<core::Gap> now = gaps();
  const std::uint64_t last = end_of(now);
  std::uint64_t from = last > max ? last - max : 0;
  for (const core::Gap& gap : now) from = std::max(from, gap.to);
  if (from >= last) return {};
  return pread_all(from, static_cast<std::size_t>(last - from));
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

}  // namespace waybill::supervise
