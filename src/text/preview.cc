#include "text/preview.h"

#include "text/utf8.h"
#include "text/visible.h"

namespace waybill::text {
namespace {

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string shown(char32_t code) {
  std::string text;
  if (code == '\n') {
    text = "⏎";
  } else if (code == '\t') {
    text = " ";
  } else if (is_control(code)) {
    append_control_picture(text, code);
  } else {
    append_visible(text, code);
  }
  return text;
}

}  // namespace

std::string preview(std::string_view text, std::size_t characters) {
  text = trim(text);
  if (characters == 0) return {};
  std::string line;
  std::size_t used = 0;
  std::size_t room_for_mark = 0;  // where to cut so that `…` still fits
  while (!text.empty()) {
    const Character character = first_character(text);
    const bool crlf = text.substr(0, 2) == "\r\n";
    const std::string piece = crlf ? "⏎" : shown(character.code);
    const std::size_t width = count_code_points(piece);
    if (used + width > characters) {
      line.resize(room_for_mark);
      return line + "…";
    }
    line += piece;
    used += width;
    if (used < characters) room_for_mark = line.size();
    text.remove_prefix(crlf ? 2 : character.size);
  }
  return line;
}

}  // namespace waybill::text
