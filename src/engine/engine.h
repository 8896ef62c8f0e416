#pragma once
// The engine: commands in, one transaction, effects out (ARCHITECTURE.md). It lives on one thread,
// the store thread, and owns the writing connection. Every effect can be derived again from rows.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/result.h"
#include "core/node.h"
#include "engine/command.h"
#include "supervise/channel.h"

namespace waybill::store {
class Database;
class Sealer;
}  // namespace waybill::store

namespace waybill::engine {

struct Parts {
  store::Database& database;  // the writing connection, schema already there
  const store::Sealer& sealer;
  supervise::Channel& channel;
  const Clock& clock;
  std::string data_dir;
  std::string version;
  std::string incarnation;  // of the store
  core::Node node;          // where the store is served now
  Settings settings;
  // Asks to be told by HostGone when this process ends; it may have ended already.
  std::function<void(const core::Owner&, int pid, std::uint64_t start)> watch_host;
  // Looks at the job's output from now on, or with an empty list not any more. May be empty.
  std::function<void(const JobId&, std::vector<core::Monitor>)> monitor;
  // Something a person should see in the log: an effect that failed, a poisoned owner.
  std::function<void(const std::string&)> warn;
  // Not empty: the store is behind what this node has seen, for this reason. Nothing but reads and
  // `reconcile` is served, nothing is started and nothing settled.
  std::string regressed = {};
  std::uint64_t seen = 0;  // the highest receipt number that this node has seen
  bool copy = false;       // the store is a backup that was put here and lacks nothing
  // Told after each commit that made receipts: the store's incarnation and its newest number. May
  // be empty.
  std::function<void(const std::string&, std::uint64_t)> mark = {};
  // Which run of the machine's monotonic clock this is; "" when that is not known.
  std::string boot = {};
};

// Trims what a supervisor reported to what is kept: the tail of the output becomes rendered text of
// at most the notice tail. Called on the channel's thread, so that the engine's thread never
// renders.
void prepare(core::JobFacts& facts, const Settings& settings);

class Engine {
 public:
  explicit Engine(Parts parts);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Parses what is live and derives what is owed (SPEC section 8). Offers of an earlier daemon
  // return to pending. An error here is a state that must not be served (exit 123).
  Result<void> open();

  // Runs the batch in one durable commit, each ticket in a savepoint of its own; then answers, then
  // performs effects. Tickets that have to wait are kept until they can be answered.
  void run_batch(std::vector<Ticket> batch);

  // Does what is due now (offers that expired, leases, stuck stops, waits that timed out).
  void tick();

  // Time until tick has something to do; nullopt: nothing is due at any time.
  std::optional<Millis> next_due() const;

  // Answers whatever still waits with `unavailable`; the daemon is about to end.
  void close();

  // Not empty: mutations are refused, for this reason, until a person cures it.
  const std::string& poisoned() const;
  // Not empty: the same, until `reconcile`.
  const std::string& regressed() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace waybill::engine
