// How fast a command's output is taken, and what that costs: large writes and small ones, beside a
// command that writes a file by itself and beside task-spooler. The default cap is in force, so
// Waybill gives back what the others keep.

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon.h"
#include "figures.h"
#include "peers.h"
#include "process.h"
#include "suite.h"

namespace waybill::bench {
namespace {

struct Writes {
  const char* name;
  int size;
  int count;
  double gigabytes() const { return static_cast<double>(size) * count / 1e9; }
  std::vector<std::string> argv() const {
    return {"/usr/bin/dd", "if=/dev/zero", "bs=" + std::to_string(size),
            "count=" + std::to_string(count), "status=none"};
  }
};

struct Capture {
  double mb_per_second = 0;
  double cpu_per_gb = 0;  // seconds: of the command and of whatever takes its output
};

Capture capture_of(const Writes& writes, double seconds, double cpu) {
  return {writes.gigabytes() * 1e3 / seconds, cpu / writes.gigabytes()};
}

Capture bare(const Suite& suite, const Writes& writes) {
  const std::string path = suite.dir + "/bare-output";
  std::vector<std::string> argv = writes.argv();
  argv.push_back("of=" + path);
  const double cpu = own_children_cpu_seconds();
  const std::int64_t start = mono_ns();
  if (run({argv, {}}) != 0) die("dd has failed");
  const Capture capture =
      capture_of(writes, seconds_since(start), own_children_cpu_seconds() - cpu);
  std::filesystem::remove(path);
  return capture;
}

Capture ours(const Daemon& daemon, Client& client, const Writes& writes) {
  std::string argv;
  for (const std::string& word : writes.argv()) {
    argv += (argv.empty() ? "\"" : ",\"") + word + "\"";
  }
  const double own = cpu_seconds(daemon.pid());
  const double reaped = reaped_cpu_seconds(daemon.pid());
  const std::int64_t start = mono_ns();
  const std::string job =
      member(client.call("job.run", R"({"session":"out","cwd":"/","argv":[)" + argv + "]}"), "id");
  client.call("job.wait", R"({"session":"out","timeout_ms":600000,"jobs":[")" + job + R"("]})");
  const double seconds = seconds_since(start);
  // The supervisor is reaped a moment after the end is known.
  while (!children_of(daemon.pid()).empty()) usleep(1000);
  return capture_of(writes, seconds,
                    cpu_seconds(daemon.pid()) - own + reaped_cpu_seconds(daemon.pid()) - reaped);
}

void bench_writes(const Suite& suite, const Daemon& daemon, Client& client, const Writes& writes) {
  Samples rates[3];
  Samples cpus[2];
  std::optional<TaskSpooler> spooler;
  if (TaskSpooler::there()) spooler.emplace(suite, 1);
  for (int round = 0; round < suite.rounds; ++round) {
    const Capture first = bare(suite, writes);
    const Capture second = ours(daemon, client, writes);
    rates[0].push_back(first.mb_per_second);
    rates[1].push_back(second.mb_per_second);
    cpus[0].push_back(first.cpu_per_gb);
    cpus[1].push_back(second.cpu_per_gb);
    if (spooler) {
      rates[2].push_back(writes.gigabytes() * 1e3 / spooler->output_seconds(writes.argv()));
    }
  }
  const std::string name = writes.name;
  print_row(name + ", to a file", rates[0], "MB/s");
  print_row(name + ", Waybill", rates[1], "MB/s");
  if (spooler) print_row(name + ", task-spooler", rates[2], "MB/s");
  print_row(name + ", Waybill : to a file", ratios(rates[1], rates[0]), "");
  if (spooler) {
    print_row(name + ", Waybill : task-spooler", ratios(rates[1], rates[2]), "");
  }
  print_row(name + ", CPU with the command, to a file", cpus[0], "s/GB");
  print_row(name + ", CPU with the command, Waybill", cpus[1], "s/GB");
}

}  // namespace

void bench_output(const Suite& suite) {
  print_section("output: a command's writes until its end is known");
  const Daemon daemon({suite.waybill, suite.dir + "/output", {"free_space_floor_bytes=1"}, false});
  Client client(daemon.socket_path());
  bench_writes(suite, daemon, client, {"64 KiB writes", 65536, suite.times(16384)});
  bench_writes(suite, daemon, client, {"60 B writes", 60, suite.times(500'000)});
}

}  // namespace waybill::bench
