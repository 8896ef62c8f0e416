#include "shim/proc.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace waybill::shim {
namespace {

ssize_t read_small(const char* path, char* buffer, std::size_t size) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = 0;
  do {
    n = read(fd, buffer, size - 1);
  } while (n < 0 && errno == EINTR);
  close(fd);
  if (n >= 0) buffer[n] = '\0';
  return n;
}

// Calls `use(pid)` for every child in one children file. False when the file cannot be opened.
template <class Use>
bool each_child_of_task(int pid, const char* task, Use use, bool& unseen) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/%d/task/%.20s/children", pid, task);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    unseen = unseen || is_shortage(errno);
    return false;
  }
  char buffer[1024];
  int number = 0;
  bool digits = false;
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) unseen = unseen || is_shortage(errno);
    if (n <= 0) break;
    for (ssize_t i = 0; i < n; ++i) {
      if (buffer[i] >= '0' && buffer[i] <= '9') {
        number = number * 10 + (buffer[i] - '0');
        digits = true;
      } else if (digits) {
        use(number);
        number = 0, digits = false;
      }
    }
  }
  if (digits) use(number);
  close(fd);
  return true;
}

// The same over all threads of a process. False when nothing could be read; `unseen` is set when
// that, or a part, was for want of something.
template <class Use>
bool each_child(int pid, Use use, bool& unseen) {
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/task", pid);
  DirNames tasks(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (tasks.fd() < 0) {
    unseen = unseen || is_shortage(errno);
    return false;
  }
  bool any = false;
  for (DirNames::Entry entry = tasks.next(); entry.name != nullptr; entry = tasks.next()) {
    if (entry.name[0] == '.') continue;
    any = each_child_of_task(pid, entry.name, use, unseen) || any;
  }
  unseen = unseen || tasks.failed();
  return any;
}

bool has_children_files() {
  static int known = -1;
  if (known < 0) {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%d/task/%d/children", getpid(), getpid());
    known = access(path, R_OK) == 0 ? 1 : 0;
  }
  return known == 1;
}

// One pass over /proc: adds every process whose parent is `root` or already in the set. True when
// something was added.
bool add_by_parent(int root, Members& out) {
  DirNames all(open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  out.unseen = out.unseen || all.fd() < 0;
  if (all.fd() < 0) return false;
  bool added = false;
  for (DirNames::Entry entry = all.next(); entry.name != nullptr; entry = all.next()) {
    if (entry.name[0] < '0' || entry.name[0] > '9') continue;
    ProcStat stat;
    if (!read_proc_stat(std::atoi(entry.name), stat)) {
      out.unseen = out.unseen || is_shortage(errno);
      continue;
    }
    bool ours = stat.ppid == root;
    for (std::size_t i = 0; i < out.count && !ours; ++i) ours = out.list[i].pid == stat.ppid;
    if (ours) added = out.add(stat) || added;
  }
  out.unseen = out.unseen || all.failed();
  return added;
}

}  // namespace

DirNames::~DirNames() {
  if (fd_ >= 0) close(fd_);
}

DirNames::Entry DirNames::next() {
  // As the kernel lays an entry out: inode, offset, length, type, name.
  constexpr long kLengthAt = 16;
  constexpr long kTypeAt = 18;
  constexpr long kNameAt = 19;
  if (at_ >= have_) {
    at_ = 0;
    have_ = fd_ < 0 ? -1 : syscall(SYS_getdents64, fd_, buffer_, sizeof buffer_);
    // A process that has ended meanwhile has no names any more.
    failed_ = have_ < 0 && (fd_ < 0 || errno != ENOENT) && errno != ESRCH;
    if (have_ <= 0) {
      have_ = 0;
      return {};
    }
  }
  const char* const entry = buffer_ + at_;
  unsigned short length = 0;
  std::memcpy(&length, entry + kLengthAt, sizeof length);
  at_ += length;
  return {entry + kNameAt, static_cast<unsigned char>(entry[kTypeAt])};
}

bool is_shortage(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

bool read_proc_stat(int pid, ProcStat& out) {
  char path[48];
  char text[1024];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  if (read_small(path, text, sizeof text) <= 0) return false;
  const char* open_bracket = std::strchr(text, '(');
  char* close_bracket = std::strrchr(text, ')');
  if (open_bracket == nullptr || close_bracket == nullptr || close_bracket < open_bracket ||
      close_bracket[1] != ' ') {
    return false;
  }
  out.pid = pid;
  *close_bracket = '\0';
  std::snprintf(out.comm, sizeof out.comm, "%.63s", open_bracket + 1);
  char* at = close_bracket + 2;
  out.state = *at;
  // Fields from 4 on: 4 is the parent, 6 the session, 22 the start time.
  at += 1;
  for (int field = 4; field <= 22; ++field) {
    char* end = nullptr;
    const long long value = std::strtoll(at, &end, 10);
    if (end == at) return false;
    if (field == 4) out.ppid = static_cast<int>(value);
    if (field == 6) out.session = static_cast<int>(value);
    if (field == 22) out.start = static_cast<std::uint64_t>(value);
    at = end;
  }
  return true;
}

const Member* Members::find(int pid, std::uint64_t start) const {
  for (std::size_t i = 0; i < count; ++i) {
    if (list[i].pid == pid && list[i].start == start) return &list[i];
  }
  return nullptr;
}

bool Members::add(const ProcStat& stat) {
  if (find(stat.pid, stat.start) != nullptr) return false;
  if (count == kMembersMax) {
    truncated = true;
    return false;
  }
  list[count++] = Member{stat.pid, stat.ppid, stat.start, stat.state};
  return true;
}

void find_descendants(int root, Members& out) {
  out.count = 0;
  out.truncated = false;
  out.unseen = false;
  if (!has_children_files()) {
    while (add_by_parent(root, out)) {
    }
    return;
  }
  const auto add = [&out](int pid) {
    ProcStat stat;
    if (read_proc_stat(pid, stat)) {
      out.add(stat);
    } else {
      out.unseen = out.unseen || is_shortage(errno);
    }
  };
  each_child(root, add, out.unseen);
  for (std::size_t i = 0; i < out.count; ++i) {
    if (out.list[i].state != 'Z') each_child(out.list[i].pid, add, out.unseen);
  }
}

bool only_child_is(int pid) {
  if (!has_children_files()) return false;
  std::size_t count = 0;
  bool seen = false;
  bool unseen = false;
  const auto note = [&](int child) {
    ++count;
    seen = seen || child == pid;
  };
  return each_child(getpid(), note, unseen) && !unseen && count == 1 && seen;
}

int signal_member(const Member& member, int signal) {
  const auto same = [&member] {
    ProcStat now;
    return read_proc_stat(member.pid, now) && now.start == member.start;
  };
  const int fd = static_cast<int>(syscall(SYS_pidfd_open, member.pid, 0));
  if (fd < 0) {
    if (errno == ESRCH || !same()) return ESRCH;
    return kill(member.pid, signal) == 0 ? 0 : errno;
  }
  int error = ESRCH;
  if (same()) error = syscall(SYS_pidfd_send_signal, fd, signal, nullptr, 0) == 0 ? 0 : errno;
  close(fd);
  return error;
}

bool holds_file(int pid, const FileId& file) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd", pid);
  DirNames files(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (files.fd() < 0) return is_shortage(errno);
  for (DirNames::Entry entry = files.next(); entry.name != nullptr; entry = files.next()) {
    if (entry.name[0] == '.') continue;
    struct stat info{};
    if (fstatat(files.fd(), entry.name, &info, 0) != 0) continue;
    if (info.st_dev == file.dev && info.st_ino == file.ino) return true;
  }
  return files.failed();
}

namespace {

void append_fields(JsonLine& line, const Member& member, const FileId& output, ProcStat& stat) {
  if (!read_proc_stat(member.pid, stat) || stat.start != member.start) stat.state = 'X';
  char path[48];
  char cmdline[kCmdlineBytesMax + 1];
  std::snprintf(path, sizeof path, "/proc/%d/cmdline", member.pid);
  const ssize_t n = read_small(path, cmdline, sizeof cmdline);
  std::size_t length = n > 0 ? static_cast<std::size_t>(n) : 0;
  while (length > 0 && cmdline[length - 1] == '\0') --length;
  for (std::size_t i = 0; i < length; ++i) {
    if (cmdline[i] == '\0') cmdline[i] = ' ';
  }
  line.open({}, '{');
  line.integer("pid", member.pid);
  line.number("start", member.start);
  line.text("comm", stat.comm);
  line.text("cmdline", {cmdline, length});
  line.text("state", {&stat.state, 1});
  line.boolean("holds_output", holds_file(member.pid, output));
}

// The number after "TracerPid:"; 0 when nobody traces it.
int tracer_of(int pid) {
  char path[48];
  char text[2048];
  std::snprintf(path, sizeof path, "/proc/%d/status", pid);
  if (read_small(path, text, sizeof text) <= 0) return 0;
  const char* at = std::strstr(text, "\nTracerPid:");
  return at == nullptr ? 0 : std::atoi(at + 11);
}

}  // namespace

void append_note(JsonLine& line, const Member& member, const FileId& output) {
  ProcStat stat;
  append_fields(line, member, output, stat);
  line.close('}');
}

const char* survivor_reason(int pid, char state) {
  if (state == 'D') return "D_state";
  if (state == 'Z') return tracer_of(pid) != 0 ? "zombie_of_ptracer" : "";
  return kill(pid, 0) != 0 && errno == EPERM ? "EPERM_setuid" : "";
}

KernelWait read_wchan(int pid) {
  KernelWait wait;
  char path[48];
  std::snprintf(path, sizeof path, "/proc/%d/wchan", pid);
  if (read_small(path, wait.name, sizeof wait.name) <= 0 || wait.name[0] == '0') {
    wait.name[0] = '\0';
  }
  return wait;
}

void append_survivor(JsonLine& line, const Member& member, const FileId& output) {
  ProcStat stat;
  append_fields(line, member, output, stat);
  line.text("wchan", read_wchan(member.pid).name);
  line.text("reason", survivor_reason(member.pid, stat.state));
  line.close('}');
}

std::size_t append_notes(JsonLine& line, const char* key, const Members& members,
                         const FileId& output) {
  constexpr std::size_t kNoteBytesMax = 2048;  // every byte escaped
  std::size_t total = 0;
  std::size_t written = 0;
  line.open(key, '[');
  for (std::size_t i = 0; i < members.count; ++i) {
    if (members.list[i].state == 'Z') continue;
    ++total;
    if (written == kNotesMax || line.room() < kNoteBytesMax) continue;
    append_note(line, members.list[i], output);
    ++written;
  }
  line.close(']');
  return total;
}

Generation read_generation() {
  Generation generation;
  char text[64];
  if (read_small("/proc/sys/kernel/random/boot_id", text, sizeof text) > 0) {
    text[std::strcspn(text, "\n")] = '\0';
    std::snprintf(generation.boot_id, sizeof generation.boot_id, "%.36s", text);
  }
  struct stat info{};
  if (stat("/proc/self/ns/pid", &info) == 0) generation.pidns = info.st_ino;
  ProcStat init;
  if (read_proc_stat(1, init)) generation.init_start = init.start;
  return generation;
}

}  // namespace waybill::shim
