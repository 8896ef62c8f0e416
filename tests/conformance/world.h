#pragma once
// A small world for the engine: a real store in a directory of its own, a clock that is set by
// hand, and a channel that does what the test says. Tests are run on every store there is.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/queries.h"
#include "store/open.h"
#include "store/sealer.h"

namespace waybill::test {

class ManualClock final : public Clock {
 public:
  WallTime wall() const override { return wall_; }
  MonoTime mono() const override { return mono_; }
  void advance(Millis by) {
    wall_ += by;
    mono_ += by;
  }
  void jump(Millis by) { wall_ += by; }  // the wall clock alone

 private:
  WallTime wall_{Millis(1'796'040'000'000)};
  MonoTime mono_{std::chrono::hours(1)};
};

class FakeChannel final : public supervise::Channel {
 public:
  void supervise(supervise::SuperviseOrder order) override { orders.push_back(std::move(order)); }
  void forget(const JobId& job) override { forgotten.push_back(job); }
  GenerationId generation() const override { return machine; }

  // A disk: what each output takes of it, and what others do.
  supervise::DiskSpace disk_space() override {
    std::uint64_t used = others;
    for (const auto& [job, bytes] : outputs) used += bytes;
    return {disk, used < disk ? disk - used : 0};
  }
  std::uint64_t output_allocated(const JobId& job) override { return outputs[job]; }
  bool remove_output(const JobId& job) override {
    if (!removable) return false;
    outputs.erase(job);
    removed.push_back(job);
    return true;
  }
  std::optional<core::OutputFacts> shorten_output(const JobId& job, std::uint64_t cap) override {
    if (!removable || outputs[job] <= cap) return std::nullopt;
    outputs[job] = cap;
    core::OutputFacts facts;
    facts.kept_bytes = cap;
    facts.gaps = {{cap / 2, cap}};
    return facts;
  }
  void lower_output_cap(const JobId& job, std::uint64_t cap) override {
    lowered.emplace_back(job, cap);
  }

  std::uint64_t disk = 0;  // its size; 0: nothing is known of it
  std::uint64_t others = 0;
  std::map<JobId, std::uint64_t> outputs;
  std::optional<std::uint64_t> remove_job(const JobId& job) override {
    if (!removable) return std::nullopt;
    jobs_removed.push_back(job);
    const std::uint64_t bytes = outputs[job];
    outputs.erase(job);
    return bytes;
  }
  std::uint64_t job_allocated(const JobId& job) override { return outputs[job]; }

  std::vector<JobId> removed;
  std::vector<JobId> jobs_removed;
  std::vector<std::pair<JobId, std::uint64_t>> lowered;
  bool removable = true;

  bool ended_on_record(const JobId& job) override { return ended.contains(job); }

  GenerationId machine{"g1"};
  std::set<JobId> ended;  // with a final record
  // Job directories.
  Result<std::vector<JobId>> directories() override {
    std::vector<JobId> names;
    for (const auto& [job, there] : found) names.push_back(job);
    return names;
  }
  Result<supervise::FoundJob> find(const JobId& job) override {
    const auto one = found.find(job);
    return one == found.end() ? supervise::FoundJob{job, {}} : one->second;
  }
  std::map<JobId, supervise::FoundJob> found;

  std::vector<supervise::SuperviseOrder> orders;
  std::vector<JobId> forgotten;
};

// What became of one ticket.
struct Outcome {
  bool answered = false;
  Result<engine::Reply> result = engine::Reply{};
};

class World {
 public:
  World();
  ~World();

  // Starts, or starts again as after a crash: whatever was in memory is gone.
  Result<void> start();
  void crash() { engine_.reset(); }
  // The same, and no file of the store is open any more.
  void close() {
    engine_.reset();
    store_.writer.reset();
  }

  std::shared_ptr<Outcome> post(engine::Command command);
  template <class T>
  T ask(engine::Command command) {
    const auto outcome = post(std::move(command));
    EXPECT_TRUE(outcome->answered) << "the call waits";
    EXPECT_TRUE(outcome->result) << (outcome->result ? "" : outcome->result.error().message);
    if (!outcome->answered || !outcome->result) return T{};
    return std::get<T>(*outcome->result);
  }
  Error refuse(engine::Command command) {
    const auto outcome = post(std::move(command));
    EXPECT_TRUE(outcome->answered) << "the call waits";
    EXPECT_FALSE(outcome->result) << "the call was not refused";
    if (!outcome->answered || outcome->result) return Error{ErrorCode::unavailable, {}};
    return outcome->result.error();
  }

  // Time passes; what is due is done.
  void pass(Millis time) {
    clock.advance(time);
    engine_->tick();
  }

  // The supervisor's reports.
  void started(const JobId& job);
  void ended(const JobId& job, int code, const std::string& tail = {});
  void ended(core::JobFacts facts);
  core::JobFacts finished_facts(const JobId& job, int code);

  store::Database& db() { return *store_.writer; }
  engine::Engine& engine() { return *engine_; }
  std::string path() const { return (dir_ / "waybill.db").string(); }

  // The file of the store as it is now, put elsewhere, and back.
  void save(const std::string& name);
  void restore(const std::string& name);

  ManualClock clock;
  FakeChannel channel;
  std::optional<store::Mark> mark;  // what the node has seen
  bool marks = true;                // whether it is kept
  Settings settings;
  std::string boot = "boot1";  // of the monotonic clock
  core::Node node{"m1", 7, 1000};
  std::vector<std::string> warnings;
  std::vector<core::Owner> watched;
  std::map<JobId, std::vector<core::Monitor>> monitored;

 private:
  std::filesystem::path dir_;
  store::OpenedStore store_;
  std::unique_ptr<store::Sealer> sealer_;
  std::unique_ptr<engine::Engine> engine_;
};

// A host of session `session`: key "k1", connection 1, unless told otherwise.
engine::Caller host(const std::string& session = "s1", const std::string& key = "k1",
                    engine::ConnectionId connection = 1);
// Somebody of the same user who names the session.
engine::Caller person(const std::string& session = "s1", engine::ConnectionId connection = 9);

engine::AttachRequest attach(const engine::Caller& caller);
engine::RunRequest command(const engine::Caller& caller, const std::string& text,
                           const std::string& turn = {});
engine::RunRequest turn_command(const engine::Caller& caller, const std::string& text,
                                const std::string& turn);
engine::TurnRequest turn(const engine::Caller& caller, core::TurnVerb verb,
                         const std::string& id = "t1");
engine::InboxRequest inbox(const engine::Caller& caller, std::optional<Millis> timeout = {});

}  // namespace waybill::test
