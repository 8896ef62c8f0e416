#include "daemon/doctor.h"

#include <fcntl.h>
#include <pwd.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <system_error>

#include "base/unique_fd.h"
#include "daemon/data_dir.h"
#include "engine/output_room.h"
#include "store/jobs.h"
#include "supervise/cgroup_root.h"
#include "supervise/found_job.h"

namespace waybill::daemon {
namespace {

using edge::Finding;
using Level = edge::Finding::Level;

constexpr rlim_t kFilesWanted = 4096;
constexpr std::uint64_t kMebibyte = std::uint64_t{1024} * 1024;

bool exists(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0;
}

std::string read_small(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return "";
  char buffer[4096];
  const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
  std::string text(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// The path below the cgroup v2 mount, "" when there is none.
std::string own_cgroup() {
  const std::string text = read_small("/proc/self/cgroup");
  const std::size_t at = text.find("0::");
  if (at == std::string::npos) return "";
  return text.substr(at + 3, text.find('\n', at) - at - 3);
}

Finding store_finding(store::Database& reader, const DoctorPlace& place) {
  std::string verdict;
  std::string journal;
  const auto read_into = [](std::string& target) {
    return [&target](const store::Row& row) -> Result<void> {
      if (target.empty()) target = row.string(0);
      return {};
    };
  };
  Result<void> read = reader.each("PRAGMA quick_check(1)", {}, read_into(verdict));
  if (read) read = reader.each("PRAGMA journal_mode", {}, read_into(journal));
  if (!read) return {"store", Level::problem, place.store_path + ": " + read.error().message};
  if (verdict != "ok") {
    return {"store", Level::problem,
            place.store_path + " is damaged: " + verdict + "; restore a backup"};
  }
  return {"store", journal == "wal" ? Level::ok : Level::warning,
          place.store_path + ", intact, journal mode " + journal};
}

// 0: it runs. A supervisor that is given no job says so by its status and does nothing.
int try_shim(const std::string& path) {
  std::string name = "waybill-shim";
  char* argv[] = {name.data(), nullptr};
  char* envp[] = {nullptr};
  pid_t pid = 0;
  if (const int error = ::posix_spawn(&pid, path.c_str(), nullptr, nullptr, argv, envp)) {
    return error;
  }
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(pid, &status, 0);
  } while (ended < 0 && errno == EINTR);
  // As pid 1 somebody else may have reaped it: then all that is known is that it was started.
  if (ended != pid) return 0;
  return WIFEXITED(status) && WEXITSTATUS(status) == EINVAL ? 0 : ENOEXEC;
}

Finding shim_finding(const DoctorPlace& place) {
  int error = ::access(place.shim_path.c_str(), X_OK) == 0 ? 0 : errno;
  if (error == 0) error = try_shim(place.shim_path);
  if (error != 0) {
    return {"shim", Level::problem,
            place.shim_path + ": " + std::generic_category().message(error) +
                "; no job can be started until waybill-shim stands beside waybill"};
  }
  return {"shim", Level::ok, place.shim_path};
}

Finding data_dir_finding(const DoctorPlace& place) {
  struct stat info{};
  if (::stat(place.data_dir.c_str(), &info) != 0) {
    return {"data", Level::problem,
            place.data_dir + ": " + std::generic_category().message(errno) +
                "; the daemon serves a directory that is no longer there"};
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 077U) != 0) {
    return {"data", Level::problem,
            place.data_dir + " of " + describe_user(info.st_uid) +
                " is open to other users; close it with: chmod 700 " + place.data_dir};
  }
  return {"data", Level::ok, place.data_dir + ", private to " + describe_user(info.st_uid)};
}

Finding space_finding(const DoctorPlace& place) {
  const supervise::DiskSpace space = supervise::disk_space(place.data_dir);
  if (space.total == 0) {
    return {"space", Level::warning, "the free space of " + place.data_dir + " cannot be told"};
  }
  return judge_space(place.data_dir, space, engine::floor_in_force(place.settings, space));
}

Finding survival_finding() {
  const struct passwd* user = ::getpwuid(::geteuid());
  const bool lingers =
      user != nullptr && exists(std::string("/var/lib/systemd/linger/") + user->pw_name);
  return judge_survival(own_cgroup(), exists("/run/systemd/system"), lingers);
}

std::string limit_text(rlim_t value) {
  return value == RLIM_INFINITY ? "no limit" : std::to_string(value);
}

Finding limits_finding() {
  struct rlimit files{};
  struct rlimit processes{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  ::getrlimit(RLIMIT_NPROC, &processes);
  const std::string pipes = read_small("/proc/sys/fs/pipe-user-pages-soft");
  const std::string text = "open files " + limit_text(files.rlim_cur) + ", user processes " +
                           limit_text(processes.rlim_cur) + ", pipe pages per user " +
                           (pipes.empty() ? "unknown" : pipes);
  if (files.rlim_cur < kFilesWanted) {
    return {"limits", Level::warning,
            text + "; raise the limit of open files to " + std::to_string(kFilesWanted) +
                " for many jobs and clients"};
  }
  return {"limits", Level::ok, text};
}

// What the channel found at its start, asked in the same way.
Finding cgroup_finding(const DoctorPlace& place) {
  const supervise::CgroupRoot root =
      supervise::find_cgroup_root(place.settings.cgroup_root, place.data_dir);
  if (root.path.empty()) {
    return {"cgroup", Level::ok,
            "jobs get no cgroup of their own" + (root.why.empty() ? "" : " (" + root.why + ")") +
                ": a stop is proven by the supervisor alone"};
  }
  return {"cgroup", Level::ok, "jobs get cgroups of their own in " + root.path};
}

bool in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  const std::string places = path != nullptr ? path : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= places.size();) {
    const std::size_t end = std::min(places.find(':', at), places.size());
    if (::access((places.substr(at, end - at) + "/" + program).c_str(), X_OK) == 0) return true;
    at = end + 1;
  }
  return false;
}

Finding sandbox_finding() {
  const bool namespaces = read_small("/proc/sys/user/max_user_namespaces") != "0" &&
                          read_small("/proc/sys/kernel/unprivileged_userns_clone") != "0";
  return {"sandbox", Level::ok,
          std::string("user namespaces ") + (namespaces ? "allowed" : "not allowed") + ", bwrap " +
              (in_path("bwrap") ? "found" : "not found")};
}

// Directories without a row: of a store that was lost or put back, or put there by hand.
Finding directories_finding(store::Database& reader, const DoctorPlace& place) {
  constexpr std::size_t kNamedMax = 5;
  const auto directories = supervise::job_directories(place.data_dir);
  if (!directories) return {"jobs", Level::warning, directories.error().message};
  const supervise::MachineGeneration machine = supervise::read_machine_generation();
  std::size_t count = 0;
  std::string names;
  for (const JobId& job : *directories) {
    const auto known = store::has_job(reader, job);
    if (!known) return {"jobs", Level::warning, known.error().message};
    if (*known || !supervise::has_start_record(place.data_dir, job)) continue;
    if (++count > kNamedMax) continue;
    const bool runs = supervise::main_process_lives(place.data_dir, job, machine);
    names += (names.empty() ? "" : ", ") + job.str() + (runs ? " (runs)" : "");
  }
  const std::string all = std::to_string(directories->size()) + " directories";
  if (count == 0) return {"jobs", Level::ok, all + ", each with its row"};
  return {"jobs", Level::warning,
          std::to_string(count) + " of " + all + " may have run a command and have no row: " +
              names + (count > kNamedMax ? ", …" : "") +
              "; they are kept and never run, and `waybill reconcile` tells more"};
}

}  // namespace

