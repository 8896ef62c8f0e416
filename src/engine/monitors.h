#pragma once
// Monitors of running jobs: what they find becomes events of the job (SPEC section 4).

#include "engine/work.h"

namespace waybill::engine {

// Part of accepting a job; bounds that were left out are the settings'.
Result<void> add_monitors(Work& work, store::JobRow& job, std::vector<core::Monitor> monitors);

// One event for what was found. What was told before, and what comes after the job's end, is not
// told.
Result<void> monitor_told(Work& work, const core::MonitorFound& found);

// What an event of a monitor said, from its row; nullopt for other events.
std::optional<core::Monitor> monitor_of_event(const store::InboxRow& row);

}  // namespace waybill::engine
