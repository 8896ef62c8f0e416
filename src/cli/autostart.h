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

// Waits until the daemon accepts calls. Otherwise its own error; `conflict` means that another
// daemon holds the data directory.
Result<void> start_daemon(const StartOptions& options);

}  // namespace waybill::cli
