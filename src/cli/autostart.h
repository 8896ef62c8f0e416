#pragma once
// Starts a daemon for a data directory, detached from the caller's terminal, session and, where a
// systemd user manager runs, from its cgroup.

#include <string>

#include "base/result.h"

namespace waybill::cli {

struct StartOptions {
  std::string executable;  // absolute path of `waybill`
  std::string data_dir;
  std::string store;  // "" default
};

// Path of the running program.
std::string own_executable();

// Whatever is started inside a job, in a session of its own or not, is below that job's supervisor
// and in its cgroup: it ends with the job, and so would the supervisors that it starts. A client
// that was started for a wake is such a job, too.
bool inside_a_job();

// Refused from inside a job (`unavailable`). Waits until the daemon accepts calls. Otherwise its
// own error; `conflict` means that another daemon holds the data directory.
Result<void> start_daemon(const StartOptions& options);

}  // namespace waybill::cli
