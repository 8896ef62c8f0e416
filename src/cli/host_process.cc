#include "cli/host_process.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <fstream>
#include <iterator>

#include "edge/process_stat.h"

namespace waybill::cli {
namespace {

constexpr int kAncestorsMax = 16;
constexpr std::string_view kClaudeMark = "CLAUDE_CODE_SESSION_ID";

std::string read_all(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<std::string> split_nul(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string proc(int pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

bool is_shell(std::string_view name) {
  constexpr std::array<std::string_view, 6> kShells{"sh", "bash", "dash", "zsh", "env", "timeout"};
  return std::find(kShells.begin(), kShells.end(), name) != kShells.end();
}

struct Ancestor {
  int pid = 0;
  edge::ProcessStat stat;
};

// Parent first; ends before process 1.
std::vector<Ancestor> ancestors() {
  std::vector<Ancestor> found;
  int pid = ::getppid();
  while (pid > 1 && found.size() < kAncestorsMax) {
    std::optional<edge::ProcessStat> stat = edge::process_stat(pid);
    if (!stat) break;
    const int parent = stat->parent;
    found.push_back({pid, std::move(*stat)});
    pid = parent;
  }
  return found;
}

std::optional<HostProcess> of(const Ancestor& one) { return HostProcess{one.pid, one.stat.start}; }

std::optional<HostProcess> first_that_is_no_shell(const std::vector<Ancestor>& all) {
  for (const Ancestor& one : all) {
    if (!is_shell(one.stat.name)) return of(one);
  }
  return std::nullopt;
}

bool runs_codex(const Ancestor& one) {
  const std::string program = program_of(one.pid);
  return program.substr(program.rfind('/') + 1).starts_with("codex") ||
         one.stat.name.starts_with("codex");
}

}  // namespace

std::optional<HostProcess> find_host(std::string_view client) {
  const std::vector<Ancestor> all = ancestors();
  if (client == "claude") {
    const char* mark = ::getenv(std::string(kClaudeMark).c_str());
    for (const Ancestor& one : all) {
      if (mark == nullptr) break;
      if (variable_of(environment_of(one.pid), kClaudeMark) != std::string(mark)) return of(one);
    }
  }
  if (client == "codex") {
    for (const Ancestor& one : all) {
      if (runs_codex(one)) return of(one);
    }
  }
  return first_that_is_no_shell(all);
}

std::optional<HostProcess> process_of(int pid) {
  const std::optional<edge::ProcessStat> stat = edge::process_stat(pid);
  if (!stat) return std::nullopt;
  return HostProcess{pid, stat->start};
}

std::string host_key_of(std::string_view client, const HostProcess& host) {
  return std::string(client) + "-" + std::to_string(host.pid) + "-" + std::to_string(host.start);
}

std::vector<std::string> command_line_of(int pid) {
  return split_nul(read_all(proc(pid, "cmdline")));
}

std::vector<std::string> environment_of(int pid) {
  return split_nul(read_all(proc(pid, "environ")));
}

std::optional<std::string> variable_of(const std::vector<std::string>& environment,
                                       std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return std::nullopt;
}

std::string program_of(int pid) {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink(proc(pid, "exe").c_str(), path.data(), path.size());
  if (length <= 0) return {};
  return {path.data(), static_cast<std::size_t>(length)};
}

bool is_one_shot(std::string_view client, const std::vector<std::string>& command_line) {
  const auto has = [&](std::string_view word) {
    return std::find(command_line.begin(), command_line.end(), word) != command_line.end();
  };
  if (client == "codex") return command_line.size() > 1 && has("exec");
  if (client != "claude") return false;
  if (!has("-p") && !has("--print")) return false;
  for (std::size_t i = 0; i < command_line.size(); ++i) {
    if (command_line[i] == "--input-format=stream-json") return false;
    if (command_line[i] == "--input-format" && i + 1 < command_line.size() &&
        command_line[i + 1] == "stream-json") {
      return false;
    }
  }
  return true;
}

}  // namespace waybill::cli
