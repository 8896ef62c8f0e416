// Which processes a test left behind.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

// Of a marker that many processes carry, how long each may take to end by itself.
constexpr Seconds kEnding{20};

std::optional<pid_t> pid_of(const std::filesystem::path& path) {
  const std::string name = path.filename();
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (error != std::errc{} || end != name.data() + name.size()) return std::nullopt;
  return pid;
}

}  // namespace

std::vector<pid_t> processes_with(const std::string& marker) {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const auto pid = pid_of(entry.path());
    if (!pid || *pid == ::getpid()) continue;
    for (const char* file : {"/environ", "/cmdline"}) {
      if (read_file(entry.path().string() + file).find(marker) == std::string::npos) continue;
      found.push_back(*pid);
      break;
    }
  }
  return found;
}

bool await_end(pid_t pid, Seconds cap) {
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process.valid()) return true;
  pollfd event{process.get(), POLLIN, 0};
  return ::poll(&event, 1, static_cast<int>(cap.count() * 1000)) == 1;
}

void expect_none_left(const std::string& marker) {
  for (const pid_t pid : processes_with(marker)) {
    if (await_end(pid, kEnding)) continue;
    ADD_FAILURE() << "a process is left over: "
                  << read_file("/proc/" + std::to_string(pid) + "/cmdline");
    ::kill(pid, SIGKILL);
  }
}

}  // namespace waybill::e2e
