#include "daemon/connection.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace waybill::daemon {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Connection::Connection(Server& server, ConnectionNumber number, UniqueFd fd)
    : server_(server), number_(number), fd_(std::move(fd)), watch_(server.loop_.watch(fd_.get())) {}

void Connection::start(std::unique_ptr<Protocol> protocol) {
  protocol_ = std::move(protocol);
  restart_timer();
  read_more();
}

void Connection::read_more() {
  if (closed_ || closing_ || reading_ || queued_bytes_ > server_.limits_.queued_pause) return;
  reading_ = true;
  watch_->readable([self = shared_from_this()] {
    self->reading_ = false;
    self->on_readable();
  });
}

void Connection::on_readable() {
  if (closed_ || closing_) return;
  std::array<char, kReadBytes> buffer;
  const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got == 0 || (got < 0 && !would_block(errno))) return close();
  if (got > 0) {
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(got));
    note_progress(bytes);
    if (!protocol_->received(bytes)) return close_when_sent();
  }
  read_more();
}

// A timer runs while a request is due or unfinished; none runs while the client waits for answers.
void Connection::note_progress(std::string_view bytes) {
  const bool complete = bytes.back() == '\n';
  const bool some_complete = bytes.find('\n') != std::string_view::npos;
  if (complete) {
    request_timer_.reset();
  } else if (some_complete || !request_timer_) {
    restart_timer();
  }
}

void Connection::restart_timer() {
  request_timer_ = server_.loop_.after(server_.limits_.request_within, [this] {
    const auto self = shared_from_this();
    server_.hooks_.warn("a client that left its request unfinished was dropped");
    close();
  });
}

void Connection::send(std::string bytes) {
  if (closed_ || bytes.empty()) return;
  queued_bytes_ += bytes.size();
  server_.queued_total_ += bytes.size();
  queue_.push_back(std::move(bytes));
  if (!writing_) flush();
  if (closed_) return;
  if (queued_bytes_ > server_.limits_.queued_max) {
    server_.hooks_.warn("a client that does not read its answers was dropped");
    close();
  } else if (queued_bytes_ > 0 && server_.queued_total_ > server_.limits_.queued_total_max) {
    server_.hooks_.warn("the clients do not read their answers; one was dropped");
    close();
  }
}

void Connection::flush() {
  while (!closed_ && !queue_.empty()) {
    const std::string& front = queue_.front();
    const ssize_t sent = ::send(fd_.get(), front.data() + sent_of_front_,
                                front.size() - sent_of_front_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) {
      if (!would_block(errno)) return close();
      writing_ = true;
      watch_->writable([self = shared_from_this()] {
        self->writing_ = false;
        self->flush();
      });
      return;
    }
    sent_of_front_ += static_cast<std::size_t>(sent);
    queued_bytes_ -= static_cast<std::size_t>(sent);
    server_.queued_total_ -= static_cast<std::size_t>(sent);
    if (sent_of_front_ == front.size()) {
      queue_.pop_front();
      sent_of_front_ = 0;
    }
  }
  if (closed_) return;
  if (closing_) return close();
  read_more();
  if (server_.finished_) server_.finish_if_flushed();
}

// What can no longer be sent takes no room.
void Connection::drop_queue() {
  server_.queued_total_ -= std::exchange(queued_bytes_, 0);
  queue_.clear();
  sent_of_front_ = 0;
}

void Connection::close_when_sent() {
  closing_ = true;
  request_timer_.reset();
  if (queue_.empty()) close();
}

void Connection::close() {
  if (closed_) return;
  closed_ = true;
  request_timer_.reset();
  drop_queue();
  // The protocol may be the caller: it goes when the loop comes round, and so does the descriptor.
  server_.loop_.post([self = shared_from_this()] {
    if (!self->fd_.valid()) return;  // abandoned meanwhile, and the server with it
    self->abandon();
    self->server_.gone(self->number_);
  });
}

void Connection::abandon() {
  closed_ = true;
  request_timer_.reset();
  drop_queue();
  protocol_.reset();
  watch_.reset();
  fd_.reset();
}

}  // namespace waybill::daemon
