#include "daemon.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "figures.h"
#include "process.h"

namespace waybill::bench {
namespace {

UniqueFd connect_to(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) die("the path of the socket is too long");
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* target = reinterpret_cast<const sockaddr*>(&address);
  if (connect(fd.get(), target, sizeof address) != 0) fd.reset();
  return fd;
}

}  // namespace

std::string request(const std::string& method, const std::string& params) {
  return R"({"jsonrpc":"2.0","id":1,"method":")" + method + R"(","params":)" + params + "}\n";
}

std::string member(std::string_view json, std::string_view name) {
  const std::string key = "\"" + std::string(name) + "\":\"";
  const std::size_t at = json.find(key);
  if (at == std::string_view::npos) die("no " + std::string(name) + " in " + std::string(json));
  const std::size_t from = at + key.size();
  return std::string(json.substr(from, json.find('"', from) - from));
}

Client::Client(const std::string& socket_path) : fd_(connect_to(socket_path)) {
  if (!fd_.valid()) die("cannot connect to " + socket_path);
  call("hello", R"({"protocol":1,"client":"waybill-bench"})");
}

void Client::send(std::string_view line) {
  while (!line.empty()) {
    const ssize_t n = ::send(fd_.get(), line.data(), line.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) die("the daemon closed a connection");
    line.remove_prefix(static_cast<std::size_t>(n));
  }
}

bool Client::take_line(std::string& line) {
  const std::size_t end = rest_.find('\n');
  if (end == std::string::npos) return false;
  line = rest_.substr(0, end);
  rest_.erase(0, end + 1);
  if (line.find("\"error\":{") != std::string::npos) die("the daemon refused: " + line);
  return true;
}

bool Client::receive_some(std::string& line) {
  char bytes[64 * 1024];
  const ssize_t n = recv(fd_.get(), bytes, sizeof bytes, 0);
  if (n < 0 && errno == EINTR) return false;
  if (n <= 0) die("the daemon closed a connection");
  rest_.append(bytes, static_cast<std::size_t>(n));
  return take_line(line);
}

std::string Client::receive() {
  std::string line;
  if (take_line(line)) return line;
  while (!receive_some(line)) {
  }
  return line;
}

std::string Client::call(const std::string& method, const std::string& params) {
  send(request(method, params));
  return receive();
}

Daemon::Daemon(const Options& options)
    : options_(options), socket_path_(options.data_dir + "/waybill.sock") {
  Program program;
  program.argv = {options.program, "serve", "--data", options.data_dir};
  for (const std::string& setting : options.settings) {
    program.argv.insert(program.argv.end(), {"--set", setting});
  }
  pid_ = spawn(program);
  for (int i = 0; i < 1000; ++i) {
    if (connect_to(socket_path_).valid()) return;
    usleep(10'000);
  }
  die("the daemon does not start");
}

// The daemon first, so that it starts nothing in the place of what is killed.
void Daemon::kill_all() const {
  std::vector<pid_t> left = children_of(pid_);
  for (const pid_t shim : std::vector<pid_t>(left)) {
    for (const pid_t command : children_of(shim)) left.push_back(command);
  }
  kill(pid_, SIGKILL);
  for (const pid_t pid : left) kill(pid, SIGKILL);
  wait_for(pid_);
}

void Daemon::abandon() {
  kill(pid_, SIGKILL);
  wait_for(pid_);
  pid_ = -1;
}

Daemon::~Daemon() {
  if (pid_ < 0) return;
  if (options_.kill) {
    kill_all();
    return;
  }
  Client(socket_path_).call("shutdown", R"({"stop_jobs":true})");
  wait_for(pid_);
}

}  // namespace waybill::bench
