#include "machine.h"

#include <cerrno>

namespace waybill::sim {
namespace {

core::ProcessNote note(const Process& process, int number) {
  core::ProcessNote made;
  made.pid = 1000 + number;
  made.comm = "sleep";
  made.cmdline = "sleep of " + process.job.str();
  made.state = "S";
  return made;
}

std::vector<core::ProcessNote> notes(const Process& process, int count) {
  std::vector<core::ProcessNote> made;
  for (int number = 0; number < count; ++number) made.push_back(note(process, number));
  return made;
}

}  // namespace

Process& Machine::process(const JobId& job) {
  Process& process = processes_[job];
  process.job = job;
  return process;
}

core::JobFacts Machine::facts(const Process& process) const {
  core::JobFacts facts;
  facts.job = process.job;
  facts.started_at = process.started_at;
  const bool killed = process.stop_asked || process.deadline;
  switch (process.at) {
    case Process::At::nothing:
      return facts;
    case Process::At::launching:
      facts.supervision = core::Supervision::launching;
      return facts;
    case Process::At::running:
      facts.supervision =
          process.supervisor ? core::Supervision::running : core::Supervision::orphaned;
      if (killed && process.stuck) facts.survivors = notes(process, 1);
      return facts;
    case Process::At::gone:
      facts.supervision = core::Supervision::generation_gone;
      return facts;
    case Process::At::exited:
      facts.supervision = core::Supervision::draining;
      break;
    case Process::At::finished:
      facts.supervision = core::Supervision::finished;
      facts.proof = process.proof;
      facts.output = core::OutputFacts{};
      facts.tail = "the last line of " + process.job.str() + "\n";
      break;
    case Process::At::lost:
      facts.supervision = core::Supervision::lost;
      facts.proof = process.proof;
      facts.ended_by = process.ended_by;
      return facts;
  }
  facts.exit = process.exit;
  facts.ended_by = process.ended_by;
  facts.finished_at = process.finished_at;
  facts.duration = Millis(5);
  if (process.at == Process::At::finished && process.leftovers > 0) {
    core::LeftoverFacts left;
    left.found = notes(process, process.leftovers);
    left.survived = notes(process, process.leftovers_alive);
    left.settled = process.leftovers_settled;
    left.kept = process.keep;
    facts.leftovers = left;
  }
  return facts;
}

void Machine::launch(Process& process, const supervise::LaunchOrder& order) {
  process.at = Process::At::launching;
  process.supervisor = true;
  process.keep = order.leftovers == core::LeftoverPolicy::keep;
  process.generation = generation();
}

std::optional<JobId> Machine::step(bool calm) {
  std::vector<JobId> movable;
  for (const auto& [job, process] : processes_) {
    const bool ends = process.at == Process::At::finished && process.leftovers > 0 &&
                      (!process.leftovers_settled || process.leftovers_alive > 0);
    if (process.at == Process::At::launching || process.at == Process::At::running ||
        process.at == Process::At::exited || ends) {
      movable.push_back(job);
    }
  }
  if (movable.empty()) return std::nullopt;
  Process& process = processes_[random_.pick(movable)];
  switch (process.at) {
    case Process::At::launching:
      step_launching(process, calm);
      break;
    case Process::At::running:
      process.supervisor ? step_supervised(process, calm) : step_running(process, calm);
      break;
    case Process::At::exited:
      finish(process);
      break;
    case Process::At::finished:
      step_leftovers(process);
      break;
    case Process::At::nothing:
    case Process::At::lost:
    case Process::At::gone:
      break;
  }
  return process.job;
}

// The gate: it opens once the start record is durable, or never.
void Machine::step_launching(Process& process, bool calm) {
  if (process.stop_asked) {
    process.at = Process::At::nothing;
    process.supervisor = false;
    return;
  }
  if (!calm && random_.chance(15)) {
    branches_.reach(Branch::supervisor_died);
    process.at = Process::At::nothing;
    process.supervisor = false;
    return;
  }
  process.at = Process::At::running;
  process.command = true;
  ++process.runs;
  process.started_at = clock_.wall();
}

void Machine::step_supervised(Process& process, bool calm) {
  const bool killed = process.stop_asked || process.deadline;
  if (!calm && random_.chance(8)) {
    branches_.reach(Branch::supervisor_died);
    process.supervisor = false;
    return;
  }
  if (!calm && !killed && random_.chance(6)) {
    branches_.reach(Branch::deadline_passed);
    process.deadline = true;
    process.stuck = random_.chance(50);
    if (process.stuck) branches_.reach(Branch::deadline_survived);
    return;
  }
  if (process.stuck && killed) {
    // A thing that cannot be killed goes in its own time.
    if (calm || random_.chance(15)) process.stuck = false;
    return;
  }
  process.command = false;
  process.finished_at = clock_.wall();
  if (killed) {
    process.ended_by = process.stop_asked ? core::EndedBy::stop : core::EndedBy::deadline;
    process.exit = core::Exit::signaled(15, false);
    process.proof = core::Proof::subreaper;
    process.at = Process::At::finished;
    process.supervisor = false;
    return;
  }
  switch (random_.below(4)) {
    case 0:
      process.exit = core::Exit::exited(3);
      break;
    case 1:
      process.exit = core::Exit::signaled(6, true);
      break;
    default:
      process.exit = core::Exit::exited(0);
  }
  process.at = Process::At::exited;
  if (random_.chance(process.keep ? 50 : 20))
    process.leftovers = 1 + static_cast<int>(random_.below(2));
  process.leftovers_alive = process.leftovers;
}

// Without a supervisor: the daemon watches it to its end, and asks it to end.
void Machine::step_running(Process& process, bool calm) {
  if (process.stuck && process.stop_asked) {
    if (calm || random_.chance(15)) process.stuck = false;
    return;
  }
  process.command = false;
  process.at = Process::At::lost;
  process.proof = random_.chance(50) ? core::Proof::cgroup : core::Proof::unproven;
  branches_.reach(Branch::orphan_ended);
}

void Machine::finish(Process& process) {
  process.at = Process::At::finished;
  // Whoever is left behind proves that not everything is gone.
  process.proof = process.leftovers > 0 ? core::Proof::none : core::Proof::subreaper;
  process.supervisor = process.leftovers > 0;
}

void Machine::step_leftovers(Process& process) {
  if (!process.leftovers_settled) {
    process.leftovers_settled = true;
    // A wished stop kills them whatever the policy.
    const bool kept = process.keep && !process.stop_asked;
    process.keep = kept;
    if (!kept) process.leftovers_alive = 0;
    branches_.reach(kept ? Branch::leftovers_kept : Branch::leftovers_killed);
    process.supervisor = false;
    return;
  }
  if (process.stop_asked) branches_.reach(Branch::leftovers_stopped);
  process.leftovers_alive = process.stop_asked ? 0 : process.leftovers_alive - 1;
}

void Machine::lose_power() {
  branches_.reach(Branch::generation_replaced);
  ++generation_;
  for (auto& [job, process] : processes_) {
    process.supervisor = false;
    process.command = false;
    process.leftovers_alive = 0;
    if (process.at == Process::At::finished) process.leftovers_settled = true;
    if (process.at == Process::At::launching) process.at = Process::At::nothing;
    if (process.at == Process::At::running) process.at = Process::At::gone;
    if (process.at == Process::At::exited) finish(process);
  }
}

void Machine::remove_files(const JobId& job) {
  Process& process = processes_[job];
  branches_.reach(Branch::files_removed);
  process.at = Process::At::nothing;
  process.supervisor = false;
  process.command = false;
}

// ---- the daemon's channel ----------------------------------------------------------------------

void Channel::supervise(supervise::SuperviseOrder order) {
  if (!hooks_.moment("order")) return;
  hooks_.ordered(order);
  orders_.push_back(std::move(order));
}

void Channel::forget(const JobId& job) {
  if (!hooks_.moment("order")) return;
  watched_.erase(job);
  std::erase_if(orders_, [&](const auto& order) { return order.job == job; });
}

void Channel::work(bool calm) {
  if (orders_.empty()) return;
  const supervise::SuperviseOrder order = std::move(orders_.front());
  orders_.pop_front();
  Watched& watched = watched_[order.job];
  if (order.launch) {
    watched.launch = order.launch;
    watched.launches = 0;
    watched.failed.clear();
  }
  if (order.stop) watched.stop = true;
  evaluate(order.job, calm);
}

void Channel::look(const JobId& job, bool calm) {
  if (watched_.contains(job)) evaluate(job, calm);
}

void Channel::look_at_all(bool calm) {
  for (const auto& [job, watched] : watched_) evaluate(job, calm);
}

void Channel::evaluate(const JobId& job, bool calm) {
  Watched& watched = watched_[job];
  Process& process = machine_.process(job);
  if (process.at == Process::At::nothing) return launch(job, watched, calm);
  if (process.at != Process::At::launching) {
    watched.started = true;
    watched.launch.reset();
  }
  if (watched.stop && !process.stop_asked) {
    process.stop_asked = true;
    process.stuck = process.command && !calm && random_.chance(25);
  }
  reports_.push_back(machine_.facts(process));
}

void Channel::launch(const JobId& job, Watched& watched, bool calm) {
  Process& process = machine_.process(job);
  core::JobFacts facts = machine_.facts(process);
  if (watched.started) {  // the files are gone under a command that did start
    facts.supervision = core::Supervision::lost;
    facts.exit = core::Exit::unknown("The job's directory was removed.");
    facts.proof = core::Proof::unproven;
    return reports_.push_back(facts);
  }
  constexpr int kLaunchesMax = 3;
  const bool may = watched.launch && !watched.stop && watched.failed.empty();
  if (may && watched.launches < kLaunchesMax) {
    if (watched.launches++ > 0) machine_.count(Branch::launch_again);
    if (calm || !random_.chance(8)) {
      machine_.launch(process, *watched.launch);
      return reports_.push_back(machine_.facts(process));
    }
    watched.failed = "The job's directory cannot be made.";
  } else if (may) {
    watched.failed = "The supervisor was killed before it had started the command.";
  }
  facts.launch_error = watched.failed;
  if (!watched.failed.empty()) {
    machine_.count(Branch::launch_failed);
    facts.launch_errno = EACCES;
    facts.exit = core::Exit::not_started("job_dir", EACCES, watched.failed);
  }
  if (watched.stop) machine_.count(Branch::stop_not_launched);
  reports_.push_back(std::move(facts));
}

std::optional<core::JobFacts> Channel::report(bool calm) {
  if (!calm && !told_.empty() && random_.chance(6)) {
    machine_.count(Branch::report_stale);
    return random_.pick(told_);
  }
  if (reports_.empty()) return std::nullopt;
  // Of several jobs any may come first; of one job they keep their order.
  std::size_t at = calm ? 0 : random_.below(reports_.size());
  const JobId job = reports_[at].job;
  for (std::size_t earlier = 0; earlier < at; ++earlier) {
    if (reports_[earlier].job == job) at = earlier;
  }
  core::JobFacts facts = reports_[at];
  if (!calm && random_.chance(8)) {
    machine_.count(Branch::report_repeated);
    return facts;  // and once more later
  }
  reports_.erase(reports_.begin() + static_cast<std::ptrdiff_t>(at));
  // Never an old word of what was left behind, nor of a launch that had not been: those would lie.
  if (!facts.leftovers && facts.supervision != core::Supervision::not_launched) {
    told_.push_back(facts);
  }
  return facts;
}

}  // namespace waybill::sim
