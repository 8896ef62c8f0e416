#include "supervise/orphan.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/crash_point.h"
#include "shim/crash_points.h"
#include "shim/files.h"
#include "shim/launch.h"
#include "shim/record.h"

namespace waybill::supervise {
namespace {

constexpr Millis kStatusWait{5000};  // until pid 1 has reaped it and the kernel tells
constexpr Millis kPause{20};
constexpr Millis kLatePause{1000};
constexpr Millis kQuiet{100};
constexpr Millis kSettleWithin{3000};
constexpr Millis kWatchPause{60'000};  // a survivor's own descriptor tells sooner
constexpr int kReadsPerStep = 64;

Millis since(MonoTime now, MonoTime then) { return std::chrono::duration_cast<Millis>(now - then); }

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return poll(&entry, 1, 0) > 0;
}

// Overwrites the file whose space the supervisor reserved, then renames it. 0 or errno.
int write_over(const JobDir& dir, const char* tmp, const char* name, std::string_view line) {
  const UniqueFd fd(
      openat(dir.fd(), tmp, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!fd.valid()) return errno;
  const int error = shim::publish_record(fd.get(), {dir.fd(), tmp, name}, line);
  return error != 0 ? error : shim::sync_record(fd.get(), dir.fd());
}

}  // namespace

std::optional<OrphanPolicy> orphan_policy(const JobDir& dir) {
  OrphanPolicy policy;
  std::string text;
  const int error = dir.read(shim::kLaunch, 64UL * 1024 * 1024, text);
  if (error != 0 && error != ENOENT && error != ELOOP) return std::nullopt;
  shim::Launch launch;
  if (error != 0 || shim::parse_launch(text, launch) != shim::LaunchError::none) return policy;
  const auto time = [](std::uint64_t ms) {
    constexpr std::uint64_t kMsMax = 1000ULL * 3600 * 24 * 365;
    return Millis(static_cast<Millis::rep>(std::min(ms, kMsMax)));
  };
  policy.grace = time(launch.grace_ms);
  if (launch.deadline_ms != 0) policy.deadline = time(launch.deadline_ms);
  policy.leftover_grace = time(launch.leftover_grace_ms);
  policy.drain_grace = time(launch.drain_grace_ms);
  policy.drain_max = time(launch.drain_max_ms);
  policy.keep_leftovers = launch.keep_leftovers;
  policy.limits = {launch.cap_bytes, launch.head_bytes, launch.crash_point != shim::kNoHoles};
  return policy;
}

Orphan::Orphan(JobLook look, OrphanPolicy policy) : look_(std::move(look)), policy_(policy) {
  ScanTarget target{look_.job, 0, 0, {}};
  exit_written_ = look_.exit.state != RecordState::absent;
  final_written_ = look_.final_record.state != RecordState::absent;
  leftovers_written_ = look_.leftovers.state != RecordState::absent;
  survivors_on_record_ = look_.leftovers.good() && !look_.leftovers.value.survived.empty();
  main_ended_ = true;
  if (look_.start.good() && look_.same_generation) {
    const ProcessIdentity& main = look_.start.value.main;
    target.session = look_.start.value.session;
    target.main_start = main.start;
    target.cgroup = look_.start.value.cgroup;
    target.known = look_.final_record.value.leftover_ids;
    const std::vector<ProcessIdentity>& survived = look_.leftovers.value.survived_ids;
    target.known.insert(target.known.end(), survived.begin(), survived.end());
    if (policy_.deadline) {
      // Of the same boot, so the same clock.
      deadline_ =
          MonoTime(std::chrono::nanoseconds(look_.start.value.started_mono_ns)) + *policy_.deadline;
    }
    if (!exit_written_ && compare_process(main) != Same::no) {
      pidfd_ = open_pidfd(main.pid);
      // Compared again: the number may have changed hands before the descriptor was there. One
      // that cannot be told for ours is not waited for by its descriptor.
      const Same same = compare_process(main);
      main_ended_ = same == Same::no;
      if (same != Same::yes) pidfd_.reset();
    }
  }
  sweep_ = std::make_unique<Sweep>(target);
  if (!main_ended_) sweep_->scan();  // is it still where it was put?
  status_settled_ = main_ended_;
  if (!final_written_) out_.resume(look_.dir->fd(), policy_.limits);
  // Who was kept may go on writing: it must neither block nor be ended by that.
  if (!final_written_ || policy_.keep_leftovers) {
    fifo_.reset(
        openat(look_.dir->fd(), shim::kOutFifo, O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  }
  struct stat info{};
  if (fstatat(look_.dir->fd(), shim::kOutFifo, &info, AT_SYMLINK_NOFOLLOW) == 0) {
    fifo_id_ = {info.st_dev, info.st_ino};
  }
}

// True when there is nothing left to read.
bool Orphan::drain_fifo() {
  if (!fifo_.valid()) return true;
  static std::array<char, 128 * 1024> buffer;
  for (int i = 0; i < kReadsPerStep; ++i) {
    const ssize_t n = ::read(fifo_.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    last_byte_at_ = std::chrono::steady_clock::now();
    // Once the output is on record, what leftovers still write is read and forgotten.
    if (!final_written_) out_.append(buffer.data(), static_cast<std::size_t>(n));
  }
  return false;
}

void Orphan::note_main_end(MonoTime now) {
  const bool gone = pidfd_.valid() ? is_readable(pidfd_.get())
                                   : compare_process(look_.start.value.main) == Same::no;
  if (!gone) return;
  main_ended_ = true;
  ended_at_ = now;
  if (!sweep_->begun()) return;
  ended_by_ = past_deadline_ ? core::EndedBy::deadline : core::EndedBy::stop;
}

// The first of stop and deadline decides.
void Orphan::note_deadline(MonoTime now) {
  if (main_ended_ || stop_wanted_ || !deadline_ || now < *deadline_) return;
  past_deadline_ = true;
}

// No other process can have this number: it is ours until it has been reaped, just now.
void Orphan::take_status(pid_t pid, int status) {
  if (look_.start.good() && pidfd_.valid() && pid == look_.start.value.main.pid) status_ = status;
}

// Reads what still comes, by the supervisor's own rule. nullopt when output is complete.
std::optional<Millis> Orphan::drain_step(MonoTime now) {
  const bool empty = drain_fifo();
  if (drained_) return std::nullopt;
  bool held = false;
  if (sweep_->scan()) {
    held = sweep_->members().count == 0;  // somebody who cannot be looked at
    for (std::size_t i = 0; i < sweep_->members().count && !held; ++i) {
      held = shim::holds_file(sweep_->members().list[i].pid, fifo_id_);
    }
  }
  const Millis passed = since(now, ended_at_);
  const bool quiet = passed >= policy_.drain_grace && since(now, last_byte_at_) >= kQuiet;
  if ((empty && !held) || quiet || passed >= policy_.drain_max) {
    drained_ = true;
    return std::nullopt;
  }
  return kPause;
}

bool Orphan::write_exit() {
  shim::JsonLine line;
  line.text("job", look_.job.str());
  line.text("supervisor", "lost");
  // The command's process removes its environment file when the gate opens. If that is still there,
  // what ended was not the command, and its status says nothing.
  const bool ran = faccessat(look_.dir->fd(), shim::kLaunchEnv, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
  const bool known = ran && status_.has_value();
  const bool exited = known && WIFEXITED(*status_);
  line.text("kind", !known ? "unknown" : exited ? "exited" : "signaled");
  if (exited) {
    line.integer("code", WEXITSTATUS(*status_));
  } else {
    line.null("code");
  }
  if (known && !exited) {
    line.integer("signal", WTERMSIG(*status_));
  } else {
    line.null("signal");
  }
  line.boolean("core", known && !exited && WCOREDUMP(*status_));
  line.text("step", "");
  line.null("errno");
  line.text("reason", known ? ""
                      : ran ? "The supervisor was lost before the end."
                            : "The supervisor was lost before the command was executed.");
  line.text("ended_by", core::to_word(ended_by_));
  const StartRecord& start = look_.start.value;
  line.integer("started_at_ms",
               look_.start.good() ? start.started_at.time_since_epoch().count() : 0);
  line.integer("ended_at_ms", SystemClock().wall().time_since_epoch().count());
  if (look_.start.good() && pidfd_.valid()) {
    const auto began = MonoTime(std::chrono::nanoseconds(start.started_mono_ns));
    line.integer("duration_ms", std::max<Millis::rep>(since(ended_at_, began).count(), 0));
  } else {
    line.null("duration_ms");
  }
  line.null("cpu_ms");
  line.null("max_rss_bytes");
  line.boolean("oom", false);
  if (write_over(*look_.dir, shim::kExitTmp, shim::kExit, line.finish()) != 0) return false;
  crash_point("orphan.after_exit");
  unlinkat(look_.dir->fd(), shim::kLaunchEnv, 0);
  return true;
}

bool Orphan::write_final() {
  shim::JsonLine line;
  line.text("job", look_.job.str());
  line.text("supervisor", "lost");
  sweep_->scan();
  if (!sweep_->complete()) return false;  // nobody listed must mean that nobody was there
  line.text("proof", core::to_word(sweep_->proven() ? core::Proof::cgroup : core::Proof::unproven));
  out_.sync();
  line.open("output", '{');
  line.number("bytes", out_.bytes());
  line.number("kept_bytes", out_.kept());
  line.open("gaps", '[');
  for (std::size_t i = 0; i < out_.gap_count(); ++i) {
    line.open({}, '[');
    line.element(out_.gap(i).from);
    line.element(out_.gap(i).to);
    line.close(']');
  }
  line.close(']');
  line.text("digest", out_.digest());
  line.text("digest_reason", out_.digest_reason());
  line.text("incomplete", "supervisor_lost");
  line.close('}');
  line.text("policy", policy_.keep_leftovers ? "keep" : "kill");
  const std::size_t total = shim::append_notes(line, "leftovers", sweep_->members(), fifo_id_);
  line.number("leftovers_total", total);
  leftovers_written_ = total == 0;
  if (write_over(*look_.dir, shim::kFinalTmp, shim::kFinal, line.finish()) != 0) return false;
  crash_point("orphan.after_final");
  return true;
}

bool Orphan::write_leftovers() {
  shim::JsonLine line;
  line.text("job", look_.job.str());
  line.text("supervisor", "lost");
  line.boolean("kept", policy_.keep_leftovers && !stop_wanted_);
  sweep_->scan();
  if (!sweep_->complete()) return false;
  const std::size_t total = shim::append_notes(line, "survived", sweep_->members(), fifo_id_);
  line.number("survived_total", total);
  if (shim::write_record({look_.dir->fd(), shim::kLeftoversTmp, shim::kLeftovers}, line.finish()) !=
      0) {
    return false;
  }
  crash_point("orphan.after_leftovers");
  leftovers_written_ = true;
  survivors_on_record_ = total > 0;
  return true;
}

// Asked twice before the answer is no: who is just forked by one that ends may escape one look.
bool Orphan::somebody_left() { return sweep_->scan() || sweep_->scan(); }

void Orphan::watch_survivor() {
  if (survivor_.valid() && !is_readable(survivor_.get())) return;
  survivor_.reset();
  for (std::size_t i = 0; i < sweep_->members().count && !survivor_.valid(); ++i) {
    const shim::Member& member = sweep_->members().list[i];
    survivor_ = open_pidfd(member.pid);
    if (survivor_.valid() && !same_process({member.pid, member.start})) survivor_.reset();
  }
  survivor_changed_ = true;
}

// Kills or keeps them, by policy and wish, and says so; then again, until nobody is left.
void Orphan::settle_leftovers(MonoTime now, Progress& progress) {
  const bool keep = policy_.keep_leftovers && !stop_wanted_;
  if (keep && leftovers_written_) {
    // Called for whatever they print, too: not everybody is looked for each time.
    const bool one_lives = survivor_.valid() && !is_readable(survivor_.get());
    if (!one_lives || now >= look_at_) {
      if (somebody_left()) {
        watch_survivor();
        look_at_ = now + kWatchPause;
      } else {
        look_at_ = MonoTime{};
      }
    }
    if (look_at_ > now) {
      progress.again_in = std::chrono::ceil<Millis>(look_at_ - now);
      return;
    }
  }
  if (!keep) {
    // Killed once already, and there is somebody: from the start.
    if (leftovers_written_ && sweep_->done() && somebody_left()) sweep_->begin_again();
    progress.again_in = sweep_->step(now, stop_wanted_ ? policy_.grace : policy_.leftover_grace);
    const bool late =
        sweep_->killing_since() && since(now, *sweep_->killing_since()) >= kSettleWithin;
    if (progress.again_in && (leftovers_written_ || !late)) return;
  }
  progress.changed = true;
  if (!write_leftovers()) progress.again_in = kLatePause;
  if (!survivors_on_record_ || progress.again_in) return;
  if (keep) watch_survivor();
  progress.again_in = keep ? kWatchPause : kLatePause;
}

Orphan::Progress Orphan::step(MonoTime now) {
  Progress progress;
  struct stat info{};
  if (fstat(look_.dir->fd(), &info) == 0 && info.st_nlink == 0) {
    // The directory was removed: there is nowhere left to record anything.
    progress.changed = true;
    progress.done = true;
    return progress;
  }
  const bool empty = drain_fifo();
  if (!main_ended_) note_main_end(now);
  if (ended_at_ == MonoTime{} && main_ended_) ended_at_ = now;
  note_deadline(now);
  if (ending() && !sweep_->done()) {
    progress.again_in = sweep_->step(now, policy_.grace);
    progress.changed = sweep_->take_changed();
    if (progress.again_in) return progress;
    if (!main_ended_) note_main_end(now);
  }
  if (!main_ended_) {
    if (!empty) progress.again_in = Millis(0);
    // Without a pidfd there is nothing to wait for but time.
    if (empty && (!pidfd_.valid() || ending())) progress.again_in = kPause * 5;
    if (!progress.again_in && deadline_) {
      progress.again_in = std::max(std::chrono::ceil<Millis>(*deadline_ - now), Millis(1));
    }
    return progress;
  }
  if (!status_settled_) {
    if (!status_) status_ = exit_status_of(pidfd_.get());
    status_settled_ = status_ || since(now, ended_at_) >= kStatusWait;
    if (!status_settled_) return Progress{kPause, false, false};
  }
  if (!exit_written_) {
    exit_written_ = write_exit();
    if (!exit_written_) return Progress{kLatePause, false, false};
    progress.changed = true;
  }
  if (!final_written_) {
    progress.again_in = drain_step(now);
    if (progress.again_in) return progress;
    final_written_ = write_final();
    progress.changed = true;
    if (!final_written_) return Progress{kLatePause, true, false};
  }
  if (!leftovers_written_ || survivors_on_record_ || stop_wanted_) {
    settle_leftovers(now, progress);
    if (progress.again_in) return progress;
  }
  progress.done = true;
  return progress;
}

}  // namespace waybill::supervise
