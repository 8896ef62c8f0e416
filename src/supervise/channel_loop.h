#pragma once
// The thread behind LocalChannel. Everything but `post` runs on it.

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "supervise/job_look.h"
#include "supervise/local_channel.h"
#include "supervise/orphan.h"
#include "supervise/sweep.h"

namespace waybill::supervise {

class LocalChannel::Loop {
 public:
  explicit Loop(LocalChannelOptions options);
  ~Loop();

  Result<void> start();
  void post(SuperviseOrder order);
  void post_forget(const JobId& job);
  void post_cap(const JobId& job, std::uint64_t cap);
  const std::string& data_dir() const { return options_.data_dir; }  // once started
  const MachineGeneration& machine() const { return machine_; }

 private:
  enum class Source { shim, orphan_main, orphan_fifo, orphan_survivor };

  struct Job {
    JobId id;
    std::optional<LaunchOrder> launch;
    bool stop_wanted = false;
    StopWish stop;
    pid_t shim_pid = -1;  // our child
    UniqueFd shim_pidfd;
    std::uint64_t shim_token = 0;
    int launches = 0;
    bool launch_failed = false;
    MonoTime
        short_since{};  // first launch in a row that the machine was too short of something for
    MonoTime next_launch{};
    Millis launch_pause{};
    LaunchFailure failure;
    bool start_seen = false;  // whatever the files say later, it is never launched again
    bool ran_perhaps =
        false;          // a supervisor was spawned, and has not said that nothing was started
    ScanTarget target;  // as the start record said
    Millis grace{5000};
    std::unique_ptr<Sweep> sweep;  // of a job whose directory and supervisor are gone
    bool swept = false;
    bool shim_known = false;  // its supervisor is, or was, watched by this daemon
    UniqueFd fifo_hold;       // keeps unread output alive when the supervisor dies before we adopt
    std::unique_ptr<Orphan> orphan;
    std::uint64_t main_token = 0;
    std::uint64_t fifo_token = 0;
    std::uint64_t survivor_token = 0;
    std::optional<MonoTime> wake_at;
    MonoTime launching_since{};
    bool answer_owed = false;
    bool wish_unwritten = false;  // a stop wish could not be written, and that has been said
    bool blind = false;           // the last look could not tell anything, and that has been said
    bool forgotten = false;       // kept only until our child has ended and is reaped
    std::string reported;         // what the last report said, as text
  };

  struct Work {
    std::optional<SuperviseOrder> order;
    JobId job;                              // of what follows
    std::optional<std::uint64_t> cap = {};  // its output's, to be lowered; none: forget the job
  };

  void run();
  void take_work();
  void do_next_work();
  void forget_job(const JobId& id);
  void lower_cap(const JobId& id, std::uint64_t cap);
  void make_directories();
  void take_order(SuperviseOrder order);
  void take_bell();
  void adopt_strangers();
  void reap_strangers();
  void reap_known(Job& job);
  void take_event(std::uint64_t token);
  void take_timers();
  int wait_ms() const;

  void evaluate(Job& job);
  void begin(Job& job, JobLook look);
  void without_directory(Job& job);
  void directory_gone(Job& job);
  bool cannot_see(Job& job, int error);
  void launch(Job& job, JobLook look);
  bool may_launch(Job& job);
  bool launch_later(Job& job, int error);
  void confirm_stop(Job& job, const JobLook& look);
  void drop_cgroup(const JobLook& look) const;
  void hold_output(Job& job, const JobDir& dir);
  void watch_shim(Job& job, const JobLook& look);
  void adopt(Job& job, JobLook look);
  void step_orphan(Job& job);
  void drop_orphan(Job& job);
  bool shim_alive(Job& job);
  void reap_shim(Job& job);
  void note_launch_end(Job& job, int status);
  void report(Job& job, core::JobFacts facts);

  std::uint64_t watch(Job& job, Source source, int fd);
  void unwatch(std::uint64_t& token, int fd);
  void wake_after(Job& job, Millis delay);
  void clear_wake(Job& job);
  void warn(const std::string& text) const;

  LocalChannelOptions options_;
  std::string cgroup_root_;  // of this data directory; "" none
  MachineGeneration machine_;
  UniqueFd epoll_;
  UniqueFd queue_event_;
  UniqueFd bell_;
  UniqueFd child_signals_;  // as pid 1 only
  std::string bell_rest_;

  std::mutex mutex_;
  std::vector<Work> work_;  // guarded by mutex_
  std::deque<Work> pending_;
  std::set<std::string> durable_dirs_;  // made and synced, launch not yet tried
  std::atomic<bool> stopping_{false};

  std::unordered_map<std::string, std::unique_ptr<Job>> jobs_;
  std::unordered_map<std::uint64_t, std::pair<std::string, Source>> watched_;
  std::set<std::pair<MonoTime, std::string>> timers_;
  std::uint64_t next_token_ = 16;
  std::thread thread_;
};

}  // namespace waybill::supervise
