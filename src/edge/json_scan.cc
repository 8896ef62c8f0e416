#include "edge/json_scan.h"

#include <algorithm>
#include <boost/json.hpp>
#include <limits>

namespace waybill::edge {
namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Steps over values. After a false return `fault()` says where and why.
class Scanner {
 public:
  Scanner(std::string_view text, std::size_t at, std::size_t depth_max)
      : text_(text), at_(at), depth_max_(depth_max) {}

  std::size_t at() const { return at_; }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  void step() { ++at_; }
  ScanFault fault() const { return {at_, what_}; }

  void spaces() {
    while (!done() && is_space(text_[at_])) ++at_;
  }

  bool value(std::size_t depth = 0) {
    if (done()) return wrong("the text ends where a value is expected");
    const char c = peek();
    if (c == '{' || c == '[') return container(c == '{', depth);
    if (c == '"') return string();
    if (c == '-' || is_digit(c)) return number();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return true;
      }
    }
    return wrong("a value is expected");
  }

  bool string() {
    if (done() || peek() != '"') return wrong("a string is expected");
    const std::size_t from = at_;
    for (++at_; !done(); ++at_) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return true;
      }
      if (static_cast<unsigned char>(c) < 0x20) return wrong("a control character in a string");
      if (c == '\\' && !escape()) return false;
    }
    at_ = from;
    return wrong("a string that does not end");
  }

 private:
  bool wrong(std::string what) {
    what_ = std::move(what);
    return false;
  }

  // Leaves `at_` on the last character of the escape.
  bool escape() {
    ++at_;
    const char c = peek();
    if (c == 'u') {
      for (int i = 0; i < 4; ++i) {
        ++at_;
        if (done() || !is_hex(text_[at_])) return wrong("four hex digits are expected");
      }
      return true;
    }
    const bool known = !done() && std::string_view("\"\\/bfnrt").find(c) != std::string_view::npos;
    return known || wrong("an escape that JSON does not have");
  }

  bool digits() {
    if (done() || !is_digit(peek())) return wrong("a digit is expected");
    while (!done() && is_digit(peek())) ++at_;
    return true;
  }

  bool number() {
    if (peek() == '-') ++at_;
    if (peek() == '0') {
      ++at_;
    } else if (!digits()) {
      return false;
    }
    if (peek() == '.') {
      ++at_;
      if (!digits()) return false;
    }
    if (peek() == 'e' || peek() == 'E') {
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (!digits()) return false;
    }
    return true;
  }

  bool container(bool object, std::size_t depth) {
    if (depth >= depth_max_) return wrong("nested too deeply");
    const char close = object ? '}' : ']';
    ++at_;
    spaces();
    if (peek() == close && !done()) {
      ++at_;
      return true;
    }
    for (;;) {
      if (object && !name()) return false;
      if (!value(depth + 1)) return false;
      spaces();
      if (done()) return wrong("an object or array that does not end");
      const char c = peek();
      if (c != ',' && c != close) return wrong("a comma or a closing bracket is expected");
      ++at_;
      if (c == close) return true;
      spaces();
    }
  }

  bool name() {
    if (!string()) return false;
    spaces();
    if (done() || peek() != ':') return wrong("a colon is expected");
    ++at_;
    spaces();
    return true;
  }

  std::string_view text_;
  std::size_t at_;
  std::size_t depth_max_;
  std::string what_;
};

Scanner unchecked(std::string_view text, std::size_t at) {
  return Scanner(text, at, std::numeric_limits<std::size_t>::max());
}

// A key that cannot be decoded is left in its quotes, so that it is like no other.
std::string decoded(std::string_view token) {
  if (token.find('\\') == std::string_view::npos) {
    return std::string(token.substr(1, token.size() - 2));
  }
  boost::json::error_code error;
  const boost::json::value value = boost::json::parse({token.data(), token.size()}, error);
  return error || !value.is_string() ? std::string(token) : std::string(value.get_string());
}

}  // namespace

std::size_t json_start(std::string_view text) {
  Scanner scanner(text, text.starts_with(kMark) ? kMark.size() : 0, 0);
  scanner.spaces();
  return scanner.at();
}

std::optional<ScanFault> check_json(std::string_view text, std::size_t depth_max) {
  Scanner scanner(text, json_start(text), depth_max);
  if (!scanner.value()) return scanner.fault();
  scanner.spaces();
  if (!scanner.done()) return ScanFault{scanner.at(), "something stands behind the document"};
  return std::nullopt;
}

std::size_t json_value_end(std::string_view text, std::size_t at) {
  Scanner scanner = unchecked(text, at);
  scanner.value();
  return scanner.at();
}

std::optional<JsonContainer> json_container(std::string_view text, std::size_t at) {
  if (at >= text.size() || (text[at] != '{' && text[at] != '[')) return std::nullopt;
  JsonContainer out;
  out.object = text[at] == '{';
  out.open = at;
  const char close = out.object ? '}' : ']';
  Scanner scanner = unchecked(text, at);
  for (;;) {
    scanner.step();  // the bracket or a comma
    scanner.spaces();
    if (scanner.done() || scanner.peek() == close) break;
    JsonChild child;
    child.begin = scanner.at();
    if (out.object) {
      scanner.string();
      child.key = decoded(text.substr(child.begin, scanner.at() - child.begin));
      scanner.spaces();
      scanner.step();  // the colon
      scanner.spaces();
    }
    child.value = scanner.at();
    scanner.value();
    child.end = scanner.at();
    out.children.push_back(std::move(child));
    scanner.spaces();
    if (scanner.done() || scanner.peek() == close) break;
  }
  out.close = scanner.at();
  return out;
}

std::string_view json_lead(std::string_view text, const JsonContainer& container,
                           std::size_t child) {
  const std::size_t from =
      child == 0 ? container.open + 1 : text.find(',', container.children[child - 1].end) + 1;
  return text.substr(from, container.children[child].begin - from);
}

std::string position_in(std::string_view text, std::size_t at) {
  const std::string_view before = text.substr(0, std::min(at, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const std::size_t newline = before.rfind('\n');
  const std::size_t column =
      newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  return std::to_string(line) + ":" + std::to_string(column);
}

}  // namespace waybill::edge
