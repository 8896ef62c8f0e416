#pragma once
// Tells when a job's directory changes (inotify), so that a log reader can wait without polling.
// Lives on the loop's thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "base/ids.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/loop.h"

namespace waybill::daemon {

class OutputWatch {
 public:
  using Number = std::uint64_t;

  // Directories of jobs are `jobs_dir`/JOB.
  static Result<std::unique_ptr<OutputWatch>> open(Loop& loop, std::string jobs_dir);

  // `changed` is called each time until `remove`; it may call `remove`. The job must exist in the
  // store (its id is used as a name); its directory may come later.
  Number add(const JobId& job, std::function<void()> changed);
  void remove(Number number);

  // What the files do not tell: the job was launched or has ended.
  void job_changed(const JobId& job);
  void any_changed();

  std::size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    JobId job;
    std::function<void()> changed;
  };
  struct Directory {
    int descriptor = -1;  // of inotify; -1: not there yet
    std::set<Number> users;
  };

  OutputWatch(Loop& loop, std::string jobs_dir, UniqueFd fd);
  void wait();
  void on_readable();
  void tell(const JobId& job);
  void look_for(const JobId& job, Directory& directory);

  const std::string jobs_dir_;
  UniqueFd fd_;
  std::unique_ptr<Watch> watch_;
  Number next_ = 1;
  std::unordered_map<Number, Waiting> waiting_;
  std::unordered_map<JobId, Directory> directories_;
  std::unordered_map<int, JobId> jobs_;
};

}  // namespace waybill::daemon
