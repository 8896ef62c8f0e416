// Stop and confirm: TERM and CONT for everyone, grace, then stop-pass and KILL until the kernel
// says that no child is left. Whoever forked, changed session or ignores TERM is still below us,
// because we are the subreaper.

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "base/crc32.h"
#include "shim/cgroup.h"
#include "shim/run.h"

namespace waybill::shim {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kFirstPause = kMs / 5;
constexpr std::int64_t kPauseMax = 20 * kMs;
constexpr std::int64_t kStuckAfter = 10'000 * kMs;
constexpr std::int64_t kStuckPause = 500 * kMs;
constexpr std::int64_t kPublishAfter = 100 * kMs;
constexpr std::int64_t kPublishEvery = 1000 * kMs;
constexpr int kStopPasses = 10;
constexpr int kTermPasses = 3;
constexpr std::int64_t kLook = 20 * kMs;
constexpr std::int64_t kRecordPause = 1000 * kMs;
constexpr std::int64_t kMeanwhile = 100 * kMs;
constexpr int kRemoveTries = 20;
constexpr std::int64_t kRemovePause = 10 * kMs;

}  // namespace

// Everyone below us, and who is in the job's cgroup without being below us.
void Shim::find_members() {
  find_descendants(getpid(), members_);
  if (setup_.cgroup >= 0) add_cgroup_members(setup_.cgroup, members_);
}

// No child is left, and nobody in the cgroup. That there is no child is the proof; a cgroup can
// only show more.
bool Shim::gone() const {
  return no_child_ && (setup_.cgroup < 0 || cgroup_populated(setup_.cgroup) != Answer::yes);
}

// A cgroup that has just become empty may be busy for a moment. What cannot be removed now, the
// daemon removes later.
void Shim::leave_cgroup() {
  if (setup_.cgroup < 0) return;
  for (int i = 0; i < kRemoveTries && remove_cgroup(config_.cgroup) == EBUSY; ++i) {
    const timespec pause{0, kRemovePause};
    nanosleep(&pause, nullptr);
  }
}

// TERM once to every process there is, then CONT: a stopped process does not act on TERM. A fork
// during the pass may be missed; it meets the KILL.
void Shim::term_pass() {
  before_.count = 0;
  for (int pass = 0; pass < kTermPasses; ++pass) {
    find_members();
    bool fresh = false;
    for (std::size_t i = 0; i < members_.count; ++i) {
      const Member& member = members_.list[i];
      if (member.state == 'Z' || before_.find(member.pid, member.start) != nullptr) continue;
      fresh = true;
      signal_member(member, SIGTERM);
      signal_member(member, SIGCONT);
    }
    if (!fresh) return;
    for (std::size_t i = 0; i < members_.count; ++i) {
      const Member& member = members_.list[i];
      ProcStat stat;
      stat.pid = member.pid, stat.start = member.start;
      before_.add(stat);
    }
  }
}

// Stops everyone until a look finds nobody new, so that a fork loop cannot outrun us; then kills.
void Shim::kill_round() {
  if (setup_.cgroup >= 0) kill_cgroup(setup_.cgroup);  // frozen ones, too, and no fork gets away
  find_members();
  before_.count = 0;
  for (int pass = 0; pass < kStopPasses; ++pass) {
    bool fresh = false;
    for (std::size_t i = 0; i < members_.count; ++i) {
      const Member& member = members_.list[i];
      if (member.state == 'Z') continue;
      ProcStat stat;
      stat.pid = member.pid, stat.start = member.start;
      if (!before_.add(stat)) continue;
      fresh = true;
      signal_member(member, SIGSTOP);
    }
    if (!fresh) break;
    find_members();
  }
  for (std::size_t i = 0; i < members_.count; ++i) {
    if (members_.list[i].state != 'Z') signal_member(members_.list[i], SIGKILL);
  }
}

// Names what is not gone, when that changes and when it becomes stuck.
void Shim::publish_survivors(std::int64_t began_ns) {
  const std::int64_t now = mono_ns();
  if (now - began_ns < kPublishAfter || now - published_ns_ < kPublishEvery) return;
  const bool stuck = now - began_ns >= kStuckAfter;
  find_members();
  std::uint32_t crc = stuck ? 1 : 0;
  for (std::size_t i = 0; i < members_.count; ++i) {
    const Member& member = members_.list[i];
    crc = crc32(&member.pid, sizeof member.pid, crc);
    crc = crc32(&member.state, sizeof member.state, crc);
  }
  published_ns_ = now;
  if (crc == published_crc_) return;
  // Zombies count here: one that a tracer has not let go keeps the proof away.
  JsonLine line;
  line.text("job", config_.job);
  line.boolean("stuck", stuck);
  line.integer("since_ms", wall_ms() - (now - began_ns) / kMs);
  line.open("survivors", '[');
  for (std::size_t i = 0; i < members_.count && i < kNotesMax; ++i) {
    if (line.room() < 2048) break;
    append_survivor(line, members_.list[i], fifo_id_);
  }
  line.close(']');
  line.number("survivors_total", members_.count);
  // Not written: tried again at the next look, whoever survives until then.
  if (write_record({setup_.dir, kStopTmp, kStop}, line.finish()) == 0) published_crc_ = crc;
  ring_bell(setup_.dir, config_.job);
}

// Kills until nobody is left, with growing pauses.
void Shim::sweep(std::int64_t began_ns) {
  std::int64_t pause = kFirstPause;
  while (!gone()) {
    kill_round();
    crash("shim.stop_killed");
    reap();
    if (gone()) return;
    pump(pause);
    pause = pause * 2 < kPauseMax ? pause * 2 : kPauseMax;
    if (mono_ns() - began_ns >= kStuckAfter) pause = kStuckPause;
    publish_survivors(began_ns);
  }
}

// While a record cannot be written nothing goes on but this: a stop, or a deadline that what is
// left may not outlive, is asked and then killed all the same. Who has ended stays a zombie until
// then.
void Shim::stop_meanwhile() {
  const bool late = config_.deadline_ns > 0 && !config_.keep_leftovers &&
                    mono_ns() >= setup_.started_mono_ns + config_.deadline_ns;
  if (kill_at_ns_ == 0) {
    if (!stop_seen_ && !late) return;
    kill_at_ns_ = mono_ns() + config_.grace_ns;
    return term_pass();
  }
  if (mono_ns() < kill_at_ns_) return;
  find_members();
  for (std::size_t i = 0; i < members_.count; ++i) {
    if (members_.list[i].state != 'Z') return kill_round();
  }
}

// Lets a second go by before a record is tried again, and keeps everything else going.
void Shim::pause_for_record() {
  const std::int64_t again = mono_ns() + kRecordPause;
  while (mono_ns() < again) {
    const std::int64_t left = until(again);
    pump(left < kMeanwhile ? left : kMeanwhile);
    stop_meanwhile();
  }
}

void Shim::stop_everything(EndedBy reason, std::int64_t grace_ns) {
  reap();  // what has ended by now has ended by itself
  stopping_ = true;
  if (!main_ended_) ended_by_ = reason;
  crash("shim.stop_term");
  if (main_ended_) settle_exit();
  term_pass();
  const std::int64_t kill_at = kill_at_ns_ = mono_ns() + grace_ns;
  reap();
  while (!gone() && mono_ns() < kill_at) {
    const std::int64_t left = until(kill_at);
    pump(no_child_ && left > kLook ? kLook : left);  // nothing tells of the cgroup
  }
  if (!gone()) crash("shim.stop_kill");
  sweep(mono_ns());
  read_all_output();
}

}  // namespace waybill::shim
