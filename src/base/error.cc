#include "base/error.h"

#include <array>
#include <cstddef>

namespace waybill {
namespace {

// Exit codes: 120 usage, 121 refused, 122 no daemon, 123 state refused (SPEC section 15).
constexpr std::array<ErrorTraits, 20> kTraits{{
    {ErrorCode::not_found, "not_found", -32001, 121, false},
    {ErrorCode::not_owner, "not_owner", -32002, 121, false},
    {ErrorCode::fenced, "fenced", -32003, 121, false},
    {ErrorCode::owner_unrecoverable, "owner_unrecoverable", -32004, 123, false},
    {ErrorCode::state_corrupt, "state_corrupt", -32005, 123, false},
    {ErrorCode::store_newer, "store_newer", -32006, 123, false},
    {ErrorCode::store_regressed, "store_regressed", -32007, 123, false},
    {ErrorCode::store_full, "store_full", -32008, 121, true},
    {ErrorCode::no_delivery_path, "no_delivery_path", -32009, 121, false},
    {ErrorCode::illegal_transition, "illegal_transition", -32010, 121, false},
    {ErrorCode::already_terminal, "already_terminal", -32011, 121, false},
    {ErrorCode::conflict, "conflict", -32012, 121, false},
    {ErrorCode::limit_reached, "limit_reached", -32013, 121, true},
    {ErrorCode::too_large, "too_large", -32014, 121, false},
    {ErrorCode::cwd_missing, "cwd_missing", -32015, 121, false},
    {ErrorCode::bad_request, "bad_request", -32602, 120, false},
    {ErrorCode::unauthenticated, "unauthenticated", -32016, 121, false},
    {ErrorCode::forbidden, "forbidden", -32017, 121, false},
    {ErrorCode::unsupported_version, "unsupported_version", -32018, 121, false},
    {ErrorCode::unavailable, "unavailable", -32019, 122, true},
}};

constexpr bool in_enum_order() {
  for (std::size_t i = 0; i < kTraits.size(); ++i) {
    if (static_cast<std::size_t>(kTraits[i].code) != i) return false;
  }
  return static_cast<std::size_t>(ErrorCode::unavailable) + 1 == kTraits.size();
}
static_assert(in_enum_order(), "one row per error code, in the order of the enumeration");

}  // namespace

const ErrorTraits& traits(ErrorCode code) { return kTraits.at(static_cast<std::size_t>(code)); }

std::string_view to_word(ErrorCode code) { return traits(code).word; }

std::optional<ErrorCode> error_code_from_word(std::string_view word) {
  for (const ErrorTraits& row : kTraits) {
    if (row.word == word) return row.code;
  }
  return std::nullopt;
}

}  // namespace waybill
