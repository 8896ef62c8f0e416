#pragma once
// What this build calls itself, and the protocol it speaks.

#include <string_view>

namespace waybill::edge {

inline constexpr std::string_view kVersion = WAYBILL_VERSION;
inline constexpr unsigned kProtocol = 1;

}  // namespace waybill::edge
