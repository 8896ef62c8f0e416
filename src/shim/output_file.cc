#include "shim/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/crc32.h"

namespace waybill::shim {
namespace {

constexpr std::uint64_t kBlock = 4096;
constexpr std::int64_t kRetryMs = 200;
// A ring gives up at least this much at a time, or an eighth of itself.
constexpr std::uint64_t kRingStep = 1024UL * 1024;

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

bool parse_map(std::string_view text, OutputMap& map) {
  map = {};
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
  while (!rest.empty() && rest.substr(0, 6) != " ring=") {
    OutputGap gap;
    if (map.count == kGapsMax || !take(rest, " ") || !take_number(rest, gap.from) ||
        !take(rest, "-") || !take_number(rest, gap.to) || gap.from < last || gap.to <= gap.from) {
      return false;
    }
    last = gap.to;
    map.gaps[map.count++] = gap;
  }
  if (rest.empty()) return true;
  OutputRing& ring = map.ring;
  return take(rest, " ring=") && take_number(rest, ring.from) && take(rest, "+") &&
         take_number(rest, ring.size) && take(rest, " end=") && take_number(rest, ring.end) &&
         rest.empty() && ring.size > 0;
}

OutputPlace place_of(const OutputRing& ring, std::uint64_t offset) {
  if (ring.size == 0) return {offset, UINT64_MAX - offset};
  const std::uint64_t wraps_at = ring.from + ring.size;
  const std::uint64_t position =
      offset < wraps_at ? offset : ring.from + (offset - ring.from) % ring.size;
  return {position, wraps_at - position};
}

OutputFile::~OutputFile() { close(); }

void OutputFile::close() {
  if (fd_ >= 0) ::close(fd_);
  if (gaps_fd_ >= 0) ::close(gaps_fd_);
  fd_ = gaps_fd_ = -1;
}

int OutputFile::open_files(int dir, OutputLimits limits, int flags) {
  limits_ = limits;
  if (limits_.cap == 0) limits_ = {kDefaultCap, kDefaultHead, limits.holes};
  if (limits_.head > limits_.cap / 2) limits_.head = limits_.cap / 2;
  fd_ = openat(dir, kOut, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (fd_ < 0) return errno;
  gaps_fd_ = openat(dir, kOutGaps, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
  if (gaps_fd_ < 0) return errno;
  // Asked of a hole beyond any end: nothing is there that could go.
  const bool holes = limits_.holes && (punch(1ULL << 40, (1ULL << 40) + kBlock) ||
                                       (errno != EOPNOTSUPP && errno != ENOSYS));
  if (!holes) no_more_holes();
  return 0;
}

int OutputFile::create(int dir, OutputLimits limits) {
  if (const int error = open_files(dir, limits, O_CREAT | O_TRUNC)) return error;
  return posix_fallocate(gaps_fd_, 0, static_cast<off_t>(kGapsReserve));
}

int OutputFile::resume(int dir, OutputLimits limits) {
  if (const int error = open_files(dir, limits, O_CREAT)) return error;
  return load();
}

int OutputFile::reopen(int dir) {
  if (const int error = open_files(dir, {UINT64_MAX / 4, UINT64_MAX / 8}, 0)) return error;
  durable_gaps_ = true;
  return load();
}

int OutputFile::load() {
  struct stat info{};
  if (fstat(fd_, &info) != 0) return errno;
  char text[kGapsReserve];
  const ssize_t n = pread(gaps_fd_, text, sizeof text, 0);
  if (n > 0 && !parse_map({text, static_cast<std::size_t>(n)}, map_)) map_ = {};
  bytes_ = static_cast<std::uint64_t>(info.st_size);
  if (map_.count > 0 && map_.gaps[map_.count - 1].to > bytes_) {
    bytes_ = map_.gaps[map_.count - 1].to;
  }
  if (map_.ring.size > 0) {
    limits_.holes = false;
    ring_size_ = map_.ring.size;
    bytes_ = map_.ring.end;
    for (std::size_t i = 0; i < map_.count; ++i) {
      if (map_.gaps[i].from <= map_.ring.from) overwritten_to_ = map_.gaps[i].to;
    }
  }
  streaming_ = false;
  return 0;
}

std::uint64_t OutputFile::missing() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < map_.count; ++i) sum += map_.gaps[i].to - map_.gaps[i].from;
  return sum;
}

bool OutputFile::stalled() const { return retry_at_ms_ != 0 && now_ms() < retry_at_ms_; }

void OutputFile::stall(const char* why) {
  incomplete_ = why;
  retry_at_ms_ = now_ms() + kRetryMs;
}

void OutputFile::append(const char* data, std::size_t size) {
  if (size == 0) return;
  dirty_ = true;
  // A list that could not be written comes first: bytes behind a gap nobody knows of are worth
  // nothing.
  if (stalled() || (!published_ && !publish())) return drop(size);
  if (cramped(size)) {
    stall("enospc");
    return drop(size);
  }
  make_room(size, slack_);
  while (size > 0) {
    const std::size_t stored = store(data, size);
    if (stored == 0) return drop(size);
    if (streaming_) hash_.update(data, stored);
    bytes_ += stored;
    data += stored;
    size -= stored;
    if (map_.ring.size > 0) publish();  // the new end
  }
}

// The last of a disk is for records, receipts and results: output that took it would keep its own
// job from being told. Asked now and then, not of a ring, which needs no more than it has.
bool OutputFile::cramped(std::size_t size) {
  constexpr std::uint64_t kLookEvery = 256ULL * 1024;
  constexpr std::uint64_t kLeftMost = 16ULL * 1024 * 1024;
  constexpr std::uint64_t kLeftOneOf = 16;
  if (map_.ring.size > 0) return false;
  unlooked_ += size;
  if (unlooked_ < kLookEvery && retry_at_ms_ == 0) return false;
  unlooked_ = 0;
  struct statvfs disk{};
  if (fstatvfs(fd_, &disk) != 0 || disk.f_blocks == 0) return false;
  const std::uint64_t total = std::uint64_t{disk.f_blocks} * disk.f_frsize;
  const std::uint64_t left = total / kLeftOneOf < kLeftMost ? total / kLeftOneOf : kLeftMost;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize < left + size;
}

// Some of the bytes, at least one; 0 when none can be stored now.
std::size_t OutputFile::store(const char* data, std::size_t size) {
  std::uint64_t run = size;
  if (!limits_.holes) {
    if (run > ring_size_ / 4) run = ring_size_ / 4;
    if (!make_ring_room(static_cast<std::size_t>(run))) return 0;
  }
  const OutputPlace place = place_of(map_.ring, bytes_);
  if (run > place.run) run = place.run;
  for (;;) {
    const ssize_t n =
        pwrite(fd_, data, static_cast<std::size_t>(run), static_cast<off_t>(place.position));
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) {
      retry_at_ms_ = 0;
      return static_cast<std::size_t>(n);
    }
    const bool no_space = n == 0 || errno == ENOSPC || errno == EDQUOT;
    stall(no_space ? "enospc" : "write_error");
    return 0;
  }
}

void OutputFile::drop(std::size_t size) {
  insert_gap({bytes_, bytes_ + size});
  bytes_ += size;
  publish();
}

// Publishes a gap before its bytes go. False: it could not be, and they stay.
bool OutputFile::give_up(OutputGap gap) {
  const OutputMap before = map_;
  insert_gap(gap);
  if (publish() && (!durable_gaps_ || fdatasync(gaps_fd_) == 0)) return true;
  map_ = before;
  return false;
}

// Adds a gap and joins it with those it touches or covers. When the list is full, the last two
// become one: what lies between them is given up.
void OutputFile::insert_gap(OutputGap gap) {
  streaming_ = false;
  OutputGap merged[kGapsMax + 1];
  std::size_t count = 0;
  bool placed = false;
  for (std::size_t i = 0; i < map_.count; ++i) {
    if (map_.gaps[i].to < gap.from) {
      merged[count++] = map_.gaps[i];
    } else if (map_.gaps[i].from > gap.to) {
      if (!placed) merged[count++] = gap;
      placed = true;
      merged[count++] = map_.gaps[i];
    } else {
      if (map_.gaps[i].from < gap.from) gap.from = map_.gaps[i].from;
      if (map_.gaps[i].to > gap.to) gap.to = map_.gaps[i].to;
    }
  }
  if (!placed) merged[count++] = gap;
  if (count > kGapsMax) {
    merged[count - 2].to = merged[count - 1].to;
    --count;
  }
  std::memcpy(map_.gaps, merged, count * sizeof(OutputGap));
  map_.count = count;
}

bool OutputFile::publish() {
  char text[kGapsReserve];
  std::size_t length = 4;
  std::memcpy(text, "gaps", 4);
  const auto add = [&](const char* before, std::uint64_t number) {
    length +=
        static_cast<std::size_t>(std::snprintf(text + length, sizeof text - length, "%s%llu",
                                               before, static_cast<unsigned long long>(number)));
  };
  for (std::size_t i = 0; i < map_.count; ++i) {
    add(" ", map_.gaps[i].from);
    add("-", map_.gaps[i].to);
  }
  if (map_.ring.size > 0) {
    map_.ring.end = bytes_;
    add(" ring=", map_.ring.from);
    add("+", map_.ring.size);
    add(" end=", map_.ring.end);
  }
  const std::uint32_t crc = crc32(text, length);
  std::memcpy(text + length, " crc=", 5);
  crc32_hex(crc, text + length + 5);
  text[length + 13] = '\n';
  length += 14;
  ssize_t written = 0;
  do {
    written = pwrite(gaps_fd_, text, length, 0);
  } while (written < 0 && errno == EINTR);
  published_ = written == static_cast<ssize_t>(length);
  if (!published_) stall("gaps_unwritten");
  return published_;
}

// Gives back the middle when more than cap + slack would be kept.
void OutputFile::make_room(std::size_t size, std::uint64_t slack) {
  if (!limits_.holes || kept() + size <= limits_.cap + slack) return;
  const std::uint64_t tail = limits_.cap - limits_.head;
  std::uint64_t to = bytes_ + size > tail ? align_down(bytes_ + size - tail) : 0;
  if (to > align_down(bytes_)) to = align_down(bytes_);
  const std::uint64_t from = align_up(limits_.head);
  if (to <= from || to <= punched_to_) return;
  const bool first = punched_to_ == 0;
  const OutputMap before = map_;
  if (!give_up({first ? line_end_before(from) : from, line_end_after(to)})) return;
  if (punch(first ? from : punched_to_, to)) {
    punched_to_ = to;
    return;
  }
  map_ = before;
  no_more_holes();
  publish();
}

void OutputFile::lower_cap(std::uint64_t cap) {
  if (cap < kCapMin) cap = kCapMin;
  if (fd_ < 0 || cap >= limits_.cap || !limits_.holes) return;
  limits_.cap = cap;
  if (limits_.head > cap / 2) limits_.head = cap / 2;
  slack_ = cap / 4 < kCapSlack ? cap / 4 : kCapSlack;
  punched_to_ = 0;  // the head ends earlier now
  dirty_ = true;
  make_room(0, 0);
}

bool OutputFile::punch(std::uint64_t from, std::uint64_t to) {
  return fallocate(fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                   static_cast<off_t>(to - from)) == 0;
}

// From now on the file goes round where it has reached the cap.
void OutputFile::no_more_holes() {
  limits_.holes = false;
  const std::uint64_t from = align_up(limits_.head);
  std::uint64_t wraps_at = align_down(limits_.cap + kCapSlack);
  if (wraps_at < align_up(bytes_)) wraps_at = align_up(bytes_);
  ring_size_ = wraps_at - from;
}

// Room for `size` bytes, at most a quarter of the ring, before the newest ones are reached.
bool OutputFile::make_ring_room(std::size_t size) {
  // The head may have been lowered since the ring was begun; the file is laid out as it was.
  const std::uint64_t from = map_.ring.size > 0 ? map_.ring.from : align_up(limits_.head);
  if (bytes_ + size <= from + ring_size_) return true;
  const std::uint64_t lost = bytes_ + size - ring_size_;  // everything before, down to the head
  if (map_.ring.size > 0 && lost <= overwritten_to_) return true;
  std::uint64_t to = lost + (ring_size_ / 8 < kRingStep ? ring_size_ / 8 : kRingStep);
  if (to > bytes_) to = bytes_;
  const bool first = map_.ring.size == 0;
  const OutputRing before = map_.ring;
  if (first) map_.ring = {from, ring_size_, bytes_};
  if (!give_up({first ? line_end_before(from) : from, line_end_after(to)})) {
    map_.ring = before;
    return false;
  }
  overwritten_to_ = to;
  return true;
}

std::size_t OutputFile::read_at(std::uint64_t offset, char* data, std::size_t size) const {
  std::size_t done = 0;
  while (done < size) {
    const OutputPlace place = place_of(map_.ring, offset + done);
    const std::uint64_t want = size - done < place.run ? size - done : place.run;
    const ssize_t n =
        pread(fd_, data + done, static_cast<std::size_t>(want), static_cast<off_t>(place.position));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

// The offset after the last newline in the 4 KiB before `offset`, or `offset`.
std::uint64_t OutputFile::line_end_before(std::uint64_t offset) const {
  char text[kBlock];
  const std::uint64_t from = offset > kBlock ? offset - kBlock : 0;
  for (std::size_t i = read_at(from, text, static_cast<std::size_t>(offset - from)); i > 0; --i) {
    if (text[i - 1] == '\n') return from + i;
  }
  return offset;
}

// The offset after the first newline in the 4 KiB from `offset` on, or `offset`.
std::uint64_t OutputFile::line_end_after(std::uint64_t offset) const {
  char text[kBlock];
  std::uint64_t want = bytes_ > offset ? bytes_ - offset : 0;
  if (want > sizeof text) want = sizeof text;
  const std::size_t n = read_at(offset, text, static_cast<std::size_t>(want));
  for (std::size_t i = 0; i < n; ++i) {
    if (text[i] == '\n') return offset + i + 1;
  }
  return offset;
}

void OutputFile::sync() {
  if (!dirty_) return;
  dirty_ = false;
  if (!published_) publish();
  if (map_.count > 0) fdatasync(gaps_fd_);
  fdatasync(fd_);
}

bool OutputFile::hash_range(Sha256& hash, std::uint64_t from, std::uint64_t to) const {
  static char buffer[65536];
  while (from < to) {
    const std::uint64_t want = to - from < sizeof buffer ? to - from : sizeof buffer;
    const std::size_t n = read_at(from, buffer, static_cast<std::size_t>(want));
    if (n == 0) return false;
    hash.update(buffer, n);
    from += n;
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
  for (std::size_t i = 0; i < map_.count && good; ++i) {
    good = hash_range(hash, at, map_.gaps[i].from);
    char mark[64];
    const int length = std::snprintf(mark, sizeof mark, "gap:%llu-%llu",
                                     static_cast<unsigned long long>(map_.gaps[i].from),
                                     static_cast<unsigned long long>(map_.gaps[i].to));
    hash.update(mark, static_cast<std::size_t>(length));
    at = map_.gaps[i].to;
  }
  if (!good || !hash_range(hash, at, bytes_)) {
    digest_reason_ = "the output file cannot be read back";
    return "";
  }
  hash.finish_hex(digest_);
  return digest_;
}

}  // namespace waybill::shim
