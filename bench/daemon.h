#pragma once
// A daemon of its own for one benchmark, and raw connections to it: lines of JSON, nothing parsed
// that need not be, so that the client costs as little as possible.

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace waybill::bench {

class Client {
 public:
  // Connects and says hello.
  explicit Client(const std::string& socket_path);

  int fd() const { return fd_.get(); }
  void send(std::string_view line);
  // One whole line, waiting for it. Ends the program when the answer is an error.
  std::string receive();
  // What has come in by now; true when `line` is a whole answer.
  bool receive_some(std::string& line);
  std::string call(const std::string& method, const std::string& params);

 private:
  bool take_line(std::string& line);

  UniqueFd fd_;
  std::string rest_;
};

std::string request(const std::string& method, const std::string& params);
// The text of the first member of this name.
std::string member(std::string_view json, std::string_view name);

class Daemon {
 public:
  struct Options {
    std::string program;
    std::string data_dir;               // the daemon makes it
    std::vector<std::string> settings;  // key=value
    bool kill = false;                  // at the end, with what runs: what is queued stays so
  };
  explicit Daemon(const Options& options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  pid_t pid() const { return pid_; }
  // SIGKILL for the daemon alone; what it runs goes on for the next one.
  void abandon();
  const std::string& socket_path() const { return socket_path_; }

 private:
  void kill_all() const;

  Options options_;
  pid_t pid_ = -1;
  std::string socket_path_;
};

}  // namespace waybill::bench
