#include "process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "figures.h"

extern char** environ;

namespace waybill::bench {
namespace {

namespace fs = std::filesystem;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment(const std::vector<std::string>& more) {
  std::vector<std::string> env = more;
  for (char** entry = environ; *entry != nullptr; ++entry) env.emplace_back(*entry);
  return env;
}

// Fields 3 and on of /proc/PID/stat, after the name.
std::vector<std::string> stat_fields(pid_t pid) {
  const std::string text = read_text("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return {};
  std::istringstream rest(text.substr(end + 1));
  return {std::istream_iterator<std::string>(rest), std::istream_iterator<std::string>()};
}

std::uint64_t field_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name);
  if (at == std::string::npos) return 0;
  return std::strtoull(text.c_str() + at + name.size(), nullptr, 10);
}

template <class Each>
void each_task(pid_t pid, const Each& each) {
  std::error_code error;
  for (const auto& entry :
       fs::directory_iterator("/proc/" + std::to_string(pid) + "/task", error)) {
    each(entry.path().string());
  }
}

}  // namespace

pid_t spawn(const Program& program) {
  std::vector<std::string> argv = program.argv;
  std::vector<std::string> env = environment(program.env);
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (program.quiet) {
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  }
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, argv.front().c_str(), &actions, nullptr,
                                 pointers(argv).data(), pointers(env).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) die("cannot start " + argv.front());
  return pid;
}

int wait_for(pid_t pid) {
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) return 255;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run(const Program& program) { return wait_for(spawn(program)); }

bool have(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "/usr/bin:/bin" : path);
  for (std::string path_of_it; std::getline(folders, path_of_it, ':');) {
    path_of_it.append("/").append(program);
    if (access(path_of_it.c_str(), X_OK) == 0) return true;
  }
  return false;
}

double cpu_seconds(pid_t pid) {
  double sum = 0;
  each_task(pid, [&](const std::string& task) {
    sum += static_cast<double>(std::strtoull(read_text(task + "/schedstat").c_str(), nullptr, 10));
  });
  return sum / 1e9;
}

double reaped_cpu_seconds(pid_t pid) {
  const std::vector<std::string> fields = stat_fields(pid);
  if (fields.size() < 15) return 0;
  const double ticks = std::strtod(fields[13].c_str(), nullptr) +  // cutime, field 16
                       std::strtod(fields[14].c_str(), nullptr);   // cstime
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

double own_children_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

Memory memory_of(pid_t pid) {
  const std::string text = read_text("/proc/" + std::to_string(pid) + "/smaps_rollup");
  return {field_of(text, "\nRss:") * 1024, field_of(text, "\nPss:") * 1024,
          field_of(text, "\nAnonymous:") * 1024};
}

std::uint64_t wakeups_of(pid_t pid) {
  std::uint64_t sum = 0;
  each_task(pid, [&](const std::string& task) {
    sum += field_of(read_text(task + "/status"), "\nvoluntary_ctxt_switches:");
  });
  return sum;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  const std::string parent = std::to_string(pid);
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto child = static_cast<pid_t>(std::strtol(name.c_str(), nullptr, 10));
    const std::vector<std::string> fields = stat_fields(child);
    if (fields.size() > 1 && fields[1] == parent) children.push_back(child);
  }
  return children;
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool write_text(const std::string& path, const std::string& text) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return false;
  const bool good = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(fd);
  return good;
}

}  // namespace waybill::bench
