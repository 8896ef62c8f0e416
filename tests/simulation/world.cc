// The daemon's life and death.

#include <array>

#include "simulation.h"
#include "store/sessions.h"

namespace waybill::sim {
namespace {

// No file of this machine: the disk in memory knows it by this name alone.
const std::string kStore = "/simulation/waybill.db";
constexpr std::array<unsigned char, 32> kKey{7, 1, 7};

// A store as it is made by the first start; most seeds begin with it.
const std::map<std::string, std::string>& made_before() {
  static const std::map<std::string, std::string> image = [] {
    Random random(1);
    take_over_randomness(&random);
    Disk disk(random);
    disk.use();
    const VirtualClock clock;
    {
      auto store = store::open_store(kStore, clock);
      const store::Sealer sealer = store::Sealer::with_key(kKey);
      static_cast<void>(store::bind_key(*store, sealer));
    }
    return disk.image();
  }();
  return image;
}

Branch branch_of(Trouble trouble) {
  switch (trouble) {
    case Trouble::full:
      return Branch::disk_full;
    case Trouble::quota:
      return Branch::disk_quota;
    case Trouble::read_only:
      return Branch::disk_read_only;
    case Trouble::sync_broken:
      return Branch::disk_sync_error;
    case Trouble::read_broken:
      return Branch::disk_read_error;
    case Trouble::write_broken:
    case Trouble::none:
      break;
  }
  return Branch::disk_write_error;
}

}  // namespace

std::string name_of(const core::Owner& owner) {
  return owner.tenant.str() + "/" + owner.session.str();
}

Simulation::Simulation(const Options& options)
    : options_(options),
      random_(options.seed),
      chance_(options.seed ^ 0x5eed5eedULL),
      disk_(random_),
      machine_(random_, branches_, clock_) {
  const std::map<std::string, std::string>& image = made_before();
  take_over_randomness(&chance_);
  disk_.use();
  pick_features();
  if (!random_.chance(10)) {
    disk_.load(image);
  } else {
    branches_.reach(Branch::store_created);
  }
  disk_.moment = [this](const char* kind) { moment(kind); };
}

Simulation::~Simulation() { daemon_.reset(); }

bool Simulation::moment(const char* kind) {
  if (dead_) return false;
  if (crash_in_ == 0 || --crash_in_ > 0) return true;
  dead_ = true;
  disk_.freeze();
  const std::string_view what = kind;
  note("killed at " + std::string(what));
  if (starting_) branches_.reach(Branch::crash_in_recovery);
  if (what == "write") branches_.reach(Branch::crash_at_write);
  if (what == "sync") branches_.reach(Branch::crash_at_sync);
  if (what == "answer") branches_.reach(Branch::crash_at_answer);
  if (what == "order") branches_.reach(Branch::crash_at_order);
  return false;
}

engine::Parts Simulation::parts() {
  Daemon& daemon = *daemon_;
  return {*daemon.store.writer,
          *daemon.sealer,
          *daemon.channel,
          clock_,
          "/simulation",
          "simulation",
          daemon.store.incarnation,
          {"m1", 7, 1000},
          settings_,
          [this](const core::Owner& owner, int pid, std::uint64_t start) {
            if (!moment("order")) return;
            const bool lives =
                std::any_of(hosts_.begin(), hosts_.end(),
                            [&](const HostProcess& host) { return host.pid == pid; });
            if (!lives) gone_.push_back({owner, pid, start});
          },
          [this](const JobId& job, std::vector<core::Monitor> monitors) {
            if (dead_) return;
            if (monitors.empty()) {
              daemon_->monitored.erase(job);
            } else {
              daemon_->monitored[job] = std::move(monitors);
            }
          },
          [this](const std::string& text) { note("daemon warns: " + text); },
          {},
          0,
          false,
          {},
          machine_.generation().str()};
}

void Simulation::start() {
  ++lives_;
  if (!calm_ && features_.damage) {
    if (damage_ && random_.chance(40)) cure();
    if (!damage_ && random_.chance(30)) damage();
  }
  if (!calm_ && features_.crashes && random_.chance(25)) {
    arm_crash();
  }
  if (!calm_ && features_.trouble && random_.chance(15)) {
    planned_ = random_.chance(50) ? Trouble::read_broken : Trouble::full;
    disk_.plan(planned_, static_cast<int>(1 + random_.below(30)), 1);
    troubled_ = true;
  }
  note("start " + std::to_string(lives_));
  daemon_ = std::make_unique<Daemon>();
  starting_ = true;
  disk_.daemon_works(true);
  const auto begin = [&]() -> Result<void> {
    TRY_ASSIGN(daemon_->store, store::open_store(kStore, clock_));
    daemon_->sealer = std::make_unique<store::Sealer>(store::Sealer::with_key(kKey));
    TRY(store::bind_key(daemon_->store, *daemon_->sealer));
    daemon_->channel = std::make_unique<Channel>(
        machine_, random_,
        Channel::Hooks{[this](const char* kind) { return moment(kind); },
                       [this](const supervise::SuperviseOrder& order) { check_order(order); }});
    daemon_->engine = std::make_unique<engine::Engine>(parts());
    return daemon_->engine->open();
  };
  const Result<void> begun = begin();
  disk_.daemon_works(false);
  starting_ = false;
  if (dead_) return bury();
  if (!begun) {
    note("start refused: " + begun.error().message);
    branches_.reach(Branch::start_refused);
    if (!troubled_) violated("start", begun.error().message);
    daemon_.reset();
    disk_.clear_trouble();
    troubled_ = false;
    return;
  }
  auto reader = store::open_reader(kStore);
  if (!reader) return violated("start", reader.error().message);
  daemon_->reader = std::move(*reader);
  troubled_ = disk_.troubled() || disk_.failed() > 0;
  check_start(lives_ > 1);
}

// What callers were told of is there: no crash takes an answer back.
void Simulation::check_start(bool after_crash) {
  if (!after_crash) return;
  std::set<std::string> there;
  for (const std::string& job : rows("SELECT job FROM job")) there.insert(job);
  for (const auto& [job, owner] : accepted_) {
    if (!there.contains(job.str()))
      violated("I2", "job " + job.str() + " was accepted and is gone");
  }
  // A user may have spoken in an answer that nobody heard.
  for (auto& [owner, count] : continuations_) {
    const auto found = rows("SELECT wakes FROM session_client WHERE tenant = '" +
                            owner.tenant.str() + "' AND session = '" + owner.session.str() + "'");
    if (!found.empty()) count = std::min<std::uint64_t>(count, std::stoull(found.front()));
  }
}

void Simulation::arm_crash() {
  crash_in_ = static_cast<int>(1 + random_.below(random_.chance(50) ? 8 : 60));
  crash_power_ = features_.power && random_.chance(40);
}

void Simulation::bury() {
  daemon_.reset();
  const Disk::Losses losses = disk_.bury(crash_power_);
  if (losses.lost > 0) branches_.reach(Branch::write_lost);
  if (losses.torn > 0) branches_.reach(Branch::write_torn);
  if (crash_power_) {
    note("the power is gone; " + std::to_string(losses.lost) + " writes with it");
    branches_.reach(Branch::power_lost);
    machine_.lose_power();
    hosts_.clear();
    last_calls_.clear();  // how long the machine was off is for the wall clock to say
  }
  dead_ = false;
  crash_in_ = 0;
  crash_power_ = false;
  disk_.clear_trouble();
  troubled_ = false;
  forget_connections();
}

void Simulation::stop_cleanly() {
  if (!daemon_) return;
  note("clean stop");
  branches_.reach(Branch::clean_restart);
  crash_in_ = 0;
  troubled_ = true;  // whoever waits is told that the daemon ends
  daemon_->engine->close();
  daemon_.reset();
  disk_.clear_trouble();
  troubled_ = false;
  forget_connections();
}

void Simulation::forget_connections() {
  clients_.clear();
  batch_.clear();
  waiting_.clear();
  gone_.clear();
  next_connection_ = 1;  // numbers begin again, as a new daemon's do
}

template <class Work>
void Simulation::in_daemon(const Work& work) {
  if (!daemon_) return;
  const int failed = disk_.failed();
  disk_.daemon_works(true);
  work(*daemon_->engine);
  disk_.daemon_works(false);
  if (disk_.failed() > failed) {
    troubled_ = true;
    branches_.reach(branch_of(planned_));
  }
  if (dead_) return bury();
  if (!daemon_->engine->poisoned().empty()) branches_.reach(Branch::poisoned);
}

void Simulation::tick() {
  in_daemon([](engine::Engine& engine) { engine.tick(); });
  // Without anything happening there is soon nothing left to do (I15).
  constexpr int kRounds = 8;
  for (int round = 0; daemon_ && !disk_.troubled() && gone_.empty(); ++round) {
    const auto due = daemon_->engine->next_due();
    if (!due || *due > Millis(0)) break;
    if (round == kRounds) return violated("I15", "the engine is always due");
    in_daemon([](engine::Engine& engine) { engine.tick(); });
  }
  check_calls();
}

void Simulation::send() {
  if (batch_.empty() || !daemon_) return;
  std::vector<std::shared_ptr<Call>> calls = std::exchange(batch_, {});
  if (calls.size() > 1) branches_.reach(Branch::batch_of_several);
  std::optional<store::SessionRow> before;
  const bool alone = calls.size() == 1 && calls[0]->key.has_value();
  if (alone) {
    auto found = store::find_session(*daemon_->reader, calls[0]->owner);
    if (found) before = *found;
  }
  in_daemon([&](engine::Engine& engine) {
    std::vector<engine::Ticket> tickets;
    for (const std::shared_ptr<Call>& call : calls) {
      if (call->timeout) call->deadline = clock_.mono() + *call->timeout;
      tickets.push_back({call->command, [this, call](Result<engine::Reply> result) {
                           if (!moment("answer")) return;
                           if (call->answered) violated("calls", call->name + " answered twice");
                           call->answered = true;
                           answered(*call, result);
                         }});
    }
    posted_ += tickets.size();
    engine.run_batch(std::move(tickets));
  });
  if (!daemon_) return;
  for (const std::shared_ptr<Call>& call : calls) {
    const bool open = call->connection == 0 || clients_.contains(call->connection);
    if (!call->answered && open) waiting_.push_back(call);
  }
  if (alone && calls[0]->answered) check_host(*calls[0], before);
}

}  // namespace waybill::sim
