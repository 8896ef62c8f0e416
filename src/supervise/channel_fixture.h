#pragma once
// For tests: a data directory, a LocalChannel on it, and what it reported. Waits are on reports,
// with a generous cap; nothing sleeps for a fixed time.

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "supervise/local_channel.h"

namespace waybill::supervise {

class ChannelTest : public ::testing::Test {
 protected:
  using Facts = core::JobFacts;
  using Predicate = std::function<bool(const Facts&)>;

  ChannelTest();
  ~ChannelTest() override;

  // A channel on the data directory; a second call restarts it, as a new daemon would.
  void open_channel();
  void close_channel() { channel_.reset(); }

  LaunchOrder order(const std::string& command);
  LaunchOrder argv_order(std::vector<std::string> argv);
  JobId run(LaunchOrder launch);
  JobId run(const std::string& command) { return run(order(command)); }
  void stop(const JobId& job);
  void look(const JobId& job);

  // The first report so far, or to come, that the predicate likes.
  Facts wait_for(const JobId& job, const Predicate& predicate);
  Facts wait_finished(const JobId& job);  // finished and its leftovers settled
  Facts wait_running(const JobId& job);
  std::vector<Facts> reports(const JobId& job);
  std::size_t warning_count();

  std::string job_path(const JobId& job) const { return data_dir_ + "/jobs/" + job.str(); }
  std::string file(const JobId& job, const std::string& name) const;
  bool has_file(const JobId& job, const std::string& name) const;
  // Blocks until the job's output holds `text`.
  void wait_output(const JobId& job, const std::string& text);

  // A number of the start record.
  int pid_in(const JobId& job, const std::string& key);

  std::string data_dir_;
  std::string cgroup_root_ = "off";  // for channels opened from now on
  std::unique_ptr<LocalChannel> channel_;
  std::vector<std::string> warnings_;  // guarded by mutex_

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::vector<Facts>> reports_;  // guarded by mutex_
  int next_id_ = 1;
  std::string prefix_;
};

// Processes whose command line holds `text`, zombies left out.
std::vector<int> processes_with(const std::string& text);

// A number that no other test's command line holds: durations for `sleep`.
std::string unique_seconds();

// The supervisor under test: the one that was built, or WAYBILL_TEST_SHIM.
std::string shim_under_test();

// Waits until `condition` holds, looking every few milliseconds, at most a minute.
bool eventually(const std::function<bool()>& condition);

}  // namespace waybill::supervise
