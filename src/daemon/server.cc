#include "daemon/server.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/connection.h"
#include "daemon/log.h"
#include "daemon/socket.h"

namespace waybill::daemon {
namespace {

constexpr int kAcceptsAtOnce = 64;
constexpr Millis kAcceptPause{100};

// Best effort: somebody who is turned away and does not listen loses only the sentence.
void turn_away(int fd, const Error& error) {
  const std::string line = refusal_line(error);
  if (::send(fd, line.data(), line.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return;
  ::shutdown(fd, SHUT_WR);
}

}  // namespace

std::size_t connections_max_of(std::uint64_t files_max, std::size_t most) {
  constexpr std::uint64_t kOneOf = 4;
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(files_max / kOneOf, 1, most));
}

std::string refusal_line(const Error& error) {
  return R"({"jsonrpc":"2.0","id":null,"error":{"code":)" +
         std::to_string(traits(error.code).rpc_code) +
         ",\"message\":" + json_string(error.message) + R"(,"data":{"code":")" +
         std::string(to_word(error.code)) + R"(","retryable":)" +
         (traits(error.code).retryable ? "true" : "false") + "}}}\n";
}

Server::Server(Loop& loop, int listen_fd, ServerLimits limits, ServerHooks hooks)
    : loop_(loop), listen_fd_(listen_fd), limits_(limits), hooks_(std::move(hooks)) {}

// Handlers that wait in the loop may hold connections longer than this object lives.
Server::~Server() {
  for (const auto& [number, connection] : connections_) connection->abandon();
}

void Server::start() {
  if (!accepting_) accepting_ = loop_.watch(listen_fd_);
  accepting_->readable([this] { accept_some(); });
}

void Server::accept_some() {
  if (!accepting_) return;
  for (int i = 0; i < kAcceptsAtOnce; ++i) {
    const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      take(fd);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      hooks_.warn("no descriptor is left for a new connection; trying again");
      pause_ = loop_.after(kAcceptPause, [this] { start(); });
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      break;
    }
  }
  start();
}

void Server::take(int raw_fd) {
  UniqueFd fd(raw_fd);
  const auto peer = peer_of(fd.get());
  if (!peer) return turn_away(fd.get(), peer.error());
  if (!may_talk(*peer)) {
    hooks_.warn("a call by " + describe_user(peer->uid) + " was refused");
    return turn_away(fd.get(), {ErrorCode::forbidden,
                                "this daemon belongs to another user; start one of your own"});
  }
  if (connections_.size() >= limits_.connections_max) {
    return turn_away(fd.get(), {ErrorCode::limit_reached,
                                "the daemon has " + std::to_string(limits_.connections_max) +
                                    " open connections, its maximum; close some and try again"});
  }
  const ConnectionNumber number = hooks_.number();
  auto connection = std::make_shared<Connection>(*this, number, std::move(fd));
  connections_.emplace(number, connection);
  auto send = [weak = std::weak_ptr<Connection>(connection)](std::string bytes) {
    if (const auto open = weak.lock()) open->send(std::move(bytes));
  };
  connection->start(hooks_.open(number, std::move(send)));
}

void Server::gone(ConnectionNumber number) {
  connections_.erase(number);
  hooks_.closed(number);
  finish_if_flushed();
}

void Server::finish(Millis within, std::function<void()> done) {
  accepting_.reset();
  pause_.reset();
  finished_ = std::move(done);
  finish_timer_ = loop_.after(within, [this] {
    if (auto finished = std::exchange(finished_, nullptr)) finished();
  });
  finish_if_flushed();
}

void Server::finish_if_flushed() {
  if (!finished_) return;
  for (const auto& [number, connection] : connections_) {
    if (!connection->flushed()) return;
  }
  finish_timer_.reset();
  std::exchange(finished_, nullptr)();
}

}  // namespace waybill::daemon
