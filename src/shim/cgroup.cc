#include "shim/cgroup.h"

#include <dirent.h>  // DT_DIR
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace waybill::shim {
namespace {

constexpr long kCgroup2Magic = 0x63677270;
constexpr int kDepthMax = 16;
constexpr int kMakeTries = 5;

int open_beside(int dir, const char* name, int flags) {
  return openat(dir, name, flags | O_CLOEXEC | O_NOFOLLOW);
}

int write_text(int dir, const char* name, const char* text) {
  const int fd = open_beside(dir, name, O_WRONLY);
  if (fd < 0) return errno;
  const ssize_t n = write(fd, text, std::strlen(text));
  const int error = n < 0 ? errno : 0;
  close(fd);
  return error;
}

// At most size - 1 bytes from the front of a file; -1 with errno.
ssize_t read_front(int fd, char* buffer, std::size_t size) {
  std::size_t have = 0;
  while (have + 1 < size) {
    const ssize_t n = pread(fd, buffer + have, size - 1 - have, static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    have += static_cast<std::size_t>(n);
  }
  buffer[have] = '\0';
  return static_cast<ssize_t>(have);
}

// The number after "KEY " at the front of a line; -1 when there is none.
long number_of(const char* text, const char* key) {
  const std::size_t length = std::strlen(key);
  for (const char* at = text; at != nullptr && *at != '\0';) {
    if (std::strncmp(at, key, length) == 0 && at[length] == ' ') return std::atol(at + length);
    at = std::strchr(at, '\n');
    if (at != nullptr) ++at;
  }
  return -1;
}

// Calls `use(pid)` for every number in a cgroup.procs file.
template <class Use>
void each_process(int cgroup, Use use) {
  const int fd = open_beside(cgroup, "cgroup.procs", O_RDONLY);
  if (fd < 0) return;
  char buffer[4096];
  int number = 0;
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        number = number * 10 + (buffer[i] - '0');
      } else {
        if (number > 0) use(number);  // 0: of another pid namespace
        number = 0;
      }
    }
  }
  close(fd);
}

// Calls `use(descriptor, name)` for every cgroup directly below.
template <class Use>
void each_child_group(int cgroup, Use use) {
  DirNames groups(open_beside(cgroup, ".", O_RDONLY | O_DIRECTORY));
  for (DirNames::Entry entry = groups.next(); entry.name != nullptr; entry = groups.next()) {
    if (entry.type != DT_DIR || entry.name[0] == '.') continue;
    const int fd = open_beside(cgroup, entry.name, O_RDONLY | O_DIRECTORY);
    if (fd < 0) continue;
    use(fd, entry.name);
    close(fd);
  }
}

void add_members(int cgroup, Members& out, int depth) {
  each_process(cgroup, [&out](int pid) {
    ProcStat stat;
    if (read_proc_stat(pid, stat)) out.add(stat);
  });
  if (depth == kDepthMax) return;
  each_child_group(cgroup, [&](int fd, const char*) { add_members(fd, out, depth + 1); });
}

void remove_below(int cgroup, int depth) {
  if (depth == kDepthMax) return;
  each_child_group(cgroup, [&](int fd, const char* name) {
    remove_below(fd, depth + 1);
    unlinkat(cgroup, name, AT_REMOVEDIR);
  });
}

// "…/a/b/c" to "/b/c"; empty when there are no two names.
std::string_view last_two(std::string_view path) {
  const std::size_t last = path.rfind('/');
  if (last == std::string_view::npos || last == 0) return {};
  const std::size_t before = path.rfind('/', last - 1);
  return before == std::string_view::npos ? std::string_view() : path.substr(before);
}

// The folder that holds `path`, in `out`. False when it does not fit.
bool parent_of(const char* path, char (&out)[kCgroupPathMax]) {
  const char* slash = std::strrchr(path, '/');
  if (slash == nullptr || slash == path) return false;
  const auto length = static_cast<std::size_t>(slash - path);
  if (length >= sizeof out) return false;
  std::memcpy(out, path, length);
  out[length] = '\0';
  return true;
}

}  // namespace

int open_cgroup(const char* path) {
  const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -errno;
  struct statfs info{};
  const int error = fstatfs(fd, &info) != 0 ? errno : info.f_type == kCgroup2Magic ? 0 : ENODEV;
  if (error == 0) return fd;
  close(fd);
  return -error;
}

