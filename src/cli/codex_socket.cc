#include "cli/codex_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>

#include "cli/host_process.h"

namespace waybill::cli {
namespace {

constexpr std::string_view kScheme = "unix://";
constexpr std::string_view kControlSocket = "/app-server-control/app-server-control.sock";

// The value of the first of these flags that is there.
std::optional<std::string> flag_value(const std::vector<std::string>& words,
                                      std::string_view flag) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "--") break;
    if (words[i] == flag && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with(std::string(flag) + "=")) return words[i].substr(flag.size() + 1);
  }
  return std::nullopt;
}

// "unix://" alone names the control socket.
std::string path_of_address(const std::string& address, const std::string& control) {
  if (!address.starts_with(kScheme)) return {};
  const std::string path = address.substr(kScheme.size());
  if (path.empty()) return control;
  return path.front() == '/' ? path : std::string();
}

Error unreachable(const std::string& path, const char* why) {
  return {ErrorCode::unavailable, path + ": " + why};
}

}  // namespace

std::string codex_home_of(const std::vector<std::string>& environment) {
  if (const auto home = variable_of(environment, "CODEX_HOME"); home && !home->empty()) {
    return home->front() == '/' ? *home : std::string();
  }
  const auto home = variable_of(environment, "HOME");
  if (!home || home->empty() || home->front() != '/') return {};
  return *home + "/.codex";
}

std::string codex_socket_path(const CodexPlace& place) {
  const std::string home = codex_home_of(place.environment);
  const std::string control = home.empty() ? std::string() : home + std::string(kControlSocket);
  if (!place.configured.empty()) return path_of_address(place.configured, control);
  for (const std::string_view flag : {"--listen", "--remote"}) {
    const auto address = flag_value(place.command_line, flag);
    if (address) return path_of_address(*address, control);
  }
  return control;
}

Result<UniqueFd> connect_own_socket(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash + 1 == path.size()) {
    return fail(unreachable(path, "no path of a socket"));
  }
  // Through a descriptor, so that long paths work.
  const UniqueFd dir(::open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!dir.valid()) return fail(unreachable(path, "its directory is not there"));
  const std::string name = path.substr(slash + 1);
  struct stat status{};
  if (::fstatat(dir.get(), name.c_str(), &status, 0) != 0) {
    return fail(unreachable(path, "not there"));
  }
  if (!S_ISSOCK(status.st_mode)) return fail(unreachable(path, "no socket"));
  if (status.st_uid != ::geteuid()) return fail(unreachable(path, "belongs to another user"));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string short_path = "/proc/self/fd/" + std::to_string(dir.get()) + "/" + name;
  if (short_path.size() >= sizeof(address.sun_path)) return fail(unreachable(path, "too long"));
  short_path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fail(unreachable(path, "no socket can be made"));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return fail(unreachable(path, std::strerror(errno)));
  }
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      peer.uid != ::geteuid()) {
    return fail(unreachable(path, "served by another user"));
  }
  return fd;
}

}  // namespace waybill::cli
