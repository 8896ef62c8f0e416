#include "base/limits.h"

#include <charconv>

namespace waybill {
namespace {

constexpr std::uint64_t kMega = 1024 * 1024;
constexpr std::uint64_t kDayMs = 86'400'000;

SettingField count(std::string_view key, std::uint64_t Settings::* at, std::uint64_t min,
                   std::uint64_t max) {
  return {key, SettingKind::count, at, nullptr, min, max};
}
SettingField bytes(std::string_view key, std::uint64_t Settings::* at, std::uint64_t min,
                   std::uint64_t max) {
  return {key, SettingKind::bytes, at, nullptr, min, max};
}
SettingField duration(std::string_view key, Millis Settings::* at, std::uint64_t min,
                      std::uint64_t max) {
  return {key, SettingKind::duration, nullptr, at, min, max};
}

const SettingField* find_field(std::string_view key) {
  for (const SettingField& field : setting_fields()) {
    if (field.key == key) return &field;
  }
  return nullptr;
}

Result<void> set_cgroup_root(Settings& settings, std::string_view value) {
  const bool fits = value == "auto" || value == "off" || (value.starts_with('/') && value != "/");
  if (!fits || value.find('\0') != std::string_view::npos) {
    return fail(ErrorCode::bad_request,
                "Setting cgroup_root must be \"auto\", \"off\" or the absolute path of a cgroup.");
  }
  while (value.ends_with('/')) value.remove_suffix(1);
  settings.cgroup_root = value;
  return {};
}

}  // namespace

const std::vector<SettingField>& setting_fields() {
  static const std::vector<SettingField> fields{
      bytes("notice_tail_bytes", &Settings::notice_tail_bytes, 0, 64 * 1024),
      bytes("hand_over_bytes", &Settings::hand_over_bytes, 1024, kMega),
      count("command_preview_chars", &Settings::command_preview_chars, 16, 4096),
      bytes("command_bytes_max", &Settings::command_bytes_max, 1024, 16 * kMega),
      bytes("environment_bytes_max", &Settings::environment_bytes_max, 1024, 16 * kMega),
      bytes("output_cap_bytes", &Settings::output_cap_bytes, 64 * 1024, 1024 * 1024 * kMega),
      bytes("output_head_bytes", &Settings::output_head_bytes, 0, 1024 * kMega),
      bytes("session_disk_quota_bytes", &Settings::session_disk_quota_bytes, 64 * 1024,
            1024 * 1024 * kMega),
      bytes("free_space_floor_bytes", &Settings::free_space_floor_bytes, 0, 1024 * 1024 * kMega),
      duration("disk_check_interval", &Settings::disk_check_interval, 10, kDayMs),
      count("running_per_session", &Settings::running_per_session, 1, 100'000),
      count("running_per_node", &Settings::running_per_node, 1, 100'000),
      count("queued_per_session", &Settings::queued_per_session, 1, 1'000'000),
      count("undelivered_per_session", &Settings::undelivered_per_session, 1, 1'000'000),
      count("monitors_per_job", &Settings::monitors_per_job, 0, 100),
      count("monitor_events_max", &Settings::monitor_events_max, 1, 1000),
      count("monitor_per_minute", &Settings::monitor_per_minute, 1, 600),
      duration("retention", &Settings::retention, 1000, 3660 * kDayMs),
      duration("stop_grace", &Settings::stop_grace, 0, kDayMs),
      duration("stop_stuck_after", &Settings::stop_stuck_after, 100, kDayMs),
      duration("drain_grace", &Settings::drain_grace, 0, 60'000),
      duration("drain_max", &Settings::drain_max, 0, 60'000),
      duration("leftover_grace", &Settings::leftover_grace, 0, 60'000),
      duration("wait_timeout", &Settings::wait_timeout, 1, kDayMs),
      duration("wait_timeout_max", &Settings::wait_timeout_max, 1, kDayMs),
      duration("host_lease", &Settings::host_lease, 100, kDayMs),
      duration("turn_lease", &Settings::turn_lease, 100, 30 * kDayMs),
      duration("turn_abandon_after", &Settings::turn_abandon_after, 100, 30 * kDayMs),
      duration("offer_deadline", &Settings::offer_deadline, 100, kDayMs),
      duration("unheard_grace", &Settings::unheard_grace, 0, kDayMs),
      duration("client_start_deadline", &Settings::client_start_deadline, 1000, kDayMs),
      duration("open_stdin_deadline", &Settings::open_stdin_deadline, 1000, 366 * kDayMs),
      count("max_consecutive_wakes", &Settings::max_consecutive_wakes, 0, 1000),
      duration("backoff_first", &Settings::backoff_first, 1, kDayMs),
      duration("backoff_max", &Settings::backoff_max, 1, kDayMs),
  };
  return fields;
}

Result<void> set_setting(Settings& settings, std::string_view key, std::uint64_t value) {
  const SettingField* field = find_field(key);
  if (field == nullptr) {
    return fail(ErrorCode::bad_request, "There is no setting \"" + std::string(key) +
                                            "\"; `waybill status --json` lists them.");
  }
  if (value < field->min || value > field->max) {
    return fail(ErrorCode::bad_request, "Setting " + std::string(key) + " must lie between " +
                                            std::to_string(field->min) + " and " +
                                            std::to_string(field->max) +
                                            (field->kind == SettingKind::duration ? " ms." : "."));
  }
  if (field->kind == SettingKind::duration) {
    settings.*field->duration = Millis(static_cast<Millis::rep>(value));
  } else {
    settings.*field->number = value;
  }
  return {};
}

Result<void> set_setting(Settings& settings, std::string_view key, std::string_view value) {
  if (key == kCgroupRootKey) return set_cgroup_root(settings, value);
  const SettingField* field = find_field(key);
  if (field == nullptr) return set_setting(settings, key, std::uint64_t{0});
  std::optional<std::uint64_t> number;
  switch (field->kind) {
    case SettingKind::duration:
      if (const auto parsed = parse_duration(value))
        number = static_cast<std::uint64_t>(parsed->count());
      break;
    case SettingKind::bytes:
      if (const auto parsed = parse_size(value)) number = *parsed;
      break;
    case SettingKind::count: {
      std::uint64_t parsed = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
      if (error == std::errc{} && end == value.data() + value.size()) number = parsed;
      break;
    }
  }
  if (!number) {
    return fail(ErrorCode::bad_request,
                "Setting " + std::string(key) + " cannot be \"" + std::string(value) +
                    "\"; write a duration like 5s, a size like 64MiB or a whole number.");
  }
  return set_setting(settings, key, *number);
}

std::uint64_t get_setting(const Settings& settings, const SettingField& field) {
  if (field.kind == SettingKind::duration) {
    return static_cast<std::uint64_t>((settings.*field.duration).count());
  }
  return settings.*field.number;
}

Result<void> check_settings(const Settings& settings) {
  if (settings.output_head_bytes >= settings.output_cap_bytes) {
    return fail(ErrorCode::bad_request, "output_head_bytes must be smaller than output_cap_bytes.");
  }
  if (settings.backoff_first > settings.backoff_max) {
    return fail(ErrorCode::bad_request, "backoff_first must not exceed backoff_max.");
  }
  if (settings.wait_timeout > settings.wait_timeout_max) {
    return fail(ErrorCode::bad_request, "wait_timeout must not exceed wait_timeout_max.");
  }
  if (settings.drain_grace > settings.drain_max) {
    return fail(ErrorCode::bad_request, "drain_grace must not exceed drain_max.");
  }
  return {};
}

}  // namespace waybill
