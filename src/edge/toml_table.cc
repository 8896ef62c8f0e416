#include "edge/toml_table.h"

#include <algorithm>
#include <sstream>

#include <toml++/toml.h>

namespace waybill::edge {
namespace {

constexpr std::string_view kMark = "\xEF\xBB\xBF";

Result<toml::table> parsed(std::string_view text, const std::string& name) {
  if (text.size() > kTomlBytesMax) {
    return fail(ErrorCode::too_large, name + " is larger than 4 MiB; nothing was changed.");
  }
  try {
    return toml::table(toml::parse(text, name));
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    return fail(ErrorCode::bad_request,
                name + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) +
                    ": this is not TOML: " + std::string(error.description()) +
                    "; nothing was changed.");
  }
}

std::optional<toml::table> quietly(std::string_view text) {
  Result<toml::table> table = parsed(text, "");
  if (!table) return std::nullopt;
  return std::move(*table);
}

// ---- where things are --------------------------------------------------------------------------

// A table's header or an assignment, with the lines it takes up.
struct Statement {
  bool header = false;
  TomlPath path;          // of the table; of an assignment within its table
  std::size_t begin = 0;  // of its first line
  std::size_t end = 0;    // behind its last line break
  std::size_t value = 0;  // of an assignment
  std::size_t value_end = 0;
};

// The path of `text`, which is a header, or a key with any value.
TomlPath path_in(const std::string& text) {
  TomlPath out;
  const std::optional<toml::table> table = quietly(text);
  const toml::table* at = table ? &*table : nullptr;
  while (at != nullptr && at->size() == 1) {
    const toml::table* inner = nullptr;
    for (const auto& [key, node] : *at) {
      out.emplace_back(key.str());
      inner = node.as_table();
    }
    at = inner;
  }
  return out;
}

// Steps over what can hide a line break, a bracket or an equals sign.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::vector<Statement> statements() {
    std::vector<Statement> out;
    if (text_.starts_with(kMark)) at_ = kMark.size();
    while (at_ < text_.size()) {
      Statement statement;
      statement.begin = at_;
      while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
      const char first = at_ < text_.size() ? text_[at_] : '\n';
      const bool blank = first == '\n' || first == '\r' || first == '#';
      if (!blank) read(statement, first == '[');
      end_line();
      statement.end = at_;
      if (!blank) out.push_back(std::move(statement));
    }
    return out;
  }

 private:
  void read(Statement& statement, bool header) {
    const std::size_t from = at_;
    statement.header = header;
    if (header) {
      const std::size_t end = skip(false);
      statement.path = path_in(std::string(text_.substr(from, end - from)) + "\n");
      return;
    }
    skip(true);
    statement.path = path_in(std::string(text_.substr(from, at_ - from)) + "= 0\n");
    ++at_;  // the equals sign
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    statement.value = at_;
    statement.value_end = skip(false);
  }

  // To the equals sign, or to the comment or line break outside brackets; gives the place behind
  // the last character that is no blank.
  std::size_t skip(bool to_equals) {
    std::size_t last = at_;
    int depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (to_equals && c == '=') return last;
      if (depth <= 0 && (c == '\n' || c == '#')) return last;
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      if (c == '"' || c == '\'') {
        string(c);
      } else {
        ++at_;
      }
      if (c != ' ' && c != '\t' && c != '\r' && c != '\n') last = at_;
    }
    return last;
  }

  void string(char quote) {
    const std::string three(3, quote);
    const bool lines = text_.substr(at_, 3) == three;
    at_ += lines ? 3 : 1;
    while (at_ < text_.size()) {
      if (text_[at_] == '\\' && quote == '"') {
        at_ += 2;
      } else if (lines && text_.substr(at_, 3) == three) {
        at_ += 3;  // one or two quotes may stand in front of the last three
        while (at_ < text_.size() && text_[at_] == quote) ++at_;
        return;
      } else if (!lines && text_[at_] == quote) {
        ++at_;
        return;
      } else {
        ++at_;
      }
    }
  }

  void end_line() {
    const std::size_t newline = text_.find('\n', std::min(at_, text_.size()));
    at_ = newline == std::string_view::npos ? text_.size() : newline + 1;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// A table's header with its assignments.
struct Section {
  TomlPath path;
  std::size_t begin = 0;
  std::size_t end = 0;  // behind its last assignment; comments behind belong to what follows
  std::vector<Statement> entries;
};

std::vector<Section> sections_of(std::string_view text) {
  std::vector<Section> out;
  for (Statement& statement : Scanner(text).statements()) {
    if (statement.header) {
      out.push_back({std::move(statement.path), statement.begin, statement.end, {}});
    } else if (!out.empty()) {
      out.back().end = statement.end;
      out.back().entries.push_back(std::move(statement));
    }
  }
  return out;
}

bool starts_with(const TomlPath& path, const TomlPath& start) {
  return path.size() >= start.size() && std::equal(start.begin(), start.end(), path.begin());
}

const toml::node* node_at(const toml::table& table, const TomlPath& path) {
  const toml::node* node = &table;
  for (const std::string& key : path) {
    const toml::table* inner = node->as_table();
    node = inner == nullptr ? nullptr : inner->get(key);
    if (node == nullptr) return nullptr;
  }
  return node;
}

// ---- what a text means -------------------------------------------------------------------------

// By text, so that a NaN is like itself; tables are sorted in it.
std::string meaning(const toml::table& table) {
  std::ostringstream out;
  out << toml::default_formatter(table);
  return out.str();
}

// Without what is at the path; with `prune` also without the tables above that have become empty.
void erase_at(toml::table& table, const TomlPath& path, std::size_t depth, bool prune) {
  toml::node* inner = table.get(path[depth]);
  if (inner == nullptr) return;
  if (depth + 1 == path.size()) {
    table.erase(path[depth]);
    return;
  }
  if (!inner->is_table()) return;
  erase_at(*inner->as_table(), path, depth + 1, prune);
  if (prune && inner->as_table()->empty()) table.erase(path[depth]);
}

// Whether two texts mean the same apart from what is at the path.
bool same_elsewhere(const toml::table& one, const toml::table& other, const TomlPath& path) {
  toml::table a = one;
  toml::table b = other;
  erase_at(a, path, 0, true);
  erase_at(b, path, 0, true);
  return meaning(a) == meaning(b);
}

tl::unexpected<Error> other_meaning(const std::string& name, const TomlPath& path) {
  return fail(ErrorCode::conflict,
              name + ": [" + path.back() +
                  "] is written in a way that cannot be changed without "
                  "touching the rest; change it by hand. Nothing was changed.");
}

std::string newline_of(std::string_view text) {
  const std::size_t at = text.find('\n');
  return at != std::string_view::npos && at > 0 && text[at - 1] == '\r' ? "\r\n" : "\n";
}

std::string header_of(const TomlPath& path) {
  std::string out;
  for (const std::string& key : path) out += (out.empty() ? "[" : ".") + key;
  return out + "]";
}

// ---- changes -----------------------------------------------------------------------------------

void put_entry(std::string& text, const Section& section, const TomlEntry& entry,
               const std::string& newline) {
  for (const Statement& statement : section.entries) {
    if (statement.path != TomlPath{entry.key}) continue;
    const std::size_t size = statement.value_end - statement.value;
    const std::optional<toml::table> now = quietly("v = " + text.substr(statement.value, size));
    const std::optional<toml::table> then = quietly("v = " + entry.value);
    const bool same = now && then && meaning(*now) == meaning(*then);
    if (!entry.only_missing && !same) text.replace(statement.value, size, entry.value);
    return;
  }
  const bool ended = text[section.end - 1] == '\n';
  text.insert(section.end,
              (ended ? "" : newline) + entry.key + " = " + entry.value + (ended ? newline : ""));
}

// The section's lines with the line break in front of them; see the head of the header.
void cut_section(std::string& text, const Section& section) {
  std::string before = text.substr(0, section.begin);
  const std::string after = text.substr(section.end);
  std::string shorter = before;
  if (shorter.ends_with("\r\n")) {
    shorter.resize(shorter.size() - 2);
  } else if (shorter.ends_with('\n')) {
    shorter.pop_back();
  }
  const bool whole_line = shorter.empty() || shorter.ends_with('\n');
  text = (after.empty() || whole_line ? shorter : before) + after;
}

bool has_only(const toml::table& table, const TomlPath& path,
              const std::vector<TomlEntry>& entries) {
  const toml::node* node = node_at(table, path);
  return node != nullptr && node->is_table() &&
         std::all_of(entries.begin(), entries.end(), [node](const TomlEntry& entry) {
           return node->as_table()->contains(entry.key);
         });
}

}  // namespace

