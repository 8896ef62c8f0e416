#pragma once
// What Linux allows, where it has to be known before the kernel says so.

#include <cstddef>

namespace waybill {

// The longest argument or variable of a program (32 pages), its closing NUL included.
inline constexpr std::size_t kWordBytesMax = 32UL * 4096;

}  // namespace waybill
