// waybill-shim JOB-DIRECTORY
//
// Started by the daemon with the locked `lock` file at descriptor 3. Ends without a trace when a
// start record exists, when a stop is wished, or when the launch file does not check; then nothing
// has run. Exit status: 0, or the errno (1…125) of what kept the command from being started.

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/crc32.h"
#include "shim/cgroup.h"
#include "shim/child.h"
#include "shim/crash_points.h"
#include "shim/files.h"
#include "shim/run.h"

namespace waybill::shim {
namespace {

constexpr int kCtlBytes = 4096;

// One supervisor per program: its tables live in zeroed memory that costs nothing until used.
alignas(Shim) unsigned char shim_memory[sizeof(Shim)];

struct MappedFile {
  const char* data = nullptr;
  std::size_t size = 0;
};

int map_file(int dir, const char* name, MappedFile& out) {
  const int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return errno;
  struct stat info{};
  int error = fstat(fd, &info) == 0 ? 0 : errno;
  if (error == 0 && info.st_size > 0) {
    out.size = static_cast<std::size_t>(info.st_size);
    void* at = mmap(nullptr, out.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
      error = errno;
    } else {
      out.data = static_cast<const char*>(at);
    }
  }
  close(fd);
  return error;
}

void unmap(const MappedFile& file) {
  if (file.data != nullptr) munmap(const_cast<char*>(file.data), file.size);
}

bool close_all_but_lock() {
  const int null = open("/dev/null", O_RDWR);
  if (null < 0) return false;
  for (int fd = 0; fd < 3; ++fd) {
    if (dup2(null, fd) < 0) return false;
  }
  return close_range(kLockFd + 1, ~0U, 0) == 0;
}

int block_signals() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  sigset_t wanted;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  sigaddset(&wanted, SIGUSR1);
  return signalfd(-1, &wanted, SFD_NONBLOCK | SFD_CLOEXEC);
}

int open_fifo(int dir, const char* name) {
  if (mkfifoat(dir, name, 0600) != 0 && errno != EEXIST) return -errno;
  const int fd = openat(dir, name, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return -errno;
  struct stat info{};
  if (fstat(fd, &info) == 0 && S_ISFIFO(info.st_mode)) return fd;
  close(fd);
  return -EINVAL;
}

const char** allocate_pointers(std::size_t count) {
  void* at = mmap(nullptr, count * sizeof(char*), PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<const char**>(at);
}

const char** split_env(const MappedFile& env) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < env.size; ++i) count += env.data[i] == '\0' ? 1U : 0U;
  const char** envp = allocate_pointers(count + 1);
  if (envp == nullptr) return nullptr;
  const char* at = env.data;
  for (std::size_t i = 0; i < count; ++i) {
    envp[i] = at;
    at += std::strlen(at) + 1;
  }
  envp[count] = nullptr;
  return envp;
}

void copy_text(std::string_view from, char* to, std::size_t size) {
  const std::size_t length = from.size() < size ? from.size() : size - 1;
  std::memcpy(to, from.data(), length);
  to[length] = '\0';
}

ShimConfig config_of(const Launch& launch) {
  constexpr std::uint64_t kMs = 1'000'000;
  // Bounded, so that no sum of times overflows.
  const auto ns = [](std::uint64_t ms) {
    constexpr std::uint64_t kMsMax = 1000ULL * 3600 * 24 * 365;
    return static_cast<std::int64_t>((ms < kMsMax ? ms : kMsMax) * kMs);
  };
  ShimConfig config;
  copy_text(launch.job, config.job, sizeof config.job);
  copy_text(launch.crash_point, config.crash_point, sizeof config.crash_point);
  if (launch.cgroup.size() < sizeof config.cgroup) {
    copy_text(launch.cgroup, config.cgroup, sizeof config.cgroup);
  }
  config.grace_ns = ns(launch.grace_ms);
  config.deadline_ns = ns(launch.deadline_ms);
  config.leftover_grace_ns = ns(launch.leftover_grace_ms);
  config.drain_grace_ns = ns(launch.drain_grace_ms);
  config.drain_max_ns = ns(launch.drain_max_ms);
  config.limits = {launch.cap_bytes, launch.head_bytes, launch.crash_point != kNoHoles};
  config.keep_leftovers = launch.keep_leftovers;
  config.capture = launch.capture;
  return config;
}

struct Pipe {
  int read = -1;
  int write = -1;
};

int make_pipe(Pipe& out) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return errno;
  out = {fds[0], fds[1]};
  return 0;
}

