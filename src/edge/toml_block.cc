#include "edge/toml_block.h"

#include <sstream>

#include <toml++/toml.h>

namespace waybill::edge {
namespace {

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

// Adds what `from` has; false when both have a value at one place.
bool merge(toml::table& into, const toml::table& from) {
  for (const auto& [key, node] : from) {
    toml::node* there = into.get(key.str());
    if (there == nullptr) {
      into.insert(key.str(), node);
    } else if (!there->is_table() || !node.is_table() ||
               !merge(*there->as_table(), *node.as_table())) {
      return false;
    }
  }
  return true;
}

// By text, so that a NaN is like itself.
bool same(const toml::table& one, const toml::table& other) {
  std::ostringstream a;
  std::ostringstream b;
  a << toml::default_formatter(one);
  b << toml::default_formatter(other);
  return a.str() == b.str();
}

struct Block {
  std::size_t begin = 0;  // of the first marker's line
  std::size_t end = 0;    // behind the last marker's line, without its line break
  std::size_t body = 0;   // behind the first marker's line
  std::size_t body_end = 0;
};

std::string_view line_at(std::string_view text, std::size_t at) {
  std::string_view line = text.substr(at, std::min(text.find('\n', at), text.size()) - at);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

Result<std::optional<Block>> find_block(std::string_view text, const TomlMarkers& markers,
                                        const std::string& name) {
  std::optional<Block> out;
  bool open = false;
  std::size_t number = 1;
  for (std::size_t at = 0; at < text.size(); ++number) {
    const std::string_view line = line_at(text, at);
    const std::size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
    const bool begins = line.starts_with(markers.begin_prefix);
    if ((begins && out) || (line == markers.end && !open)) {
      return fail(ErrorCode::conflict, name + ":" + std::to_string(number) +
                                           ": the marker lines of waybill are not one pair; put "
                                           "them right by hand. Nothing was changed.");
    }
    if (begins) {
      out = Block{at, 0, next, 0};
      open = true;
    } else if (line == markers.end) {
      out->body_end = at;
      out->end = at + line.size();
      open = false;
    }
    at = next;
  }
  if (open) {
    return fail(ErrorCode::conflict,
                name + ": the block of waybill has no last line (`" + markers.end +
                    "`); put it back or remove the block by hand. Nothing was changed.");
  }
  return out;
}

std::string newline_of(std::string_view text) {
  const std::size_t at = text.find('\n');
  return at != std::string_view::npos && at > 0 && text[at - 1] == '\r' ? "\r\n" : "\n";
}

// The block's lines, without a last line break.
std::string block_text(const TomlMarkers& markers, const std::string& body,
                       const std::string& newline) {
  std::string out = markers.begin + newline;
  for (const char c : body) {
    if (c == '\n') {
      out += newline;
    } else {
      out += c;
    }
  }
  return out + markers.end;
}

// Takes the block out, with the line break in front of it and the one behind it.
std::optional<std::string> cut(const std::string& text, const Block& block) {
  std::string before = text.substr(0, block.begin);
  std::string after = text.substr(block.end);
  const bool cr = after.starts_with("\r\n");
  if (after.starts_with('\n') || cr) after.erase(0, cr ? 2 : 1);
  if (before.empty()) {
    if (after.empty()) return std::nullopt;
    return after;
  }
  std::string shorter = before;
  if (shorter.ends_with('\n')) shorter.pop_back();
  if (cr && shorter.ends_with('\r')) shorter.pop_back();
  const bool whole_line = shorter.empty() || shorter.ends_with('\n');
  return (after.empty() || whole_line ? shorter : before) + after;
}

tl::unexpected<Error> other_meaning(const std::string& name) {
  return fail(ErrorCode::conflict,
              name +
                  ": what stands outside the block of waybill would mean something else; move "
                  "settings that follow the block in front of it. Nothing was changed.");
}

}  // namespace

Result<std::string> with_toml_block(const std::optional<std::string>& old,
                                    const TomlMarkers& markers, const std::string& body,
                                    const std::string& name) {
  const std::string text = old.value_or("");
  TRY(parsed(text, name));
  TRY_ASSIGN(const std::optional<Block> block, find_block(text, markers, name));
  const std::string newline = newline_of(text);
  const std::string ours = block_text(markers, body, newline);
  TRY_ASSIGN(const std::optional<std::string> rest, block
                                                        ? without_toml_block(text, markers, name)
                                                        : Result<std::optional<std::string>>(text));
  std::string out = text;
  if (block) {
    out.replace(block->begin, block->end - block->begin, ours);
  } else {
    out += (old ? newline : "") + ours + newline;
  }
  TRY_ASSIGN(toml::table expected, parsed(rest.value_or(""), name));
  TRY_ASSIGN(const toml::table added, parsed(body, name));
  if (!merge(expected, added)) {
    return fail(ErrorCode::conflict, name +
                                         ": what waybill would add is already there; remove or "
                                         "rename it first. Nothing was changed.");
  }
  const Result<toml::table> result = parsed(out, name);
  if (!result || !same(*result, expected)) return other_meaning(name);
  return out;
}

Result<std::optional<std::string>> without_toml_block(const std::string& text,
                                                      const TomlMarkers& markers,
                                                      const std::string& name) {
  TRY_ASSIGN(const toml::table whole, parsed(text, name));
  TRY_ASSIGN(const std::optional<Block> block, find_block(text, markers, name));
  if (!block) return std::optional<std::string>(text);
  std::optional<std::string> out = cut(text, *block);
  Result<toml::table> rest = parsed(out.value_or(""), name);
  const Result<toml::table> ours =
      parsed(text.substr(block->body, block->body_end - block->body), name);
  if (!rest || !ours || !merge(*rest, *ours) || !same(*rest, whole)) return other_meaning(name);
  return out;
}

namespace {

std::optional<toml::table> quietly(const std::string& text) {
  Result<toml::table> table = parsed(text, "");
  if (!table) return std::nullopt;
  return std::move(*table);
}

const toml::node* node_at(const toml::table& table, const std::vector<std::string>& keys) {
  const toml::node* node = &table;
  for (const std::string& key : keys) {
    const toml::table* inner = node->as_table();
    node = inner == nullptr ? nullptr : inner->get(key);
    if (node == nullptr) return nullptr;
  }
  return node;
}

}  // namespace

std::optional<std::string> toml_text_at(const std::string& text,
                                        const std::vector<std::string>& keys) {
  const std::optional<toml::table> table = quietly(text);
  const toml::node* node = table ? node_at(*table, keys) : nullptr;
  if (node == nullptr) return std::nullopt;
  return node->value_exact<std::string>();
}

bool toml_has(const std::string& text, const std::vector<std::string>& keys) {
  const std::optional<toml::table> table = quietly(text);
  return table && node_at(*table, keys) != nullptr;
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