Finding judge_survival(const std::string& cgroup, bool systemd, bool lingers) {
  if (!systemd) {
    return {"survival", Level::ok,
            "no systemd here: nothing ends the daemon or its jobs at logout, and all of it ends "
            "with the machine or container"};
  }
  if (cgroup.find("/user@") != std::string::npos) {
    if (lingers) return {"survival", Level::ok, "outlives logout (lingering is enabled)"};
    return {"survival", Level::warning,
            "the user manager ends with the last login, and the daemon and its jobs with it; "
            "enable lingering with: loginctl enable-linger"};
  }
  if (cgroup.find("/session-") != std::string::npos) {
    return {"survival", Level::warning,
            "runs inside a login session and may be ended with it; enable lingering with: "
            "loginctl enable-linger, then restart the daemon"};
  }
  return {"survival", Level::ok, "runs outside any login session (" + cgroup + ")"};
}

Finding judge_space(const std::string& data_dir, const supervise::DiskSpace& space,
                    std::uint64_t floor_bytes) {
  const std::string text = std::to_string(space.free / kMebibyte) + " MiB of " +
                           std::to_string(space.total / kMebibyte) + " MiB are free where " +
                           data_dir + " is, and " + std::to_string(floor_bytes / kMebibyte) +
                           " MiB stay free";
  if (space.free < floor_bytes) {
    return {"space", Level::problem, text + "; jobs are refused until there is room"};
  }
  if (space.free < 2 * floor_bytes) {
    return {"space", Level::warning, text + "; make room before old output has to go"};
  }
  return {"space", Level::ok, text};
}

std::vector<Finding> examine(store::Database& reader, const DoctorPlace& place) {
  return {store_finding(reader, place), shim_finding(place), data_dir_finding(place),
          space_finding(place),         survival_finding(),  limits_finding(),
          cgroup_finding(place),        sandbox_finding(),   directories_finding(reader, place)};
}

}  // namespace waybill::daemon
