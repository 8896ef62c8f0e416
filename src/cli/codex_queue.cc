#include "cli/codex_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace waybill::cli {
namespace {

constexpr std::size_t kTextBytesMax = 16 * 1024;

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (std::string& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

std::optional<pid_t> spawn(const std::string& program, std::vector<std::string> argv,
                           std::vector<std::string> environment) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  sigset_t all;
  ::sigfillset(&all);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, program.c_str(), &actions, &attributes,
                                   pointers(argv).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed != 0) return std::nullopt;
  return pid;
}

// Whether it ended well, within this time. Afterwards it is no more.
bool ended_well(pid_t pid, Millis most) {
  const UniqueFd end(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd entry{end.get(), POLLIN, 0};
  int ready = -1;
  do {
    ready = ::poll(&entry, 1, static_cast<int>(most.count()));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0 || !end.valid()) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

CodexQueue::CodexQueue(const HostProcess& host, std::string thread, Millis most)
    : host_(host), thread_(std::move(thread)), most_(most) {}

edge::Probe CodexQueue::probe() { return {edge::ProbeState::unknown, ""}; }

edge::PutOutcome CodexQueue::steer(const std::string& /*turn*/, std::string_view /*text*/) {
  return edge::PutOutcome::busy;
}

edge::PutOutcome CodexQueue::wake(std::string_view text) {
  if (text.size() > kTextBytesMax) return edge::PutOutcome::busy;
  std::vector<std::string> environment = environment_of(host_.pid);
  // Also when the file has been replaced by a newer version meanwhile.
  const std::string program = "/proc/" + std::to_string(host_.pid) + "/exe";
  const auto pid =
      spawn(program, {"codex", "queue", "--thread=" + thread_, "--message=" + std::string(text)},
            std::move(environment));
  if (!pid) return edge::PutOutcome::unreachable;
  return ended_well(*pid, most_) ? edge::PutOutcome::accepted : edge::PutOutcome::unreachable;
}

edge::PutOutcome CodexQueue::inject(std::string_view /*text*/) { return edge::PutOutcome::busy; }

}  // namespace waybill::cli
