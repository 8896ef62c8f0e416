#include "cli/quote.h"

#include <algorithm>
#include <array>
#include <utility>

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

std::optional<std::vector<std::string>> shell_split(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = c == ' ' || c == '\t' || c == '\n';
    if (quote == 0 && blank) {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
      continue;
    }
    in_word = true;
    if (c == '\\' && quote != '\'' && i + 1 < text.size()) {
      word.push_back(text[++i]);
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else {
      word.push_back(c);
    }
  }
  if (quote != 0) return std::nullopt;
  if (in_word) words.push_back(std::move(word));
  return words;
}

}  // namespace waybill::cli
