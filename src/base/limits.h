#pragma once
// Every default of SPEC section 13 that exists here, in one place. `Settings` is what the daemon
// runs with; `config.toml` and `serve --set key=value` change it; `status --json` shows it.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace waybill {

struct Settings {
  std::uint64_t notice_tail_bytes = 4 * 1024;
  std::uint64_t hand_over_bytes = 16 * 1024;
  std::uint64_t command_preview_chars = 200;
  std::uint64_t command_bytes_max = 1024 * 1024;
  std::uint64_t environment_bytes_max = 1024 * 1024;
  std::uint64_t output_cap_bytes = 64ULL * 1024 * 1024;
  std::uint64_t output_head_bytes = 1024 * 1024;
  std::uint64_t session_disk_quota_bytes = 1024ULL * 1024 * 1024;
  // 0: the smaller of 512 MiB and 2 % of the file system.
  std::uint64_t free_space_floor_bytes = 0;
  Millis disk_check_interval{5000};
  std::uint64_t running_per_session = 10;
  std::uint64_t running_per_node = 200;
  std::uint64_t queued_per_session = 1000;
  std::uint64_t undelivered_per_session = 1000;
  std::uint64_t monitors_per_job = 5;
  std::uint64_t monitor_events_max = 10;
  std::uint64_t monitor_per_minute = 6;
  Millis retention{std::chrono::hours(24 * 14)};
  Millis stop_grace{5000};
  Millis stop_stuck_after{10000};
  Millis drain_grace{500};
  Millis drain_max{2000};
  Millis leftover_grace{1000};
  Millis wait_timeout{30000};
  Millis wait_timeout_max{600000};
  Millis host_lease{30000};
  Millis turn_lease{600000};
  Millis turn_abandon_after{600000};
  Millis offer_deadline{30000};
  Millis unheard_grace{10000};
  std::uint64_t max_consecutive_wakes = 3;
  Millis client_start_deadline{3'600'000};
  Millis open_stdin_deadline{3'600'000};
  Millis backoff_first{500};
  Millis backoff_max{60000};
  // Where jobs get cgroups of their own: "auto" (below the daemon's own, where that may be
  // written), "off", or the absolute path of a cgroup of version 2.
  std::string cgroup_root = "auto";
};

// The one setting that is a text.
inline constexpr std::string_view kCgroupRootKey = "cgroup_root";

// One row per setting: its key, how it is written, and where it lives in Settings.
enum class SettingKind { count, bytes, duration };

struct SettingField {
  std::string_view key;
  SettingKind kind;
  std::uint64_t Settings::* number;  // for count and bytes
  Millis Settings::* duration;       // for duration
  std::uint64_t min;                 // in units, bytes or milliseconds
  std::uint64_t max;
};

const std::vector<SettingField>& setting_fields();

// Sets one key from text. Unknown keys, wrong forms and values out of range are bad_request.
Result<void> set_setting(Settings& settings, std::string_view key, std::string_view value);

// Sets one key from a number in its own unit (count, bytes, or milliseconds).
Result<void> set_setting(Settings& settings, std::string_view key, std::uint64_t value);

// The value in its own unit: count, bytes, or milliseconds.
std::uint64_t get_setting(const Settings& settings, const SettingField& field);

// What holds between settings (the head is smaller than the cap, first back-off below the
// greatest).
Result<void> check_settings(const Settings& settings);

}  // namespace waybill
