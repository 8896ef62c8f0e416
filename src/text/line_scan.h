#pragma once
// Cuts raw output into lines as a person would read them: each is rendered on its own (the last
// frame of a progress bar, no escapes), however the bytes arrive. One scan per stream.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace waybill::text {

class LineScan {
 public:
  // What a line holds beyond this is not looked at.
  static constexpr std::size_t kLineBytesMax = 64 * 1024;

  using Use = std::function<void(std::string_view line)>;

  explicit LineScan(std::uint64_t offset) : line_start_(offset), offset_(offset) {}

  // The lines that these bytes complete, without their newlines.
  void push(std::string_view bytes, const Use& use);
  // The bytes up to `offset` are not to be had: the line that they cut is dropped, and what is left
  // of the one behind them counts as a line (the writer cuts at line ends where it can).
  void skip_to(std::uint64_t offset);

  // Where a new scan has to begin to find the line that is not complete yet.
  std::uint64_t line_start() const { return line_start_; }
  std::uint64_t offset() const { return offset_; }

 private:
  void keep_last_frame(std::string_view more);

  std::string line_;
  std::uint64_t line_start_;
  std::uint64_t offset_;
};

}  // namespace waybill::text
