#include <gtest/gtest.h>

#include <cstdlib>

#include "runs.h"

namespace waybill::sim {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 100;  // of a program that is many times slower
#else
constexpr std::uint64_t kSeeds = 1000;
#endif

// WAYBILL_SIMULATION_SEEDS, _FIRST and _STEPS make it longer or another one.
TEST(Simulation, I1_to_I18_hold_in_a_thousand_worlds) {
  Runs runs;
  runs.first = from_environment("WAYBILL_SIMULATION_FIRST", 1);
  runs.count = from_environment("WAYBILL_SIMULATION_SEEDS", kSeeds);
  runs.steps = static_cast<int>(from_environment("WAYBILL_SIMULATION_STEPS", kStepsPerSeed));
  const Report report = run(runs);
  std::fputs(report.text.c_str(), stdout);
  ASSERT_FALSE(report.failed) << "seed " << report.failed_seed;
  if (runs.count >= 1000) {
    EXPECT_EQ(report.unreached, "") << "no world came to these; nothing is proven about them";
  }
}

// The same seed is the same run, to the last command.
TEST(Simulation, a_seed_says_everything) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    const Runs runs{seed, 1, kStepsPerSeed, false};
    const Report once = run(runs);
    const Report twice = run(runs);
    EXPECT_EQ(once.text, twice.text) << "seed " << seed;
  }
}

}  // namespace
}  // namespace waybill::sim