// Forks the child, into the job's cgroup where that is to be had (`cgroup` is its descriptor, or
// negative). Its pid, 0 in the child, -1 with errno.
pid_t fork_child(int cgroup, bool& inside) {
  if (cgroup >= 0) {
    const pid_t pid = fork_into_cgroup(cgroup);
    inside = pid >= 0;
    if (inside) return pid;
  }
  return fork();
}

// Puts the child, which waits at the gate, into the cgroup unless it is `inside`, and looks whether
// it is there: an empty cgroup that never had it would prove nothing. 0, or why there is none; that
// is no reason not to run.
int join_cgroup(ShimSetup& setup, const ShimConfig& config, int fd, bool inside) {
  if (fd < 0) return -fd;
  int error = inside ? 0 : enter_cgroup(fd, setup.main);
  if (error == 0 && is_in_cgroup(setup.main, config.cgroup) != Answer::yes) error = EXDEV;
  if (error == 0) {
    setup.cgroup = fd;
    return 0;
  }
  close(fd);
  remove_cgroup(config.cgroup);
  return error;
}

// The start record: written, fsynced, renamed, the directory fsynced. Only then may the gate open.
int record_start(const ShimSetup& setup, const ShimConfig& config, int cgroup_error) {
  ProcStat self;
  ProcStat child;
  if (!read_proc_stat(getpid(), self) || !read_proc_stat(setup.main, child)) return ESRCH;
  const Generation generation = read_generation();
  JsonLine line;
  line.text("job", config.job);
  line.integer("shim_pid", getpid());
  line.number("shim_start", self.start);
  line.integer("main_pid", setup.main);
  line.number("main_start", child.start);
  line.integer("session", setup.main);
  line.text("boot_id", generation.boot_id);
  line.number("pidns", generation.pidns);
  line.number("init_start", generation.init_start);
  line.text("cgroup", setup.cgroup >= 0 ? config.cgroup : "");
  line.text("cgroup_why", cgroup_error != 0 ? strerrordesc_np(cgroup_error) : "");
  line.number("cgroupns", cgroup_namespace());
  line.boolean("captured", config.capture);
  line.integer("started_at_ms", setup.started_wall_ms);
  line.integer("started_mono_ns", setup.started_mono_ns);
  const int fd = reserve_record(setup.dir, kStartTmp, 0);
  if (fd < 0) return -fd;
  int error = fill_record(fd, line.finish());
  if (error == 0 && (fsync(fd) != 0 || fsync(setup.exit_fd) != 0 || fsync(setup.final_fd) != 0)) {
    error = errno;
  }
  close(fd);
  if (error != 0) return error;
  crash_here(config.crash_point, "shim.after_start_tmp");
  if (renameat(setup.dir, kStartTmp, setup.dir, kStart) != 0) return errno;
  return fsync(setup.dir) == 0 ? 0 : errno;
}

// Where output comes from and input goes to. A terminal that cannot be had is reported by the
// child: the command was not started.
int prepare_streams(ShimSetup& setup, const Launch& launch) {
  if (launch.pty) {
    setup.terminal.open(launch.open_stdin);
    setup.fifo = setup.terminal.ours;
  } else {
    setup.fifo = open_fifo(setup.dir, kOutFifo);
    if (setup.fifo < 0) return -setup.fifo;
  }
  return launch.open_stdin ? setup.input.open(setup.dir, setup.terminal.ours) : 0;
}

// Everything that must be there before a child exists.
int prepare_files(ShimSetup& setup, const Launch& launch) {
  setup.ctl = open_fifo(setup.dir, kCtl);
  if (setup.ctl < 0) return -setup.ctl;
  // An ordinary user has 64 MiB of pipes in all, and beyond that new ones shrink to two pages.
  fcntl(setup.ctl, F_SETPIPE_SZ, kCtlBytes);
  if (const int error = prepare_streams(setup, launch)) return error;
  setup.exit_fd = reserve_record(setup.dir, kExitTmp, kExitReserve);
  if (setup.exit_fd < 0) return -setup.exit_fd;
  setup.final_fd = reserve_record(setup.dir, kFinalTmp, kFinalReserve);
  return setup.final_fd < 0 ? -setup.final_fd : 0;
}

struct Loaded {
  MappedFile launch_file;
  MappedFile env_file;
  Launch launch;
};

int load(int dir, Loaded& out) {
  if (const int error = map_file(dir, kLaunch, out.launch_file)) return error;
  if (parse_launch({out.launch_file.data, out.launch_file.size}, out.launch) != LaunchError::none) {
    return EBADMSG;
  }
  if (const int error = map_file(dir, kLaunchEnv, out.env_file)) return error;
  if (out.env_file.size != out.launch.env_bytes ||
      crc32(out.env_file.data, out.env_file.size) != out.launch.env_crc) {
    return EBADMSG;
  }
  if (out.env_file.size > 0 && out.env_file.data[out.env_file.size - 1] != '\0') return EBADMSG;
  return 0;
}

