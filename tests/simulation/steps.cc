// One thing after another happens in the world.

#include <algorithm>

#include "simulation.h"

namespace waybill::sim {

void Simulation::note(const std::string& what) {
  constexpr std::size_t kKept = 60;
  std::string line = std::to_string(step_) + " " + what;
  if (options_.trace) std::printf("%s\n", line.c_str());
  recent_.push_back(std::move(line));
  if (recent_.size() > kKept) recent_.pop_front();
}

void Simulation::violated(const std::string& invariant, const std::string& what) {
  note("VIOLATED " + invariant + ": " + what);
  violations_.push_back(invariant + ": " + what);
}

void Simulation::pick_features() {
  const auto some = [&] { return random_.chance(60); };
  features_ = {some(), some(), some(), some(), some(), some(), some(), some(),
               some(), some(), some(), some(), some(), some(), some()};
  settings_.running_per_session = 1 + random_.below(3);
  settings_.running_per_node = 2 + random_.below(3);
  settings_.queued_per_session = features_.limits ? 2 : 20;
  settings_.undelivered_per_session = features_.limits ? 3 : 100;
  settings_.turn_lease = Millis(60'000);
  settings_.turn_abandon_after = Millis(120'000);
  settings_.max_consecutive_wakes = 1 + random_.below(3);
  const TenantId local("local");
  owners_ = {{local, SessionId("s1")}, {local, SessionId("s2")}};
  if (features_.people) owners_.push_back({local, SessionId("user")});
  if (random_.chance(40)) owners_.push_back({TenantId("other"), SessionId("s1")});
}

bool Simulation::run() {
  start();
  while (step_ < options_.steps && violations_.empty()) {
    step();
    if (violations_.empty() && daemon_) check();
  }
  if (violations_.empty()) come_to_rest();
  return violations_.empty();
}

void Simulation::step() {
  ++step_;
  if (trouble_steps_ > 0 && --trouble_steps_ == 0) disk_.clear_trouble();
  if (!daemon_) {
    if (random_.chance(40)) return start();
    return random_.chance(70) ? step_machine() : step_time();
  }
  if (!daemon_->engine->poisoned().empty() && random_.chance(25)) {
    note("killed, poisoned");
    dead_ = true;
    disk_.freeze();
    return bury();
  }
  const std::uint64_t dice = random_.below(100);
  if (dice < 48) return step_host();
  if (dice < 53) return step_person();
  if (dice < 62) return step_channel();
  if (dice < 72) return step_report();
  if (dice < 80) return step_machine();
  if (dice < 88) return step_time();
  if (dice < 92) return step_connection();
  if (dice < 94) return step_daemon();
  if (dice < 96) return step_disk();
  if (dice < 98) return step_monitor();
  step_operator();
}

void Simulation::step_time() {
  std::optional<Millis> due;
  if (daemon_) due = daemon_->engine->next_due();
  Millis time(random_.between(1, 50));
  switch (random_.below(6)) {
    case 0:
      time = Millis(random_.between(1'000, 40'000));
      break;
    case 1:
    case 2:
    case 3:
      if (due) time = std::min(*due, Millis(150'000));
      break;
    case 4:
      if (features_.clock) return step_clock();
      break;
    default:
      break;
  }
  clock_.pass(time);
  note("time passes: " + std::to_string(time.count()) + " ms");
  tick();
}

void Simulation::step_clock() {
  const Millis hours = std::chrono::hours(random_.between(1, 30));
  switch (random_.below(4)) {
    case 0:
      branches_.reach(Branch::clock_back);
      clock_.jump(-hours);
      note("the clock is set back");
      break;
    case 1:
      branches_.reach(Branch::clock_ahead);
      clock_.jump(hours);
      note("the clock is set ahead");
      break;
    case 2:  // the wall clock went on, the monotonic one did not
      branches_.reach(Branch::suspended);
      clock_.jump(Millis(random_.between(60'000, 4'000'000)));
      note("the machine was suspended");
      break;
    default:
      branches_.reach(Branch::hours_passed);
      clock_.pass(hours);
      note("hours pass");
  }
  tick();
}

void Simulation::step_channel() {
  note("the channel works");
  if (random_.chance(85)) return daemon_->channel->work(calm_);
  daemon_->channel->look_at_all(calm_);
}

void Simulation::step_report() {
  auto facts = daemon_->channel->report(calm_);
  if (!facts) return daemon_->channel->work(calm_);
  note("report: " + facts->job.str() + " " + std::string(core::to_word(facts->supervision)));
  post(nullptr, engine::ObservedFacts{std::move(*facts)}, "facts");
}

void Simulation::step_machine() {
  const auto job = machine_.step(calm_);
  if (!job) return;
  const Process& process = machine_.process(*job);
  note("process: " + job->str() + " now " + std::to_string(static_cast<int>(process.at)));
  if (!daemon_) return;
  daemon_->channel->look(*job, calm_);
  if (process.at == Process::At::running) {
    client_comes_back(process.job.str());
  }
}

void Simulation::step_daemon() {
  if (!features_.crashes) return;
  switch (random_.below(8)) {
    case 0:
      return stop_cleanly();
    case 1:
      note("killed at rest");
      branches_.reach(Branch::crash_at_rest);
      crash_power_ = features_.power && random_.chance(40);
      dead_ = true;
      disk_.freeze();
      return bury();
    case 2: {
      // Somebody cleans up: the files of a job that is known to have started, and it itself.
      const auto found = rows("SELECT job FROM job WHERE status = 'running' AND started_at > 0");
      if (found.empty()) return;
      const JobId job(random_.pick(found));
      note("files removed: " + job.str());
      machine_.remove_files(job);
      return daemon_->channel->look(job, calm_);
    }
    default:
      arm_crash();
      note("will be killed in " + std::to_string(crash_in_));
  }
}

void Simulation::step_disk() {
  if (!features_.trouble || disk_.troubled()) return;
  constexpr Trouble kTroubles[] = {Trouble::full,        Trouble::quota,
                                   Trouble::read_only,   Trouble::write_broken,
                                   Trouble::sync_broken, Trouble::read_broken};
  planned_ = kTroubles[random_.below(std::size(kTroubles))];
  const int operations = random_.chance(60) ? static_cast<int>(1 + random_.below(3)) : 0;
  disk_.plan(planned_, static_cast<int>(1 + random_.below(10)), operations);
  trouble_steps_ = static_cast<int>(2 + random_.below(12));
  note("the disk will make trouble: " + std::to_string(static_cast<int>(planned_)));
}

void Simulation::step_monitor() {
  if (daemon_->monitored.empty()) return;
  auto at = daemon_->monitored.begin();
  std::advance(at, random_.below(daemon_->monitored.size()));
  Process& process = machine_.process(at->first);
  if (process.at != Process::At::running) return;
  core::MonitorFound found;
  found.job = at->first;
  found.number = random_.pick(at->second).number;
  if (process.printed > 0 && random_.chance(40)) {
    branches_.reach(Branch::monitor_stale);
  } else {
    process.printed += 10;
  }
  found.read_to = process.printed;
  found.lines = 1;
  found.text = "a line\n";
  note("monitor: " + found.job.str());
  post(nullptr, engine::MonitorTold{std::move(found)}, "monitor");
}

void Simulation::step_operator() {
  if (!gone_.empty()) {
    const engine::HostGone gone = gone_.back();
    gone_.pop_back();
    branches_.reach(Branch::host_process_ended);
    note("a host's process has ended: " + name_of(gone.owner));
    return post(nullptr, gone, "host gone");
  }
  if (!hosts_.empty() && random_.chance(50)) {
    const std::size_t at = random_.below(hosts_.size());
    gone_.push_back({hosts_[at].owner, hosts_[at].pid, 7});
    hosts_.erase(hosts_.begin() + static_cast<std::ptrdiff_t>(at));
    return;
  }
  if (!features_.operators || !random_.chance(25)) return;
  branches_.reach(Branch::operator_stopped);
  note("an operator stops everything");
  engine::StopAllRequest request;
  request.reason = "maintenance";
  request.timeout = patience();
  post(nullptr, request, "stop all", request.timeout);
}

// Somebody has scribbled over one row while no daemon was there.
void Simulation::damage() {
  auto opened = store::SqliteDatabase::open("/simulation/waybill.db", store::OpenMode::read_write);
  if (!opened) return;
  struct Kind {
    const char* look;
    const char* table;
    const char* key;
    const char* column;
    const char* broken;
  };
  constexpr Kind kKinds[] = {
      {"SELECT turn, tenant, session, quote(state) FROM turn WHERE state <> 'closed'", "turn",
       "turn", "state", "'ajar'"},
      {"SELECT event, tenant, session, quote(lane) FROM inbox WHERE acked_at IS NULL", "inbox",
       "event", "lane", "'nowhere'"},
      {"SELECT job, tenant, session, quote(wake) FROM job WHERE status IN ('queued', 'running')",
       "job", "job", "wake", "'sideways'"},
      {"SELECT launch.job, job.tenant, job.session, quote(sealed) FROM launch "
       "JOIN job ON job.job = launch.job WHERE status IN ('queued', 'running')",
       "launch", "job", "sealed", "x'00'"}};
  const Kind& kind = kKinds[random_.below(std::size(kKinds))];
  struct Found {
    std::string key;
    core::Owner owner;
    std::string old;
  };
  std::vector<Found> found;
  static_cast<void>((*opened)->each(kind.look, {}, [&](const store::Row& row) -> Result<void> {
    found.push_back(
        {row.string(0), {TenantId(row.string(1)), SessionId(row.string(2))}, row.string(3)});
    return {};
  }));
  if (found.empty()) return;
  const Found& victim = random_.pick(found);
  const auto set = [&](const std::string& value) {
    std::string text = "UPDATE " + std::string(kind.table) + " SET " + kind.column + " = " + value +
                       " WHERE " + kind.key + " = '" + victim.key + "'";
    if (std::string_view(kind.table) == "turn") {
      text += " AND tenant = '" + victim.owner.tenant.str() + "' AND session = '" +
              victim.owner.session.str() + "'";
    }
    return text;
  };
  if (!(*opened)->script(set(kind.broken))) return;
  damage_ = Damage{victim.owner, set(victim.old), std::string_view(kind.table) != "launch"};
  note("damaged: " + set(kind.broken));
}

void Simulation::cure() {
  if (!damage_) return;
  auto opened = store::SqliteDatabase::open("/simulation/waybill.db", store::OpenMode::read_write);
  if (!opened || !(*opened)->script(damage_->cure)) {
    return violated("cure", "the damage could not be undone");
  }
  note("cured: " + damage_->cure.substr(0, 60));
  branches_.reach(Branch::owner_cured);
  damage_.reset();
}

}  // namespace waybill::sim
