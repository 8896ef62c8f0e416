#include "base/ids.h"

namespace waybill {
namespace {

// Crockford's base 32 in lower case: no letter that reads like a digit.
constexpr std::string_view kAlphabet = "0123456789abcdefghjkmnpqrstvwxyz";

bool id_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.' || c == ':' || c == '@' || c == '/' || c == '+' || c == '=';
}

}  // namespace

Result<void> check_id(std::string_view value, std::string_view what) {
  if (value.empty()) return fail(ErrorCode::bad_request, std::string(what) + " must not be empty.");
  if (value.size() > kIdBytesMax) {
    return fail(ErrorCode::too_large, std::string(what) + " has " + std::to_string(value.size()) +
                                          " bytes; at most " + std::to_string(kIdBytesMax) +
                                          " are allowed.");
  }
  for (char c : value) {
    if (!id_byte(c)) {
      return fail(ErrorCode::bad_request,
                  std::string(what) +
                      " may hold only letters, digits and - _ . : @ / + = (no blanks, quotes or "
                      "control characters).");
    }
  }
  return {};
}

std::string make_sortable_id(std::string_view prefix, unsigned long long unix_ms,
                             const unsigned char random[10]) {
  std::string id(prefix);
  for (int shift = 45; shift >= 0; shift -= 5) {
    id.push_back(kAlphabet[static_cast<std::size_t>((unix_ms >> shift) & 31U)]);
  }
  unsigned int bits = 0;
  int held = 0;
  for (int i = 0; i < 10; ++i) {
    bits = (bits << 8) | random[i];
    held += 8;
    while (held >= 5) {
      held -= 5;
      id.push_back(kAlphabet[(bits >> held) & 31U]);
    }
  }
  return id;
}

}  // namespace waybill
