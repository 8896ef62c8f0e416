#pragma once
// Rare things that a thousand seeds must have reached, each counted. One that stays at 0 fails the
// run: a simulation that does not go there proves nothing about it.

#include <array>
#include <cstdint>
#include <string_view>

namespace waybill::sim {

// clang-format off
#define WAYBILL_SIM_BRANCHES(X) \
  X(crash_at_write) X(crash_at_sync) X(crash_at_answer) X(crash_at_order) X(crash_at_rest) \
  X(crash_in_recovery) X(power_lost) X(write_lost) X(write_torn) X(generation_replaced) \
  X(clean_restart) X(store_created) X(start_refused) X(disk_full) X(disk_quota) \
  X(disk_read_only) X(disk_write_error) X(disk_sync_error) X(disk_read_error) X(poisoned) \
  X(refused_while_poisoned) X(read_while_poisoned) X(refused_store_full) X(batch_of_several) \
  X(clock_back) X(clock_ahead) X(suspended) X(hours_passed) X(launch_failed) X(launch_again) \
  X(supervisor_died) X(orphan_ended) X(report_repeated) X(report_stale) X(files_removed) \
  X(stop_stuck) X(stop_unproven) X(stop_not_launched) X(deadline_passed) X(deadline_survived) \
  X(leftovers_killed) X(leftovers_kept) X(leftovers_stopped) X(started_late) X(queued_stopped) \
  X(taken_over) X(fenced) X(joined) X(lease_lapsed) X(host_process_ended) X(detached) \
  X(everybody_left) X(job_of_another) X(offer_expired) X(connection_lost) X(given_back) \
  X(repeat_heard) X(acked_late) X(acked_again) X(acked_reported) X(acked_durable) \
  X(acked_processed) X(client_died_unread) X(turn_held) X(turn_stopped) X(turn_abandoned) \
  X(turn_left_alone) X(turn_superseded) X(turn_resumed) X(turn_conflict) X(turn_went_on) \
  X(withheld_stopped) X(event_released) X(wake_given) X(wake_replaced) X(wake_over) \
  X(withheld_budget) X(budget_lifted) X(client_started) X(client_came_back) X(monitor_told) \
  X(monitor_stale) X(key_replayed) X(key_conflict) X(twin_named) X(no_delivery_path) \
  X(limit_queued) X(limit_undelivered) X(rule_forbids) X(operator_stopped) X(owner_refused) \
  X(owner_cured) X(call_timed_out) X(wait_answered) X(person_read)
// clang-format on

enum class Branch {
#define X(name) name,
  WAYBILL_SIM_BRANCHES(X)
#undef X
      count
};

inline constexpr std::array<std::string_view, static_cast<std::size_t>(Branch::count)> kBranchNames{
#define X(name) #name,
    WAYBILL_SIM_BRANCHES(X)
#undef X
};

class Branches {
 public:
  void reach(Branch branch) { ++counts_[static_cast<std::size_t>(branch)]; }
  std::uint64_t count(std::size_t at) const { return counts_[at]; }
  void add(const Branches& other) {
    for (std::size_t at = 0; at < counts_.size(); ++at) counts_[at] += other.counts_[at];
  }

 private:
  std::array<std::uint64_t, static_cast<std::size_t>(Branch::count)> counts_{};
};

}  // namespace waybill::sim
