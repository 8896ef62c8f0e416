#pragma once
// Brings what is pending in one session to its live client, as soon as the daemon says that the
// client has to be woken: on a thread of its own, with a connection of its own. Killed at any
// point, it loses nothing: what it had taken is pending again when its connection ends.

#include <memory>
#include <string>
#include <thread>

#include "base/unique_fd.h"
#include "cli/client.h"
#include "edge/adapter.h"

namespace waybill::cli {

struct DeliveryTarget {
  std::string tenant;  // "" default
  std::string session;
  std::string host_key;
  std::string client;  // "codex" …: told to the daemon where nobody has told it yet
  int host_pid = 0;    // the client's process, where this program is its first to attach; 0 no
};

class DeliveryLoop {
 public:
  DeliveryLoop(ClientOptions options, DeliveryTarget target,
               std::shared_ptr<edge::Adapter> adapter);
  // Asks it to end and waits for that: for a call of the adapter at most.
  ~DeliveryLoop();
  DeliveryLoop(const DeliveryLoop&) = delete;
  DeliveryLoop& operator=(const DeliveryLoop&) = delete;

  void ask_to_end();
  // Whether it has ended, within this time.
  bool await_end(Millis most);

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace waybill::cli
