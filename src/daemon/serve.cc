// `waybill serve`: puts the daemon together, runs it, takes it apart.

#include "cli/serve.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "daemon/config.h"
#include "daemon/daemon.h"
#include "daemon/log.h"

namespace waybill::cli {
namespace {

void write_all(int fd, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return;  // nobody reads: the daemon serves all the same
    at += static_cast<std::size_t>(wrote);
  }
}

// The limit as it was; 0 when there is none to be told.
std::uint64_t raise_file_limit() {
  struct rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  const rlim_t before = files.rlim_cur;
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
  return before == RLIM_INFINITY ? 0 : before;
}

// What a daemon needs of its process, whoever started it and from wherever. The limit of open
// files that its commands get.
std::uint64_t settle_process() {
  ::umask(077);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of the write, no death
  if (::getpid() == 1) {
    // As pid 1 it is told of orphans by this signal (supervise/channel_loop.cc): blocked before
    // there are threads, so that none takes it and drops it.
    sigset_t children;
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &children, nullptr);
  }
  return raise_file_limit();
}

void announce(const ServeOptions& options, const std::string& line) {
  write_all(STDOUT_FILENO, line);
  if (options.ready_fd < 0) return;
  write_all(options.ready_fd, line);
  ::close(options.ready_fd);
}

int refuse(const ServeOptions& options, const Error& error) {
  const std::string code(to_word(error.code));
  const std::string line = R"({"ready":false,"error":{"code":")" + code +
                           "\",\"message\":" + daemon::json_string(error.message) + "}}\n";
  if (options.ready_fd >= 0) {
    write_all(options.ready_fd, line);
    ::close(options.ready_fd);
  }
  if (options.json) write_all(STDOUT_FILENO, line);
  write_all(STDERR_FILENO, "waybill: " + code + ": " + error.message + "\n");
  return traits(error.code).exit_code;
}

}  // namespace

int serve_main(const ServeOptions& options) {
  const std::uint64_t files_before = settle_process();
  if (options.ready_fd >= 0) ::fcntl(options.ready_fd, F_SETFD, FD_CLOEXEC);
  daemon::Daemon daemon;
  daemon::DaemonOptions wanted;
  wanted.data_dir = options.data_dir;
  wanted.store_url = options.store;
  wanted.log_to_stderr = options.foreground || ::isatty(STDERR_FILENO) == 1;
  wanted.settings = options.settings;
  wanted.files_max = files_before;
  if (auto opened = daemon.open(wanted); !opened) return refuse(options, opened.error());
  announce(options, "{\"ready\":true,\"socket\":" + daemon::json_string(daemon.socket_path()) +
                        ",\"http\":null}\n");
  daemon.run();
  // It ends already: a signal that comes now must not make that look like a violent end.
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ending, signal);
  ::pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  return 0;
}

}  // namespace waybill::cli
