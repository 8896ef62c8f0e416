#pragma once
// Many seeds in a row, and what came of them.

#include <cstdint>
#include <string>

#include "branches.h"

namespace waybill::sim {

inline constexpr int kStepsPerSeed = 120;

struct Runs {
  std::uint64_t first = 1;
  std::uint64_t count = 1000;
  int steps = kStepsPerSeed;
  bool trace = false;
};

struct Report {
  bool failed = false;
  std::uint64_t failed_seed = 0;
  std::uint64_t seeds = 0;
  std::uint64_t commands = 0;
  Branches branches;
  std::string text;       // for a person: violations and last steps, or the table of branches
  std::string unreached;  // branches that no seed came to
};

Report run(const Runs& runs);

}  // namespace waybill::sim
