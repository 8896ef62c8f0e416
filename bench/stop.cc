// How long a stop takes, confirmed, by the number of processes that ignore TERM; beside it the
// floor: KILL to the group and the wait for all of it, which proves nothing about who left it.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "daemon.h"
#include "figures.h"
#include "process.h"
#include "suite.h"

namespace waybill::bench {
namespace {

constexpr std::array kSizes{1, 10, 100, 1000};

// Says "up" once all of them are there.
std::string crowd(int processes) {
  return "trap '' TERM; for ((i = 1; i < " + std::to_string(processes) +
         "; i++)); do sleep 100000 & done; echo up; exec sleep 100000";
}

double ours_ms(Client& client, int processes) {
  client.send(request("job.run", R"({"session":"stop","cwd":"/","grace_ms":0,"command":")" +
                                     crowd(processes) + R"(","env":{"PATH":"/usr/bin:/bin"}})"));
  const std::string id = member(client.receive(), "id");
  client.call("job.logs", R"({"session":"stop","job":")" + id + R"(","offset":0,"wait_ms":60000})");
  const std::int64_t start = mono_ns();
  client.call("job.stop", R"({"session":"stop","wait":true,"jobs":[")" + id + R"("]})");
  return seconds_since(start) * 1e3;
}

double floor_ms(int processes) {
  int up[2];
  if (pipe(up) != 0) die("no pipe");
  // Orphans of the killed shell come to us, so that their end can be waited for.
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  const pid_t shell = fork();
  if (shell == 0) {
    setsid();
    dup2(up[1], 1);
    close(up[0]);
    close(up[1]);
    execl("/bin/bash", "bash", "-c", crowd(processes).c_str(), nullptr);
    _exit(127);
  }
  close(up[1]);
  char text[4];
  if (read(up[0], text, sizeof text) <= 0) die("the crowd does not start");
  close(up[0]);
  const std::int64_t start = mono_ns();
  kill(-shell, SIGKILL);
  while (waitpid(-1, nullptr, 0) > 0) {
  }
  return seconds_since(start) * 1e3;
}

}  // namespace

void bench_stop(const Suite& suite) {
  std::array<Samples, kSizes.size()> ours;
  std::array<Samples, kSizes.size()> floors;
  for (int round = 0; round < suite.rounds; ++round) {
    // A daemon of its own: the floor waits for every child that there is.
    {
      const Daemon daemon({suite.waybill, suite.dir + "/stop" + std::to_string(round), {}, false});
      Client client(daemon.socket_path());
      for (std::size_t i = 0; i < kSizes.size(); ++i) {
        ours[i].push_back(ours_ms(client, kSizes[i]));
      }
    }
    for (std::size_t i = 0; i < kSizes.size(); ++i) floors[i].push_back(floor_ms(kSizes[i]));
  }
  print_section("Stop: from job.stop to its confirmation, grace 0");
  for (std::size_t i = 0; i < kSizes.size(); ++i) {
    print_row(std::to_string(kSizes[i]) + " processes that ignore TERM", ours[i], "ms");
    print_row("  KILL to the group, all waited for", floors[i], "ms");
  }
}

}  // namespace waybill::bench
