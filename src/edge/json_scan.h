#pragma once
// Where the parts of a JSON document are. Pure; what it gives are offsets into the text.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::edge {

struct ScanFault {
  std::size_t at = 0;
  std::string what;
};

// The offset of the document's value, behind a byte order mark and white space.
std::size_t json_start(std::string_view text);

// Nothing, when `text` is one JSON document of at most `depth_max` levels. Strings may hold any
// bytes from 0x80 on and halves of surrogate pairs.
std::optional<ScanFault> check_json(std::string_view text, std::size_t depth_max);

struct JsonChild {
  std::string key;        // of a member, decoded
  std::size_t begin = 0;  // of the key, or of the value in an array
  std::size_t value = 0;
  std::size_t end = 0;  // behind the value
};

struct JsonContainer {
  bool object = false;
  std::size_t open = 0;   // the bracket
  std::size_t close = 0;  // the bracket
  std::vector<JsonChild> children;
};

// The object or array that begins at `at` of a checked document; nullopt: another value.
std::optional<JsonContainer> json_container(std::string_view text, std::size_t at);

// Behind the value that begins at `at` of a checked document.
std::size_t json_value_end(std::string_view text, std::size_t at);

// White space between `container`'s bracket or the comma before it and the child.
std::string_view json_lead(std::string_view text, const JsonContainer& container,
                           std::size_t child);

// "line:column", from 1, of an offset.
std::string position_in(std::string_view text, std::size_t at);

}  // namespace waybill::edge
