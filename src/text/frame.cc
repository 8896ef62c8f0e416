#include "text/frame.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "text/preview.h"
#include "text/utf8.h"

namespace waybill::text {
namespace {

constexpr std::size_t kAttributeCharactersMax = 256;

// Compatibility forms of < and >, and what opens like an angle bracket. Those that close (❯ ›) form
// no markup alone and are common in the output of tools.
constexpr std::array<char32_t, 11> kLookAlikes{0xFF1C, 0xFF1E, 0xFE64, 0xFE65, 0x2039, 0x2329,
                                               0x276E, 0x27E8, 0x3008, 0x02C2, 0x1438};

bool begins_entity(std::string_view behind) {
  if (behind.empty()) return true;  // text may follow
  const char c = behind[0];
  return c == '#' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// What one character becomes; `behind` is the text after it.
std::string escaped(char32_t code, std::string_view behind) {
  if (code == '<') return "&lt;";
  if (code == '&' && begins_entity(behind)) return "&amp;";
  std::string text;
  if (std::find(kLookAlikes.begin(), kLookAlikes.end(), code) == kLookAlikes.end()) {
    append_utf8(text, code);
    return text;
  }
  std::array<char, 8> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(),
                                          static_cast<std::uint32_t>(code), 16);
  return "&#x" + std::string(digits.data(), end) + ";";
}

}  // namespace

std::string escape_untrusted(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    text.remove_prefix(character.size);
    if (character.code < 0x80 && character.code != '<' && character.code != '&') {
      out += static_cast<char>(character.code);
    } else {
      out += escaped(character.code, text);
    }
  }
  return out;
}

std::string untrusted_line(std::string_view text, std::size_t characters) {
  return escape_untrusted(preview(text, characters));
}

std::string attribute(std::string_view name, std::string_view value) {
  std::string out = " " + std::string(name) + "=\"";
  for (const char c : untrusted_line(value, kAttributeCharactersMax)) {
    if (c == '"') {
      out += "&quot;";
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace waybill::text
