#pragma once
// The adapter for a Codex thread that no app-server is known of: `codex queue`, run with the very
// program and environment of the Codex that is served. Any live session takes the message within
// seconds; for a closed one it stays queued.

#include <string>

#include "base/clock.h"
#include "cli/host_process.h"
#include "edge/adapter.h"

namespace waybill::cli {

class CodexQueue : public edge::Adapter {
 public:
  CodexQueue(const HostProcess& host, std::string thread, Millis most = Millis{10000});

  edge::Probe probe() override;  // unknown: there is nobody to ask
  edge::PutOutcome steer(const std::string& turn, std::string_view text) override;  // busy
  edge::PutOutcome wake(std::string_view text) override;
  edge::PutOutcome inject(std::string_view text) override;  // busy
  // Its message is a word of a command line, which other users of the machine can read.
  bool carries() const override { return false; }
  bool durable() const override { return true; }

 private:
  const HostProcess host_;
  const std::string thread_;
  const Millis most_;
};

}  // namespace waybill::cli
