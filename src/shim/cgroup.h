#pragma once
// A job's cgroup of version 2, by its directory DATA-ROOT/waybill-…/job-…: entered before the
// command can run, verified, killed as a whole, and known to be empty. Membership is a second net:
// a process that may write to other cgroups can leave, so it counts only together with a look for
// processes outside of it. No exceptions; memory is the caller's.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shim/proc.h"

namespace waybill::shim {

inline constexpr std::size_t kCgroupPathMax = 512;

// The directory, if it is one of a version 2 hierarchy: a descriptor, or -errno.
int open_cgroup(const char* path);

// Makes `path` and the folder that holds all of one data directory's, and opens it. The descriptor,
// or -errno.
int make_cgroup(const char* path);

// fork() whose child begins its life in the cgroup: moving a living process makes the kernel wait
// for all processors, this does not. -1 with errno where the kernel or a sandbox has no such call.
pid_t fork_into_cgroup(int cgroup);

// Moves a process. 0 or errno.
int enter_cgroup(int cgroup, pid_t pid);

enum class Answer { no, yes, unknown };

// The calling process's cgroup namespace, in which alone the path of a cgroup means that cgroup; 0
// where there are none.
std::uint64_t cgroup_namespace();

// Whether /proc/PID/cgroup names this cgroup, or one below it. Compared by the last two names of
// the path, which no other cgroup has: where the hierarchy is mounted does not matter.
Answer is_in_cgroup(int pid, std::string_view path);

// Whether a living process is in it or below. A cgroup that was removed is empty: the kernel
// removes none that is not.
Answer cgroup_populated(int cgroup);

// The same by its path, for one that may have been removed.
Answer cgroup_populated(const char* path);

// Adds who is in it and below.
void add_cgroup_members(int cgroup, Members& out);

// Kills all of them at once, frozen ones too. 0 or errno.
int kill_cgroup(int cgroup);

// Removes it with what the job made below it, and the folder above when that was the last. 0, or
// errno: EBUSY while something is in it.
int remove_cgroup(const char* path);

enum class Hierarchy { version2, memory };  // memory: of version 1, with that controller

// The directory of the group that a process is in, in `out`, which has room for kCgroupPathMax.
// False when there is none to be seen. Not for two threads at once.
bool cgroup_dir_of(int pid, Hierarchy hierarchy, char* out);

// How often the kernel has killed for want of memory, where the job's processes are.
struct OomCounter {
  int fd = -1;
  bool own = false;  // of the job's own cgroup: who was killed was of the job
  long before = 0;
};

// Opens the counter that speaks for `pid` and notes where it stands: the memory controller of its
// own cgroup (`cgroup`, -1: none), else the group of either version that it is in.
OomCounter open_oom_counter(int cgroup, int pid);

// The kernel has killed since.
bool oom_killed(const OomCounter& counter);

}  // namespace waybill::shim
