#pragma once
// One accepted connection of Server: its descriptor, its queue of answers, its limits.

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "daemon/server.h"

namespace waybill::daemon {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Server& server, ConnectionNumber number, UniqueFd fd);

  void start(std::unique_ptr<Protocol> protocol);
  void send(std::string bytes);
  // Closes when everything queued is out.
  void close_when_sent();
  // Closes now. The object stays until the loop comes round.
  void close();
  // Lets go of everything at once, without a word; the loop need not run any more.
  void abandon();
  bool flushed() const { return queue_.empty(); }

 private:
  void read_more();
  void on_readable();
  void note_progress(std::string_view bytes);
  void restart_timer();
  void flush();
  void drop_queue();

  Server& server_;
  const ConnectionNumber number_;
  UniqueFd fd_;
  std::unique_ptr<Watch> watch_;
  std::unique_ptr<Protocol> protocol_;
  std::unique_ptr<Timer> request_timer_;
  std::deque<std::string> queue_;
  std::size_t sent_of_front_ = 0;
  std::size_t queued_bytes_ = 0;
  bool reading_ = false;  // a read wait is out
  bool writing_ = false;  // a write wait is out
  bool closing_ = false;  // no more input; close when the queue is empty
  bool closed_ = false;
};

}  // namespace waybill::daemon
