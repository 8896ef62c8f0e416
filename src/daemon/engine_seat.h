#pragma once
// The engine with the store it works on, as EngineThread runs it.

#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "daemon/engine_thread.h"
#include "supervise/channel.h"

namespace waybill::daemon {

struct SeatParts {
  std::string data_dir;
  supervise::Channel& channel;  // outlives the seat
  const Clock& clock;           // outlives the seat
  Settings settings;
  std::function<void(const std::string&)> warn;
};

std::string store_path(const std::string& data_dir);

// On the engine's thread. Errors are the states that must not be served (store_newer,
// state_corrupt …).
Result<std::unique_ptr<EngineSeat>> open_engine_seat(const SeatParts& parts);

}  // namespace waybill::daemon
