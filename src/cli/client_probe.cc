#include "cli/client_probe.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>

#include "base/unique_fd.h"

namespace waybill::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kVersionMax{5};
constexpr std::size_t kVersionBytesMax = 4096;

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

std::string on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  const std::string places = path != nullptr ? path : "";
  for (std::size_t at = 0; at < places.size();) {
    const std::size_t end = std::min(places.find(':', at), places.size());
    const std::string candidate = places.substr(at, end - at) + "/" + name;
    if (end > at && is_program(candidate)) return candidate;
    at = end + 1;
  }
  return "";
}

std::string where_is(ClientId client) {
  if (std::string path = on_path(std::string(to_word(client))); !path.empty()) return path;
  const char* home = std::getenv("HOME");
  if (client != ClientId::claude || home == nullptr) return "";
  const std::string local = std::string(home) + "/.claude/local/claude";
  return is_program(local) ? local : "";
}

[[noreturn]] void become(const char* program, int out) {
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(null, STDERR_FILENO);
  ::execl(program, program, "--version", static_cast<char*>(nullptr));
  ::_exit(127);
}

// What it prints until the end of the output or the deadline.
std::string read_until(int fd, Clock::time_point deadline, bool& timed_out) {
  std::string text;
  while (text.size() < kVersionBytesMax) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{fd, POLLIN, 0};
    const int ready = left > 0 ? ::poll(&entry, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    timed_out = ready <= 0;
    if (timed_out) break;
    char buffer[512];
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  return text;
}

// Whether the child has ended by then; it is not reaped.
bool ends_by(pid_t child, Clock::time_point deadline) {
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd entry{fd.get(), POLLIN, 0};
    const int ready = left > 0 && fd.valid() ? ::poll(&entry, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    return ready > 0;
  }
}

// The first word that begins with a digit, else the whole line.
std::string number_in(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    if (end > at && line[at] >= '0' && line[at] <= '9') return line.substr(at, end - at);
    at = end + 1;
  }
  return line;
}

}  // namespace

std::string version_of(const std::string& program) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return "";
  if (child == 0) become(program.c_str(), out.get());
  ::setpgid(child, child);
  out.reset();
  const auto deadline = Clock::now() + kVersionMax;
  bool timed_out = false;
  const std::string text = read_until(in.get(), deadline, timed_out);
  if (!timed_out && text.size() < kVersionBytesMax) timed_out = !ends_by(child, deadline);
  // Before it is reaped, its number is nobody else's. One that has ended keeps its exit.
  ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (timed_out || !WIFEXITED(status) || WEXITSTATUS(status) != 0) return "";
  return number_in(text);
}

std::optional<FoundClient> find_client(ClientId client) {
  const std::string path = where_is(client);
  if (path.empty()) return std::nullopt;
  return FoundClient{path, version_of(path)};
}

}  // namespace waybill::cli
