#pragma once
// The adapter for a Codex thread that an app-server holds: WebSocket text frames on a unix socket,
// one JSON message each, JSON-RPC without the `jsonrpc` member. What the app-server accepts is in
// the thread's history, which survives it.

#include <boost/json/fwd.hpp>
#include <memory>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "edge/adapter.h"

namespace waybill::cli {

struct AppServerLimits {
  Millis call{5000};                            // one call, connecting included
  std::size_t message_bytes = 4 * 1024 * 1024;  // of the app-server
  unsigned messages = 1000;                     // between a call and its answer
};

class CodexAppServer : public edge::Adapter {
 public:
  // `path`: of the socket.
  CodexAppServer(std::string path, std::string thread, AppServerLimits limits = {});
  ~CodexAppServer() override;

  // `gone` also for a thread that this app-server has not loaded.
  edge::Probe probe() override;
  edge::PutOutcome steer(const std::string& turn, std::string_view text) override;
  edge::PutOutcome wake(std::string_view text) override;
  edge::PutOutcome inject(std::string_view text) override;
  bool durable() const override { return true; }

  // The turn that a tool call came from, for app-servers that do not tell which one runs. Any
  // thread.
  void saw_turn(const std::string& turn);

  const std::string& path() const { return path_; }

 private:
  class Connection;
  struct Answer;

  Answer call(std::string_view method, const boost::json::object& params);
  std::string running_turn();
  std::string hint();

  const std::string path_;
  const std::string thread_;
  const AppServerLimits limits_;
  std::unique_ptr<Connection> connection_;  // from a probe to the call that follows from it
  std::mutex mutex_;
  std::string hint_;
};

// What the app-server says to a call for another turn than the one that runs: the id of that one;
// "" when it does not tell.
std::string active_turn_of(const std::string& message);

}  // namespace waybill::cli
