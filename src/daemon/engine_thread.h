#pragma once
// The thread that the engine lives on. Tickets wait in a bounded queue and run in batches that
// share one durable commit; between batches the thread sleeps until the engine's next due time, on
// a condition variable.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "core/facts.h"
#include "engine/command.h"

namespace waybill::daemon {

// What runs on the thread: the engine with the store it works on (engine_seat.cc), or a stand-in in
// tests. Made, used and destroyed there.
class EngineSeat {
 public:
  virtual ~EngineSeat() = default;
  virtual void run_batch(std::vector<engine::Ticket> batch) = 0;
  virtual void tick() = 0;
  virtual std::optional<Millis> next_due() const = 0;
  virtual void close() = 0;
  virtual const std::string& poisoned() const = 0;
  // Not empty: only reads and `reconcile` are served (engine/engine.h).
  virtual std::string regressed() const { return {}; }
};

class EngineThread {
 public:
  static constexpr std::size_t kBatchMax = 64;
  static constexpr std::size_t kQueueMax = 4096;

  using Open = std::function<Result<std::unique_ptr<EngineSeat>>()>;

  struct Hooks {
    // A person should see it: the engine is poisoned, by a failed commit or by an exception.
    std::function<void(const std::string&)> on_poisoned;
    // On the engine's thread, after facts about this job were committed.
    std::function<void(const JobId&)> on_facts;
    // On the engine's thread, after anything else that may have ended a job.
    std::function<void()> on_change;
  };

  explicit EngineThread(Hooks hooks);
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Starts the thread, runs `open` on it and returns what came of it.
  Result<void> start(Open open);

  // From any thread, never blocks. `done` is called exactly once, on the engine's thread, or here
  // with `unavailable` when the queue is full or the thread has ended.
  void submit(engine::Command command, engine::Done done);

  // From any thread, never blocks, never dropped; ahead of the tickets. Of one job only the newest
  // facts wait, so that the queue is as long as there are live jobs at most.
  void report(core::JobFacts facts);

  // From any thread, never blocks, never dropped: what has happened and is only told (a connection
  // was closed, a host has ended).
  void tell(engine::Command happened);

  // Something that cannot happen has happened somewhere in the daemon: from now on every ticket is
  // answered with `unavailable` and this reason.
  void poison(const std::string& reason);
  std::string poisoned() const;
  // The engine's own, as of the last batch. Any thread.
  std::string regressed() const;

  // Runs what is queued, answers what waits, ends the thread. Idempotent.
  void stop();

 private:
  struct Work {
    std::vector<engine::Ticket> batch;
    bool stop = false;
    bool tick = false;
  };

  void main(const Open& open, const std::function<void(Result<void>)>& opened);
  std::string refusal_now() const;
  void serve(EngineSeat& seat);
  Work next(std::optional<Millis> due);
  void run(EngineSeat& seat, Work work);
  void note_poison(const EngineSeat& seat);
  void note_regressed(const EngineSeat& seat);
  void take_reports(std::vector<engine::Ticket>& batch);
  engine::Ticket facts_ticket(core::JobFacts facts);
  bool may_end_jobs(const engine::Command& command) const;

  const Hooks hooks_;
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<engine::Ticket> tickets_;
  std::deque<engine::Command> told_;
  std::deque<JobId> reported_;  // order of arrival
  std::unordered_map<JobId, core::JobFacts> facts_;
  std::string poisoned_;
  std::string regressed_;
  bool stopping_ = false;
  bool ended_ = false;
  bool poison_noted_ = false;  // the engine's own; engine thread only
  std::thread thread_;
};

}  // namespace waybill::daemon
