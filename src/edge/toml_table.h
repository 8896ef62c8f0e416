#pragma once
// One table of our own in somebody else's TOML file, found by its header. Everything else keeps its
// bytes; taking the table out gives the old bytes again. Pure.
//
// A file that was there has one line break in front of the table when it is put in (so an empty one
// begins with a blank line, and one without a last line break gets it); a file that was made for
// the table begins with it, and goes with it.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace waybill::edge {

inline constexpr std::size_t kTomlBytesMax = 4 * 1024 * 1024;

using TomlPath = std::vector<std::string>;

struct TomlEntry {
  std::string key;
  std::string value;          // as TOML text
  bool only_missing = false;  // a value that is there stays
};

// bad_request with `name:line:column` when the text does not parse; too_large.
Result<void> check_toml(const std::string& text, const std::string& name);

// The text with these entries in the table at the path: in the table where it is, with its other
// entries untouched, else in a new one at the end. `old` nullopt: no such file. conflict: the path
// is taken by something without a header, or the rest would mean something else than before.
Result<std::string> put_toml_table(const std::optional<std::string>& old, const TomlPath& path,
                                   const std::vector<TomlEntry>& entries, const std::string& name);

// The text without the table at the path and the tables below it; nullopt: the file goes. As it is
// when there is none. conflict: something is at the path that has no header, or as above.
Result<std::optional<std::string>> cut_toml_table(const std::string& text, const TomlPath& path,
                                                  const std::string& name);

// A string at a path; nullopt: nothing there, or something else. A text that does not parse has
// nothing.
std::optional<std::string> toml_text_at(const std::string& text, const TomlPath& path);
bool toml_has(const std::string& text, const TomlPath& path);

// A basic string, with its quotes.
std::string toml_quote(std::string_view text);

}  // namespace waybill::edge
