// What a main process that ended by itself has left behind: killed within three seconds or kept,
// by policy, with a record of its own. The job itself is already on record as finished.

#include <signal.h>
#include <unistd.h>

#include "shim/run.h"

namespace waybill::shim {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kSettleWithin = 3000 * kMs;
constexpr std::int64_t kPause = 20 * kMs;
constexpr std::int64_t kLatePause = 1000 * kMs;

}  // namespace

// Who is left, for a record: a list that is short only because we could not look is worth waiting
// for, since nobody on it means that nobody is there.
void Shim::find_leftovers() {
  const std::int64_t give_up = mono_ns() + kSettleWithin;
  members_.count = 0;
  while (!no_child_) {
    find_descendants(getpid(), members_);
    if (!members_.unseen || mono_ns() >= give_up) return;
    pump(kPause);
    members_.count = 0;
  }
}

void Shim::write_leftovers(bool kept) {
  if (gone_dir_) return;
  JsonLine line;
  line.text("job", config_.job);
  line.text("supervisor", "shim");
  line.boolean("kept", kept);
  find_leftovers();
  const std::size_t total = append_notes(line, "survived", members_, fifo_id_);
  line.number("survived_total", total);
  const std::string_view text = line.finish();
  while (write_record({setup_.dir, kLeftoversTmp, kLeftovers}, text) != 0) {
    if (no_child_) return;  // nothing is left; the daemon sees that without us
    pause_for_record();
  }
  ring_bell(setup_.dir, config_.job);
  crash("shim.after_leftovers");
}

void Shim::kill_leftovers() {
  const std::int64_t began = mono_ns();
  const std::int64_t kill_at = began + config_.leftover_grace_ns;
  term_pass();
  crash("shim.leftovers_term");
  reap();
  while (!no_child_ && mono_ns() < kill_at) pump(until(kill_at));
  while (!no_child_ && mono_ns() < began + kSettleWithin) {
    kill_round();
    reap();
    if (!no_child_) pump(kPause);
  }
  write_leftovers(false);
  if (no_child_) return;
  while (!no_child_) {
    pump(kLatePause);
    kill_round();
    reap();
  }
  write_leftovers(false);
}

// Stays, so that they neither block on a full pipe nor become unstoppable.
void Shim::keep_leftovers() {
  write_leftovers(true);
  while (!no_child_ && !stop_seen_) pump(INT64_MAX);
  if (!no_child_) {
    const bool was_stopping = stopping_;
    stop_everything(EndedBy::stop, config_.grace_ns);
    stopping_ = was_stopping;
  }
  write_leftovers(true);
}

void Shim::leftovers() {
  reap();
  if (!no_child_ && config_.keep_leftovers && !stop_seen_) return keep_leftovers();
  kill_leftovers();
}

}  // namespace waybill::shim
