#pragma once
// The engine with the store it works on, as EngineThread runs it.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "core/scope.h"
#include "daemon/engine_thread.h"
#include "supervise/channel.h"

namespace waybill::daemon {

struct SeatParts {
  std::string data_dir;
  supervise::Channel& channel;  // outlives the seat
  const Clock& clock;           // outlives the seat
  Settings settings;
  std::function<void(const core::Owner&, int pid, std::uint64_t start)> watch_host;
  std::function<void(const JobId&, std::vector<core::Monitor>)> monitor;
  std::function<void(const std::string&)> warn;
};

std::string store_path(const std::string& data_dir);
std::string seal_key_path(const std::string& data_dir);

// On the engine's thread. Errors are the states that must not be served (store_newer,
// state_corrupt …).
Result<std::unique_ptr<EngineSeat>> open_engine_seat(const SeatParts& parts);

}  // namespace waybill::daemon
