#include "base/sha256.h"

#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace waybill {
namespace {

alignas(16) constexpr std::uint32_t kRound[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void portable_block(std::uint32_t* state, const unsigned char* data);

#if defined(__x86_64__)

// Leaf 7 tells of the SHA instructions, leaf 1 of SSSE3 and SSE4.1, which go with them.
bool processor_knows() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return false;
  if ((c & bit_SSSE3) == 0 || (c & bit_SSE4_1) == 0) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_SHA) != 0;
}

// The state in the order that the instructions want it: ABEF and CDGH, highest word first.
__attribute__((target("sha,sse4.1,ssse3"))) void processor_blocks(std::uint32_t* state,
                                                                  const unsigned char* data,
                                                                  std::size_t count) {
  const auto load = [](const void* at) __attribute__((target("sha,sse4.1,ssse3"))) {
    return _mm_loadu_si128(static_cast<const __m128i*>(at));
  };
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  const __m128i cdab = _mm_shuffle_epi32(load(state), 0xB1);
  const __m128i efgh = _mm_shuffle_epi32(load(state + 4), 0x1B);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
  for (; count > 0; --count, data += 64) {
    const __m128i abef_before = abef;
    const __m128i cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      if (i < 4) {
        now = _mm_shuffle_epi8(load(data + 16 * i), big_endian);
      } else {
        const __m128i last = w[(i + 3) % 4];
        const __m128i mixed = _mm_sha256msg1_epu32(now, w[(i + 1) % 4]);
        const __m128i shifted = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
        now = _mm_sha256msg2_epu32(_mm_add_epi32(mixed, shifted), last);
      }
      const __m128i sum = _mm_add_epi32(now, load(kRound + 4 * i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(state)),
                   _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(static_cast<__m128i*>(static_cast<void*>(state + 4)),
                   _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool processor_knows() { return false; }
void processor_blocks(std::uint32_t* state, const unsigned char* data, std::size_t count) {
  for (; count > 0; --count, data += 64) portable_block(state, data);
}

#endif

}  // namespace

Sha256Way best_sha256_way() {
  static const Sha256Way best = processor_knows() ? Sha256Way::processor : Sha256Way::portable;
  return best;
}

Sha256::Sha256(Sha256Way way)
    : way_(way),
      state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      pending_{} {}

namespace {

void portable_block(std::uint32_t* state, const unsigned char* data) {
  std::uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    w[i] = static_cast<std::uint32_t>(data[4 * i]) << 24 |
           static_cast<std::uint32_t>(data[4 * i + 1]) << 16 |
           static_cast<std::uint32_t>(data[4 * i + 2]) << 8 |
           static_cast<std::uint32_t>(data[4 * i + 3]);
  }
  for (int i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10);
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  std::uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
  std::uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 64; ++i) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRound[i] + w[i];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

}  // namespace

void Sha256::blocks(const unsigned char* data, std::size_t count) {
  if (way_ == Sha256Way::processor) return processor_blocks(state_, data, count);
  for (; count > 0; --count, data += 64) portable_block(state_, data);
}

void Sha256::update(const void* data, std::size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::size_t held = bytes_ % 64;
  bytes_ += size;
  if (held != 0) {
    const std::size_t part = size < 64 - held ? size : 64 - held;
    std::memcpy(pending_ + held, bytes, part);
    bytes += part, size -= part, held += part;
    if (held < 64) return;
    blocks(pending_, 1);
  }
  blocks(bytes, size / 64);
  bytes += size / 64 * 64, size %= 64;
  if (size != 0) std::memcpy(pending_, bytes, size);
}

void Sha256::finish_hex(char out[65]) {
  const std::uint64_t bits = bytes_ * 8;
  static constexpr unsigned char kPad[64] = {0x80};
  const std::size_t held = bytes_ % 64;
  update(kPad, held < 56 ? 56 - held : 120 - held);
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  update(length, 8);
  static constexpr char kDigits[] = "0123456789abcdef";
  for (int i = 0; i < 64; ++i) {
    out[i] = kDigits[(state_[i / 8] >> (28 - 4 * (i % 8))) & 15U];
  }
  out[64] = '\0';
}

}  // namespace waybill
