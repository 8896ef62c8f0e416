#pragma once
// A block of our own at the end of somebody else's TOML file, between two marker lines. Everything
// else keeps its bytes; taking the block out gives the old bytes again. Pure.
//
// A file that was there has one line break in front of the block (so an empty one begins with a
// blank line); one that was made for the block begins with it, and goes with it.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace waybill::edge {

inline constexpr std::size_t kTomlBytesMax = 4 * 1024 * 1024;

struct TomlMarkers {
  std::string begin;         // the whole line
  std::string begin_prefix;  // what every version of it starts with
  std::string end;           // the whole line
};

// The text with the block in it, where it was or at the end. `old` nullopt: no such file.
// bad_request: it does not parse (with `name:line:column`). conflict: a key of the block is also in
// the rest, or the rest would mean something else than before.
Result<std::string> with_toml_block(const std::optional<std::string>& old,
                                    const TomlMarkers& markers, const std::string& body,
                                    const std::string& name);

// The text without the block; nullopt: the file goes. As it is when there is no block. bad_request
// and conflict as above.
Result<std::optional<std::string>> without_toml_block(const std::string& text,
                                                      const TomlMarkers& markers,
                                                      const std::string& name);

// Text at a path of keys; nullopt: nothing there, or something else. An unparsable text has
// nothing.
std::optional<std::string> toml_text_at(const std::string& text,
                                        const std::vector<std::string>& keys);
// Whether anything is at the path.
bool toml_has(const std::string& text, const std::vector<std::string>& keys);

// A basic string, with its quotes.
std::string toml_quote(std::string_view text);

}  // namespace waybill::edge
