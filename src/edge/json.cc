#include "edge/json.h"

#include <sodium.h>

#include <boost/json.hpp>
#include <vector>

namespace waybill::edge {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

unsigned char byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

struct Lead {
  std::size_t length = 0;     // of the whole sequence; 0: not a lead byte
  unsigned char low = 0x80;   // bounds of the second byte: no overlong forms, no surrogates,
  unsigned char high = 0xBF;  // nothing above U+10FFFF
};

Lead lead_of(unsigned char byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {};
}

struct Sequence {
  std::size_t length = 1;
  bool valid = false;
};

// The character at `i`, or the longest start of one that is cut short there.
Sequence sequence_at(std::string_view text, std::size_t i) {
  const Lead lead = lead_of(byte_at(text, i));
  if (lead.length == 0) return {};
  std::size_t have = 1;
  while (have < lead.length && i + have < text.size()) {
    const unsigned char next = byte_at(text, i + have);
    const bool fits = have == 1 ? next >= lead.low && next <= lead.high : (next & 0xC0U) == 0x80;
    if (!fits) break;
    ++have;
  }
  return {have, have == lead.length};
}

}  // namespace

Result<boost::json::value> parse_json(std::string_view text) {
  boost::json::parse_options options;
  options.max_depth = kDepthMax;
  boost::json::error_code error;
  boost::json::value value = boost::json::parse({text.data(), text.size()}, error, {}, options);
  if (error) {
    return fail(ErrorCode::bad_request, "This is not a JSON document: " + error.message() + ".");
  }
  return value;
}

std::string to_text(const boost::json::value& value) { return boost::json::serialize(value); }

bool is_valid_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, i);
    if (!sequence.valid) return false;
    i += sequence.length;
  }
  return true;
}

std::string valid_utf8(std::string_view bytes) {
  if (is_valid_utf8(bytes)) return std::string(bytes);
  std::string out;
  out.reserve(bytes.size() + 16);
  for (std::size_t i = 0; i < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, i);
    out += sequence.valid ? bytes.substr(i, sequence.length) : kReplacement;
    i += sequence.length;
  }
  return out;
}

std::string to_base64(std::string_view bytes) {
  std::string out(sodium_base64_ENCODED_LEN(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  // The data pointer is only read; a view over chars is what callers have.
  sodium_bin2base64(out.data(), out.size(), reinterpret_cast<const unsigned char*>(bytes.data()),
                    bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  out.resize(out.size() - 1);  // the terminator
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  std::string out(text.size() / 4 * 3 + 3, '\0');
  std::size_t length = 0;
  const char* end = nullptr;
  if (sodium_base642bin(reinterpret_cast<unsigned char*>(out.data()), out.size(), text.data(),
                        text.size(), nullptr, &length, &end, sodium_base64_VARIANT_ORIGINAL) != 0 ||
      end != text.data() + text.size()) {
    return std::nullopt;
  }
  out.resize(length);
  return out;
}

}  // namespace waybill::edge
