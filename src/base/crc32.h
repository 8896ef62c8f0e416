#pragma once
// CRC-32 (IEEE 802.3, the one of zlib and gzip): the checksum of every record that the supervisor
// and the daemon leave for each other. Pure, freestanding.

#include <array>
#include <cstddef>
#include <cstdint>

namespace waybill {

namespace detail {
constexpr std::array<std::uint32_t, 256> make_crc32_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) {
      value = (value & 1U) != 0 ? (value >> 1) ^ 0xEDB88320U : value >> 1;
    }
    table[i] = value;
  }
  return table;
}
inline constexpr std::array<std::uint32_t, 256> kCrc32Table = make_crc32_table();
}  // namespace detail

// The checksum of `size` bytes, going on from `before` (0 for the first bytes).
inline std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t before = 0) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::uint32_t value = ~before;
  for (std::size_t i = 0; i < size; ++i) {
    value = (value >> 8) ^ detail::kCrc32Table[(value ^ bytes[i]) & 0xFFU];
  }
  return ~value;
}

// Writes the eight lower-case hex digits of a checksum; no terminating NUL.
inline void crc32_hex(std::uint32_t value, char* out) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (int i = 0; i < 8; ++i) out[i] = kDigits[(value >> (28 - 4 * i)) & 15U];
}

}  // namespace waybill
