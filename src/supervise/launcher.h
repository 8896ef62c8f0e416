#pragma once
// Starts supervisors: prepares the job directory and spawns waybill-shim with the locked `lock`
// file, so that there is no moment in which a living supervisor does not hold it. Never forks this
// process. Used on the channel's thread only.

#include <sys/types.h>

#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "supervise/channel.h"
#include "supervise/job_dir.h"
#include "supervise/launch_files.h"

namespace waybill::supervise {

enum class LockState { held, free, no_directory, unknown };

struct LockProbe {
  LockState state = LockState::no_directory;
  int error = 0;  // unknown: why
  UniqueFd lock;  // free: the lock, now ours; closing it gives it back
};

// Opens `lock` anew and tries to take it. Creates the file in an existing directory.
LockProbe probe_lock(const JobDir& dir);

// mkdir DATA/jobs/ID 0700. True when it was made now.
bool make_job_dir(const std::string& data_dir, const JobId& job, LaunchFailure& failure);

// fsync of DATA/jobs: what was made there is durable.
LaunchFailure sync_jobs_dir(const std::string& data_dir);

struct Spawned {
  LaunchFailure failure;
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Spawns a supervisor that takes over the lock. Ours is closed when this returns.
Spawned spawn_shim(const std::string& shim_path, const std::string& job_dir, UniqueFd lock);

// Continues a supervisor that was stopped, and wishes the stop of its job. Best effort.
void signal_stop(int shim_pidfd);

// A pidfd of the process if it is still the one on record.
UniqueFd open_pidfd(pid_t pid);

}  // namespace waybill::supervise
