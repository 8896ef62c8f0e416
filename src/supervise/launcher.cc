#include "supervise/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "base/crash_point.h"
#include "shim/files.h"

namespace waybill::supervise {

LockProbe probe_lock(const JobDir& dir) {
  LockProbe probe;
  UniqueFd lock(openat(dir.fd(), shim::kLock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) {
    if (is_passing(errno) || errno == EIO) {
      probe.error = errno;
      probe.state = LockState::unknown;
      return probe;
    }
    // Without the file nobody can be shown to hold it, nor to have let go.
    probe.state = errno == ENOENT ? LockState::no_directory : LockState::held;
    return probe;
  }
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    probe.error = errno == EWOULDBLOCK ? 0 : errno;
    probe.state = probe.error == 0 ? LockState::held : LockState::unknown;
    return probe;
  }
  probe.state = LockState::free;
  probe.lock = std::move(lock);
  return probe;
}

bool make_job_dir(const std::string& data_dir, const JobId& job, LaunchFailure& failure) {
  if (mkdir(job_dir_path(data_dir, job).c_str(), 0700) == 0) {
    crash_point("supervise.after_mkdir");
    return true;
  }
  if (errno != EEXIST) failure = {"The job's directory cannot be made.", errno};
  return false;
}

LaunchFailure sync_jobs_dir(const std::string& data_dir) {
  const std::string jobs = data_dir + "/jobs";
  const UniqueFd fd(open(jobs.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) {
    return {"The directory of all jobs cannot be made durable.", errno};
  }
  return {};
}

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
}

void signal_stop(int shim_pidfd) {
  syscall(SYS_pidfd_send_signal, shim_pidfd, SIGCONT, nullptr, 0);
  siginfo_t info{};
  info.si_signo = SIGUSR1;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = shim::kStopSignalValue;
  syscall(SYS_pidfd_send_signal, shim_pidfd, SIGUSR1, &info, 0);
}

namespace {

// Attributes of the spawn: default signals, only SIGUSR1 blocked (a stop may be wished before the
// supervisor reads it, and must not kill it), a session of its own; descriptors 0 to 2
// stay until the supervisor replaces them, 3 is the lock, everything else is closed.
class SpawnPlan {
 public:
  explicit SpawnPlan(int lock) {
    error_ = posix_spawnattr_init(&attributes_);
    if (error_ == 0) error_ = posix_spawn_file_actions_init(&actions_);
    sigset_t all;
    sigset_t mask;
    sigfillset(&all);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &mask);
    const short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID;
    if (error_ == 0) error_ = posix_spawnattr_setflags(&attributes_, flags);
    if (error_ == 0) error_ = posix_spawn_file_actions_adddup2(&actions_, lock, shim::kLockFd);
    if (error_ == 0) {
      error_ = posix_spawn_file_actions_addclosefrom_np(&actions_, shim::kLockFd + 1);
    }
  }
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;

  int run(const std::string& program, const std::string& argument, pid_t& pid) {
    if (error_ != 0) return error_;
    std::string name = "waybill-shim";
    std::string path = argument;
    char* argv[] = {name.data(), path.data(), nullptr};
    char* envp[] = {nullptr};
    return posix_spawn(&pid, program.c_str(), &actions_, &attributes_, argv, envp);
  }

 private:
  posix_spawnattr_t attributes_{};
  posix_spawn_file_actions_t actions_{};
  int error_ = 0;
};

}  // namespace

Spawned spawn_shim(const std::string& shim_path, const std::string& job_dir, UniqueFd lock) {
  Spawned spawned;
  SpawnPlan plan(lock.get());
  if (const int error = plan.run(shim_path, job_dir, spawned.pid)) {
    spawned.pid = -1;
    spawned.failure = {"The supervisor cannot be started (" + shim_path + ").", error};
    return spawned;
  }
  spawned.pidfd = open_pidfd(spawned.pid);  // race-free: our child, not reaped
  return spawned;
}

}  // namespace waybill::supervise
