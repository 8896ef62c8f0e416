// The chain of a launch, piece by piece: what the supervisor adds to a command, and what the hook
// for stages adds to a shell. CPU of everything below the daemon, beside the bare command's.

#include <string>
#include <vector>

#include "daemon.h"
#include "figures.h"
#include "process.h"
#include "suite.h"

namespace waybill::bench {
namespace {

struct Chain {
  const char* name;
  const char* params;  // of job.run
  std::vector<std::string> argv;
  Samples ours{};
  Samples bare{};
};

// One after the other: a job and its wait.
double ours_cpu_ms(const Daemon& daemon, Client& client, const Chain& chain, int jobs) {
  const std::string run =
      request("job.run", std::string(R"({"session":"chain","cwd":"/",)") + chain.params +
                             R"(,"env":{"PATH":"/usr/bin:/bin"}})");
  const double before = reaped_cpu_seconds(daemon.pid());
  for (int i = 0; i < jobs; ++i) {
    client.send(run);
    const std::string id = member(client.receive(), "id");
    client.call("job.wait", R"({"session":"chain","jobs":[")" + id + R"("]})");
  }
  return (reaped_cpu_seconds(daemon.pid()) - before) * 1e3 / jobs;
}

double bare_cpu_ms(const Chain& chain, int jobs) {
  const double before = own_children_cpu_seconds();
  for (int i = 0; i < jobs; ++i) run({chain.argv, {}});
  return (own_children_cpu_seconds() - before) * 1e3 / jobs;
}

}  // namespace

void bench_chain(const Suite& suite) {
  std::vector<Chain> chains{
      {"true", R"("argv":["/bin/true"])", {"/bin/true"}},
      {"bash -c true", R"("command":"true")", {"/bin/bash", "-c", "true"}},
      {"bash -c 'true | true' (with the hook)",
       R"("command":"true | true")",
       {"/bin/bash", "-c", "true | true"}},
  };
  const Daemon daemon({suite.waybill, suite.dir + "/chain", {}, false});
  Client client(daemon.socket_path());
  for (int round = 0; round < suite.rounds; ++round) {
    for (Chain& chain : chains) {
      const int jobs = suite.times(200);
      chain.ours.push_back(ours_cpu_ms(daemon, client, chain, jobs));
      chain.bare.push_back(bare_cpu_ms(chain, jobs));
    }
  }
  print_section("Launch chain: CPU of one job, one at a time");
  for (const Chain& chain : chains) {
    print_row(chain.name + std::string(", supervisor and command"), chain.ours, "ms");
    print_row("  bare", chain.bare, "ms");
    Samples added;
    for (std::size_t i = 0; i < chain.ours.size(); ++i) {
      added.push_back(chain.ours[i] - chain.bare[i]);
    }
    print_row("  added", added, "ms");
  }
}

}  // namespace waybill::bench
