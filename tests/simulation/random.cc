#include "random.h"

#include <sodium.h>

#include <cstring>

namespace waybill::sim {
namespace {

Random* source = nullptr;

std::uint64_t turn_left(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

const char* name() { return "simulation"; }
std::uint32_t random32() { return static_cast<std::uint32_t>(source->next() >> 32); }
void buffer(void* const bytes, const std::size_t size) { source->fill(bytes, size); }

randombytes_implementation implementation{name, random32, nullptr, nullptr, buffer, nullptr};

}  // namespace

Random::Random(std::uint64_t seed) {
  for (std::uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    word = z ^ (z >> 31);
  }
}

std::uint64_t Random::next() {
  const std::uint64_t result = turn_left(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = turn_left(state_[3], 45);
  return result;
}

void Random::fill(void* bytes, std::size_t size) {
  auto* out = static_cast<unsigned char*>(bytes);
  while (size > 0) {
    const std::uint64_t word = next();
    const std::size_t part = size < sizeof word ? size : sizeof word;
    std::memcpy(out, &word, part);
    out += part;
    size -= part;
  }
}

void take_over_randomness(Random* from) {
  source = from;
  randombytes_set_implementation(&implementation);
}

}  // namespace waybill::sim
