#pragma once
// The real engine on a real SQLite, in a world where everything else is made up from one seed: the
// clock, the disk, supervisors and their commands, hosts, people, operators. After each step the
// invariants of the contract are checked by readers of their own; at the end the faults stop, the
// world comes to rest, and the independent auditor reads the ledger.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "audit/ledger.h"
#include "branches.h"
#include "disk.h"
#include "engine/engine.h"
#include "machine.h"
#include "random.h"
#include "store/open.h"
#include "store/sealer.h"
#include "store/sessions.h"

namespace waybill::sim {

struct Options {
  std::uint64_t seed = 1;
  int steps = 120;
  bool trace = false;
};

class VirtualClock final : public Clock {
 public:
  WallTime wall() const override { return wall_; }
  MonoTime mono() const override { return mono_; }
  void pass(Millis time) {
    wall_ += time;
    mono_ += time;
  }
  void jump(Millis time) { wall_ += time; }  // somebody sets the clock, or the machine slept

 private:
  WallTime wall_{Millis(1'796'040'000'000)};
  MonoTime mono_{std::chrono::hours(1)};
};

// What this seed's world has in it (each seed a different part of everything).
struct Features {
  bool crashes, power, trouble, clock, damage, clients, operators, monitors, people, fights, keep,
      turns, batches, patience, limits;
};

// A program that talks to the daemon over one connection.
struct Client {
  engine::ConnectionId connection = 0;
  core::Owner owner;
  std::optional<HostKey> key;
  bool dying = false;            // it read nothing of its last answer; the connection will close
  bool follows = false;          // an inbox that is asked again and again
  std::uint64_t calls = 0;       // that wait
  bool recognised = false;       // as the session's host, in this life of the daemon
  std::vector<DeliveryId> held;  // handed over and not confirmed
};

struct Call {
  engine::Command command;
  std::string name;
  engine::ConnectionId connection = 0;
  core::Owner owner;
  std::optional<HostKey> key;
  bool answered = false;
  bool refused = false;
  std::optional<Millis> timeout;
  std::optional<MonoTime> deadline;  // answered by then, whatever happens
};

class Simulation {
 public:
  explicit Simulation(const Options& options);
  ~Simulation();

  // False when something that must hold did not.
  bool run();

  const std::vector<std::string>& violations() const { return violations_; }
  const std::deque<std::string>& last_steps() const { return recent_; }
  const Branches& branches() const { return branches_; }
  std::uint64_t transitions() const { return posted_; }

 private:
  struct Daemon {
    store::OpenedStore store;
    std::unique_ptr<store::Sealer> sealer;
    std::unique_ptr<Channel> channel;
    std::unique_ptr<engine::Engine> engine;
    std::unique_ptr<store::SqliteDatabase> reader;
    std::map<JobId, std::vector<core::Monitor>> monitored;
  };
  struct HostProcess {
    core::Owner owner;
    int pid = 0;
  };
  struct Delivery {
    core::Owner owner;
    std::vector<std::string> events;
    bool seen = false;
  };
  struct Damage {
    core::Owner owner;
    std::string cure;    // one statement
    bool found = false;  // by whoever opens the store
  };

  // world.cc: the daemon's life and death
  void start();
  void stop_cleanly();
  void arm_crash();
  void bury();
  void forget_connections();
  bool moment(const char* kind);
  template <class Work>
  void in_daemon(const Work& work);
  engine::Parts parts();
  void tick();
  void check_start(bool after_crash);

  // steps.cc
  void step();
  void pick_features();
  void step_time();
  void step_clock();
  void step_channel();
  void step_report();
  void step_machine();
  void step_daemon();
  void step_disk();
  void step_monitor();
  void step_operator();
  void damage();
  void cure();
  void note(const std::string& what);
  void violated(const std::string& invariant, const std::string& what);

