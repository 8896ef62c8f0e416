#include "cli/quote.h"

#include <algorithm>
#include <array>

namespace waybill::cli {
namespace {

constexpr std::array<std::string_view, 26> kReserved{
    "if",       "then",   "else",      "elif",   "fi",   "do",      "done",    "case",  "esac",
    "while",    "until",  "for",       "in",     "time", "coproc",  "select",  "end",   "foreach",
    "function", "repeat", "nocorrect", "noglob", "exec", "command", "builtin", "always"};

bool plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == '/' || c == ':' || c == ',' || c == '@' || c == '+' ||
         c == '%';
}

std::string in_quotes(std::string_view word) {
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace

std::string shell_quote(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) return std::string(word);
  return in_quotes(word);
}

std::string shell_join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += ' ';
    const bool reserved =
        out.empty() && std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
    out += reserved ? in_quotes(word) : shell_quote(word);
  }
  return out;
}

}  // namespace waybill::cli
