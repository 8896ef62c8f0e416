// The simulation by hand: one seed again, or many.

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runs.h"

namespace {

void usage() {
  std::puts(
      "waybill-simulation [--seed N | --seeds FIRST COUNT] [--steps N] [--trace]\n"
      "  --seed N             one world again, with its last steps if it fails\n"
      "  --seeds FIRST COUNT  many; stops at the first that fails (1 1000)\n"
      "  --steps N            how long each of them lasts\n"
      "  --trace              every step");
}

}  // namespace

int main(int argc, char** argv) {
  waybill::sim::Runs runs;
  for (int at = 1; at < argc; ++at) {
    const std::string word = argv[at];
    const auto number = [&]() -> std::uint64_t {
      return ++at < argc ? std::strtoull(argv[at], nullptr, 10) : 0;
    };
    if (word == "--seed") {
      runs.first = number();
      runs.count = 1;
    } else if (word == "--seeds") {
      runs.first = number();
      runs.count = number();
    } else if (word == "--steps") {
      runs.steps = static_cast<int>(number());
    } else if (word == "--trace") {
      runs.trace = true;
    } else {
      usage();
      return word == "--help" ? 0 : 2;
    }
  }
  const waybill::sim::Report report = waybill::sim::run(runs);
  std::fputs(report.text.c_str(), stdout);
  return report.failed ? 1 : 0;
}
