#pragma once
// JSON with limits. Only .cc files include the whole library; headers name its types.

#include <boost/json/fwd.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace waybill::edge {

inline constexpr std::size_t kLineBytesMax = 16 * 1024 * 1024;  // one message, without its newline
inline constexpr std::size_t kDepthMax = 32;

// One JSON document, strict: valid UTF-8, at most kDepthMax deep, nothing after it. An error is
// bad_request and says what is wrong.
Result<boost::json::value> parse_json(std::string_view text);

std::string to_text(const boost::json::value& value);

bool is_valid_utf8(std::string_view bytes);

// The same text with each invalid sequence as U+FFFD, so that it can stand in a JSON string.
std::string valid_utf8(std::string_view bytes);

std::string to_base64(std::string_view bytes);
std::optional<std::string> from_base64(std::string_view text);

}  // namespace waybill::edge
