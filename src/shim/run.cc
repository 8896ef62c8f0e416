#include "shim/run.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "shim/child.h"
#include "shim/crash_points.h"
#include "shim/files.h"
#include "shim/record.h"

namespace waybill::shim {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kForever = INT64_MAX;
constexpr std::int64_t kSyncEvery = 5000 * kMs;
constexpr std::int64_t kQuiet = 100 * kMs;
constexpr int kReadsPerTurn = 16;
constexpr int kFifoBytesMax = 1 << 20;

char output_buffer[128 * 1024];
constinit Members members_memory{};
constinit Members before_memory{};

}  // namespace

Shim::Shim(const ShimSetup& setup, const ShimConfig& config)
    : setup_(setup), config_(config), members_(members_memory), before_(before_memory) {}

std::int64_t mono_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::int64_t wall_ms() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1000 + now.tv_nsec / 1'000'000;
}

// A hint that the daemon should look; when it is not there, the files say the same later.
void ring_bell(int dir, std::string_view job) {
  const int fd = openat(dir, kBell, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return;
  char line[160];
  std::memcpy(line, job.data(), job.size());
  line[job.size()] = '\n';
  const ssize_t n = write(fd, line, job.size() + 1);
  static_cast<void>(n);
  close(fd);
}

void Shim::crash(std::string_view point) const { crash_here(config_.crash_point, point); }

std::int64_t Shim::until(std::int64_t at_ns) const {
  const std::int64_t left = at_ns - mono_ns();
  return left > 0 ? left : 0;
}

// Waits for output, input, a child's end, a wish or the time-out, and deals with all but the last.
void Shim::pump(std::int64_t timeout_ns) {
  pollfd fds[4] = {{setup_.signals, POLLIN, 0},
                   {setup_.fifo, POLLIN, 0},
                   {setup_.ctl, POLLIN, 0},
                   {setup_.input.wanted(), POLLIN, 0}};
  if (setup_.input.types()) fds[1].events |= POLLOUT;
  if (out_.dirty()) {
    const std::int64_t sync_in = until(last_sync_ns_ + kSyncEvery);
    if (sync_in < timeout_ns) timeout_ns = sync_in;
  }
  timespec wait{};
  const bool bounded = timeout_ns != kForever;
  if (bounded) {
    wait.tv_sec = static_cast<time_t>(timeout_ns / 1'000'000'000);
    wait.tv_nsec = static_cast<long>(timeout_ns % 1'000'000'000);
  }
  const int ready = ppoll(fds, 4, bounded ? &wait : nullptr, nullptr);
  if (out_.dirty() && mono_ns() - last_sync_ns_ >= kSyncEvery) {
    out_.sync();
    last_sync_ns_ = mono_ns();
  }
  if (ready <= 0) return;
  if (fds[0].revents != 0) {
    read_signals();
    reap();
  }
  if (fds[2].revents != 0) read_ctl();
  // An ended main process goes on record first; drain() reads what is left.
  if ((fds[1].revents & ~POLLOUT) != 0 && (!main_ended_ || exit_durable_)) read_output();
  if (fds[3].revents != 0 || (fds[1].revents & POLLOUT) != 0) setup_.input.move();
}

// One turn of reading. True when the FIFO was found empty.
bool Shim::read_output() {
  for (int i = 0; i < kReadsPerTurn; ++i) {
    const ssize_t n = read(setup_.fifo, output_buffer, sizeof output_buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EIO && setup_.terminal.ours >= 0) hung_up();
    if (n <= 0) return true;
    last_output_ns_ = mono_ns();
    if (!discard_) out_.append(output_buffer, static_cast<std::size_t>(n));
    widen_fifo(static_cast<std::size_t>(n));
  }
  return false;
}

// A pipe that was found full is too small for what the command writes. Only then: an ordinary
// user's pipes share one allowance, and most jobs never fill theirs.
void Shim::widen_fifo(std::size_t got) {
  if (fifo_bytes_ < 0) return;
  if (fifo_bytes_ == 0) fifo_bytes_ = fcntl(setup_.fifo, F_GETPIPE_SZ);
  const bool full = got == sizeof output_buffer || static_cast<int>(got) >= fifo_bytes_;
  if (full) fifo_bytes_ = fcntl(setup_.fifo, F_SETPIPE_SZ, kFifoBytesMax) < 0 ? -1 : kFifoBytesMax;
  if (fifo_bytes_ == kFifoBytesMax) fifo_bytes_ = -1;
}

// Without a new other side nothing can be read any more, and the descriptor would never be quiet.
void Shim::hung_up() {
  if (!setup_.terminal.reopen()) setup_.fifo = -1;
}

void Shim::read_all_output() {
  while (!read_output()) {
  }
}

// The daemon's other way to wish a stop, for a job whose directory it cannot reach.
void Shim::read_signals() {
  signalfd_siginfo info[8];
  for (ssize_t n = 0; (n = read(setup_.signals, info, sizeof info)) > 0;) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(n) / sizeof info[0]; ++i) {
      if (info[i].ssi_signo == SIGUSR1 && info[i].ssi_code == SI_QUEUE &&
          info[i].ssi_int == kStopSignalValue) {
        stop_seen_ = true;
      }
    }
  }
}

// Any byte in ctl means: look at stop.req and in.close, which are the wishes themselves. `c`,
// decimal digits and a newline among them lower the cap of the output: that needs no space on the
// disk, and a wish that is lost is sent again.
void Shim::read_ctl() {
  char bytes[64];
  for (ssize_t n = 0; (n = read(setup_.ctl, bytes, sizeof bytes)) > 0;) {
    for (ssize_t i = 0; i < n; ++i) take_ctl(bytes[i]);
  }
  if (faccessat(setup_.dir, kStopReq, F_OK, 0) == 0) stop_seen_ = true;
  if (faccessat(setup_.dir, kInClose, F_OK, 0) == 0) {
    setup_.input.end();
    crash("shim.input_closed");
  }
}

void Shim::take_ctl(char c) {
  constexpr std::uint64_t kCapMost = UINT64_MAX / 16;
  if (c == 'c') {
    cap_begun_ = true;
    cap_wish_ = 0;
  } else if (cap_begun_ && c >= '0' && c <= '9' && cap_wish_ < kCapMost) {
    cap_wish_ = cap_wish_ * 10 + static_cast<std::uint64_t>(c - '0');
  } else {
    if (cap_begun_ && c == '\n' && !discard_) out_.lower_cap(cap_wish_);
    cap_begun_ = false;
  }
}

// Takes every ended child. The main process is looked at without being reaped: its pid must not be
// used again before its end is on record.
void Shim::reap() {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      if (errno == ECHILD) no_child_ = true;
      return;
    }
    if (info.si_pid == 0) return;
    if (info.si_pid == setup_.main && !exit_durable_) {
      if (recording_) return;
      if (!main_ended_) on_main_exit();
      if (!stopping_) return;  // drain() goes on from here
      settle_exit();
      continue;
    }
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

void Shim::build_exit(JsonLine& line) const {
  ChildFailure failure;
  bool failed = read(setup_.status, &failure, sizeof failure) == sizeof failure;
  if (setup_.gate_shut) {
    failure = {static_cast<int>(ChildStep::gate), ECANCELED};
    failed = true;
  }
  const bool exited = info_.si_code == CLD_EXITED;
  line.text("job", config_.job);
  line.text("supervisor", "shim");
  line.text("kind", failed ? "not_started" : exited ? "exited" : "signaled");
  if (!failed && exited) {
    line.integer("code", info_.si_status);
  } else {
    line.null("code");
  }
  if (!failed && !exited) {
    line.integer("signal", info_.si_status);
  } else {
    line.null("signal");
  }
  line.boolean("core", info_.si_code == CLD_DUMPED);
  line.text("step", failed ? word_of(failure.step) : "");
  if (failed) {
    line.integer("errno", failure.error);
  } else {
    line.null("errno");
  }
  line.text("reason", failed ? strerrordesc_np(failure.error) : "");
  static constexpr const char* kEndedBy[] = {"itself", "stop", "deadline"};
  line.text("ended_by", kEndedBy[static_cast<int>(ended_by_)]);
  line.integer("started_at_ms", setup_.started_wall_ms);
  line.integer("ended_at_ms", ended_wall_ms_);
  line.integer("duration_ms", (ended_mono_ns_ - setup_.started_mono_ns) / kMs);
  const std::int64_t cpu_us =
      (static_cast<std::int64_t>(usage_.ru_utime.tv_sec) + usage_.ru_stime.tv_sec) * 1'000'000 +
      usage_.ru_utime.tv_usec + usage_.ru_stime.tv_usec;
  line.integer("cpu_ms", cpu_us / 1000);
  line.integer("max_rss_bytes", static_cast<std::int64_t>(usage_.ru_maxrss) * 1024);
  // In a group that is shared with others a counter that rose speaks for this job only together
  // with an end that looks like it: killed, or a shell that says so of its child.
  const bool looks_so = exited ? info_.si_status == 128 + SIGKILL : info_.si_status == SIGKILL;
  line.boolean("oom", !failed && ended_by_ == EndedBy::itself && (setup_.oom.own || looks_so) &&
                          oom_killed(setup_.oom));
}

// Renames first and rings the bell: the daemon may settle from what it can read. The fsync that
// follows is for a machine that stops now.
void Shim::on_main_exit() {
  recording_ = true;
  crash("shim.main_exited");
  syscall(SYS_waitid, P_PID, setup_.main, &info_, WEXITED | WNOWAIT, &usage_);
  ended_mono_ns_ = mono_ns();
  ended_wall_ms_ = wall_ms();
  setup_.input.drop();
  JsonLine line;
  build_exit(line);
  put_reserved(setup_.exit_fd, {setup_.dir, kExitTmp, kExit}, line);
  crash("shim.after_exit_rename");
  ring_bell(setup_.dir, config_.job);
  main_ended_ = true;
  recording_ = false;
}

// Overwrites and renames a record whose space is reserved; tries until it is there. Only when the
// job directory itself is gone is there nobody left to tell.
void Shim::put_reserved(int fd, RecordNames names, JsonLine& line) {
  const std::string_view text = line.finish();
  for (;;) {
    if (fill_record(fd, text) == 0) {
      crash(std::string_view(names.tmp) == kExitTmp ? "shim.after_exit_tmp"
                                                    : "shim.after_final_tmp");
      if (renameat(names.dir, names.tmp, names.dir, names.name) == 0) return;
    }
    struct stat info{};
    gone_dir_ = fstat(setup_.dir, &info) == 0 && info.st_nlink == 0;
    // Someone may have removed the reserved file: without it, write another.
    if (gone_dir_ || write_record(names, text) == 0) return;
    pause_for_record();
  }
}

// Makes the exit record durable, then lets the zombie go.
void Shim::settle_exit() {
  if (exit_durable_) return;
  const int stages = openat(setup_.dir, kStages, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (stages >= 0) {
    fsync(stages);
    close(stages);
  }
  out_.sync();
  last_sync_ns_ = mono_ns();
  sync_record(setup_.exit_fd, setup_.dir);
  waitpid(setup_.main, nullptr, 0);
  exit_durable_ = true;
}

void Shim::run_main() {
  const std::int64_t deadline =
      config_.deadline_ns > 0 ? setup_.started_mono_ns + config_.deadline_ns : kForever;
  reap();
  while (!main_ended_) {
    if (stop_seen_) return stop_everything(EndedBy::stop, config_.grace_ns);
    if (deadline != kForever && mono_ns() >= deadline) {
      return stop_everything(EndedBy::deadline, config_.grace_ns);
    }
    pump(deadline == kForever ? kForever : until(deadline));
  }
}

// Does any living descendant have our output open? Asked of two equal lists, so that a process
// that was just forked is not missed. Who cannot be looked at counts as one that does.
bool Shim::output_held() {
  find_descendants(getpid(), before_);
  if (before_.unseen) return true;
  for (std::size_t i = 0; i < before_.count; ++i) {
    if (before_.list[i].state != 'Z' && holds_file(before_.list[i].pid, fifo_id_)) return true;
  }
  find_descendants(getpid(), members_);
  if (members_.truncated || members_.unseen) return true;
  for (std::size_t i = 0; i < members_.count; ++i) {
    if (before_.find(members_.list[i].pid, members_.list[i].start) == nullptr) return true;
  }
  return false;
}

// The main process has ended. Output is complete at once when nobody is left or nobody holds it;
// otherwise what still comes is read for a bounded time.
void Shim::drain() {
  if (only_child_is(setup_.main)) {
    read_all_output();  // ends: nobody is left to write
    no_child_ = true;   // all that remains is the zombie whose end is on record
    return;
  }
  settle_exit();
  reap();
  if (!no_child_) crash("shim.draining");
  const std::int64_t soft = ended_mono_ns_ + config_.drain_grace_ns;
  const std::int64_t hard = ended_mono_ns_ + config_.drain_max_ns;
  std::int64_t look_at = 0;
  while (!no_child_) {
    if (stop_seen_) return stop_everything(EndedBy::stop, config_.grace_ns);
    const std::int64_t now = mono_ns();
    if (now >= hard || (now >= soft && now - last_output_ns_ >= kQuiet)) break;
    if (now >= look_at) {
      if (!output_held()) break;
      look_at = now + 50 * kMs;
    }
    std::int64_t next = now < soft ? soft : last_output_ns_ + kQuiet;
    if (next > hard) next = hard;
    if (next > look_at) next = look_at;
    pump(until(next));
  }
  // More than the FIFO holds, but bounded: a leftover may write without end.
  for (int i = 0; i < 8 && !read_output(); ++i) {
  }
}

void Shim::write_final() {
  find_leftovers();
  JsonLine line;
  line.text("job", config_.job);
  line.text("supervisor", "shim");
  line.text("proof", no_child_ ? "subreaper" : "none");
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
  line.text("incomplete", out_.incomplete());
  line.close('}');
  line.text("policy", config_.keep_leftovers ? "keep" : "kill");
  const std::size_t total = append_notes(line, "leftovers", members_, fifo_id_);
  line.number("leftovers_total", total);
  discard_ = true;
  put_reserved(setup_.final_fd, {setup_.dir, kFinalTmp, kFinal}, line);
  ring_bell(setup_.dir, config_.job);
  settle_exit();
  out_.sync();  // what came after the end of the main process
  sync_record(setup_.final_fd, setup_.dir);
  out_.close();  // kept leftovers may take days, and the output may expire meanwhile
  crash("shim.after_final");
}

void Shim::run(const ShimSetup& setup) {
  setup_ = setup;
  struct stat info{};
  const int output = setup_.terminal.jobs >= 0 ? setup_.terminal.jobs : setup_.fifo;
  if (fstat(output, &info) == 0) fifo_id_ = {info.st_dev, info.st_ino};
  last_sync_ns_ = mono_ns();
  read_ctl();
  if (setup_.gate_shut) ended_by_ = EndedBy::stop;
  run_main();
  if (!stopping_) drain();
  write_final();
  if (!no_child_) leftovers();
  leave_cgroup();
}

}  // namespace waybill::shim
