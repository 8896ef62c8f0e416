#include "engine/monitors.h"

#include "engine/deliver.h"
#include "store/monitors.h"

namespace waybill::engine {
Result<void> add_monitors(Work& work, store::JobRow& job, std::vector<core::Monitor> monitors) {
  for (core::Monitor& monitor : monitors) {
    if (monitor.events_max == 0) monitor.events_max = work.settings().monitor_events_max;
    if (monitor.per_minute == 0) monitor.per_minute = work.settings().monitor_per_minute;
    TRY(store::insert_monitor(work.db(), job.id, monitor));
  }
  return {};
}

Result<void> monitor_told(Work& work, const core::MonitorFound& found) {
  TRY_ASSIGN(std::optional<store::JobRow> job, store::find_job(work.db(), found.job));
  if (!job || job->status != core::JobStatus::running) return {};
  TRY_ASSIGN(std::vector<core::Monitor> monitors, store::monitors_of(work.db(), found.job));
  for (core::Monitor& monitor : monitors) {
    if (monitor.number != found.number) continue;
    if (found.read_to <= monitor.read_to || monitor.events >= monitor.events_max) return {};
    monitor.read_to = found.read_to;
    monitor.lines += found.lines;
    monitor.untold += found.untold;
    monitor.missed += found.missed;
    ++monitor.events;
    TRY(store::update_monitor(work.db(), job->id, monitor));
    const std::string which =
        "monitor " + std::to_string(monitor.number) + " of " + std::to_string(monitors.size());
    TRY(work.note(*job, core::ReceiptName::monitor, std::nullopt, "daemon",
                  which + ": " + std::to_string(found.lines) + " line(s)"));
    return publish(work, *job, core::ReceiptName::monitor, core::EventType::job_monitor,
                   monitor.wakes && !job->stop, found.text, store::encode_told(monitor, found));
  }
  return {};
}

std::optional<core::Monitor> monitor_of_event(const store::InboxRow& row) {
  if (row.type != core::EventType::job_monitor) return std::nullopt;
  return store::decode_told(row.data);
}

}  // namespace waybill::engine
