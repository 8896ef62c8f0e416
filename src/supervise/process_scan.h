#pragma once
// Finds the processes of a job whose supervisor is gone: those of its session, those whose
// environment carries its id, those whom the records name, and what descends from them. A job can
// hide from this, which is why nothing found or not found here is a proof. Never finds the calling
// process. Any thread.

#include <string>
#include <vector>

#include "core/facts.h"
#include "shim/proc.h"
#include "supervise/records.h"

namespace waybill::supervise {

struct ScanTarget {
  JobId job;
  int session = 0;               // 0: not known
  std::uint64_t main_start = 0;  // start time of the main process, which leads the session
  std::string cgroup = {};       // entered and verified before the start; "" none
  std::vector<ProcessIdentity> known = {};  // who the records name
};

// Zombies are left out. False when not everybody could be looked at, for want of descriptors or
// memory: then nobody found does not mean that nobody is there.
[[nodiscard]] bool scan_job_processes(const ScanTarget& target, shim::Members& out);

// The exit status of a process that has been reaped, as wait reports it, from a pidfd that was
// opened before its end (Linux 6.15). nullopt where the kernel cannot tell, or not yet.
std::optional<int> exit_status_of(int pidfd);

}  // namespace waybill::supervise
