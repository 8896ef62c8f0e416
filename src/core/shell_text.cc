#include "core/shell_text.h"

#include <algorithm>
#include <array>

namespace waybill::core {
namespace {

constexpr unsigned kDepthMax = 64;

constexpr std::array<std::string_view, 21> kReserved{
    "if",    "then",   "else",    "elif", "fi",        "for",    "while",
    "until", "do",     "done",    "case", "esac",      "select", "end",
    "]]",    "repeat", "foreach", "in",   "nocorrect", "coproc", "function"};

// Commands of the main shell that can end it, or change when it ends.
constexpr std::array<std::string_view, 11> kQuits{"exit",  "exec",    "return", "set",
                                                  "shopt", "setopt",  "trap",   "kill",
                                                  "eval",  "command", "builtin"};

template <class List>
bool holds(const List& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

bool is_blank(char c) { return c == ' ' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_meta(char c) {
  return is_blank(c) || c == '\n' || std::string_view("|&;()<>").find(c) != std::string_view::npos;
}
bool is_name(char c) {
  return c == '_' || is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// NAME=…, NAME+=…; a subscript makes it something else.
bool is_assignment(std::string_view word) {
  std::size_t i = 0;
  while (i < word.size() && is_name(word[i])) ++i;
  if (i == 0 || is_digit(word[0])) return false;
  if (i < word.size() && word[i] == '+') ++i;
  return i < word.size() && word[i] == '=';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<ShellText> parse() {
    list('\0');
    if (failed_) return std::nullopt;
    return ShellText{std::move(pipelines_), quits_, saw_pipe_};
  }

 private:
  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool next_is(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  void advance(std::size_t count) { at_ = std::min(at_ + count, text_.size()); }
  void give_up() {
    failed_ = true;
    at_ = text_.size();
  }

  void skip_blanks() {
    while (!at_end()) {
      if (is_blank(peek())) {
        ++at_;
      } else if (next_is("\\\n")) {
        at_ += 2;
      } else if (peek() == '#') {
        while (!at_end() && peek() != '\n') ++at_;
      } else {
        return;
      }
    }
  }

  void skip_lines() {
    skip_blanks();
    while (peek() == '\n' && !at_end()) {
      ++at_;
      skip_blanks();
    }
  }

  // and-or lists up to `closer` ('\0': the end of the text), which is consumed.
  void list(char closer) {
    if (++depth_ > kDepthMax) return give_up();
    while (!failed_) {
      skip_lines();
      if (closes(closer)) break;
      if (at_end()) return give_up();
      and_or();
      if (failed_) break;
      skip_blanks();
      if (closes(closer)) break;
      if (!separator()) return give_up();
    }
    --depth_;
  }

  bool closes(char closer) {
    if (closer == '\0') return at_end();
    if (peek() != closer || at_end()) return false;
    if (closer == '}' && at_ + 1 < text_.size() && !is_meta(peek(1))) return false;
    ++at_;
    return true;
  }

  bool separator() {
    if (peek() == '&') {
      ++at_;
      if (peek() == '|' || peek() == '!' || peek() == '&' || peek() == ';') return false;
      mark_background();
      return true;
    }
    if (peek() == ';') {
      ++at_;
      return peek() != ';' && peek() != '&' && peek() != '|';
    }
    if (peek() == '\n') {
      ++at_;
      return true;
    }
    return false;
  }

  void mark_background() {
    if (depth_ != 1) return;
    for (auto pipeline = pipelines_.rbegin(); pipeline != pipelines_.rend(); ++pipeline) {
      if (pipeline->list != lists_) break;
      pipeline->background = true;
    }
  }

  void and_or() {
    if (depth_ == 1) ++lists_;
    Join join = Join::first;
    while (!failed_) {
      pipeline(join);
      if (failed_) return;
      skip_blanks();
      if (next_is("&&")) {
        join = Join::after_and;
      } else if (next_is("||")) {
        join = Join::after_or;
      } else {
        return;
      }
      at_ += 2;
      skip_lines();
    }
  }

  void pipeline(Join join) {
    Pipeline found;
    found.list = lists_;
    found.join = join;
    skip_blanks();
    while (peek() == '!' && (is_blank(peek(1)) || peek(1) == '\n')) {
      ++at_;
      found.negated = !found.negated;
      skip_blanks();
    }
    while (!failed_) {
      found.stages.push_back(command());
      if (failed_) return;
      skip_blanks();
      if (peek() != '|' || next_is("||")) break;
      advance(next_is("|&") ? 2 : 1);
      skip_lines();
    }
    if (found.stages.size() > 1) saw_pipe_ = true;
    if (depth_ == 1) pipelines_.push_back(std::move(found));
  }

  Command command() {
    Command found;
    found.begin = at_;
    if (peek() == '(') {
      ++at_;
      found.form = Form::subshell;
      if (peek() == '(') {
        give_up();
      } else {
        list(')');
      }
      compound_end(found);
    } else if (peek() == '{' && (is_blank(peek(1)) || peek(1) == '\n')) {
      ++at_;
      found.form = Form::group;
      list('}');
      compound_end(found);
    } else {
      simple(found);
    }
    return found;
  }

  // Behind a group or subshell only redirections may stand.
  void compound_end(Command& found) {
    found.end = at_;
    while (!failed_) {
      skip_blanks();
      const std::size_t digits = at_;
      while (is_digit(peek())) ++at_;
      if (!redirection()) {
        if (at_ != digits) give_up();
        break;
      }
      found.end = at_;
    }
    if (!at_end() && !failed_ && !is_meta(peek())) give_up();
    if (peek() == '(') give_up();
  }

  void simple(Command& found) {
    bool first = true;  // reserved words still count
    found.end = at_;
    while (!failed_) {
      skip_blanks();
      if (redirection()) {
        found.end = at_;
        first = false;
        continue;
      }
      if (at_end() || failed_) break;
      if (is_meta(peek()) && !substitution_ahead()) break;
      const std::string_view word = this->word();
      if (failed_) break;
      found.end = at_;
      if (word == "}" || word == "{") return give_up();
      if ((peek() == '<' || peek() == '>') && all_digits(word)) continue;
      if (first && word == "[[") {
        double_bracket();
        found.end = at_;
      }
      if (first && (holds(kReserved, word) || word[0] == '{')) return give_up();
      first = take_word(found, word);
    }
    if (peek() == '(' || found.end == found.begin) give_up();
  }

  // Notes one word of a simple command; true when the next word is a first word again.
  bool take_word(Command& found, std::string_view word) {
    if (!found.program.empty()) {
      found.has_arguments = true;
      return false;
    }
    if (is_assignment(word)) return false;
    if (word == "time" || (time_seen_ && word == "-p")) {
      time_seen_ = true;
      return true;
    }
    time_seen_ = false;
    found.program = word;
    if (holds(kQuits, word) || !is_plain(word)) quits_ = true;
    return false;
  }

  static bool all_digits(std::string_view word) {
    return std::all_of(word.begin(), word.end(), is_digit);
  }

  bool substitution_ahead() const { return next_is("<(") || next_is(">("); }

  // One redirection with its target; false when none stands here.
  bool redirection() {
    if (substitution_ahead()) return false;
    if (next_is("&>")) {
      ++at_;
    } else if (peek() != '<' && peek() != '>') {
      return false;
    }
    if (next_is("<<") && !next_is("<<<")) {
      give_up();
      return true;
    }
    const char sign = peek();
    while (peek() == sign) ++at_;
    if (sign == '<' && peek() == '>') ++at_;
    if (peek() == '&' || (sign == '>' && peek() == '|')) ++at_;
    skip_blanks();
    if (at_end() || (is_meta(peek()) && !substitution_ahead())) {
      give_up();
    } else {
      word();
    }
    return true;
  }

  // One word from here to the next metacharacter; never empty unless it failed.
  std::string_view word() {
    const std::size_t begin = at_;
    while (!at_end() && !failed_) {
      if (substitution_ahead()) {
        at_ += 2;
        parens();
      } else if (is_meta(peek())) {
        break;
      } else {
        part();
      }
    }
    if (at_ == begin) give_up();
    return failed_ ? std::string_view{} : text_.substr(begin, at_ - begin);
  }

  // One character of a word, or one quoted or substituted piece.
  void part() {
    switch (peek()) {
      case '\\':
        return advance(2);
      case '\'':
        return single_quoted();
      case '"':
        return double_quoted();
      case '`':
        return backticks();
      case '$':
        return dollar(false);
      default:
        ++at_;
    }
  }

  void dollar(bool quoted) {
    ++at_;
    const char c = peek();
    if (c == '(') {
      const bool arithmetic = peek(1) == '(';
      ++at_;
      parens(arithmetic);
    } else if (c == '{') {
      ++at_;
      braces(quoted);
    } else if (c == '[') {
      give_up();
    } else if (c == '\'' && !quoted) {
      ++at_;
      while (!at_end() && peek() != '\'') advance(peek() == '\\' ? 2 : 1);
      past_closer();
    }
  }

  void past_closer() {
    if (at_end()) return give_up();
    ++at_;
  }

  void single_quoted() {
    ++at_;
    while (!at_end() && peek() != '\'') ++at_;
    past_closer();
  }

  void double_quoted() {
    ++at_;
    while (!at_end() && peek() != '"') {
      if (peek() == '\\') {
        advance(2);
      } else if (peek() == '`') {
        backticks();
      } else if (peek() == '$') {
        dollar(true);
      } else {
        ++at_;
      }
    }
    past_closer();
  }

  void backticks() {
    saw_pipe_ = true;  // not looked into
    ++at_;
    while (!at_end() && peek() != '`') advance(peek() == '\\' ? 2 : 1);
    past_closer();
  }

  // `${ … }`. `${x:?…}` can end the shell. A single quote inside double quotes means different
  // things to different expansions.
  void braces(bool quoted) {
    if (++depth_ > kDepthMax) return give_up();
    while (!at_end() && peek() != '}') {
      if (peek() == '?') quits_ = true;
      if (quoted && (peek() == '\'' || peek() == '"')) return give_up();
      part();
    }
    past_closer();
    --depth_;
  }

  // The rest of a `$( … )` or `<( … )`. What could hide a parenthesis makes it give up.
  void parens(bool arithmetic = false) {
    if (peek() == '(' && arithmetic) ++at_;
    if (++depth_ > kDepthMax) return give_up();
    const std::size_t begin = at_ - (arithmetic ? 1 : 0);
    std::size_t open = arithmetic ? 2 : 1;
    if (!arithmetic && peek() == '(') ++open, ++at_;
    while (!at_end() && !failed_) {
      const char c = peek();
      if (c == '(') {
        ++open;
        ++at_;
      } else if (c == ')') {
        ++at_;
        if (--open == 0) break;
      } else if (!arithmetic && hides_parens()) {
        return give_up();
      } else {
        if (c == '|') saw_pipe_ = true;
        part();
      }
    }
    if (failed_ || open != 0) return give_up();
    if (!arithmetic && holds_case(text_.substr(begin, at_ - begin))) return give_up();
    --depth_;
  }

  bool hides_parens() {
    if (next_is("<<<")) {
      at_ += 2;
      return false;
    }
    const char before = at_ == 0 ? ' ' : text_[at_ - 1];
    return next_is("<<") || (peek() == '#' && is_meta(before));
  }

  static bool holds_case(std::string_view text) {
    for (std::size_t at = text.find("case"); at != std::string_view::npos;
         at = text.find("case", at + 1)) {
      const bool starts = at == 0 || is_meta(text[at - 1]);
      if (starts && at + 4 < text.size() && is_meta(text[at + 4])) return true;
    }
    return false;
  }

  void double_bracket() {
    while (!failed_) {
      skip_lines();
      if (at_end()) return give_up();
      if (is_meta(peek())) {
        ++at_;
      } else if (word() == "]]") {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
  std::size_t lists_ = 0;
  bool failed_ = false;
  bool quits_ = false;
  bool saw_pipe_ = false;
  bool time_seen_ = false;
  std::vector<Pipeline> pipelines_;
};

}  // namespace

std::optional<ShellText> parse_shell_text(std::string_view text) { return Parser(text).parse(); }

bool is_plain(std::string_view word) {
  return word.find_first_of("$`'\"\\*?~{}") == std::string_view::npos;
}

}  // namespace waybill::core
