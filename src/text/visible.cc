#include "text/visible.h"

#include <array>
#include <charconv>
#include <cstdint>

#include "text/utf8.h"

namespace waybill::text {
namespace {

struct Range {
  char32_t from;
  char32_t to;
};

constexpr std::array<Range, 12> kInvisible{{{0x00AD, 0x00AD},
                                            {0x061C, 0x061C},
                                            {0x180E, 0x180E},
                                            {0x200B, 0x200F},
                                            {0x2028, 0x202E},
                                            {0x2060, 0x206F},
                                            {0x3164, 0x3164},
                                            {0xFEFF, 0xFEFF},
                                            {0xFFF9, 0xFFFB},
                                            {0x1D173, 0x1D17A},
                                            {0xE0000, 0xE007F},
                                            {0xE0100, 0xE01EF}}};

void append_escape(std::string& out, char32_t code) {
  std::array<char, 8> digits{};
  const auto [end, error] = std::to_chars(digits.data(), digits.data() + digits.size(),
                                          static_cast<std::uint32_t>(code), 16);
  out += "\\u{";
  out.append(digits.data(), end);
  out += '}';
}

}  // namespace

bool is_invisible(char32_t code) {
  if (code < 0x00AD) return false;
  for (const Range& range : kInvisible) {
    if (code >= range.from && code <= range.to) return true;
  }
  return false;
}

bool is_control(char32_t code) { return code < 0x20 || (code >= 0x7F && code <= 0x9F); }

void append_visible(std::string& out, char32_t code) {
  if (is_invisible(code)) {
    append_escape(out, code);
  } else {
    append_utf8(out, code);
  }
}

void append_control_picture(std::string& out, char32_t code) {
  if (code < 0x20) {
    append_utf8(out, 0x2400 + code);
  } else if (code == 0x7F) {
    append_utf8(out, 0x2421);
  } else {
    append_escape(out, code);
  }
}

}  // namespace waybill::text
