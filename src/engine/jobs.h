#pragma once
// The life of a command job: accept, claim a slot, settle from facts, stop.

#include "engine/access.h"
#include "engine/work.h"

namespace waybill::engine {

// `reachable`: a connection of the session's host is waiting on its inbox right now.
Result<RunReply> run(Work& work, const Host& host, const RunRequest& request, bool reachable);

// Gives free slots to the oldest eligible queued jobs (I17 for command jobs: caps of section 13).
Result<void> fill_slots(Work& work);

// What the supervisor's files say, turned into transitions. A replay changes nothing (I4).
Result<void> observe(Work& work, const core::JobFacts& facts);

// The reason of a stop that came with its turn's.
inline constexpr char kTurnStopped[] = "its turn was stopped";

struct StopOrder {
  core::Cause cause = core::Cause::user;
  std::string actor;
  std::string reason;
  bool by_owner = true;
};

// Records the durable stop wish, or stops a queued job at once. Harmless when repeated.
Result<void> stop(Work& work, store::JobRow& job, const StopOrder& order);

// The job is finished: stops what it has left behind, if that was kept.
Result<void> stop_leftovers(Work& work, store::JobRow& job, const StopOrder& order);

// Still queued, it has missed its start.
Result<void> start_within_passed(Work& work, const JobId& job);

// What can be neither attached nor proven gone, given up by an operator: `failed`, exit unknown,
// unproven (I7, I9).
Result<void> give_up(Work& work, store::JobRow& job, const std::string& reason);

// It is not known whether the job has run, and it is not to be run again: `failed`, exit unknown.
Result<void> end_untold(Work& work, store::JobRow& job, const std::string& actor,
                        const std::string& why);

// A stop has not been confirmed for too long: said once.
Result<void> stop_stuck(Work& work, const JobId& job);

// What a supervisor needs for this job now: the launch, if it may still be launched, and the stop
// wish.
Result<supervise::SuperviseOrder> supervise_order(Work& work, const store::JobRow& job);

// Sealed contents of a launch row, NUL-separated.
struct LaunchSecret {
  std::string command;
  std::vector<std::string> argv;
  std::vector<std::string> env;
};
std::string pack_launch(const LaunchSecret& secret);
Result<LaunchSecret> unpack_launch(std::string_view packed);

}  // namespace waybill::engine
