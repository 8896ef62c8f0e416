#include "store/monitors.h"

#include <boost/json.hpp>

namespace waybill::store {

Result<void> insert_monitor(Database& db, const JobId& job, const core::Monitor& monitor) {
  static const std::string sql =
      "INSERT INTO monitor (job, number, pattern, events_max, per_minute, wakes, read_to, lines, "
      "untold, missed, events) VALUES ($1, $2, $3, $4, $5, $6, 0, 0, 0, 0, 0)";
  TRY(db.run(sql, {job, monitor.number, monitor.pattern, monitor.events_max, monitor.per_minute,
                   monitor.wakes}));
  return {};
}

Result<std::vector<core::Monitor>> monitors_of(Database& db, const JobId& job) {
  static const std::string sql =
      "SELECT number, pattern, events_max, per_minute, wakes, read_to, lines, untold, missed, "
      "events FROM monitor WHERE job = $1 ORDER BY number";
  std::vector<core::Monitor> monitors;
  TRY(db.each(sql, {job}, [&](const Row& row) -> Result<void> {
    const auto count = [&](int column) { return static_cast<std::uint64_t>(row.integer(column)); };
    core::Monitor monitor;
    monitor.number = static_cast<std::uint32_t>(row.integer(0));
    monitor.pattern = row.string(1);
    monitor.events_max = count(2);
    monitor.per_minute = count(3);
    monitor.wakes = row.integer(4) != 0;
    monitor.read_to = count(5);
    monitor.lines = count(6);
    monitor.untold = count(7);
    monitor.missed = count(8);
    monitor.events = count(9);
    monitors.push_back(std::move(monitor));
    return {};
  }));
  return monitors;
}

Result<void> update_monitor(Database& db, const JobId& job, const core::Monitor& monitor) {
  static const std::string sql =
      "UPDATE monitor SET read_to = $3, lines = $4, untold = $5, missed = $6, events = $7 "
      "WHERE job = $1 AND number = $2";
  TRY(db.run(sql, {job, monitor.number, monitor.read_to, monitor.lines, monitor.untold,
                   monitor.missed, monitor.events}));
  return {};
}

namespace json = boost::json;

std::string encode_told(const core::Monitor& monitor, const core::MonitorFound& found) {
  return json::serialize(json::object{{"number", monitor.number},
                                      {"pattern", monitor.pattern},
                                      {"lines", found.lines},
                                      {"untold", found.untold},
                                      {"missed", found.missed},
                                      {"events", monitor.events},
                                      {"events_max", monitor.events_max}});
}

core::Monitor decode_told(const std::string& data) {
  core::Monitor monitor;
  boost::system::error_code error;
  const json::value value = json::parse(data, error);
  if (error || !value.is_object()) return monitor;
  const json::object& object = value.get_object();
  const auto number = [&](const char* key) -> std::uint64_t {
    const json::value* found = object.if_contains(key);
    return found != nullptr && found->is_int64() ? static_cast<std::uint64_t>(found->get_int64())
                                                 : 0;
  };
  monitor.number = static_cast<std::uint32_t>(number("number"));
  const json::value* pattern = object.if_contains("pattern");
  if (pattern != nullptr && pattern->is_string()) {
    monitor.pattern = std::string(pattern->get_string());
  }
  monitor.lines = number("lines");
  monitor.untold = number("untold");
  monitor.missed = number("missed");
  monitor.events = number("events");
  monitor.events_max = number("events_max");
  return monitor;
}

}  // namespace waybill::store
