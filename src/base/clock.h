#pragma once
// Time as a seam: everything that needs the time is given a Clock. Durations and deadlines use the
// monotonic clock (suspend excluded); the wall clock is for display and for due times that must
// survive a restart.

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace waybill {

using Millis = std::chrono::milliseconds;
using WallTime = std::chrono::sys_time<std::chrono::milliseconds>;
using MonoTime = std::chrono::time_point<std::chrono::steady_clock, std::chrono::nanoseconds>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual WallTime wall() const = 0;
  virtual MonoTime mono() const = 0;
};

class SystemClock final : public Clock {
 public:
  WallTime wall() const override;
  MonoTime mono() const override;
};

// RFC 3339 in UTC with milliseconds: 2026-11-30T12:00:00.000Z.
std::string format_rfc3339(WallTime time);

// "90s", "5m", "1h30m", "250ms", "0.5s", "2d"; a bare number is seconds. nullopt if it is none of
// these, is negative or does not fit.
std::optional<Millis> parse_duration(std::string_view text);

// "64MiB", "1GiB", "4096", "10kB" (powers of 1000 for kB/MB/GB, of 1024 for KiB/MiB/GiB).
std::optional<unsigned long long> parse_size(std::string_view text);

}  // namespace waybill
