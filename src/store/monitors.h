#pragma once
// Rows of `monitor`.

#include <string>
#include <vector>

#include "core/monitor.h"
#include "store/database.h"

namespace waybill::store {

Result<void> insert_monitor(Database& db, const JobId& job, const core::Monitor& monitor);
Result<std::vector<core::Monitor>> monitors_of(Database& db, const JobId& job);
// Writes how far it has come.
Result<void> update_monitor(Database& db, const JobId& job, const core::Monitor& monitor);

// What an event of a monitor keeps in the clear (the lines are its sealed tail), and back: counts
// are those of this event. What does not parse is an empty monitor: the event still has its job.
std::string encode_told(const core::Monitor& monitor, const core::MonitorFound& found);
core::Monitor decode_told(const std::string& data);

}  // namespace waybill::store
