#include "text/line_scan.h"

#include <algorithm>

#include "text/render.h"

namespace waybill::text {

void LineScan::push(std::string_view bytes, const Use& use) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, newline);
    const std::size_t room = kLineBytesMax - std::min(line_.size(), kLineBytesMax);
    line_.append(piece.substr(0, room));
    // Of frames that overwrite each other only the newest is of interest.
    if (piece.size() > room) keep_last_frame(piece.substr(room));
    if (newline == std::string_view::npos) {
      offset_ += bytes.size();
      return;
    }
    offset_ += newline + 1;
    bytes.remove_prefix(newline + 1);
    use(render(line_));
    line_.clear();
    line_start_ = offset_;
  }
}

// The line is full: what it holds is replaced by what the terminal would show last.
void LineScan::keep_last_frame(std::string_view more) {
  const std::size_t rewind = more.find_last_of('\r', more.size() - (more.ends_with('\r') ? 2 : 1));
  if (rewind == std::string_view::npos) return;
  line_ = more.substr(rewind, kLineBytesMax);
}

void LineScan::skip_to(std::uint64_t offset) {
  if (offset <= offset_) return;
  line_.clear();
  offset_ = line_start_ = offset;
}

}  // namespace waybill::text
