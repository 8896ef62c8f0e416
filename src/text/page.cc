#include "text/page.h"

#include <algorithm>

#include "text/utf8.h"

namespace waybill::text {
namespace {

Page cut(std::string_view text, std::size_t offset, std::size_t end) {
  Page page{text.substr(offset, end - offset), offset, std::nullopt};
  if (end < text.size()) page.next_offset = end;
  return page;
}

std::size_t serialised_size(std::string_view character) {
  const auto byte = static_cast<unsigned char>(character[0]);
  if (byte == '"' || byte == '\\') return 2;
  if (byte >= 0x20) return character.size();
  return byte == '\n' || byte == '\r' || byte == '\t' || byte == '\b' || byte == '\f' ? 2 : 6;
}

}  // namespace

Page page_of(std::string_view text, std::size_t offset, std::size_t bytes_max) {
  offset = boundary_before(text, offset);
  if (offset == text.size()) return cut(text, offset, offset);
  const std::size_t left = text.size() - offset;
  const std::size_t limit = offset + std::min(bytes_max, left);
  const std::size_t least = offset + first_character(text.substr(offset)).size;
  return cut(text, offset, std::max(least, boundary_before(text, limit)));
}

Page page_of_serialised(std::string_view text, std::size_t offset, std::size_t bytes_max) {
  offset = boundary_before(text, offset);
  std::size_t end = offset;
  std::size_t used = 0;
  while (end < text.size()) {
    const std::size_t size = first_character(text.substr(end)).size;
    used += serialised_size(text.substr(end, size));
    if (used > bytes_max && end > offset) break;
    end += size;
  }
  return cut(text, offset, end);
}

}  // namespace waybill::text
