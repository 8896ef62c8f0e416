#pragma once
// The only chance there is in a simulation: one seed, one run.

#include <cstdint>
#include <vector>

namespace waybill::sim {

// xoshiro256**, seeded by splitmix64. The same numbers on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed);
  std::uint64_t next();
  // 0 … n-1; 0 for n = 0.
  std::uint64_t below(std::uint64_t n) { return n == 0 ? 0 : next() % n; }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <class T>
  T& pick(std::vector<T>& from) {
    return from[below(from.size())];
  }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }
  void fill(void* bytes, std::size_t size);

 private:
  std::uint64_t state_[4];
};

// Ids, seals and jitter of the product come from this source from now on.
void take_over_randomness(Random* source);

}  // namespace waybill::sim
