#pragma once
// This machine as a channel, through one waybill-shim per job. One thread of its own waits on the
// bell, on pidfds of supervisors and adopted main processes, and on a queue of orders; it reads the
// jobs' files, does the next step of the recovery table and reports facts. It decides nothing,
// never forks the daemon, never starts a second supervisor while the lock is held, and never starts
// a command again once there is a start record. Idle, it does not wake up.
//
// Every order is answered by at least one report; further reports come when something has changed.
// Reports of one job arrive in the order in which things happened.

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "supervise/channel.h"

namespace waybill::supervise {

struct LocalChannelOptions {
  std::string data_dir;             // made absolute; `jobs` and `bell` are created in it
  std::string shim_path;            // absolute path of waybill-shim
  std::uint64_t files_max = 0;      // the commands' soft limit of open files; 0: this process's
  std::string cgroup_root = "off";  // "auto", "off" or a path, see supervise/cgroup_root.h
  Report report;  // called on the channel's thread, may call supervise() and forget()
  std::function<void(const std::string&)> warn;  // something an operator should read; may be empty
};

class LocalChannel final : public Channel {
 public:
  // `unavailable` when the directory, the bell or the thread's descriptors cannot be had.
  static Result<std::unique_ptr<LocalChannel>> open(LocalChannelOptions options);

  // Ends the thread. Jobs and supervisors run on.
  ~LocalChannel() override;
  LocalChannel(const LocalChannel&) = delete;
  LocalChannel& operator=(const LocalChannel&) = delete;

  void supervise(SuperviseOrder order) override;  // any thread
  void forget(const JobId& job) override;         // any thread
  DiskSpace disk_space() override;
  std::uint64_t output_allocated(const JobId& job) override;
  bool remove_output(const JobId& job) override;
  std::optional<core::OutputFacts> shorten_output(const JobId& job, std::uint64_t cap) override;
  void lower_output_cap(const JobId& job, std::uint64_t cap) override;
  std::optional<std::uint64_t> remove_job(const JobId& job) override;
  std::uint64_t job_allocated(const JobId& job) override;
  bool ended_on_record(const JobId& job) override;
  std::optional<core::OutputFacts> output_of(const JobId& job) override;
  Result<std::vector<JobId>> directories() override;
  Result<FoundJob> find(const JobId& job) override;
  GenerationId generation() const override;  // any thread; constant

 private:
  class Loop;
  explicit LocalChannel(std::unique_ptr<Loop> loop);

  std::unique_ptr<Loop> loop_;
};

}  // namespace waybill::supervise