int make_cgroup(const char* path) {
  char parent[kCgroupPathMax];
  char top[kCgroupPathMax];
  if (!parent_of(path, parent) || !parent_of(parent, top)) return -ENAMETOOLONG;
  // Nothing is made in a place that is no cgroup.
  const int root = open_cgroup(top);
  if (root < 0) return root;
  close(root);
  int error = 0;
  // Again, when somebody has just removed the folder because its last group had gone.
  for (int i = 0; i < kMakeTries; ++i) {
    if (mkdir(parent, 0700) == 0) {
      const int fd = open_cgroup(parent);
      // Where it can be had, each job gets a memory account of its own.
      if (fd >= 0) write_text(fd, "cgroup.subtree_control", "+memory");
      if (fd >= 0) close(fd);
    } else if (errno != EEXIST) {
      return -errno;
    }
    error = mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : errno;
    if (error != ENOENT) break;
  }
  return error != 0 ? -error : open_cgroup(path);
}

pid_t fork_into_cgroup(int cgroup) {
  clone_args args{};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<__u64>(cgroup);
  return static_cast<pid_t>(syscall(SYS_clone3, &args, sizeof args));
}

int enter_cgroup(int cgroup, pid_t pid) {
  char text[16];
  std::snprintf(text, sizeof text, "%d", pid);
  return write_text(cgroup, "cgroup.procs", text);
}

std::uint64_t cgroup_namespace() {
  struct stat info{};
  return stat("/proc/self/ns/cgroup", &info) == 0 ? info.st_ino : 0;
}

Answer is_in_cgroup(int pid, std::string_view path) {
  char name[48];
  std::snprintf(name, sizeof name, "/proc/%d/cgroup", pid);
  const int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return Answer::unknown;
  char text[8192];
  const ssize_t n = read_front(fd, text, sizeof text);
  close(fd);
  const std::string_view wanted = last_two(path);
  if (n <= 0 || wanted.empty()) return Answer::unknown;
  const char* line = std::strncmp(text, "0::", 3) == 0 ? text : std::strstr(text, "\n0::");
  if (line == nullptr) return Answer::unknown;
  if (*line == '\n') ++line;
  const std::string_view group(line + 3, std::strcspn(line + 3, "\n"));
  const std::size_t at = group.find(wanted);
  if (at == std::string_view::npos) return Answer::no;
  const std::size_t end = at + wanted.size();
  const bool whole = end == group.size() || group[end] == '/' || group[end] == ' ';
  return whole ? Answer::yes : Answer::no;
}

Answer cgroup_populated(int cgroup) {
  const int fd = open_beside(cgroup, "cgroup.events", O_RDONLY);
  if (fd < 0) return errno == ENOENT || errno == ENODEV ? Answer::no : Answer::unknown;
  char text[512];
  const ssize_t n = read_front(fd, text, sizeof text);
  const int error = errno;
  close(fd);
  if (n < 0) return error == ENODEV ? Answer::no : Answer::unknown;
  const long populated = number_of(text, "populated");
  return populated < 0 ? Answer::unknown : populated == 0 ? Answer::no : Answer::yes;
}

Answer cgroup_populated(const char* path) {
  char parent[kCgroupPathMax];
  char top[kCgroupPathMax];
  int fd = open_cgroup(path);
  if (fd >= 0) {
    const Answer answer = cgroup_populated(fd);
    close(fd);
    return answer;
  }
  if (fd != -ENOENT || !parent_of(path, parent) || !parent_of(parent, top)) return Answer::unknown;
  // Not there because it was removed, or because no cgroups are to be seen from here?
  fd = open_cgroup(top);
  if (fd < 0) return Answer::unknown;
  close(fd);
  return Answer::no;
}

void add_cgroup_members(int cgroup, Members& out) { add_members(cgroup, out, 0); }

int kill_cgroup(int cgroup) { return write_text(cgroup, "cgroup.kill", "1"); }

int remove_cgroup(const char* path) {
  char parent[kCgroupPathMax];
  if (!parent_of(path, parent)) return ENAMETOOLONG;
  const int fd = open_cgroup(path);
  if (fd == -ENOENT) return 0;
  if (fd < 0) return -fd;
  remove_below(fd, 0);
  close(fd);
  if (rmdir(path) != 0 && errno != ENOENT) return errno;
  rmdir(parent);  // fails while it holds others
  return 0;
}

}  // namespace waybill::shim
