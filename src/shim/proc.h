#pragma once
// Processes as /proc shows them: identity, descendants, and signals that reach only the process
// that was meant. No exceptions; memory is the caller's.

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "shim/files.h"
#include "shim/record.h"

namespace waybill::shim {

struct ProcStat {
  int pid = 0;
  char state = '?';
  int ppid = 0;
  int session = 0;
  std::uint64_t start = 0;  // field 22, in clock ticks since boot
  char comm[64] = {};
};

// The errno says that we are short of something, not that nothing is there.
bool is_shortage(int error);

// Reads /proc/PID/stat; the fields are found from the last ')'. False, with errno, when there is no
// such process or it could not be looked at.
bool read_proc_stat(int pid, ProcStat& out);

struct Member {
  int pid = 0;
  int ppid = 0;
  std::uint64_t start = 0;
  char state = 0;
};

inline constexpr std::size_t kMembersMax = 4096;

// A set of processes in fixed memory. When more exist than fit, `truncated` is set; callers that
// kill repeat until nothing is left, so each round makes room for the next.
struct Members {
  Member list[kMembersMax];
  std::size_t count = 0;
  bool truncated = false;
  bool unseen = false;  // somebody could not be looked at, for want of descriptors or memory

  const Member* find(int pid, std::uint64_t start) const;
  bool add(const ProcStat& stat);
};

// All living descendants of `root`, and zombies that wait to be reaped. By the children files of
// /proc; where the kernel has none, by the parent ids of all processes.
void find_descendants(int root, Members& out);

// True when `pid` is the only child of the calling process. False also when that cannot be told.
bool only_child_is(int pid);

// Sends a signal to exactly this process: through a pidfd whose process is compared again after the
// descriptor was opened; where pidfds are refused, after one more comparison. 0 or errno.
int signal_member(const Member& member, int signal);

struct FileId {
  dev_t dev = 0;
  ino_t ino = 0;
};

// The names in a directory, without a heap: the caller closes `fd`, or leaves it to the destructor.
class DirNames {
 public:
  explicit DirNames(int fd) : fd_(fd) {}
  ~DirNames();
  DirNames(const DirNames&) = delete;
  DirNames& operator=(const DirNames&) = delete;

  struct Entry {
    const char* name = nullptr;  // until the next call
    unsigned char type = 0;
  };
  // The next one; a null name at the end, or when `failed`.
  Entry next();
  bool failed() const { return failed_; }
  int fd() const { return fd_; }

 private:
  int fd_;
  long have_ = 0;
  long at_ = 0;
  bool failed_ = false;
  alignas(8) char buffer_[2048];
};

// Whether the process has this file open. False also when its descriptors may not be looked at;
// true when they cannot be now, for want of descriptors or memory.
bool holds_file(int pid, const FileId& file);

// One entry {"pid","start","comm","cmdline","state","holds_output"}.
void append_note(JsonLine& line, const Member& member, const FileId& output);

// Why a process that was killed is still there: "D_state" (it waits in the kernel, or is frozen),
// "zombie_of_ptracer", "EPERM_setuid" (it may not be signalled), or "".
const char* survivor_reason(int pid, char state);

// Where in the kernel it waits; "" when it does not, or that may not be read.
struct KernelWait {
  char name[64] = {};
};
KernelWait read_wchan(int pid);

// An entry as above with "wchan" and "reason".
void append_survivor(JsonLine& line, const Member& member, const FileId& output);

// A list of entries under `key`, zombies left out, at most kNotesMax and what fits. Returns how
// many there were in all.
std::size_t append_notes(JsonLine& line, const char* key, const Members& members,
                         const FileId& output);

// What identifies a machine generation.
struct Generation {
  char boot_id[40] = {};
  std::uint64_t pidns = 0;
  std::uint64_t init_start = 0;
};
Generation read_generation();

}  // namespace waybill::shim
