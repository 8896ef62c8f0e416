#pragma once
// The machine as it is: commands, their supervisors, the records that these have made. It goes on
// while no daemon is there. Beside it the daemon's channel, which looks at the machine and reports,
// and forgets everything when the daemon dies.

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "branches.h"
#include "core/facts.h"
#include "random.h"
#include "supervise/channel.h"

namespace waybill::sim {

// One job's files and processes.
struct Process {
  enum class At {
    nothing,    // no start record, lock free: it never ran
    launching,  // a supervisor, no start record
    running,
    exited,    // exit record, output not complete
    finished,  // final record
    lost,      // supervisor and main process gone, records completed by the daemon
    gone,      // of an earlier generation
  };
  JobId job;
  std::string label;
  At at = At::nothing;
  bool supervisor = false;  // alive
  bool command = false;     // the main process is alive
  int runs = 0;             // how often the command began
  bool stop_asked = false;
  bool stuck = false;  // does not die when killed, until the simulation lets it
  bool keep = false;   // leftovers
  bool deadline = false;
  core::EndedBy ended_by = core::EndedBy::itself;
  core::Proof proof = core::Proof::none;
  std::optional<core::Exit> exit;
  std::optional<WallTime> started_at;
  std::optional<WallTime> finished_at;
  int leftovers = 0;        // found when it ended
  int leftovers_alive = 0;  // of them
  bool leftovers_settled = false;
  std::uint64_t printed = 0;  // offset of the next line that a monitor may fit
  GenerationId generation;

  // Anything of it that its ending must have seen gone.
  bool alive() const { return command; }
};

class Machine {
 public:
  Machine(Random& random, Branches& branches, const Clock& clock)
      : random_(random), branches_(branches), clock_(clock) {}

  Process& process(const JobId& job);
  const std::map<JobId, Process>& processes() const { return processes_; }
  core::JobFacts facts(const Process& process) const;

  // A supervisor begins; the command may follow.
  void launch(Process& process, const supervise::LaunchOrder& order);
  // One thing happens to one of the processes; its job, if anything could happen.
  std::optional<JobId> step(bool calm);
  // All processes end; what ran belongs to a generation that is gone.
  void lose_power();
  // Somebody removes the files of a job.
  void remove_files(const JobId& job);
  GenerationId generation() const { return GenerationId("g" + std::to_string(generation_)); }
  void count(Branch branch) { branches_.reach(branch); }

 private:
  void step_launching(Process& process, bool calm);
  void step_running(Process& process, bool calm);
  void step_supervised(Process& process, bool calm);
  void finish(Process& process);
  void step_leftovers(Process& process);

  Random& random_;
  Branches& branches_;
  const Clock& clock_;
  std::map<JobId, Process> processes_;
  int generation_ = 1;
};

// What the engine gives its orders to; one per life of the daemon.
class Channel final : public supervise::Channel {
 public:
  struct Hooks {
    std::function<bool(const char*)> moment;  // false: the daemon is dead
    std::function<void(const supervise::SuperviseOrder&)> ordered;
  };
  Channel(Machine& machine, Random& random, Hooks hooks)
      : machine_(machine), random_(random), hooks_(std::move(hooks)) {}

  void supervise(supervise::SuperviseOrder order) override;
  void forget(const JobId& job) override;
  GenerationId generation() const override { return machine_.generation(); }

  // The channel's own thread does one thing.
  void work(bool calm);
  // Something has changed at this job: whoever watches it sees that.
  void look(const JobId& job, bool calm);
  // Looks at everything that it watches.
  void look_at_all(bool calm);
  bool idle() const { return orders_.empty() && reports_.empty(); }
  // The next report on its way to the engine; perhaps a second time, or an old one.
  std::optional<core::JobFacts> report(bool calm);

 private:
  struct Watched {
    std::optional<supervise::LaunchOrder> launch;
    bool stop = false;
    int launches = 0;
    std::string failed;
    bool started = false;  // seen
  };
  void evaluate(const JobId& job, bool calm);
  void launch(const JobId& job, Watched& watched, bool calm);

  Machine& machine_;
  Random& random_;
  Hooks hooks_;
  std::map<JobId, Watched> watched_;
  std::deque<supervise::SuperviseOrder> orders_;
  std::deque<core::JobFacts> reports_;
  std::vector<core::JobFacts> told_;  // may come once more
};

}  // namespace waybill::sim
