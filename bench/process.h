#pragma once
// Starting programs and reading /proc: what processes use and how often they wake up.

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace waybill::bench {

struct Program {
  std::vector<std::string> argv;
  std::vector<std::string> env;  // on top of ours
  bool quiet = true;             // stdout and stderr to /dev/null
};

pid_t spawn(const Program& program);
// Waits for the end; the exit status, or 128 and above for a signal.
int wait_for(pid_t pid);
int run(const Program& program);
bool have(const std::string& program);

// CPU time of all threads of a process, in seconds. 0 when it is gone.
double cpu_seconds(pid_t pid);
// CPU time of its children that it has waited for, in seconds (ticks of 10 ms).
double reaped_cpu_seconds(pid_t pid);
// CPU time of our own children that we have waited for.
double own_children_cpu_seconds();

struct Memory {
  std::uint64_t rss = 0;
  std::uint64_t pss = 0;
  std::uint64_t anonymous = 0;
};
Memory memory_of(pid_t pid);

// Voluntary context switches of all threads: how often it has gone to sleep, and so woken up.
std::uint64_t wakeups_of(pid_t pid);

std::vector<pid_t> children_of(pid_t pid);
std::string read_text(const std::string& path);
bool write_text(const std::string& path, const std::string& text);

}  // namespace waybill::bench
