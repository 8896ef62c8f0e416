// What jobs that do nothing cost: memory, and how often anything wakes up.

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "daemon.h"
#include "figures.h"
#include "process.h"
#include "suite.h"

namespace waybill::bench {
namespace {

constexpr int kManyJobs = 1000;
constexpr useconds_t kSettle = 3'000'000;

void launch_idle(const Daemon& daemon, int jobs) {
  Client client(daemon.socket_path());
  const std::string run =
      request("job.run", R"({"session":"idle","cwd":"/","argv":["/bin/sleep","100000"],"env":{}})");
  for (int i = 0; i < jobs; ++i) {
    client.send(run);
    client.receive();
  }
}

std::vector<pid_t> supervisors(const Daemon& daemon, int jobs) {
  std::vector<pid_t> shims;
  for (int i = 0; i < 3000; ++i) {
    shims = children_of(daemon.pid());
    int started = 0;
    for (const pid_t shim : shims) started += children_of(shim).empty() ? 0 : 1;
    if (started >= jobs) return shims;
    usleep(500'000);
  }
  die("the idle jobs do not start");
}

// A memory cgroup (version 1) of our own; absent where there is none to be had.
class MemoryGroup {
 public:
  explicit MemoryGroup(const std::string& name)
      : path_("/sys/fs/cgroup/memory/waybill-bench-" + name + "-" + std::to_string(getpid())) {
    there_ = mkdir(path_.c_str(), 0755) == 0 &&
             !read_text(path_ + "/memory.kmem.usage_in_bytes").empty();
  }
  // What was killed may take a moment to be gone.
  ~MemoryGroup() {
    for (int i = 0; i < 200 && rmdir(path_.c_str()) != 0 && errno == EBUSY; ++i) usleep(20'000);
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool there() const { return there_; }
  const std::string& path() const { return path_; }
  bool take(pid_t pid) const { return write_text(path_ + "/cgroup.procs", std::to_string(pid)); }

  // Anonymous memory and memory of the kernel; not the page cache.
  double used() const {
    const std::string stat = read_text(path_ + "/memory.stat");
    const double kernel =
        std::strtod(read_text(path_ + "/memory.kmem.usage_in_bytes").c_str(), nullptr);
    const std::size_t at = stat.find("\nrss ");
    return kernel + (at == std::string::npos ? 0 : std::strtod(stat.c_str() + at + 5, nullptr));
  }

 private:
  std::string path_;
  bool there_ = false;
};

// What one bare sleep costs in a group of its own.
std::optional<double> bare_sleep_bytes(int count) {
  const MemoryGroup group("bare");
  if (!group.there()) return std::nullopt;
  std::vector<pid_t> pids;
  pids.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    pids.push_back(spawn(
        {{"/bin/sh", "-c", "echo 0 > " + group.path() + "/cgroup.procs && exec /bin/sleep 100000"},
         {}}));
  }
  usleep(kSettle);
  const double used = group.used();
  for (const pid_t pid : pids) kill(pid, SIGKILL);
  for (const pid_t pid : pids) wait_for(pid);
  return used / count;
}

void print_group(const MemoryGroup& group, double before, int jobs) {
  if (!group.there()) return print_text("in a memory cgroup", "there is none to be had");
  const double all = (group.used() - before) / jobs;
  print_row("in a memory cgroup: daemon, supervisor and sleep, more per job", {all / 1024}, "KiB");
  if (const std::optional<double> bare = bare_sleep_bytes(jobs)) {
    print_row("  a bare sleep", {*bare / 1024}, "KiB");
    print_row("  so Waybill adds, per job", {(all - *bare) / 1024}, "KiB");
  }
}

}  // namespace

void bench_memory(const Suite& suite) {
  const MemoryGroup group("idle");
  const Daemon daemon({suite.waybill,
                       suite.dir + "/memory",
                       {"running_per_session=2000", "running_per_node=2000"},
                       true});
  if (group.there() && !group.take(daemon.pid())) die("cannot move the daemon to its cgroup");
  const Memory daemon_before = memory_of(daemon.pid());
  const double before = group.used();
  const int jobs = suite.times(kManyJobs);
  launch_idle(daemon, jobs);
  const std::vector<pid_t> shims = supervisors(daemon, jobs);
  usleep(kSettle);
  Samples rss;
  Samples pss;
  Samples anonymous;
  Samples cpu;
  for (const pid_t shim : shims) {
    const Memory memory = memory_of(shim);
    rss.push_back(static_cast<double>(memory.rss) / 1024);
    pss.push_back(static_cast<double>(memory.pss) / 1024);
    anonymous.push_back(static_cast<double>(memory.anonymous) / 1024);
    cpu.push_back(cpu_seconds(shim) * 1e3);
  }
  print_section("Memory: " + std::to_string(jobs) + " idle jobs");
  print_row("supervisor, resident", rss, "KiB");
  print_row("supervisor, its share (Pss)", pss, "KiB");
  print_row("supervisor, anonymous", anonymous, "KiB");
  print_row("supervisor, CPU from its start until now", cpu, "ms");
  const Memory daemon_after = memory_of(daemon.pid());
  print_row("daemon without jobs, resident", {static_cast<double>(daemon_before.rss) / 1024},
            "KiB");
  print_row("daemon, more per job",
            {(static_cast<double>(daemon_after.rss) - static_cast<double>(daemon_before.rss)) /
             1024 / jobs},
            "KiB");
  print_group(group, before, jobs);
  print_target("supervisor, resident", median(rss) / 1024, {Aim::below, 1, "MiB"});
}

void bench_wakeups(const Suite& suite) {
  const int jobs = suite.times(kManyJobs);
  const Daemon daemon({suite.waybill,
                       suite.dir + "/wakeups",
                       {"running_per_session=2000", "running_per_node=2000"},
                       true});
  launch_idle(daemon, jobs);
  const std::vector<pid_t> shims = supervisors(daemon, jobs);
  usleep(kSettle);
  Samples daemon_rate;
  Samples shim_rate;
  for (int round = 0; round < suite.rounds; ++round) {
    const auto count = [&] {
      std::uint64_t sum = 0;
      for (const pid_t shim : shims) sum += wakeups_of(shim);
      return sum;
    };
    const std::uint64_t shims_before = count();
    const std::uint64_t daemon_before = wakeups_of(daemon.pid());
    const std::int64_t start = mono_ns();
    usleep(5'000'000);
    daemon_rate.push_back(static_cast<double>(wakeups_of(daemon.pid()) - daemon_before) /
                          seconds_since(start));
    shim_rate.push_back(static_cast<double>(count() - shims_before) / seconds_since(start));
  }
  print_section("Wake-ups: " + std::to_string(jobs) + " idle jobs, nobody connected");
  print_row("daemon, voluntary context switches", daemon_rate, "/s");
  print_row("all supervisors together", shim_rate, "/s");
  print_target("daemon, voluntary context switches", median(daemon_rate), {Aim::below, 1, "/s"});
}

}  // namespace waybill::bench
