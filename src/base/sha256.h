#pragma once
// SHA-256 (FIPS 180-4), streaming. Used by the supervisor, which links nothing but this and libc,
// and by the daemon when it completes a job whose supervisor was lost. Pure.

#include <cstddef>
#include <cstdint>

namespace waybill {

class Sha256 {
 public:
  Sha256();
  void update(const void* data, std::size_t size);
  // Ends the computation and writes 64 hex digits and a NUL. The object is spent afterwards.
  void finish_hex(char out[65]);

 private:
  void block(const unsigned char* data);

  std::uint32_t state_[8];
  std::uint64_t bytes_ = 0;
  unsigned char pending_[64];
};

}  // namespace waybill
