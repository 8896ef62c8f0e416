#pragma once
// Looks at the output of jobs that have monitors, as it grows, and tells of lines that fit: at once
// when the monitor's rate allows it, otherwise together with what follows. Coordinated on the
// loop's thread; the lines are looked at on a thread of its own, which there is only once a job
// with monitors runs. Nothing is lost with the daemon: what was not told yet is found again from
// the offset that the store has.

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/monitor.h"
#include "daemon/loop.h"
#include "daemon/output_watch.h"
#include "daemon/worker.h"

namespace waybill::daemon {

class Monitors {
 public:
  // Lines that one event tells of, and bytes of them.
  static constexpr std::size_t kLinesTold = 20;
  static constexpr std::size_t kLineTold = 500;

  struct Hooks {
    std::function<void(core::MonitorFound)> tell;  // from the loop's thread
    std::function<void(const std::string&)> warn;
  };

  Monitors(Loop& loop, OutputWatch& watch, std::string jobs_dir, Hooks hooks);
  ~Monitors();
  Monitors(const Monitors&) = delete;
  Monitors& operator=(const Monitors&) = delete;

  // Again for a job that is looked at already: nothing. An empty list: it is not looked at any
  // more.
  void set(const JobId& job, const std::vector<core::Monitor>& monitors);

  void stop();

 private:
  struct Scan;   // the worker's
  struct Entry;  // the loop's
  void look(const JobId& job);
  void on_looked(const JobId& job, bool more);
  void tell_due(const JobId& job, Entry& entry);

  Loop& loop_;
  OutputWatch& watch_;
  const std::string jobs_dir_;
  const Hooks hooks_;
  std::unique_ptr<Worker> worker_;
  std::unordered_map<JobId, std::unique_ptr<Entry>> entries_;
};

}  // namespace waybill::daemon
