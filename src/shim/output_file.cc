#include "shim/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/crc32.h"

namespace waybill::shim {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::int64_t kRetryMs = 1000;

std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

std::uint64_t align_up(std::uint64_t n) { return (n + kBlock - 1) / kBlock * kBlock; }
std::uint64_t align_down(std::uint64_t n) { return n / kBlock * kBlock; }

bool take_number(std::string_view& text, std::uint64_t& out) {
  std::size_t digits = 0;
  std::uint64_t value = 0;
  while (digits < text.size() && digits < 19 && text[digits] >= '0' && text[digits] <= '9') {
    value = value * 10 + static_cast<std::uint64_t>(text[digits++] - '0');
  }
  text.remove_prefix(digits);
  out = value;
  return digits > 0;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

bool parse_gaps(std::string_view text, OutputGap* gaps, std::size_t& count) {
  count = 0;
  const std::size_t end = text.find('\n');
  const std::size_t mark = text.rfind(" crc=", end);
  if (end == std::string_view::npos || mark == std::string_view::npos || end - mark != 13) {
    return false;
  }
  char crc[8];
  crc32_hex(crc32(text.data(), mark), crc);
  if (text.substr(mark + 5, 8) != std::string_view(crc, 8)) return false;
  std::string_view rest = text.substr(0, mark);
  if (!take(rest, "gaps")) return false;
  std::uint64_t last = 0;
  while (!rest.empty()) {
    OutputGap gap;
    if (count == kGapsMax || !take(rest, " ") || !take_number(rest, gap.from) || !take(rest, "-") ||
        !take_number(rest, gap.to) || gap.from < last || gap.to <= gap.from) {
      return false;
    }
    last = gap.to;
    gaps[count++] = gap;
  }
  return true;
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (gaps_fd_ >= 0) close(gaps_fd_);
}

int OutputFile::open_files(int dir, OutputLimits limits, int flags) {
  limits_ = limits;
  if (limits_.cap == 0) limits_ = OutputLimits{};
  if (limits_.head > limits_.cap / 2) limits_.head = limits_.cap / 2;
  fd_ = openat(dir, kOut, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (fd_ < 0) return errno;
  gaps_fd_ = openat(dir, kOutGaps, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  return gaps_fd_ < 0 ? errno : 0;
}

int OutputFile::create(int dir, OutputLimits limits) {
  const int error = open_files(dir, limits, O_TRUNC);
  if (error != 0) return error;
  return posix_fallocate(gaps_fd_, 0, static_cast<off_t>(kGapsReserve));
}

int OutputFile::resume(int dir, OutputLimits limits) {
  const int error = open_files(dir, limits, 0);
  if (error != 0) return error;
  struct stat info{};
  if (fstat(fd_, &info) != 0) return errno;
  char text[kGapsReserve];
  const ssize_t n = pread(gaps_fd_, text, sizeof text, 0);
  if (n > 0) parse_gaps({text, static_cast<std::size_t>(n)}, gaps_, gap_count_);
  bytes_ = static_cast<std::uint64_t>(info.st_size);
  if (gap_count_ > 0 && gaps_[gap_count_ - 1].to > bytes_) bytes_ = gaps_[gap_count_ - 1].to;
  streaming_ = false;
  return 0;
}

std::uint64_t OutputFile::missing() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < gap_count_; ++i) sum += gaps_[i].to - gaps_[i].from;
  return sum;
}

void OutputFile::append(const char* data, std::size_t size) {
  if (size == 0) return;
  make_room(size);
  dirty_ = true;
  const bool full = !can_punch_ && kept() + size > limits_.cap + kCapSlack;
  if (full || (retry_at_ms_ != 0 && now_ms() < retry_at_ms_)) {
    drop(size);
    return;
  }
  while (size > 0) {
    const ssize_t n = pwrite(fd_, data, size, static_cast<off_t>(bytes_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const bool no_space = n == 0 || errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
      incomplete_ = no_space ? "enospc" : "write_error";
      retry_at_ms_ = now_ms() + kRetryMs;
      drop(size);
      return;
    }
    retry_at_ms_ = 0;
    if (streaming_) hash_.update(data, static_cast<std::size_t>(n));
    bytes_ += static_cast<std::uint64_t>(n);
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

void OutputFile::drop(std::size_t size) {
  insert_gap({bytes_, bytes_ + size});
  bytes_ += size;
  publish();
}

// Adds a gap and joins it with those it touches or covers. When the list is full, the last two
// become one: what lies between them is given up.
void OutputFile::insert_gap(OutputGap gap) {
  streaming_ = false;
  OutputGap merged[kGapsMax + 1];
  std::size_t count = 0;
  bool placed = false;
  for (std::size_t i = 0; i < gap_count_; ++i) {
    if (gaps_[i].to < gap.from) {
      merged[count++] = gaps_[i];
    } else if (gaps_[i].from > gap.to) {
      if (!placed) merged[count++] = gap;
      placed = true;
      merged[count++] = gaps_[i];
    } else {
      if (gaps_[i].from < gap.from) gap.from = gaps_[i].from;
      if (gaps_[i].to > gap.to) gap.to = gaps_[i].to;
    }
  }
  if (!placed) merged[count++] = gap;
  if (count > kGapsMax) {
    merged[count - 2].to = merged[count - 1].to;
    --count;
  }
  std::memcpy(gaps_, merged, count * sizeof(OutputGap));
  gap_count_ = count;
}

void OutputFile::publish() {
  char text[kGapsReserve];
  std::size_t length = 4;
  std::memcpy(text, "gaps", 4);
  for (std::size_t i = 0; i < gap_count_; ++i) {
    length +=
        static_cast<std::size_t>(std::snprintf(text + length, sizeof text - length, " %llu-%llu",
                                               static_cast<unsigned long long>(gaps_[i].from),
                                               static_cast<unsigned long long>(gaps_[i].to)));
  }
  const std::uint32_t crc = crc32(text, length);
  std::memcpy(text + length, " crc=", 5);
  crc32_hex(crc, text + length + 5);
  text[length + 13] = '\n';
  const ssize_t written = pwrite(gaps_fd_, text, length + 14, 0);
  if (written < 0) incomplete_ = "gaps_unwritten";
}

void OutputFile::make_room(std::size_t size) {
  if (!can_punch_ || kept() + size <= limits_.cap + kCapSlack) return;
  const std::uint64_t tail = limits_.cap - limits_.head;
  std::uint64_t to = bytes_ + size > tail ? align_down(bytes_ + size - tail) : 0;
  if (to > align_down(bytes_)) to = align_down(bytes_);
  const std::uint64_t from = align_up(limits_.head);
  if (to <= from || to <= punched_to_) return;
  OutputGap before[kGapsMax];
  const std::size_t before_count = gap_count_;
  std::memcpy(before, gaps_, sizeof gaps_);
  const bool first = punched_to_ == 0;
  insert_gap({first ? line_end_before(from) : from, line_end_after(to)});
  publish();
  if (punch(first ? from : punched_to_, to)) {
    punched_to_ = to;
    return;
  }
  can_punch_ = false;
  incomplete_ = "no_hole_punching";
  std::memcpy(gaps_, before, sizeof gaps_);
  gap_count_ = before_count;
  publish();
}

bool OutputFile::punch(std::uint64_t from, std::uint64_t to) {
  return fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                   static_cast<off_t>(to - from)) == 0;
}

// The offset after the last newline in the 4 KiB before `offset`, or `offset`.
std::uint64_t OutputFile::line_end_before(std::uint64_t offset) const {
  char text[kBlock];
  const std::uint64_t from = offset > kBlock ? offset - kBlock : 0;
  const ssize_t n =
      pread(fd_, text, static_cast<std::size_t>(offset - from), static_cast<off_t>(from));
  for (ssize_t i = n; i > 0; --i) {
    if (text[i - 1] == '\n') return from + static_cast<std::uint64_t>(i);
  }
  return offset;
}

// The offset after the first newline in the 4 KiB from `offset` on, or `offset`.
std::uint64_t OutputFile::line_end_after(std::uint64_t offset) const {
  char text[kBlock];
  const ssize_t n = pread(fd_, text, sizeof text, static_cast<off_t>(offset));
  for (ssize_t i = 0; i < n; ++i) {
    if (text[i] == '\n') return offset + static_cast<std::uint64_t>(i) + 1;
  }
  return offset;
}

void OutputFile::sync() {
  if (!dirty_) return;
  dirty_ = false;
  if (gap_count_ > 0) fdatasync(gaps_fd_);
  fdatasync(fd_);
}

bool OutputFile::hash_range(Sha256& hash, std::uint64_t from, std::uint64_t to) const {
  static char buffer[65536];
  while (from < to) {
    const std::uint64_t want = to - from < sizeof buffer ? to - from : sizeof buffer;
    const ssize_t n = pread(fd_, buffer, static_cast<std::size_t>(want), static_cast<off_t>(from));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    hash.update(buffer, static_cast<std::size_t>(n));
    from += static_cast<std::uint64_t>(n);
  }
  return true;
}

const char* OutputFile::digest() {
  if (streaming_) {
    hash_.finish_hex(digest_);
    return digest_;
  }
  Sha256 hash;
  std::uint64_t at = 0;
  bool good = true;
  for (std::size_t i = 0; i < gap_count_ && good; ++i) {
    good = hash_range(hash, at, gaps_[i].from);
    char mark[64];
    const int length = std::snprintf(mark, sizeof mark, "gap:%llu-%llu",
                                     static_cast<unsigned long long>(gaps_[i].from),
                                     static_cast<unsigned long long>(gaps_[i].to));
    hash.update(mark, static_cast<std::size_t>(length));
    at = gaps_[i].to;
  }
  if (!good || !hash_range(hash, at, bytes_)) {
    digest_reason_ = "the output file cannot be read back";
    return "";
  }
  hash.finish_hex(digest_);
  return digest_;
}

}  // namespace waybill::shim
