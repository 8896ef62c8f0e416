#include "cli/autostart.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "cli/resume.h"
#include "edge/json.h"

extern char** environ;

namespace waybill::cli {
namespace {

constexpr int kReadyFd = 3;
constexpr Millis kReadyMax{60000};
constexpr std::size_t kReadyBytesMax = 64 * 1024;

bool user_manager_runs() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  struct stat info{};
  return runtime != nullptr && *runtime == '/' &&
         ::stat((std::string(runtime) + "/systemd/private").c_str(), &info) == 0 &&
         S_ISSOCK(info.st_mode);
}

std::string find_program(const std::string& name) {
  for (const char* directory : {"/usr/bin/", "/bin/"}) {
    const std::string path = directory + name;
    if (::access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

std::vector<std::string> serve_command(const StartOptions& options) {
  std::vector<std::string> out{options.executable, "serve",      "--data",
                               options.data_dir,   "--ready-fd", std::to_string(kReadyFd)};
  if (!options.store.empty()) {
    out.emplace_back("--store");
    out.push_back(options.store);
  }
  return out;
}

// The daemon's environment: the caller's without what belongs to one session, turn or job.
std::vector<char*> daemon_environment() {
  std::vector<char*> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("WAYBILL_HOST_KEY=") || text.starts_with("WAYBILL_SESSION=") ||
        text.starts_with("WAYBILL_TURN=") || text.starts_with("WAYBILL_JOB=")) {
      continue;
    }
    out.push_back(*entry);
  }
  out.push_back(nullptr);
  return out;
}

struct Launch {
  std::vector<char*> argv;
  std::vector<char*> envp;
  int null_fd;
  int log_fd;
  int ready_fd;
};

// In the forked child, where only what is safe after fork may be called.
[[noreturn]] void become_daemon(const Launch& launch) {
  ::setsid();
  for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const pid_t second = ::fork();
  if (second != 0) ::_exit(second < 0 ? 1 : 0);
  if (::chdir("/") != 0) ::_exit(1);
  ::umask(077);
  ::dup2(launch.null_fd, STDIN_FILENO);
  ::dup2(launch.log_fd, STDOUT_FILENO);
  ::dup2(launch.log_fd, STDERR_FILENO);
  if (launch.ready_fd == kReadyFd) {
    ::fcntl(kReadyFd, F_SETFD, 0);
  } else {
    ::dup2(launch.ready_fd, kReadyFd);
  }
  ::close_range(kReadyFd + 1, ~0U, 0);
  ::execve(launch.argv[0], launch.argv.data(), launch.envp.data());
  ::_exit(127);
}

tl::unexpected<Error> cannot(const std::string& what) {
  return fail(ErrorCode::unavailable, "The daemon could not be started: " + what + ": " +
                                          std::string(strerror(errno)) + ".");
}

// The first line that the daemon writes; empty when it ended without one.
Result<std::string> read_ready_line(int fd) {
  std::string line;
  const auto deadline = std::chrono::steady_clock::now() + kReadyMax;
  while (line.size() < kReadyBytesMax) {
    const auto left =
        std::chrono::duration_cast<Millis>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) {
      return fail(ErrorCode::unavailable, "The daemon was started but was not ready within 60 s.");
    }
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>(left.count())) <= 0) continue;
    std::array<char, 4096> chunk{};
    const ssize_t got = ::read(fd, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    line.append(chunk.data(), static_cast<std::size_t>(got));
    if (line.find('\n') != std::string::npos) break;
  }
  return line.substr(0, line.find('\n'));
}

Result<void> judge_ready_line(const std::string& line) {
  const Result<boost::json::value> value = edge::parse_json(line);
  const boost::json::object* object = value ? value->if_object() : nullptr;
  if (object != nullptr) {
    const boost::json::value* ready = object->if_contains("ready");
    if (ready != nullptr && ready->is_bool() && ready->get_bool()) return {};
  }
  if (object != nullptr) {
    if (const boost::json::value* error = object->if_contains("error");
        error != nullptr && error->is_object()) {
      const auto text = [error](const char* key) {
        const boost::json::value* field = error->get_object().if_contains(key);
        return field != nullptr && field->is_string() ? std::string(field->get_string()) : "";
      };
      return fail(error_code_from_word(text("code")).value_or(ErrorCode::unavailable),
                  text("message"));
    }
  }
  return fail(ErrorCode::unavailable, "The daemon ended while starting: " + line);
}

// Where the daemon's last words go. Nothing is written into a directory that is not ours alone, nor
// through a link that somebody left there: the daemon is going to refuse it, and says why.
UniqueFd open_log(const std::string& data_dir) {
  const UniqueFd dir(::open(data_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info{};
  const bool ours = dir.valid() && ::fstat(dir.get(), &info) == 0 && info.st_uid == ::geteuid() &&
                    (info.st_mode & 022U) == 0;
  if (!ours) return UniqueFd(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  return UniqueFd(::openat(dir.get(), "daemon.log",
                           O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

Result<std::string> spawn(std::vector<std::string> command, const std::string& data_dir) {
  std::array<int, 2> ready{};
  if (::pipe2(ready.data(), O_CLOEXEC) != 0) return cannot("pipe");
  UniqueFd reader(ready[0]);
  UniqueFd writer(ready[1]);
  const UniqueFd null_fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const UniqueFd log_fd = open_log(data_dir);
  if (!null_fd.valid() || !log_fd.valid()) return cannot(data_dir + "/daemon.log");
  Launch launch{{}, daemon_environment(), null_fd.get(), log_fd.get(), writer.get()};
  for (std::string& word : command) launch.argv.push_back(word.data());
  launch.argv.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return cannot("fork");
  if (child == 0) become_daemon(launch);
  writer.reset();
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  return read_ready_line(reader.get());
}

}  // namespace

std::string own_executable() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

bool inside_a_job() { return std::getenv("WAYBILL_JOB") != nullptr || started_by_wake(); }

Result<void> start_daemon(const StartOptions& options) {
  if (inside_a_job()) {
    return fail(
        ErrorCode::unavailable,
        "No daemon runs, and none is started from inside a job, since it would end with that "
        "job. Start one outside of it: waybill serve.");
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(options.data_dir).parent_path(), error);
  if (::mkdir(options.data_dir.c_str(), 0700) != 0 && errno != EEXIST) {
    return cannot(options.data_dir);
  }
  const std::vector<std::string> serve = serve_command(options);
  const std::string systemd_run = user_manager_runs() ? find_program("systemd-run") : "";
  if (!systemd_run.empty()) {
    std::vector<std::string> scoped{systemd_run, "--user", "--scope", "--quiet", "--collect", "--"};
    scoped.insert(scoped.end(), serve.begin(), serve.end());
    TRY_ASSIGN(const std::string line, spawn(std::move(scoped), options.data_dir));
    if (!line.empty()) return judge_ready_line(line);
  }
  TRY_ASSIGN(const std::string line, spawn(serve, options.data_dir));
  if (!line.empty()) return judge_ready_line(line);
  return fail(ErrorCode::unavailable,
              "The daemon ended while starting; see " + options.data_dir + "/daemon.log.");
}

}  // namespace waybill::cli
