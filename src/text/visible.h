#pragma once
// Characters that a reader cannot see, or that change what it sees of others.

#include <string>

namespace waybill::text {

// Bidirectional controls, zero-width and other invisible format characters, tag characters and the
// variation selectors that can carry hidden bytes, line and paragraph separators. Ordinary text
// in any script does without them, but for the joiners of some emoji and scripts, which are
// shown too.
bool is_invisible(char32_t code);

// C0, DEL and C1.
bool is_control(char32_t code);

// The character itself, or `\u{202e}` for an invisible one.
void append_visible(std::string& out, char32_t code);

// U+2400 and following: a picture of a C0 control or of DEL; `\u{85}` for C1.
void append_control_picture(std::string& out, char32_t code);

}  // namespace waybill::text
