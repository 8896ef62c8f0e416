#pragma once
// What a change does to a text, for people: lines taken out and put in, by line number. Only what
// is taken out or put in is shown; the rest of a line that stays is `…`, since settings hold
// secrets. Pure.

#include <optional>
#include <string>

namespace waybill::cli {

// Like a unified diff without context, each line ended; "" when nothing changed.
std::string line_diff(const std::optional<std::string>& before,
                      const std::optional<std::string>& after);

}  // namespace waybill::cli
