#include "cli/output.h"

#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "edge/json.h"

namespace waybill::cli {
namespace {

bool write_failed = false;
int write_errno = 0;

bool colours() {
  static const bool wanted = [] {
    const char* off = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return stdout_is_terminal() && (off == nullptr || *off == '\0') &&
           !(term != nullptr && std::string_view(term) == "dumb");
  }();
  return wanted;
}

// One character of valid UTF-8 from the front of `text`.
struct Character {
  std::size_t length = 1;
  char32_t point = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&text](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  if (lead < 0xE0) return {2, ((lead & 0x1FU) << 6) | (byte(1) & 0x3FU)};
  if (lead < 0xF0) {
    return {3, ((lead & 0x0FU) << 12) | ((byte(1) & 0x3FU) << 6) | (byte(2) & 0x3FU)};
  }
  return {4, ((lead & 0x07U) << 18) | ((byte(1) & 0x3FU) << 12) | ((byte(2) & 0x3FU) << 6) |
                 (byte(3) & 0x3FU)};
}

// Controls, and the characters that reorder or hide what a person sees.
bool unsafe(char32_t point) {
  return point < 0x20 || (point >= 0x7F && point < 0xA0) || point == 0x061C ||
         (point >= 0x200B && point <= 0x200F) || (point >= 0x2028 && point <= 0x202E) ||
         (point >= 0x2060 && point <= 0x2069) || point == 0xFEFF;
}

std::string filtered(std::string_view text, bool keep_lines) {
  const std::string valid = edge::valid_utf8(text);
  std::string out;
  for (std::size_t i = 0; i < valid.size();) {
    const Character character = first_character(std::string_view(valid).substr(i));
    const bool kept = keep_lines && (character.point == '\n' || character.point == '\t');
    if (!unsafe(character.point) || kept) {
      out += valid.substr(i, character.length);
    } else if (!keep_lines) {
      out += ' ';
    }
    i += character.length;
  }
  return out;
}

// Columns that a cell takes, near enough: characters, without our own colour sequences.
std::size_t width(std::string_view cell) {
  std::size_t out = 0;
  for (std::size_t i = 0; i < cell.size(); ++i) {
    if (cell[i] == '\x1b') {
      i = std::min(cell.find('m', i), cell.size() - 1);
    } else if ((static_cast<unsigned char>(cell[i]) & 0xC0U) != 0x80) {
      ++out;
    }
  }
  return out;
}

}  // namespace

bool stdout_is_terminal() {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  return terminal;
}

std::string coloured(Colour colour, std::string_view text) {
  if (!colours() || colour == Colour::none) return std::string(text);
  std::string_view code;
  switch (colour) {
    case Colour::none:
      break;
    case Colour::green:
      code = "32";
      break;
    case Colour::red:
      code = "31";
      break;
    case Colour::yellow:
      code = "33";
      break;
    case Colour::grey:
      code = "90";
      break;
    case Colour::bold:
      code = "1";
      break;
  }
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

std::string safe_line(std::string_view text) { return filtered(text, false); }
std::string safe_block(std::string_view text) { return filtered(text, true); }

void print(std::string_view text) {
  if (!write_failed && std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
    write_failed = true;
    write_errno = errno;
  }
}

void print_line(std::string_view text) {
  print(text);
  print("\n");
}

Result<void> flush_stdout() {
  if (!write_failed && std::fflush(stdout) != 0) {
    write_failed = true;
    write_errno = errno;
  }
  if (!write_failed) return {};
  return fail(ErrorCode::unavailable, "The answer could not be written to standard output: " +
                                          std::string(strerror(write_errno)) +
                                          ". What was to be delivered stays pending.");
}

void note(std::string_view text) { std::fprintf(stderr, "waybill: %s\n", safe_line(text).c_str()); }

void print_error(const Error& error, bool json) {
  const std::string_view word = to_word(error.code);
  note(error.message + " [" + std::string(word) + "]");
  if (!json) return;
  const boost::json::value document = boost::json::object{
      {"error", boost::json::object{{"code", boost::json::string_view(word.data(), word.size())},
                                    {"message", edge::valid_utf8(error.message)}}}};
  std::fprintf(stderr, "%s\n", edge::to_text(document).c_str());
}

std::string Table::text() const {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string out;
  for (const std::vector<std::string>& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += row[i];
      if (i + 1 < row.size()) out += std::string(widths[i] - width(row[i]) + 2, ' ');
    }
    out += "\n";
  }
  return out;
}

}  // namespace waybill::cli
