#pragma once
// One line that stands for a longer text: a command, a label, a reason.

#include <cstddef>
#include <string>
#include <string_view>

namespace waybill::text {

inline constexpr std::size_t kPreviewCharactersMax = 200;

// Valid UTF-8 of at most `characters` code points, `…` last when something was cut. White space at
// both ends is dropped, a newline is `⏎`, a tab a blank, other controls are pictures (␀ … ␡),
// invisible characters `\u{202e}`, never cut in two. Reads no further than it needs.
std::string preview(std::string_view text, std::size_t characters = kPreviewCharactersMax);

}  // namespace waybill::text
