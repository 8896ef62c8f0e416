#pragma once
// Records: one line of flat JSON with "protocol" first and "crc" last, written in full, then
// renamed. A record is there or it is not; a half-written one never has its final name, and one
// that does not check was damaged afterwards. No exceptions, no allocation.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shim/files.h"

namespace waybill::shim {

// Builds one line in a buffer of its own. What does not fit is dropped and `overflow` says so;
// callers that write lists ask `room` before each entry.
class JsonLine {
 public:
  JsonLine();

  void number(std::string_view key, std::uint64_t value);
  void integer(std::string_view key, std::int64_t value);
  void text(std::string_view key, std::string_view value);  // bytes that are no UTF-8 become '?'
  void boolean(std::string_view key, bool value);
  void null(std::string_view key);
  void open(std::string_view key, char bracket);  // '{' or '['; an empty key inside a list
  void close(char bracket);
  void element(std::uint64_t value);  // a number inside a list

  // Ends the line with the checksum of everything before it. The view lives as long as this object.
  std::string_view finish();

  std::size_t room() const { return kRecordBytesMax - kTrailer - length_; }
  bool overflow() const { return overflow_; }

 private:
  static constexpr std::size_t kTrailer = 32;

  void key_of(std::string_view key);
  void put(std::string_view text);
  void put_char(char c);
  void put_number(std::uint64_t value);

  char buffer_[kRecordBytesMax];
  std::size_t length_ = 0;
  bool comma_ = false;
  bool overflow_ = false;
};

// Length of the valid UTF-8 sequence at the front of `text`, 0 if there is none.
std::size_t utf8_length(std::string_view text);

struct RecordNames {
  int dir;
  const char* tmp;
  const char* name;
};

// Opens (creating it) the file that will become a record and reserves its space. The descriptor, or
// -errno.
int reserve_record(int dir, const char* tmp, std::size_t bytes);

// Overwrites the file at `fd` with `line`. 0 or errno.
int fill_record(int fd, std::string_view line);

// fill, rename. Not yet durable: sync_record makes it so. 0 or errno.
int publish_record(int fd, RecordNames names, std::string_view line);

// fsync of the file and of its directory. 0 or errno.
int sync_record(int fd, int dir);

// A record whose space was not reserved: create, fill, sync, rename, sync the directory. 0 or
// errno.
int write_record(RecordNames names, std::string_view line);

}  // namespace waybill::shim
