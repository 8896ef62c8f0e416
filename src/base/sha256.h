#pragma once
// SHA-256 (FIPS 180-4), streaming. Used by the supervisor, which links nothing but this and libc,
// and by the daemon when it completes a job whose supervisor was lost. Pure. Every byte that a job
// prints goes through it, so the processor's own instructions are used where it has them.

#include <cstddef>
#include <cstdint>

namespace waybill {

enum class Sha256Way { portable, processor };

// The quickest way that this processor knows.
Sha256Way best_sha256_way();

class Sha256 {
 public:
  explicit Sha256(Sha256Way way = best_sha256_way());
  void update(const void* data, std::size_t size);
  // Ends the computation and writes 64 hex digits and a NUL. The object is spent afterwards.
  void finish_hex(char out[65]);

 private:
  void blocks(const unsigned char* data, std::size_t count);

  Sha256Way way_;
  std::uint32_t state_[8];
  std::uint64_t bytes_ = 0;
  unsigned char pending_[64];
};

}  // namespace waybill