  // actors.cc: what hosts and people do
  Client& client(const core::Owner& owner, const std::optional<HostKey>& key);
  void step_host();
  void step_person();
  void step_connection();
  void everybody_leaves(const core::Owner& owner);
  void act(Client& client);
  void act_turn(Client& client);
  void act_inbox(Client& client);
  void act_held(Client& client);
  void act_jobs(Client& client);
  void act_session(Client& client);
  void attach(Client& client);
  void launch(Client& client);
  void ask_about(Client& client, bool stop);
  void acknowledge(Client& client);
  void client_comes_back(const std::string& label);
  std::optional<TurnId> turn_of(const core::Owner& owner);
  Millis patience();
  engine::Caller caller(const Client& client) const;
  void post(Client* client, engine::Command command, const std::string& name,
            std::optional<Millis> timeout = {});
  void send();
  void close(engine::ConnectionId connection);

  // answers.cc: what becomes of the calls
  void answered(Call& call, const Result<engine::Reply>& result);
  void refused(const Call& call, const Error& error);
  void heard(const Call& call, const engine::HandOver& hand_over);
  void read(const Call& call, const engine::JobView& job,
            const std::optional<DeliveryId>& reported);
  void took(const Call& call, const engine::RunReply& reply);
  void took(const Call& call, const engine::AckReply& reply);
  void took(const Call& call, const engine::TurnReply& reply);
  void took(const Call& call, const engine::WakeReply& reply);
  void took(const Call& call, const engine::HostReply& reply);
  void took(const Call& call, const engine::JobsReply& reply);

  // checks.cc
  void check();
  void check_rows();
  void check_numbers();
  void check_machine();
  void check_endings();
  void check_order(const supervise::SuperviseOrder& order);
  void check_ledger(bool quiet);
  void check_calls();
  void check_host(const Call& call, const std::optional<store::SessionRow>& before);
  void count_rows();
  audit::Ledger ledger();
  std::vector<std::string> rows(const std::string& sql);
  bool damaged(const core::Owner& owner) const;

  // quiet.cc
  void come_to_rest();
  bool settle_machine();
  bool serve_session(const core::Owner& owner);
  void final_audit();
  void finish_turn(Client& client);
  void take_all(Client& client);

  Options options_;
  Random random_;
  Random chance_;  // of the product: ids, seals, jitter
  Branches branches_;
  VirtualClock clock_;
  Features features_{};
  Settings settings_;
  Disk disk_;
  Machine machine_;
  std::unique_ptr<Daemon> daemon_;
  std::map<std::string, std::string> image_;
  bool calm_ = false;  // no more faults
  bool dead_ = false;  // the daemon is; what it does now never happened
  bool starting_ = false;
  int crash_in_ = 0;
  bool crash_power_ = false;
  int lives_ = 0;
  int step_ = 0;
  std::uint64_t posted_ = 0;

  std::vector<core::Owner> owners_;
  std::map<engine::ConnectionId, Client> clients_;
  engine::ConnectionId next_connection_ = 1;
  std::vector<std::shared_ptr<Call>> batch_;
  std::vector<std::shared_ptr<Call>> waiting_;
  std::vector<HostProcess> hosts_;      // living processes that were named at attach
  std::vector<engine::HostGone> gone_;  // ended, and the daemon is to hear of it
  int next_pid_ = 100;
  int next_turn_ = 1;
  int next_key_ = 1;
  int next_call_ = 1;
  int trouble_steps_ = 0;
  bool troubled_ = false;  // the disk has made trouble in this life of the daemon
  Trouble planned_ = Trouble::none;

  std::vector<audit::Sight> sights_;
  std::map<core::Owner, std::vector<std::string>> heard_;  // events, as consumers saw them
  std::map<DeliveryId, Delivery> deliveries_;
  std::map<core::Owner, std::vector<JobId>> jobs_;  // that were accepted, as callers know
  std::map<JobId, core::Owner> accepted_;
  std::map<core::Owner, MonoTime> last_calls_;  // of the host in force
  std::map<core::Owner, std::uint64_t> fences_;
  std::map<core::Owner, std::uint64_t> revisions_;
  std::map<core::Owner, std::uint64_t> continuations_;  // without a user
  std::map<std::string, std::string> endings_;          // rows of terminal jobs, as text
  std::optional<Damage> damage_;

  std::vector<std::string> violations_;
  std::deque<std::string> recent_;
};

std::string name_of(const core::Owner& owner);

}  // namespace waybill::sim
