#pragma once
// A receipt: the append-only record of one transition, or of something that changed no status.

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "core/job.h"
#include "core/scope.h"
#include "core/transition.h"

namespace waybill::core {

struct Receipt {
  JobId job;
  std::uint32_t seq = 0;       // in its job, from 1
  std::uint64_t node_seq = 0;  // in its node, from 1
  std::uint32_t attempt = 0;
  std::uint64_t activation = 0;
  std::optional<JobStatus> from;  // null for the first
  JobStatus to = JobStatus::queued;
  ReceiptName name = ReceiptName::queued;
  WallTime at{};
  std::optional<Cause> cause;
  std::string actor;   // who: "owner", "user", "supervisor", "daemon" …
  std::string reason;  // why, in the actor's words
  Scope scope;
};

}  // namespace waybill::core
