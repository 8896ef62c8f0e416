#pragma once
// A scripted daemon on a real socket, for tests: one thread, one connection at a time.

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "edge/json.h"

namespace waybill::cli {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "waybill-cli-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempDir() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Scripted {
  // The text of "result", or of "error" when it starts with '!'; "" closes the connection.
  std::string answer;
  bool then_close = false;
};

class FakeServer {
 public:
  using Script = std::function<Scripted(const std::string& method, const boost::json::object&)>;

  FakeServer(const std::string& directory, Script script) : script_(std::move(script)) {
    // Through a descriptor, so that long paths work; listening before it can be seen.
    const UniqueFd dir(::open(directory.c_str(), O_PATH | O_DIRECTORY));
    const std::string base = "/proc/self/fd/" + std::to_string(dir.get()) + "/";
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = base + "new.sock";
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
    ::listen(listener_.get(), 16);
    ::rename(path.c_str(), (base + "waybill.sock").c_str());
    ::pipe2(stop_.data(), O_CLOEXEC);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    ::close(stop_[1]);
    thread_.join();
    ::close(stop_[0]);
  }

  std::vector<std::string> methods() {
    const std::lock_guard lock(mutex_);
    return methods_;
  }
  boost::json::object last_params() {
    const std::lock_guard lock(mutex_);
    return last_params_;
  }

 private:
  bool readable(int fd) {
    std::array<pollfd, 2> entries{{{fd, POLLIN, 0}, {stop_[0], POLLIN, 0}}};
    ::poll(entries.data(), entries.size(), -1);
    return entries[1].revents == 0;
  }
  void serve() {
    while (readable(listener_.get())) {
      const UniqueFd connection(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      converse(connection.get());
    }
  }
  void converse(int fd) {
    std::string buffer;
    while (readable(fd)) {
      std::array<char, 4096> chunk{};
      const ssize_t got = ::recv(fd, chunk.data(), chunk.size(), 0);
      if (got <= 0) return;
      buffer.append(chunk.data(), static_cast<std::size_t>(got));
      for (std::size_t end = buffer.find('\n'); end != std::string::npos; end = buffer.find('\n')) {
        const std::string line = buffer.substr(0, end);
        buffer.erase(0, end + 1);
        if (!answer(fd, line)) return;
      }
    }
  }
  bool answer(int fd, const std::string& line) {
    const boost::json::value call = boost::json::parse(line);
    const std::string method(call.at("method").as_string());
    const boost::json::object& params = call.at("params").as_object();
    {
      const std::lock_guard lock(mutex_);
      methods_.push_back(method);
      if (method != "hello" && method != "delivery.flushed") last_params_ = params;
    }
    Scripted scripted = script_(method, params);
    if (scripted.answer.empty()) return false;
    const bool error = scripted.answer.front() == '!';
    const std::string out =
        R"({"jsonrpc":"2.0","id":)" + edge::to_text(call.at("id")) +
        (error ? R"(,"error":)" + scripted.answer.substr(1) : R"(,"result":)" + scripted.answer) +
        "}\n";
    return ::send(fd, out.data(), out.size(), MSG_NOSIGNAL) > 0 && !scripted.then_close;
  }

  Script script_;
  UniqueFd listener_;
  std::array<int, 2> stop_{};
  std::mutex mutex_;
  std::vector<std::string> methods_;
  boost::json::object last_params_;
  std::thread thread_;
};

inline const char* const kHello =
    R"({"protocol":1,"version":"0.1.0","limits":{"wait_timeout_max_ms":600000}})";

inline std::string error_text(const std::string& code, const std::string& message) {
  return R"(!{"code":-32000,"message":")" + message + R"(","data":{"code":")" + code +
         R"(","retryable":false}})";
}

}  // namespace waybill::cli
