#include "supervise/process_scan.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace waybill::supervise {
namespace {

struct Everybody {
  std::vector<shim::ProcStat> list;
  bool complete = true;
};

Everybody all_processes() {
  Everybody found;
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/proc"), closedir);
  found.complete = dir != nullptr;
  while (dir) {
    errno = 0;
    const dirent* entry = readdir(dir.get());
    if (entry == nullptr) {
      if (errno != 0) found.complete = false;
      break;
    }
    int pid = 0;
    const char* end = entry->d_name + std::strlen(entry->d_name);
    const auto [at, error] = std::from_chars(entry->d_name, end, pid);
    if (error != std::errc{} || at != end) continue;
    shim::ProcStat stat;
    if (shim::read_proc_stat(pid, stat)) {
      found.list.push_back(stat);
    } else if (shim::is_shortage(errno)) {
      found.complete = false;
    }
  }
  return found;
}

// The environment holds exactly this entry. Clears `complete` when that cannot be told now.
bool has_marker(int pid, const std::string& marker, bool& complete) {
  const std::string path = "/proc/" + std::to_string(pid) + "/environ";
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    if (shim::is_shortage(errno)) complete = false;
    return false;
  }
  // Each entry ends with a NUL; one is put in front, so that the first entry is like the others.
  std::string bytes(1, '\0');
  char buffer[16384];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && shim::is_shortage(errno)) complete = false;
    if (n <= 0) break;
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
  bytes.push_back('\0');
  return bytes.find(std::string(1, '\0') + marker + std::string(1, '\0')) != std::string::npos;
}

struct PidfdInfo {
  std::uint64_t mask;
  std::uint64_t cgroup;
  std::uint32_t ids[11];
  std::int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64, "the first version of the kernel's structure");
constexpr std::uint64_t kInfoExit = 1U << 3;

}  // namespace

bool scan_job_processes(const ScanTarget& target, shim::Members& out) {
  out.count = 0;
  out.truncated = false;
  const Everybody everybody = all_processes();
  const std::vector<shim::ProcStat>& all = everybody.list;
  bool complete = everybody.complete;
  // Somebody else may lead a session of the same number by now.
  bool session_is_ours = target.session > 0;
  for (const shim::ProcStat& stat : all) {
    if (stat.pid == target.session && stat.start != target.main_start) session_is_ours = false;
  }
  const std::string marker = "WAYBILL_JOB=" + target.job.str();
  const int self = getpid();
  const auto may_be_ours = [&](const shim::ProcStat& stat) {
    return stat.pid != self && stat.pid != 1 && stat.state != 'Z' && stat.state != 'X' &&
           stat.start >= target.main_start;
  };
  for (const shim::ProcStat& stat : all) {
    if (!may_be_ours(stat)) continue;
    const bool by_session = session_is_ours && stat.session == target.session;
    const auto named = [&stat](const ProcessIdentity& one) {
      return one.pid == stat.pid && one.start == stat.start;
    };
    const bool by_name = std::any_of(target.known.begin(), target.known.end(), named);
    if (by_session || by_name || has_marker(stat.pid, marker, complete)) out.add(stat);
  }
  for (bool added = out.count > 0; added;) {
    added = false;
    for (const shim::ProcStat& stat : all) {
      if (!may_be_ours(stat)) continue;
      for (std::size_t i = 0; i < out.count; ++i) {
        if (out.list[i].pid != stat.ppid) continue;
        added = out.add(stat) || added;
        break;
      }
    }
  }
  return complete;
}

std::optional<int> exit_status_of(int pidfd) {
  PidfdInfo info{};
  info.mask = kInfoExit;
  const unsigned long request = _IOWR(0xFF, 11, PidfdInfo);
  if (ioctl(pidfd, request, &info) != 0 || (info.mask & kInfoExit) == 0) return std::nullopt;
  return info.exit_code;
}

}  // namespace waybill::supervise
