#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace waybill::core {

// Blank, tab, newline, vertical tab, form feed, carriage return.
bool is_space(char c);

// One line: runs of white space are one blank, other control characters a question mark; cut at a
// character after `max` characters.
std::string one_line(std::string_view text, std::size_t max);

}  // namespace waybill::core