bool stop_wished(const ShimSetup& setup) { return faccessat(setup.dir, kStopReq, F_OK, 0) == 0; }

// Ends the child that waits at the gate: it has run nothing, and will not.
int give_up(const ShimSetup& setup, const ShimConfig& config, int error) {
  kill(setup.main, SIGKILL);
  waitpid(setup.main, nullptr, 0);
  if (setup.cgroup >= 0) remove_cgroup(config.cgroup);
  return error;
}

// Forks the child, records the start, opens the gate. 0 or errno; then nothing has run.
int start(ShimSetup& setup, const ShimConfig& config, const Loaded& loaded) {
  ChildPlan plan;
  plan.launch = &loaded.launch;
  plan.dir = setup.dir;
  plan.argv = allocate_pointers(loaded.launch.arg_count + 1);
  plan.envp = split_env(loaded.env_file);
  Pipe gate;
  Pipe status;
  if (plan.argv == nullptr || plan.envp == nullptr) return ENOMEM;
  split_args(loaded.launch, plan.argv);
  if (const int error = make_pipe(gate)) return error;
  if (const int error = make_pipe(status)) return error;
  plan.gate_read = gate.read, plan.gate_write = gate.write, plan.status_write = status.write;
  plan.stdin_read = setup.input.child_end();
  plan.terminal = setup.terminal.error != 0 ? -setup.terminal.error : setup.terminal.jobs;
  const int cgroup = config.cgroup[0] != '\0' ? make_cgroup(config.cgroup) : 0;
  bool inside = false;
  setup.main = fork_child(config.cgroup[0] != '\0' ? cgroup : -1, inside);
  if (setup.main < 0) return errno;
  if (setup.main == 0) run_child(plan);
  setup.input.forget_child_end();
  close(gate.read);
  close(status.write);
  setup.status = status.read;
  fcntl(setup.status, F_SETFL, O_NONBLOCK);
  const int cgroup_error =
      config.cgroup[0] != '\0' ? join_cgroup(setup, config, cgroup, inside) : 0;
  setup.oom = open_oom_counter(setup.cgroup, setup.main);
  crash_here(config.crash_point, "shim.before_start");
  if (stop_wished(setup)) return give_up(setup, config, ECANCELED);
  setup.started_wall_ms = wall_ms();
  setup.started_mono_ns = mono_ns();
  if (const int error = record_start(setup, config, cgroup_error)) {
    return give_up(setup, config, error);
  }
  crash_here(config.crash_point, "shim.after_start");
  setup.gate_shut = stop_wished(setup);
  ssize_t n = setup.gate_shut ? 1 : -1;
  while (n < 0) {
    n = write(gate.write, "g", 1);
    if (n < 0 && errno != EINTR) break;
  }
  close(gate.write);
  crash_here(config.crash_point, "shim.after_gate");
  return 0;
}

int shim_main(const char* path) {
  if (flock(kLockFd, LOCK_EX | LOCK_NB) != 0) return errno;
  fcntl(kLockFd, F_SETFD, FD_CLOEXEC);
  if (!close_all_but_lock()) return errno;
  setsid();
  ShimSetup setup;
  setup.signals = block_signals();
  if (setup.signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) return errno;
  setup.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (setup.dir < 0 || chdir("/") != 0) return errno;
  if (faccessat(setup.dir, kStart, F_OK, 0) == 0) return EEXIST;
  Loaded loaded;
  if (const int error = load(setup.dir, loaded)) return error;
  const ShimConfig config = config_of(loaded.launch);
  crash_here(config.crash_point, "shim.after_lock");
  if (const int error = prepare_files(setup, loaded.launch)) return error;
  // After ctl was opened: a wish that comes later leaves a byte there.
  if (stop_wished(setup)) return ECANCELED;
  Shim* shim = new (shim_memory) Shim(setup, config);
  if (const int error = shim->create_output()) return error;
  if (const int error = start(setup, config, loaded)) return error;
  unmap(loaded.launch_file);
  unmap(loaded.env_file);
  ring_bell(setup.dir, config.job);
  shim->run(setup);
  return 0;
}

}  // namespace
}  // namespace waybill::shim

int main(int argc, char** argv) {
  if (argc != 2) return EINVAL;
  const int status = waybill::shim::shim_main(argv[1]);
  _exit(status <= 125 ? status : 125);
}
