#include "text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace waybill::text {
namespace {

std::uint32_t byte_at(std::string_view bytes, std::size_t i) {
  return static_cast<unsigned char>(bytes[i]);
}

// Length of the sequence a lead byte opens (0: none) and the range of its second byte.
struct Lead {
  std::size_t size = 0;
  std::uint32_t low = 0x80;
  std::uint32_t high = 0xBF;
};

Lead lead_of(std::uint32_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

bool is_continuation(std::uint32_t byte) { return (byte & 0xC0U) == 0x80U; }

}  // namespace

Character first_character(std::string_view bytes) {
  const std::uint32_t first = byte_at(bytes, 0);
  if (first < 0x80) return {Character::Kind::valid, static_cast<char32_t>(first), 1};
  const Lead lead = lead_of(first);
  if (lead.size == 0) return {};
  std::uint32_t code = first & (0xFFU >> (lead.size + 1));
  for (std::size_t i = 1; i < lead.size; ++i) {
    if (i == bytes.size()) return {Character::Kind::incomplete, 0xFFFD, i};
    const std::uint32_t byte = byte_at(bytes, i);
    const std::uint32_t low = i == 1 ? lead.low : 0x80;
    const std::uint32_t high = i == 1 ? lead.high : 0xBF;
    if (byte < low || byte > high) return {Character::Kind::invalid, 0xFFFD, i};
    code = (code << 6U) | (byte & 0x3FU);
  }
  return {Character::Kind::valid, static_cast<char32_t>(code), lead.size};
}

void append_utf8(std::string& out, char32_t code) {
  const auto put = [&out](std::uint32_t byte) {
    out += static_cast<char>(static_cast<unsigned char>(byte));
  };
  const auto value = static_cast<std::uint32_t>(code);
  if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) {
    out += kReplacement;
  } else if (value < 0x80) {
    put(value);
  } else if (value < 0x800) {
    put(0xC0U | (value >> 6U));
    put(0x80U | (value & 0x3FU));
  } else if (value < 0x10000) {
    put(0xE0U | (value >> 12U));
    put(0x80U | ((value >> 6U) & 0x3FU));
    put(0x80U | (value & 0x3FU));
  } else {
    put(0xF0U | (value >> 18U));
    put(0x80U | ((value >> 12U) & 0x3FU));
    put(0x80U | ((value >> 6U) & 0x3FU));
    put(0x80U | (value & 0x3FU));
  }
}

bool is_valid_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Character character = first_character(bytes);
    if (character.kind != Character::Kind::valid) return false;
    bytes.remove_prefix(character.size);
  }
  return true;
}

std::string decode_lossy(std::string_view bytes) {
  Utf8Decoder decoder;
  std::string text = decoder.push(bytes);
  return text += decoder.finish();
}

std::size_t count_code_points(std::string_view bytes) {
  std::size_t count = 0;
  while (!bytes.empty()) {
    bytes.remove_prefix(first_character(bytes).size);
    ++count;
  }
  return count;
}

std::size_t boundary_before(std::string_view bytes, std::size_t limit) {
  if (limit >= bytes.size()) return bytes.size();
  // A character that reaches over the limit starts at most three bytes before it.
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, limit); ++back) {
    const std::size_t start = limit - back;
    if (is_continuation(byte_at(bytes, start))) continue;
    return start + first_character(bytes.substr(start)).size > limit ? start : limit;
  }
  return limit;
}

std::size_t boundary_after(std::string_view bytes, std::size_t from) {
  if (from >= bytes.size()) return bytes.size();
  const std::size_t start = boundary_before(bytes, from);
  return start == from ? from : start + first_character(bytes.substr(start)).size;
}

std::string_view prefix(std::string_view bytes, std::size_t limit) {
  return bytes.substr(0, boundary_before(bytes, limit));
}

std::string Utf8Decoder::push(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + held_.size());
  std::string joined;
  if (!held_.empty()) {
    // The held bytes and what may complete them; the rest follows without a copy.
    const std::size_t taken = std::min<std::size_t>(bytes.size(), 3);
    joined = held_ + std::string(bytes.substr(0, taken));
    const std::size_t held = held_.size();
    std::size_t used = 0;
    while (used < held) {
      const Character character = first_character(std::string_view(joined).substr(used));
      if (character.kind == Character::Kind::incomplete) {
        held_ = joined.substr(used);
        return text;
      }
      if (character.kind == Character::Kind::valid) {
        text.append(joined, used, character.size);
      } else {
        text += kReplacement;
      }
      used += character.size;
    }
    held_.clear();
    bytes.remove_prefix(used - held);
  }
  while (!bytes.empty()) {
    const Character character = first_character(bytes);
    if (character.kind == Character::Kind::incomplete) {
      held_.assign(bytes);
      return text;
    }
    if (character.kind == Character::Kind::valid) {
      text.append(bytes.substr(0, character.size));
    } else {
      text += kReplacement;
    }
    bytes.remove_prefix(character.size);
  }
  return text;
}

std::string Utf8Decoder::finish() {
  const std::string text(held_.empty() ? std::string_view{} : kReplacement);
  held_.clear();
  return text;
}

}  // namespace waybill::text
