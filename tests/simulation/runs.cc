#include "runs.h"

#include "simulation.h"

namespace waybill::sim {
namespace {

void tell_failure(Report& report, const Simulation& simulation, const Runs& runs) {
  report.text += "seed " + std::to_string(report.failed_seed) + " FAILED\n";
  for (const std::string& step : simulation.last_steps()) report.text += "  " + step + "\n";
  for (const std::string& violation : simulation.violations()) {
    report.text += "violated: " + violation + "\n";
  }
  report.text += "again: waybill-simulation --seed " + std::to_string(report.failed_seed) +
                 " --steps " + std::to_string(runs.steps) + " --trace\n";
}

}  // namespace

Report run(const Runs& runs) {
  Report report;
  for (std::uint64_t seed = runs.first; seed < runs.first + runs.count; ++seed) {
    Simulation simulation({seed, runs.steps, runs.trace});
    const bool passed = simulation.run();
    ++report.seeds;
    report.commands += simulation.transitions();
    report.branches.add(simulation.branches());
    if (passed) continue;
    report.failed = true;
    report.failed_seed = seed;
    tell_failure(report, simulation, runs);
    return report;
  }
  report.text += std::to_string(report.seeds) + " seeds, " + std::to_string(report.commands) +
                 " commands, no violation\n";
  for (std::size_t at = 0; at < kBranchNames.size(); ++at) {
    const std::string name(kBranchNames[at]);
    report.text += "  " + name + std::string(28 - name.size(), ' ') +
                   std::to_string(report.branches.count(at)) + "\n";
    if (report.branches.count(at) == 0) report.unreached += name + " ";
  }
  return report;
}

}  // namespace waybill::sim
