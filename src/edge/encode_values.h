#pragma once
// Single values of the encoders. Included by the encoders' .cc files only.

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "core/words.h"
#include "edge/json.h"

namespace waybill::edge {

inline boost::json::value text(std::string_view bytes) {
  const std::string valid = valid_utf8(bytes);
  return boost::json::value(boost::json::string_view(valid.data(), valid.size()));
}

inline boost::json::value text_or_null(std::string_view bytes) {
  return bytes.empty() ? boost::json::value(nullptr) : text(bytes);
}

inline boost::json::value time(WallTime at) { return text(format_rfc3339(at)); }

inline boost::json::value time_or_null(const std::optional<WallTime>& at) {
  return at ? time(*at) : boost::json::value(nullptr);
}

template <class Enum>
boost::json::value word(Enum value) {
  return text(core::to_word(value));
}

template <class Enum>
boost::json::value word_or_null(const std::optional<Enum>& value) {
  return value ? word(*value) : boost::json::value(nullptr);
}

template <class Number>
boost::json::value number_or_null(const std::optional<Number>& value) {
  return value ? boost::json::value(*value) : boost::json::value(nullptr);
}

template <class IdType>
boost::json::value id_or_null(const std::optional<IdType>& id) {
  return id ? text(id->str()) : boost::json::value(nullptr);
}

}  // namespace waybill::edge