Result<void> check_toml(const std::string& text, const std::string& name) {
  TRY(parsed(text, name));
  return {};
}

Result<std::string> put_toml_table(const std::optional<std::string>& old, const TomlPath& path,
                                   const std::vector<TomlEntry>& entries, const std::string& name) {
  std::string text = old.value_or("");
  TRY_ASSIGN(const toml::table before, parsed(text, name));
  const std::string newline = newline_of(text);
  const auto ours = [&path](const Section& section) { return section.path == path; };
  std::vector<Section> sections = sections_of(text);
  if (std::none_of(sections.begin(), sections.end(), ours)) {
    text += (old ? newline : "") + header_of(path) + newline;
  }
  for (const TomlEntry& entry : entries) {
    sections = sections_of(text);
    const auto section = std::find_if(sections.begin(), sections.end(), ours);
    if (section == sections.end()) return other_meaning(name, path);
    put_entry(text, *section, entry, newline);
  }
  const Result<toml::table> after = parsed(text, name);
  if (!after || !same_elsewhere(before, *after, path) || !has_only(*after, path, entries)) {
    return other_meaning(name, path);
  }
  return text;
}

Result<std::optional<std::string>> cut_toml_table(const std::string& text, const TomlPath& path,
                                                  const std::string& name) {
  TRY_ASSIGN(const toml::table before, parsed(text, name));
  if (node_at(before, path) == nullptr) return std::optional<std::string>(text);
  std::string out = text;
  const std::vector<Section> sections = sections_of(text);
  const bool made = !sections.empty() && sections.front().begin == 0;
  for (auto section = sections.rbegin(); section != sections.rend(); ++section) {
    if (starts_with(section->path, path)) cut_section(out, *section);
  }
  const Result<toml::table> after = parsed(out, name);
  if (!after || node_at(*after, path) != nullptr || !same_elsewhere(before, *after, path)) {
    return other_meaning(name, path);
  }
  if (made && out.empty()) return std::optional<std::string>();
  return std::optional<std::string>(std::move(out));
}

std::optional<std::string> toml_text_at(const std::string& text, const TomlPath& path) {
  const std::optional<toml::table> table = quietly(text);
  const toml::node* node = table ? node_at(*table, path) : nullptr;
  if (node == nullptr) return std::nullopt;
  return node->value_exact<std::string>();
}

bool toml_has(const std::string& text, const TomlPath& path) {
  const std::optional<toml::table> table = quietly(text);
  return table && node_at(*table, path) != nullptr;
}

std::string toml_quote(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7F) {
      out += std::string("\\u00") + kHex[byte >> 4U] + kHex[byte & 0xFU];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace waybill::edge
