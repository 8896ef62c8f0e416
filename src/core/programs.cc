// What is known about the programs of single stages; declared in core/pipeline.h.

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/pipeline.h"

namespace waybill::core {
namespace {

constexpr std::array<std::string_view, 16> kPredicates{
    "grep", "egrep", "fgrep", "zgrep", "rg",    "ag",    "diff",  "cmp",
    "test", "[",     "[[",    "expr",  "pgrep", "pidof", "which", "type"};
constexpr std::array<std::string_view, 5> kMatchers{"grep", "egrep", "fgrep", "rg", "ag"};
// Prefixes that run the program named behind them and pass on how it ended.
constexpr std::array<std::string_view, 5> kBarePrefixes{"command", "builtin", "exec", "sudo",
                                                        "nohup"};

template <class List>
bool holds(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

struct Word {
  std::string text;      // quotes removed
  bool dynamic = false;  // holds an expansion: its text is not what the program sees
  bool quoted = false;
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

// Splits one simple command into words and drops its redirections. It stops before the first word
// that it cannot read: what stands before that is certain all the same.
class Splitter {
 public:
  explicit Splitter(std::string_view text) : text_(text) {}

  std::vector<Word> split() {
    std::vector<Word> words;
    bool target = false;  // the next word belongs to a redirection
    while (true) {
      while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
      if (at_ == text_.size()) break;
      const char c = text_[at_];
      if (c == '<' || c == '>' || (c == '&' && text_.substr(at_, 2) == "&>")) {
        if (!skip_operator()) break;
        target = true;
        continue;
      }
      Word word;
      if (!read(word)) break;
      const bool descriptor =
          at_ < text_.size() && (text_[at_] == '<' || text_[at_] == '>') &&
          std::all_of(
              word.text.begin(), word.text.end(), [](char d) { return d >= '0' && d <= '9'; });
      if (!target && !descriptor) words.push_back(std::move(word));
      target = false;
    }
    return words;
  }

 private:
  bool skip_operator() {
    ++at_;
    while (at_ < text_.size() &&
           std::string_view("<>&|").find(text_[at_]) != std::string_view::npos)
      ++at_;
    return at_ < text_.size() && text_[at_] != '(';
  }

  bool read(Word& word) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && !is_blank(text_[at_])) {
      const char c = text_[at_];
      if (c == '<' || c == '>') break;
      if (std::string_view("|&;()`").find(c) != std::string_view::npos) return false;
      if (c == '\'' || c == '"') {
        if (!read_quoted(word, c)) return false;
      } else if (c == '\\') {
        if (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') word.text += text_[at_ + 1];
        word.quoted = true;
        at_ = std::min(at_ + 2, text_.size());
      } else {
        if (c == '$') word.dynamic = true;
        if (c == '$' && at_ + 1 < text_.size() && text_[at_ + 1] == '(') return false;
        word.text += c;
        ++at_;
      }
    }
    return at_ > begin;
  }

  bool read_quoted(Word& word, char quote) {
    word.quoted = true;
    ++at_;
    while (at_ < text_.size() && text_[at_] != quote) {
      if (quote == '"' && (text_[at_] == '`' || text_.substr(at_, 2) == "$(")) return false;
      if (quote == '"' && text_[at_] == '$') word.dynamic = true;
      if (quote == '"' && text_[at_] == '\\' && at_ + 1 < text_.size()) ++at_;
      word.text += text_[at_];
      ++at_;
    }
    if (at_ == text_.size()) return false;
    ++at_;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool is_assignment(const Word& word) {
  const std::size_t equals = word.text.find('=');
  if (equals == std::string::npos || equals == 0) return false;
  return std::all_of(word.text.begin(), word.text.begin() + static_cast<std::ptrdiff_t>(equals),
                     [](char c) {
                       return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
                              (c >= 'A' && c <= 'Z');
                     });
}

bool is_option(const Word& word) { return word.text.size() > 1 && word.text[0] == '-'; }

// Moves past the options of one prefix that we know; false: an option whose meaning is not known.
bool skip_prefix(const std::vector<Word>& words, std::size_t& at, std::string_view prefix) {
  ++at;
  if (prefix == "env") {
    while (at < words.size() && (words[at].text == "-i" || is_assignment(words[at]))) ++at;
  } else if (prefix == "time") {
    if (at < words.size() && words[at].text == "-p") ++at;
  } else if (prefix == "nice") {
    if (at < words.size() && words[at].text == "-n") at += 2;
    if (at < words.size() && words[at].text.size() > 1 && words[at].text[0] == '-' &&
        words[at].text.find_first_not_of("0123456789", 1) == std::string::npos)
      ++at;
  } else if (prefix == "timeout") {
    if (at < words.size() && !is_option(words[at])) ++at;
  }
  return at >= words.size() || !is_option(words[at]);
}

struct Program {
  std::string name;  // without its folder; "" when unsure
  std::vector<Word> arguments;
};

Program program_of(std::string_view stage) {
  Program found;
  const std::vector<Word> words = Splitter(stage).split();
  std::size_t at = 0;
  while (at < words.size() && !words[at].quoted && is_assignment(words[at])) ++at;
  for (int prefixes = 0; at < words.size() && prefixes < 8; ++prefixes) {
    const Word& word = words[at];
    if (word.dynamic || word.text.empty()) return found;
    const std::string name = word.text.substr(word.text.rfind('/') + 1);
    const bool prefix = holds(kBarePrefixes, name) || name == "env" || name == "time" ||
                        name == "nice" || name == "timeout";
    if (!prefix) {
      if (name.find_first_of("*?~{}") != std::string::npos) return found;
      found.name = name;
      found.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
      return found;
    }
    if (!skip_prefix(words, at, name)) return found;
  }
  return found;
}

bool has_argument(const Program& program, std::string_view word) {
  return std::any_of(program.arguments.begin(), program.arguments.end(),
                     [&](const Word& argument) { return argument.text == word; });
}

// A bundle of short options that holds `letter`, before any `--`.
bool has_letter(const Program& program, char letter) {
  for (const Word& argument : program.arguments) {
    if (argument.text == "--") return false;
    if (is_option(argument) && argument.text[1] != '-' &&
        argument.text.find(letter) != std::string::npos)
      return true;
  }
  return false;
}

// The first word behind git's own options.
std::string git_verb(const Program& program) {
  for (std::size_t i = 0; i < program.arguments.size(); ++i) {
    const std::string& word = program.arguments[i].text;
    if (word == "-C" || word == "-c") {
      ++i;
    } else if (!is_option(program.arguments[i])) {
      return word;
    }
  }
  return {};
}

// A q or Q that stands as a command in a sed script: `q`, `10q`, `$q`, `/re/q`, `p;q`, `{p;q}`.
bool quits_early(std::string_view script) {
  for (std::size_t i = 0; i < script.size(); ++i) {
    if (script[i] != 'q' && script[i] != 'Q') continue;
    const std::string_view before("0123456789$/;{} \n");
    const std::string_view after(";} \n0123456789");
    const bool starts = i == 0 || before.find(script[i - 1]) != std::string_view::npos;
    const bool ends = i + 1 == script.size() || after.find(script[i + 1]) != std::string_view::npos;
    if (starts && ends) return true;
  }
  return false;
}

}  // namespace

std::string stage_program(std::string_view stage) { return program_of(stage).name; }

bool is_predicate(std::string_view stage) {
  const Program program = program_of(stage);
  if (holds(kPredicates, program.name)) return true;
  if (program.name != "git") return false;
  const std::string verb = git_verb(program);
  return verb == "grep" || (verb == "diff" && (has_argument(program, "--quiet") ||
                                               has_argument(program, "--exit-code")));
}

bool closes_early(std::string_view stage) {
  const Program program = program_of(stage);
  if (program.name == "head") return true;
  if (holds(kMatchers, program.name)) {
    return has_letter(program, 'q') || has_letter(program, 'm') ||
           has_argument(program, "--quiet") || has_argument(program, "--silent") ||
           std::any_of(program.arguments.begin(), program.arguments.end(),
                       [](const Word& word) { return word.text.starts_with("--max-count"); });
  }
  if (program.name != "sed") return false;
  return std::any_of(program.arguments.begin(), program.arguments.end(),
                     [](const Word& word) { return !is_option(word) && quits_early(word.text); });
}

}  // namespace waybill::core
