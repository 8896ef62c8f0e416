#pragma once
// A monitor of a running job: lines of its output that a pattern fits are told while it runs
// (SPEC section 4). Bounded in number, count and rate.

#include <cstdint>
#include <string>

#include "base/ids.h"

namespace waybill::core {

// How to look, and how far it has come. Counts speak of the output before `read_to`.
struct Monitor {
  std::uint32_t number = 0;  // in its job, from 1
  std::string pattern;       // RE2; "" fits every line
  std::uint64_t events_max = 0;
  std::uint64_t per_minute = 0;  // events, not lines: what fits in between goes together
  bool wakes = false;            // an idle session too; otherwise it joins the next turn
  std::uint64_t read_to = 0;     // offset of the first line that was not looked at
  std::uint64_t lines = 0;       // that fitted
  std::uint64_t untold = 0;      // of them, those that no event had room for
  std::uint64_t missed = 0;      // bytes that the output's cap had dropped before they were seen
  std::uint64_t events = 0;
};

// What a look has found since the last event; becomes one event.
struct MonitorFound {
  JobId job;
  std::uint32_t number = 0;
  std::uint64_t read_to = 0;
  std::uint64_t lines = 0;
  std::uint64_t untold = 0;
  std::uint64_t missed = 0;
  std::string text;  // the lines themselves, rendered, bounded
};

}  // namespace waybill::core
