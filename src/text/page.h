#pragma once
// A long text in pages that never cut a character; joined they are the text, byte for byte.

#include <cstddef>
#include <optional>
#include <string_view>

namespace waybill::text {

struct Page {
  std::string_view text;  // a piece of the text that was given
  std::size_t offset = 0;
  std::optional<std::size_t> next_offset;  // null at the end
};

// At most `bytes_max` bytes from `offset` on, but always at least one character. An offset inside a
// character moves back to its start, one behind the end gives an empty last page.
Page page_of(std::string_view text, std::size_t offset, std::size_t bytes_max);

// The same, where `bytes_max` bounds the page as the inside of a JSON string: quotes, backslashes
// and control characters count as they are escaped, other characters as their bytes.
Page page_of_serialised(std::string_view text, std::size_t offset, std::size_t bytes_max);

}  // namespace waybill::text
