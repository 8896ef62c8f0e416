#include "shim/record.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/crc32.h"

namespace waybill::shim {

JsonLine::JsonLine() {
  put("{\"protocol\":");
  put_number(static_cast<std::uint64_t>(kProtocol));
  comma_ = true;
}

void JsonLine::put_char(char c) {
  if (length_ + kTrailer >= kRecordBytesMax) {
    overflow_ = true;
    return;
  }
  buffer_[length_++] = c;
}

void JsonLine::put(std::string_view text) {
  for (char c : text) put_char(c);
}

void JsonLine::put_number(std::uint64_t value) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  while (count > 0) put_char(digits[--count]);
}

void JsonLine::key_of(std::string_view key) {
  if (comma_) put_char(',');
  comma_ = true;
  if (key.empty()) return;
  put_char('"');
  put(key);
  put("\":");
}

void JsonLine::number(std::string_view key, std::uint64_t value) {
  key_of(key);
  put_number(value);
}

void JsonLine::integer(std::string_view key, std::int64_t value) {
  key_of(key);
  if (value < 0) put_char('-');
  put_number(value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value));
}

void JsonLine::boolean(std::string_view key, bool value) {
  key_of(key);
  put(value ? "true" : "false");
}

void JsonLine::null(std::string_view key) {
  key_of(key);
  put("null");
}

void JsonLine::element(std::uint64_t value) {
  key_of({});
  put_number(value);
}

void JsonLine::open(std::string_view key, char bracket) {
  key_of(key);
  put_char(bracket);
  comma_ = false;
}

void JsonLine::close(char bracket) {
  put_char(bracket);
  comma_ = true;
}

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0U) == 0x80U; };
  if (text.empty()) return 0;
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if (!tail(1) || !tail(2)) return 0;
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return overlong || surrogate ? 0 : 3;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    const bool overlong = lead == 0xF0 && byte(1) < 0x90;
    const bool beyond = lead == 0xF4 && byte(1) >= 0x90;
    return overlong || beyond ? 0 : 4;
  }
  return 0;
}

void JsonLine::text(std::string_view key, std::string_view value) {
  static constexpr char kDigits[] = "0123456789abcdef";
  key_of(key);
  put_char('"');
  while (!value.empty()) {
    const std::size_t length = utf8_length(value);
    const char c = value[0];
    if (length == 0) {
      put_char('?');
    } else if (length > 1) {
      put(value.substr(0, length));
    } else if (c == '"' || c == '\\') {
      put_char('\\');
      put_char(c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      put("\\u00");
      put_char(kDigits[(c >> 4) & 7]);
      put_char(kDigits[c & 15]);
    } else {
      put_char(c);
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  put_char('"');
}

std::string_view JsonLine::finish() {
  static constexpr std::string_view kKey = ",\"crc\":\"";
  const std::uint32_t crc = crc32(buffer_, length_);
  std::memcpy(buffer_ + length_, kKey.data(), kKey.size());
  length_ += kKey.size();
  crc32_hex(crc, buffer_ + length_);
  length_ += 8;
  std::memcpy(buffer_ + length_, "\"}\n", 3);
  length_ += 3;
  return {buffer_, length_};
}

int reserve_record(int dir, const char* tmp, std::size_t bytes) {
  const int fd = openat(dir, tmp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -errno;
  if (bytes == 0) return fd;
  const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  if (error == 0) return fd;
  close(fd);
  return -error;
}

int fill_record(int fd, std::string_view line) {
  std::size_t done = 0;
  while (done < line.size()) {
    const ssize_t n = pwrite(fd, line.data() + done, line.size() - done, static_cast<off_t>(done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0 ? EIO : errno;
    done += static_cast<std::size_t>(n);
  }
  return ftruncate(fd, static_cast<off_t>(line.size())) == 0 ? 0 : errno;
}

int publish_record(int fd, RecordNames names, std::string_view line) {
  const int error = fill_record(fd, line);
  if (error != 0) return error;
  return renameat(names.dir, names.tmp, names.dir, names.name) == 0 ? 0 : errno;
}

int sync_record(int fd, int dir) {
  if (fsync(fd) != 0) return errno;
  return fsync(dir) == 0 ? 0 : errno;
}

int write_record(RecordNames names, std::string_view line) {
  const int fd = reserve_record(names.dir, names.tmp, 0);
  if (fd < 0) return -fd;
  int error = fill_record(fd, line);
  if (error == 0 && fsync(fd) != 0) error = errno;
  close(fd);
  if (error == 0 && renameat(names.dir, names.tmp, names.dir, names.name) != 0) error = errno;
  if (error == 0 && fsync(names.dir) != 0) error = errno;
  return error;
}

}  // namespace waybill::shim
