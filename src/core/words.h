#pragma once
// Enumerations whose enumerators are the words on the wire, in columns, in JSON and in the docs.
// WAYBILL_WORDS writes the array once; to_word and from_word follow from it.

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace waybill::core {

// Specialised per enumeration: `static constexpr std::array<std::string_view, N> words`, in the
// order of the enumerators, which start at 0 and have no gaps.
template <class Enum>
struct Words;

template <class Enum>
constexpr std::string_view to_word(Enum value) {
  return Words<Enum>::words[static_cast<std::size_t>(value)];
}

template <class Enum>
constexpr std::optional<Enum> from_word(std::string_view word) {
  for (std::size_t i = 0; i < Words<Enum>::words.size(); ++i) {
    if (Words<Enum>::words[i] == word) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

template <class Enum>
inline constexpr std::size_t kWordCount = Words<Enum>::words.size();

}  // namespace waybill::core

#define WAYBILL_WORDS(Enum, count, ...)                                      \
  template <>                                                                \
  struct Words<Enum> {                                                       \
    static constexpr std::array<std::string_view, count> words{__VA_ARGS__}; \
  }
