#pragma once
// UTF-8 as a value: validate, decode with marks for what is broken, cut at characters.
//
// "Broken" follows the Unicode standard (table 3-7): surrogates, overlong forms and values above
// U+10FFFF are invalid, and each maximal subpart of an ill-formed sequence gives one U+FFFD,
// whatever the pieces the bytes arrive in. Pure; linear; never throws but for memory.

#include <cstddef>
#include <string>
#include <string_view>

namespace waybill::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// The first character of `bytes` (which must not be empty).
struct Character {
  enum class Kind { valid, invalid, incomplete };
  Kind kind = Kind::invalid;
  char32_t code = 0xFFFD;  // valid: the code point
  std::size_t size = 1;    // bytes it takes; of an invalid one, its maximal subpart
};
// `incomplete`: the bytes end inside a sequence that is well-formed so far; more may complete it.
Character first_character(std::string_view bytes);

void append_utf8(std::string& out, char32_t code);

bool is_valid_utf8(std::string_view bytes);
std::string decode_lossy(std::string_view bytes);

// Code points; a broken subpart counts as one.
std::size_t count_code_points(std::string_view bytes);

// The greatest offset ≤ limit that does not cut a character (bytes.size() when that is smaller).
std::size_t boundary_before(std::string_view bytes, std::size_t limit);
// The smallest offset ≥ from that does not cut a character.
std::size_t boundary_after(std::string_view bytes, std::size_t from);
// The longest beginning of at most `limit` bytes that ends with a whole character.
std::string_view prefix(std::string_view bytes, std::size_t limit);

// Decodes a stream: a character that is split over two pieces comes out whole. Holds at most three
// bytes.
class Utf8Decoder {
 public:
  std::string push(std::string_view bytes);
  // The end of the stream: a held beginning becomes one U+FFFD. The decoder starts anew.
  std::string finish();

 private:
  std::string held_;
};

}  // namespace waybill::text
