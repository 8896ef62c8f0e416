#pragma once
// The daemon put together: the only place that names concrete parts. Made, opened, run and
// destroyed on one thread, which becomes the I/O thread.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace waybill::daemon {

struct DaemonOptions {
  std::string data_dir;
  std::string store_url;                                      // "" or "sqlite"
  std::vector<std::pair<std::string, std::string>> settings;  // --set, in order
  std::string shim_path;                                      // "": waybill-shim beside us
  std::uint64_t files_max = 0;  // of commands, before ours was raised; 0: ours
  bool log_to_stderr = false;   // besides the log file
};

class Daemon {
 public:
  Daemon();
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Takes the data directory, opens the store, recovers what runs, listens. On an error nothing is
  // left behind that was not there before.
  Result<void> open(const DaemonOptions& options);

  // Serves until SIGTERM, SIGINT, SIGHUP or a `shutdown` call. Jobs run on.
  void run();

  std::string socket_path() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace waybill::daemon
