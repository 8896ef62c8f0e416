#pragma once
// One look at a job's directory: lock, records, and what the recovery table makes of them; and the
// facts that follow. Reads only. Used on the channel's thread.

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "core/facts.h"
#include "supervise/job_dir.h"
#include "supervise/launcher.h"
#include "supervise/records.h"

namespace waybill::supervise {

struct JobLook {
  JobId job;
  // Not 0: it could not be told now what is there. Then nothing else in here means anything, and
  // nothing may be concluded, reported or done but to look again later.
  int error = 0;
  std::optional<JobDir> dir;
  bool lock_held = false;
  UniqueFd lock;  // taken by this look when it was free
  bool same_generation = false;
  bool stop_wished = false;  // stop.req is there
  Read<StartRecord> start;
  Read<ExitRecord> exit;
  Read<FinalRecord> final_record;
  Read<LeftoverRecord> leftovers;
  Read<SurvivorRecord> survivors;
  std::string stages;  // the text of that file, when the job's end may need it
  core::Supervision supervision = core::Supervision::not_launched;

  // What the supervisor left undone when it was lost; the daemon's to complete.
  bool records_missing() const;
  bool leftovers_unsettled() const;
  // Somebody was kept, or could not be killed, and no supervisor sees to them.
  bool survivors_unwatched() const;
};

struct LookOrder {
  const std::string* data_dir = nullptr;
  JobId job;
  const MachineGeneration* generation = nullptr;
  bool shim_known_alive = false;  // its pidfd says so: the lock need not be tried
};

// The lock first, then the records from the last to the first: a supervisor writes them in the
// other order, so what is seen is a state that really was.
JobLook look_at(const LookOrder& order);

core::JobFacts facts_of(const JobLook& look);

// The output as the files show it, when no final record does.
core::OutputFacts output_from_files(const std::string& job_dir);

// Its supervisor has written the final record, and that checks. Takes no lock.
bool ended_on_record(const std::string& data_dir, const JobId& job);

inline constexpr std::size_t kTailBytes = 64 * 1024;

}  // namespace waybill::supervise
