#pragma once
// Accepts connections and moves their bytes; what the bytes mean is the protocol's business. Lives
// on the loop's thread. A connection is bounded in every direction:
//   - callers of another user are refused and closed (root may talk to anybody's daemon);
//   - answers that a client does not read: above `queued_pause` its requests are no longer read,
//     above `queued_max` it is dropped, and so is the one whose answer would bring all that is
//     queued above `queued_total_max`;
//   - a client that has said nothing, or has left a request unfinished, for `request_within` is
//     dropped. One that has asked and waits may wait as long as it likes;
//   - above `connections_max` a new one is told so and closed.
// End of input is the end of the connection: a client keeps its side open until it has its answer.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "daemon/loop.h"

namespace waybill::daemon {

// One connection's conversation. Destroyed when the connection is closed.
class Protocol {
 public:
  virtual ~Protocol() = default;
  // False: nothing more will be read; the connection closes when what was sent is out.
  virtual bool received(std::string_view bytes) = 0;
};

using ConnectionNumber = std::uint64_t;
using Send = std::function<void(std::string bytes)>;  // does nothing once the connection is closed

struct ServerLimits {
  std::size_t connections_max = 1000;
  std::size_t queued_pause = 1024 * 1024;
  std::size_t queued_max = 16 * 1024 * 1024;
  std::size_t queued_total_max = 256 * 1024 * 1024;
  Millis request_within{30000};
};

struct ServerHooks {
  std::function<ConnectionNumber()> number;
  std::function<std::unique_ptr<Protocol>(ConnectionNumber, Send)> open;
  std::function<void(ConnectionNumber)> closed;
  std::function<void(const std::string&)> warn;
};

// Of `files_max` descriptors at most a quarter are for connections: jobs need the others.
std::size_t connections_max_of(std::uint64_t files_max, std::size_t most);

// What a caller reads that is turned away before it could ask anything.
std::string refusal_line(const Error& error);

class Connection;

class Server {
 public:
  // `listen_fd` is non-blocking and stays the caller's.
  Server(Loop& loop, int listen_fd, ServerLimits limits, ServerHooks hooks);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void start();

  // No new connections; calls `done` when what is queued has been sent, or after `within`.
  void finish(Millis within, std::function<void()> done);

  std::size_t connections() const { return connections_.size(); }

 private:
  friend class Connection;
  void accept_some();
  void take(int fd);
  void gone(ConnectionNumber number);
  void finish_if_flushed();

  Loop& loop_;
  const int listen_fd_;
  const ServerLimits limits_;
  const ServerHooks hooks_;
  std::unique_ptr<Watch> accepting_;
  std::unique_ptr<Timer> pause_;
  std::unique_ptr<Timer> finish_timer_;
  std::function<void()> finished_;
  std::size_t queued_total_ = 0;  // of all connections, in bytes
  std::unordered_map<ConnectionNumber, std::shared_ptr<Connection>> connections_;
};

}  // namespace waybill::daemon
