#pragma once
// One connection that speaks newline-delimited JSON-RPC 2.0. Bytes in, lines out; it touches no
// socket. Lives on the I/O thread. Several calls may be outstanding, answers carry their ids and
// come in any order. Nothing that arrives can crash it: what cannot be read is answered with a
// JSON-RPC error, and after an endless line the connection should be closed (`wants_close`).

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "edge/service.h"

namespace waybill::edge {

inline constexpr unsigned kCallsMax = 64;  // outstanding on one connection

class RpcSession {
 public:
  // `send` is given whole lines, newline included. It may be called from within on_bytes and from
  // the Service's callbacks, never after on_closed or the destructor.
  RpcSession(engine::ConnectionId connection, Service& service,
             std::function<void(std::string)> send);
  ~RpcSession();
  RpcSession(const RpcSession&) = delete;
  RpcSession& operator=(const RpcSession&) = delete;

  void on_bytes(std::string_view bytes);

  // The connection is gone: answers are dropped, the engine is told (ConnectionClosed). Harmless
  // when called again; the destructor calls it.
  void on_closed();

  // Close once everything sent so far is flushed; further bytes are ignored.
  bool wants_close() const;

  // Calls that are not answered yet.
  unsigned outstanding() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace waybill::edge
