#pragma once
// Fields of answers. Included by .cc files only. An answer of another shape reads as "not there".

#include <boost/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace waybill::cli {

namespace json = boost::json;

inline const json::value* field(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(json::string_view(key.data(), key.size()));
  return value == nullptr || value->is_null() ? nullptr : value;
}

inline std::string text_of(const json::object& object, std::string_view key) {
  const json::value* value = field(object, key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

inline std::optional<std::uint64_t> count_of(const json::object& object, std::string_view key) {
  const json::value* value = field(object, key);
  if (value == nullptr) return std::nullopt;
  if (value->is_uint64()) return value->get_uint64();
  if (value->is_int64() && value->get_int64() >= 0) {
    return static_cast<std::uint64_t>(value->get_int64());
  }
  return std::nullopt;
}

inline std::optional<int> int_of(const json::object& object, std::string_view key) {
  const json::value* value = field(object, key);
  if (value == nullptr || !value->is_int64()) return std::nullopt;
  return static_cast<int>(value->get_int64());
}

inline bool flag_of(const json::object& object, std::string_view key) {
  const json::value* value = field(object, key);
  return value != nullptr && value->is_bool() && value->get_bool();
}

inline const json::object& object_of(const json::object& object, std::string_view key) {
  static const json::object nothing;
  const json::value* value = field(object, key);
  return value != nullptr && value->is_object() ? value->get_object() : nothing;
}

inline const json::array& array_of(const json::object& object, std::string_view key) {
  static const json::array nothing;
  const json::value* value = field(object, key);
  return value != nullptr && value->is_array() ? value->get_array() : nothing;
}

// What they give lives in the object; one that is about to go is refused.
const json::object& object_of(json::object&&, std::string_view) = delete;
const json::array& array_of(json::object&&, std::string_view) = delete;

}  // namespace waybill::cli
