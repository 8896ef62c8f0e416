// Whether the kernel has killed for want of memory: the counters of memory cgroups, of the job's
// own where it has one, else of the group it shares with others.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/cgroup.h"

namespace waybill::shim {
namespace {

constexpr std::size_t kTextMax = 16 * 1024;

// Read once, at the start of a job, by one thread.
char mounts[64 * 1024];
char groups[kTextMax];

bool read_text(const char* path, char* buffer, std::size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::size_t have = 0;
  for (ssize_t n = 1; n > 0 && have + 1 < size; have += static_cast<std::size_t>(n > 0 ? n : 0)) {
    n = read(fd, buffer + have, size - 1 - have);
  }
  close(fd);
  buffer[have] = '\0';
  return have > 0;
}

// Whether a comma-separated list holds this word.
bool lists(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    if (list.substr(0, comma) == word) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
  return false;
}

// The first word, which is taken off the front.
std::string_view take_word(std::string_view& line) {
  const std::size_t blank = line.find(' ');
  const std::string_view word = line.substr(0, blank);
  line.remove_prefix(blank == std::string_view::npos ? line.size() : blank + 1);
  return word;
}

std::string_view take_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

struct Mount {
  std::string_view root;
  std::string_view point;
};

// Where the hierarchy is mounted: version 2, or the one of version 1 that has the memory
// controller.
bool find_mount(Hierarchy hierarchy, Mount& out) {
  std::string_view text = mounts;
  while (!text.empty()) {
    std::string_view line = take_line(text);
    for (int i = 0; i < 3; ++i) take_word(line);  // id, parent, device
    const std::string_view root = take_word(line);
    const std::string_view point = take_word(line);
    const std::size_t dash = line.find("- ");
    if (dash == std::string_view::npos) continue;
    line.remove_prefix(dash + 2);
    const std::string_view type = take_word(line);
    take_word(line);  // source
    const bool fits = hierarchy == Hierarchy::version2 ? type == "cgroup2"
                                                       : type == "cgroup" && lists(line, "memory");
    if (!fits) continue;
    out = {root, point};
    return true;
  }
  return false;
}

// The process's group in that hierarchy, as /proc/PID/cgroup names it.
bool find_group(Hierarchy hierarchy, std::string_view& out) {
  std::string_view text = groups;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string_view::npos || second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const bool fits = hierarchy == Hierarchy::version2
                          ? controllers.empty() && line.substr(0, first) == "0"
                          : lists(controllers, "memory");
    if (!fits) continue;
    out = line.substr(second + 1);
    return true;
  }
  return false;
}

int open_counter_of_group(int pid, Hierarchy hierarchy, const char* file) {
  char path[kCgroupPathMax + 32];
  if (!cgroup_dir_of(pid, hierarchy, path)) return -1;
  const std::size_t length = std::strlen(path);
  std::snprintf(path + length, sizeof path - length, "/%s", file);
  return open(path, O_RDONLY | O_CLOEXEC);
}

// The value of its line "oom_kill N"; -1 when it has none.
long kills_of(int fd) {
  char text[1024];
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  if (n <= 0) return -1;
  text[n] = '\0';
  const char* at =
      std::strncmp(text, "oom_kill ", 9) == 0 ? text : std::strstr(text, "\noom_kill ");
  if (at == nullptr) return -1;
  if (*at == '\n') ++at;
  return std::atol(at + 9);
}

bool take_counter(int fd, bool own, OomCounter& out) {
  if (fd < 0) return false;
  out.before = kills_of(fd);
  if (out.before < 0) {
    close(fd);
    return false;
  }
  out.fd = fd;
  out.own = own;
  return true;
}

}  // namespace

bool cgroup_dir_of(int pid, Hierarchy hierarchy, char* out) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/cgroup", pid);
  if (!read_text(path, groups, sizeof groups) ||
      !read_text("/proc/self/mountinfo", mounts, sizeof mounts)) {
    return false;
  }
  Mount mount;
  std::string_view group;
  if (!find_mount(hierarchy, mount) || !find_group(hierarchy, group)) return false;
  // Both are seen from the same cgroup namespace; a mount may show only a part of the hierarchy.
  if (mount.root != "/") {
    if (group.substr(0, mount.root.size()) != mount.root) return false;
    group.remove_prefix(mount.root.size());
  }
  if (group == "/") group = {};
  if (mount.point.size() + group.size() >= kCgroupPathMax) return false;
  std::memcpy(out, mount.point.data(), mount.point.size());
  if (!group.empty()) std::memcpy(out + mount.point.size(), group.data(), group.size());
  out[mount.point.size() + group.size()] = '\0';
  return true;
}

OomCounter open_oom_counter(int cgroup, int pid) {
  OomCounter counter;
  if (cgroup >= 0 &&
      take_counter(openat(cgroup, "memory.events", O_RDONLY | O_CLOEXEC), true, counter)) {
    return counter;
  }
  struct Place {
    Hierarchy hierarchy;
    const char* file;
  };
  for (const Place& place : {Place{Hierarchy::version2, "memory.events.local"},
                             Place{Hierarchy::version2, "memory.events"},
                             Place{Hierarchy::memory, "memory.oom_control"}}) {
    const int fd = open_counter_of_group(pid, place.hierarchy, place.file);
    if (take_counter(fd, false, counter)) break;
  }
  return counter;
}

bool oom_killed(const OomCounter& counter) {
  return counter.fd >= 0 && kills_of(counter.fd) > counter.before;
}

}  // namespace waybill::shim
