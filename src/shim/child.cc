#include "shim/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "shim/files.h"

namespace waybill::shim {
namespace {

constexpr int kNeverRan = 127;

[[noreturn]] void report(const ChildPlan& plan, ChildStep step) {
  const ChildFailure failure{static_cast<int>(step), errno};
  const ssize_t n = write(plan.status_write, &failure, sizeof failure);
  _exit(n == sizeof failure ? kNeverRan : kNeverRan - 1);
}

// A job should die before its supervisor when memory runs out.
void raise_oom_score() {
  char text[16] = {};
  const int fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  const ssize_t n = read(fd, text, sizeof text - 1);
  long score = n > 0 ? std::strtol(text, nullptr, 10) : 0;
  if (score < 0) score = 0;
  score = score + 200 > 1000 ? 1000 : score + 200;
  const int length = std::snprintf(text, sizeof text, "%ld", score);
  const ssize_t written = pwrite(fd, text, static_cast<std::size_t>(length), 0);
  static_cast<void>(written);  // best effort
  close(fd);
}

// The daemon has raised its own; programs that count on a small one (select) must not meet that.
void restore_file_limit(std::uint64_t soft) {
  rlimit files{};
  if (soft == 0 || getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = soft < files.rlim_max ? soft : files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

void default_signals() {
  // The system call itself: posix_spawn leaves the C library's two internal signals ignored, and
  // sigaction() refuses to touch them. All zero is: default handler, no flags, empty mask.
  static constexpr unsigned char kDefault[64] = {};
  for (int number = 1; number < NSIG; ++number) {
    syscall(SYS_rt_sigaction, number, kDefault, nullptr, sizeof(std::uint64_t));
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The terminal becomes the controlling one of the new session, so that its signals find the job.
void set_terminal(const ChildPlan& plan) {
  if (plan.terminal < 0) errno = -plan.terminal;
  if (plan.terminal < 0 || ioctl(plan.terminal, TIOCSCTTY, 0) != 0) report(plan, ChildStep::pty);
  if (dup2(plan.terminal, 1) < 0 || dup2(plan.terminal, 2) < 0) report(plan, ChildStep::pty);
}

void set_input(const ChildPlan& plan) {
  int from = plan.stdin_read;
  if (plan.launch->open_stdin && plan.launch->pty) from = plan.terminal;
  const int null = from < 0 ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
  if (dup2(from < 0 ? null : from, 0) < 0) report(plan, ChildStep::stdio);
}

void set_output(const ChildPlan& plan) {
  // Read and write: the job is not ended by SIGPIPE when its supervisor is lost.
  const int out = openat(plan.dir, kOutFifo, O_RDWR);
  if (out < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) report(plan, ChildStep::output);
  if (out > 2) close(out);
}

void set_stdio(const ChildPlan& plan) {
  if (plan.launch->pty) {
    set_terminal(plan);
  } else {
    set_output(plan);
  }
  set_input(plan);
}

const char* path_of(const char** envp) {
  for (; *envp != nullptr; ++envp) {
    if (std::strncmp(*envp, "PATH=", 5) == 0) return *envp + 5;
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

void exec_program(const char* program, const ChildPlan& plan) {
  char* const* argv = const_cast<char* const*>(plan.argv);
  char* const* envp = const_cast<char* const*>(plan.envp);
  if (std::strchr(program, '/') != nullptr) {
    execve(program, argv, envp);
    return;
  }
  // The program is looked up in the job's own PATH, not in ours.
  int error = ENOENT;
  for (const char* at = path_of(plan.envp);;) {
    const std::size_t length = std::strcspn(at, ":");
    char path[PATH_MAX];
    const int n = std::snprintf(path, sizeof path, "%.*s%s%s", static_cast<int>(length), at,
                                length == 0 ? "./" : "/", program);
    if (n > 0 && static_cast<std::size_t>(n) < sizeof path) {
      execve(path, argv, envp);
      if (errno == EACCES) error = EACCES;
      if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) return;
    }
    if (at[length] == '\0') break;
    at += length + 1;
  }
  errno = error;
}

}  // namespace

const char* word_of(int step) {
  switch (static_cast<ChildStep>(step)) {
    case ChildStep::none:
      return "none";
    case ChildStep::stdio:
      return "stdio";
    case ChildStep::output:
      return "output";
    case ChildStep::chdir:
      return "chdir";
    case ChildStep::exec:
      return "exec";
    case ChildStep::pty:
      return "pty";
    case ChildStep::gate:
      return "gate";
  }
  return "unknown";
}

void run_child(const ChildPlan& plan) {
  close(plan.gate_write);
  setsid();
  set_stdio(plan);
  raise_oom_score();
  restore_file_limit(plan.launch->files);
  umask(static_cast<mode_t>(plan.launch->umask));
  default_signals();
  char go = 0;
  ssize_t n = 0;
  do {
    n = read(plan.gate_read, &go, 1);
  } while (n < 0 && errno == EINTR);
  if (n != 1) _exit(kNeverRan);
  // Not before: while the file is there, the command has certainly not run.
  unlinkat(plan.dir, kLaunchEnv, 0);
  if (chdir(plan.launch->cwd.data()) != 0) report(plan, ChildStep::chdir);
  exec_program(plan.launch->program.data(), plan);
  report(plan, ChildStep::exec);
}

}  // namespace waybill::shim
