// What the channel does for one job: look, do the next step of the recovery table, report.

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/crash_point.h"
#include "shim/cgroup.h"
#include "shim/files.h"
#include "shim/launch.h"
#include "shim/record.h"
#include "supervise/cgroup_root.h"
#include "supervise/channel_loop.h"
#include "supervise/job_input.h"

namespace waybill::supervise {
namespace {

constexpr int kLaunchesMax = 3;
constexpr Millis kLookAgain{50};
constexpr Millis kLookLater{1000};
constexpr Millis kLaunchBound{10'000};
constexpr std::size_t kLaunchBytesMax = 64UL * 1024 * 1024;
constexpr Millis kRelaunchPause{100};
constexpr Millis kRelaunchPauseMax{5000};
constexpr Millis kRelaunchFor{60'000};

// What makes one report differ from the last one.
std::string signature_of(const core::JobFacts& facts) {
  std::string text(core::to_word(facts.supervision));
  text += facts.exit ? "|exit" : "|";
  text += facts.output ? "|out" : "|";
  text += "|" + std::to_string(facts.launch_errno) + facts.launch_error + "|";
  for (const core::ProcessNote& note : facts.survivors) {
    text += std::to_string(note.pid) + note.state + ",";
  }
  if (facts.leftovers) {
    text += facts.leftovers->settled ? "|settled" : "|open";
    for (const core::ProcessNote& note : facts.leftovers->survived) {
      text += std::to_string(note.pid) + ",";
    }
  }
  return text;
}

std::string stop_request_line(const JobId& job, const StopWish& wish) {
  shim::JsonLine line;
  line.text("job", job.str());
  line.integer("at_ms", wish.at.time_since_epoch().count());
  line.text("actor", wish.actor.substr(0, 200));
  line.text("reason", wish.reason.substr(0, 1000));
  return std::string(line.finish());
}

core::JobFacts not_launched(const JobId& id, const LaunchFailure& failure) {
  core::JobFacts facts;
  facts.job = id;
  facts.launch_error = failure.what;
  facts.launch_errno = failure.error;
  if (!failure.what.empty()) {
    facts.exit = core::Exit::not_started(failure.step, failure.error, failure.what);
  }
  return facts;
}

}  // namespace

namespace {

// The main process removes its environment when the gate opens (docs/files.md): a launch file that
// checks and no environment show that it ran, though its start record is gone.
bool has_run(const JobDir& dir) {
  if (dir.probe(shim::kLaunchEnv) != ENOENT) return false;
  std::string text;
  shim::Launch launch;
  return dir.read(shim::kLaunch, kLaunchBytesMax, text) == 0 &&
         shim::parse_launch(text, launch) == shim::LaunchError::none;
}

}  // namespace

void LocalChannel::Loop::take_order(SuperviseOrder order) {
  if (!is_job_dir_name(order.job.str())) {
    warn("A job id is not fit for a file name; nothing was done for it.");
    options_.report(not_launched(order.job, {"The job id is not fit for a file name.", EINVAL}));
    return;
  }
  std::unique_ptr<Job>& slot = jobs_[order.job.str()];
  if (!slot) {
    slot = std::make_unique<Job>();
    slot->id = order.job;
    slot->target.job = order.job;
  }
  Job& job = *slot;
  job.answer_owed = true;
  job.forgotten = false;
  job.start_seen = job.start_seen || order.started;
  if (order.launch) {
    job.launch = std::move(order.launch);
    job.grace = job.launch->grace;
    job.launch_failed = false;
    job.launches = 0;
    job.short_since = job.next_launch = MonoTime{};
  }
  if (order.stop) {
    job.stop_wanted = true;
    job.stop = *order.stop;
    job.swept = false;
  }
  evaluate(job);
}

// Whether the supervisor we know runs; without one we cannot tell.
bool LocalChannel::Loop::shim_alive(Job& job) {
  if (!job.shim_pidfd.valid()) return false;
  pollfd entry{job.shim_pidfd.get(), POLLIN, 0};
  return poll(&entry, 1, 0) == 0;
}

void LocalChannel::Loop::reap_shim(Job& job) {
  if (!job.shim_pidfd.valid() || shim_alive(job)) return;
  crash_point("supervise.shim_ended");
  unwatch(job.shim_token, job.shim_pidfd.get());
  if (job.shim_pid > 0) {
    int status = 0;
    if (waitpid(job.shim_pid, &status, WNOHANG) == job.shim_pid) note_launch_end(job, status);
  }
  job.shim_pid = -1;
  job.shim_pidfd.reset();
}

// The same for a supervisor that has certainly ended, and what follows from it.
void LocalChannel::Loop::reap_known(Job& job) {
  if (job.shim_token != 0) return take_event(job.shim_token);
  int status = 0;
  if (waitpid(job.shim_pid, &status, WNOHANG) == job.shim_pid) note_launch_end(job, status);
  job.shim_pid = -1;
  job.shim_pidfd.reset();
  wake_after(job, Millis(0));
}

// A supervisor that ends without a start record says by its status why.
void LocalChannel::Loop::note_launch_end(Job& job, int status) {
  job.failure = {};
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    job.start_seen = true;  // it ran, whatever has become of its records
  } else if (WIFEXITED(status)) {
    const int error = WEXITSTATUS(status);
    job.ran_perhaps = false;
    if (error == ECANCELED) return;  // a stop came first, which is no failure
    // It has said that the command was not started, and why: that will pass.
    if (launch_later(job, error)) return;
    job.failure = {std::string("The command was not started: ") + strerrordesc_np(error) + ".",
                   error, "start_record"};
    job.launch_failed = error != EBADMSG;  // that: the launch file did not check; it is made again
  } else if (WIFSIGNALED(status)) {
    warn("The supervisor of job " + job.id.str() + " was killed by signal " +
         std::to_string(WTERMSIG(status)) + ".");
    job.failure = {"The supervisor was killed before it had started the command.", 0,
                   "start_record"};
  }
}

void LocalChannel::Loop::report(Job& job, core::JobFacts facts) {
  const std::string signature = signature_of(facts);
  if (!job.answer_owed && signature == job.reported) return;
  job.answer_owed = false;
  job.reported = signature;
  options_.report(std::move(facts));
}

void LocalChannel::Loop::evaluate(Job& job) {
  if (job.orphan) {
    if (job.stop_wanted) job.orphan->request_stop();
    return step_orphan(job);
  }
  reap_shim(job);
  JobLook look = look_at({&options_.data_dir, job.id, &machine_, shim_alive(job)});
  if (cannot_see(job, look.error)) return;
  if (!look.dir && shim_alive(job)) return without_directory(job);
  if (look.start.good() && look.same_generation) {
    job.target = {job.id, look.start.value.session, look.start.value.main.start,
                  look.start.value.cgroup};
  }
  if (look.supervision != core::Supervision::not_launched &&
      look.supervision != core::Supervision::launching) {
    job.start_seen = true;
    job.launch.reset();  // it may be large, and is not needed again
  }
  // Who completes the records of a lost job needs to see whether the file is there, and removes it.
  const bool on_record = look.exit.state != RecordState::absent ||
                         look.supervision == core::Supervision::generation_gone;
  if (look.dir && look.start.state != RecordState::absent && !look.lock_held && on_record) {
    unlinkat(look.dir->fd(), shim::kLaunchEnv, 0);
  }
  begin(job, std::move(look));
}

// Short of descriptors or memory, or refused by the file system, a look tells nothing: neither that
// something is there nor that it is not. Said once; looked at again later.
bool LocalChannel::Loop::cannot_see(Job& job, int error) {
  if (error == 0) {
    job.blind = false;
    return false;
  }
  if (!std::exchange(job.blind, true)) {
    warn("The files of job " + job.id.str() + " cannot be looked at: " + strerrordesc_np(error) +
         ". It is tried again.");
  }
  wake_after(job, kLookLater);
  return true;
}

// The next step of the recovery table.
void LocalChannel::Loop::begin(Job& job, JobLook look) {
  switch (look.supervision) {
    case core::Supervision::not_launched:
      return launch(job, std::move(look));
    case core::Supervision::launching:
    case core::Supervision::running:
    case core::Supervision::draining:
      hold_output(job, *look.dir);
      watch_shim(job, look);
      if (job.answer_owed && job.launches == 0) crash_point("supervise.attached");
      if (job.stop_wanted) confirm_stop(job, look);
      // A daemon may have died between the wish to close the input and the hint.
      if (job.answer_owed && look.dir->probe(shim::kInClose) == 0) hint_close(*look.dir);
      return report(job, facts_of(look));
    case core::Supervision::orphaned:
    case core::Supervision::lost:
    case core::Supervision::finished:
      if (look.lock_held) {
        job.fifo_hold.reset();
        watch_shim(job, look);
        if (job.stop_wanted) confirm_stop(job, look);
        return report(job, facts_of(look));
      }
      if (look.records_missing() || look.leftovers_unsettled() || look.survivors_unwatched()) {
        return adopt(job, std::move(look));
      }
      job.fifo_hold.reset();
      drop_cgroup(look);
      return report(job, facts_of(look));
    case core::Supervision::generation_gone:
      return report(job, facts_of(look));
  }
}

// The supervisor removes it at its end; this is for one that could not.
void LocalChannel::Loop::drop_cgroup(const JobLook& look) const {
  if (!look.start.good() || !look.same_generation || look.start.value.cgroup.empty()) return;
  shim::remove_cgroup(look.start.value.cgroup.c_str());
}

bool LocalChannel::Loop::may_launch(Job& job) {
  return job.launch && !job.stop_wanted && !job.start_seen && !job.launch_failed &&
         job.launches < kLaunchesMax;
}

// The directory was removed or moved, but the supervisor lives, and with it all that it holds: the
// job has not ended. A wish that has nowhere to stand goes to the supervisor itself.
void LocalChannel::Loop::without_directory(Job& job) {
  if (job.stop_wanted) signal_stop(job.shim_pidfd.get());
  if (job.stop_wanted || job.shim_token == 0) wake_after(job, kLookLater);
  if (!job.answer_owed) return;
  core::JobFacts facts;
  facts.job = job.id;
  facts.supervision = job.start_seen ? core::Supervision::running : core::Supervision::launching;
  report(job, std::move(facts));
}

// The directory is gone under a command that did start, and so is its supervisor. A wished stop is
// done before the end is reported.
void LocalChannel::Loop::directory_gone(Job& job) {
  core::JobFacts facts;
  facts.job = job.id;
  if (!job.stop_wanted && !job.shim_known && Sweep(job.target).scan()) {
    // Of an earlier daemon: its supervisor cannot be watched, so who is left is looked for.
    wake_after(job, kLookLater);
    facts.supervision = core::Supervision::orphaned;
    return report(job, std::move(facts));
  }
  if (job.stop_wanted && !job.swept) {
    if (!job.sweep) job.sweep = std::make_unique<Sweep>(job.target);
    const auto again_in = job.sweep->step(std::chrono::steady_clock::now(), job.grace);
    if (again_in) {
      wake_after(job, *again_in);
      if (!job.sweep->take_changed()) return;
      facts.supervision = core::Supervision::orphaned;
      facts.survivors = job.sweep->survivors();
      return report(job, std::move(facts));
    }
    if (job.sweep->proven()) facts.proof = core::Proof::cgroup;
    job.sweep.reset();
    job.swept = true;
  }
  facts.supervision = core::Supervision::lost;
  facts.exit = core::Exit::unknown("The job's directory was removed.");
  if (facts.proof == core::Proof::none) facts.proof = core::Proof::unproven;
  report(job, std::move(facts));
}

// For a launch that has certainly not started anything: true when it is to be tried again.
bool LocalChannel::Loop::launch_later(Job& job, int error) {
  if (!is_passing(error) || job.stop_wanted) return false;
  const MonoTime now = std::chrono::steady_clock::now();
  if (job.short_since == MonoTime{}) {
    job.short_since = now;
    job.launch_pause = kRelaunchPause;
    warn("Job " + job.id.str() + " cannot be started now: " + strerrordesc_np(error) +
         ". It is tried again.");
  }
  if (now - job.short_since > kRelaunchFor) return false;
  job.launches = std::max(job.launches - 1, 0);
  job.next_launch = now + job.launch_pause;
  wake_after(job, job.launch_pause);
  job.launch_pause = std::min(job.launch_pause * 2, kRelaunchPauseMax);
  return true;
}

void LocalChannel::Loop::launch(Job& job, JobLook look) {
  if (look.dir && has_run(*look.dir)) job.start_seen = true;
  if (job.start_seen || (!look.dir && job.ran_perhaps)) return directory_gone(job);
  if (look.stop_wished || !may_launch(job)) return report(job, not_launched(job.id, job.failure));
  if (const MonoTime now = std::chrono::steady_clock::now(); now < job.next_launch) {
    return wake_after(job, std::chrono::ceil<Millis>(job.next_launch - now));
  }
  ++job.launches;
  const auto refuse = [&](LaunchFailure failure) {
    if (launch_later(job, failure.error)) return;
    if (failure.error != 0 && failure.error != EINVAL && failure.what.ends_with('.')) {
      failure.what.pop_back();
      failure.what += std::string(": ") + strerrordesc_np(failure.error) + ".";
    }
    job.failure = failure;
    job.launch_failed = true;
    report(job, not_launched(job.id, failure));
  };
  LaunchFailure failure = check_order(*job.launch);
  if (failure.what.empty() && durable_dirs_.erase(job.id.str()) == 0) {
    make_job_dir(options_.data_dir, job.id, failure);
    if (failure.what.empty()) failure = sync_jobs_dir(options_.data_dir);
  }
  if (!failure.what.empty()) return refuse(failure);
  int error = 0;
  if (!look.dir) look.dir = JobDir::open(options_.data_dir, job.id, error);
  if (!look.dir)
    return refuse({"The job's directory cannot be opened.", error == 0 ? ENOENT : error});
  if (!look.lock.valid()) {
    LockProbe probe = probe_lock(*look.dir);
    if (probe.state != LockState::free) {
      return refuse({"The job's lock cannot be taken.", probe.error == 0 ? EBUSY : probe.error});
    }
    look.lock = std::move(probe.lock);
  }
  if (!cgroup_root_.empty()) job.launch->cgroup = cgroup_of_job(cgroup_root_, job.id);
  if (job.launches > 1) job.launch->crash_point.clear();  // a test's supervisor dies once
  job.launch->files_max = options_.files_max;
  failure = write_launch_files(*job.launch, *look.dir);
  mkfifoat(look.dir->fd(), shim::kOutFifo, 0600);  // the supervisor makes it if we could not
  hold_output(job, *look.dir);
  if (!failure.what.empty()) return refuse(failure);
  crash_point("supervise.after_launch_file");
  Spawned spawned = spawn_shim(options_.shim_path, look.dir->path(), std::move(look.lock));
  if (!spawned.failure.what.empty()) return refuse(spawned.failure);
  crash_point("supervise.after_spawn");
  job.ran_perhaps = job.shim_known = true;
  job.failure = {};
  job.shim_pid = spawned.pid;
  job.shim_pidfd = std::move(spawned.pidfd);
  if (job.shim_pidfd.valid()) job.shim_token = watch(job, Source::shim, job.shim_pidfd.get());
  if (job.shim_token == 0) wake_after(job, kLookAgain);
  core::JobFacts facts;
  facts.job = job.id;
  facts.supervision = core::Supervision::launching;
  report(job, std::move(facts));
}

// The wish on disk first, then the hint. Both again for each order: a byte too many is harmless.
void LocalChannel::Loop::confirm_stop(Job& job, const JobLook& look) {
  if (!look.stop_wished) {
    const int error = look.dir->write_durably(shim::kStopReqTmp, shim::kStopReq,
                                              stop_request_line(job.id, job.stop));
    if (error != 0) {
      if (!std::exchange(job.wish_unwritten, true)) {
        warn("The stop wish of job " + job.id.str() +
             " cannot be written: " + strerrordesc_np(error) +
             ". Its supervisor is told by a signal; the wish is tried again.");
      }
      if (job.shim_pidfd.valid()) signal_stop(job.shim_pidfd.get());
      return wake_after(job, kLookLater);
    }
    job.wish_unwritten = false;
    crash_point("supervise.after_stop_req");
  } else if (!job.answer_owed) {
    return;
  }
  if (job.shim_pidfd.valid()) signal_stop(job.shim_pidfd.get());
  const UniqueFd ctl(
      openat(look.dir->fd(), shim::kCtl, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  // No reader yet: the supervisor looks for the wish itself once it has opened its end.
  if (!ctl.valid()) return;
  const ssize_t n = ::write(ctl.get(), "s", 1);
  static_cast<void>(n);
  crash_point("supervise.after_ctl");
}

// Unread bytes of a FIFO are lost when nobody has it open. A command that kills its supervisor,
// prints and ends would take its last words with it.
void LocalChannel::Loop::hold_output(Job& job, const JobDir& dir) {
  if (job.fifo_hold.valid()) return;
  job.fifo_hold.reset(
      openat(dir.fd(), shim::kOutFifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  struct stat info{};
  if (job.fifo_hold.valid() &&
      (fstat(job.fifo_hold.get(), &info) != 0 || !S_ISFIFO(info.st_mode))) {
    job.fifo_hold.reset();
  }
}

// Waits for the end of a supervisor that is not our child, or of one that cannot be named yet.
void LocalChannel::Loop::watch_shim(Job& job, const JobLook& look) {
  if (job.shim_pidfd.valid() && job.shim_token != 0) return;
  if (look.start.good() && look.same_generation && same_process(look.start.value.shim)) {
    job.shim_pidfd = open_pidfd(look.start.value.shim.pid);
    if (job.shim_pidfd.valid() && same_process(look.start.value.shim)) {
      job.shim_token = watch(job, Source::shim, job.shim_pidfd.get());
      job.shim_known = true;
      if (job.shim_token != 0) return clear_wake(job);
    }
    job.shim_pidfd.reset();
  }
  const MonoTime now = std::chrono::steady_clock::now();
  if (job.launching_since == MonoTime{}) job.launching_since = now;
  const bool late = now - job.launching_since > kLaunchBound;
  wake_after(job, late ? kLookLater : kLookAgain);
}

void LocalChannel::Loop::adopt(Job& job, JobLook look) {
  const std::optional<OrphanPolicy> policy = orphan_policy(*look.dir);
  if (!policy) {
    cannot_see(job, EIO);
    return;
  }
  const bool ended = look.final_record.state != RecordState::absent;
  core::JobFacts facts = facts_of(look);
  // Not reported as ended before its output and its end are on record.
  if (!ended) {
    facts.supervision =
        look.exit.good() ? core::Supervision::draining : core::Supervision::orphaned;
    if (!look.exit.good()) facts.exit.reset();
    facts.output.reset();
    facts.proof = core::Proof::none;
    facts.tail.clear();
  }
  warn("The supervisor of job " + job.id.str() + " is gone; the daemon completes its records.");
  job.orphan = std::make_unique<Orphan>(std::move(look), *policy);
  job.fifo_hold.reset();  // it has opened its own
  crash_point("orphan.adopted");
  if (job.stop_wanted) job.orphan->request_stop();
  if (job.orphan->pidfd() >= 0) {
    job.main_token = watch(job, Source::orphan_main, job.orphan->pidfd());
  }
  if (job.orphan->fifo() >= 0) job.fifo_token = watch(job, Source::orphan_fifo, job.orphan->fifo());
  report(job, std::move(facts));
  // The report may have brought in whatever it liked, but not on this thread.
  step_orphan(job);
}

void LocalChannel::Loop::drop_orphan(Job& job) {
  if (!job.orphan) return;
  unwatch(job.main_token, job.orphan->pidfd());
  unwatch(job.fifo_token, job.orphan->fifo());
  unwatch(job.survivor_token, job.orphan->survivor());
  job.orphan.reset();
}

void LocalChannel::Loop::step_orphan(Job& job) {
  const int survivor = job.orphan->survivor();
  const Orphan::Progress progress = job.orphan->step(std::chrono::steady_clock::now());
  if (job.orphan->take_survivor_changed()) {
    unwatch(job.survivor_token, survivor);
    if (const int fd = job.orphan->survivor(); fd >= 0) {
      job.survivor_token = watch(job, Source::orphan_survivor, fd);
    }
  }
  if (progress.done) {
    drop_orphan(job);
    clear_wake(job);
    JobLook look = look_at({&options_.data_dir, job.id, &machine_, false});
    if (cannot_see(job, look.error)) return;
    drop_cgroup(look);
    if (look.dir) return report(job, facts_of(look));
    return launch(job, std::move(look));
  }
  if (progress.again_in) {
    wake_after(job, *progress.again_in);
  } else {
    clear_wake(job);
  }
  if (!progress.changed && !job.answer_owed) return;
  // Our own orphan holds the lock: this look only reads.
  JobLook look = look_at({&options_.data_dir, job.id, &machine_, true});
  if (look.error != 0) {
    if (!progress.again_in) cannot_see(job, look.error);
    return;
  }
  core::JobFacts facts = facts_of(look);
  if (look.final_record.state == RecordState::absent) {
    facts.supervision = look.exit.good() && !look.exit.value.by_daemon
                            ? core::Supervision::draining
                            : core::Supervision::orphaned;
    facts.survivors = job.orphan->survivors();
    if (!facts.exit && !facts.survivors.empty()) facts.ended_by = job.orphan->ended_by();
  }
  report(job, std::move(facts));
}

}  // namespace waybill::supervise
