#include "core/one_line.h"

namespace waybill::core {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string one_line(std::string_view text, std::size_t max) {
  std::string line;
  std::size_t characters = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool continues = (byte & 0xC0U) == 0x80U;
    if (is_space(text[i])) {
      if (line.empty() || line.back() == ' ') continue;
    }
    if (!continues && characters == max) {
      while (!line.empty() && line.back() == ' ') line.pop_back();
      return line + "…";
    }
    if (!continues) ++characters;
    if (is_space(text[i])) {
      line += ' ';
    } else if (byte < 0x20 || byte == 0x7F) {
      line += '?';
    } else {
      line += text[i];
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

}  // namespace waybill::core
