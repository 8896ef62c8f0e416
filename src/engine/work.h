#pragma once
// Work: what one batch of commands shares inside its transaction, and what must happen after the
// commit. Every command runs between mark() and flush(); a command that fails is undone with
// restore().

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/owed.h"
#include "core/receipt.h"
#include "engine/due_clock.h"
#include "engine/engine.h"
#include "store/database.h"
#include "store/inbox.h"
#include "store/jobs.h"
#include "store/owed.h"
#include "store/sealer.h"
#include "store/sessions.h"

namespace waybill::engine {

// Numbers that only grow; kept in memory by the single writer, read from the store at start.
struct Sequences {
  std::uint64_t job = 0;
  std::uint64_t node = 0;
  std::uint64_t inbox = 0;
  std::uint64_t running = 0;  // jobs running on this node
};

// Owners whose state does not parse, or whose jobs can be neither attached nor proven gone: what
// changes something is refused with this code, reads go on (I12).
struct Refusal {
  ErrorCode code = ErrorCode::state_corrupt;
  std::string why;
};
using PoisonedOwners = std::map<core::Owner, Refusal>;

// Who a keyed caller turned out to be.
struct Host {
  bool is_host = false;
  std::uint64_t fence = 0;
};

class Work {
 public:
  Work(const Parts& parts, const DueClock& due, Sequences& sequences, PoisonedOwners& poisoned)
      : parts_(parts), due_(due), sequences_(sequences), poisoned_(poisoned) {}

  store::Database& db() { return parts_.database; }
  const store::Sealer& sealer() const { return parts_.sealer; }
  const Settings& settings() const { return parts_.settings; }
  // What is due, and what is over, is told by the store's clock alone; the wall clock is for
  // people.
  WallTime now() const { return due_.now(); }
  WallTime wall() const { return parts_.clock.wall(); }
  const Parts& parts() const { return parts_; }
  Sequences& sequences() { return sequences_; }

  // The owner's session row, made if there is none yet; changes are written by flush().
  Result<store::SessionRow*> session(const core::Owner& owner);
  // The same, but nullptr when there is none.
  Result<store::SessionRow*> find_session(const core::Owner& owner);
  // Something of this session changed: its revision rises and whoever waits on it is looked at.
  Result<void> touch(const core::Owner& owner);
  Result<void> flush();
  // The session's row was removed: nothing of it may be written back.
  void forget_session(const core::Owner& owner) { sessions_.erase(owner); }

  // The one path of a status change: asks the table, writes receipt and status, counts slots.
  struct Change {
    core::JobTrigger trigger = core::JobTrigger::claim;
    std::optional<core::Cause> cause;
    std::string actor;
    std::string reason;
    std::optional<store::EndingRow> ending;
  };
  Result<void> apply(store::JobRow& job, const Change& change);
  // A receipt that changes no status; legal after a terminal one too.
  Result<void> note(store::JobRow& job, core::ReceiptName name, std::optional<core::Cause> cause,
                    std::string actor, std::string reason);
  // The first receipt of a job.
  Result<void> accept(store::JobRow& job, std::string actor);

  bool poisoned(const core::Owner& owner) const {
    return poisoned_.contains(owner) && !after_.released.contains(owner);
  }
  void poison(const core::Owner& owner, const std::string& why,
              ErrorCode code = ErrorCode::state_corrupt);
  // An operator has released the owner: it is refused no more once that is committed.
  void release(const core::Owner& owner) { after_.released.insert(owner); }

  Result<void> owe(core::OwedKind kind, std::string key, const core::Owner& owner, WallTime due_at,
                   std::uint64_t fence = 0);
  // The same unless it is owed already.
  Result<void> owe_once(core::OwedKind kind, std::string key, const core::Owner& owner,
                        WallTime due_at);
  // The same unless it is owed by then.
  Result<void> owe_by(core::OwedKind kind, std::string key, const core::Owner& owner,
                      WallTime due_at);
  Result<void> settle_owed(core::OwedKind kind, std::string_view key);

  // Slots are not filled in this transaction: what is queued may have run (reconcile).
  void hold_slots() { slots_held_ = true; }
  bool slots_held() const { return slots_held_; }
  // Events that are made now may have been heard before.
  void repeats(bool may_be) { repeats_ = may_be; }
  bool repeats() const { return repeats_; }

  void supervise(const JobId& job) { after_.supervise.insert(job); }
  void forget(const JobId& job) { after_.forget.insert(job); }
  void unmonitor(const JobId& job) { after_.unmonitor.insert(job); }
  void watch_host(const core::Owner& owner) { after_.watch.insert(owner); }

  // What must happen once the commit is there.
  struct After {
    std::set<JobId> supervise;
    std::set<JobId> forget;
    std::set<JobId> unmonitor;
    std::set<core::Owner> watch;
    std::set<core::Owner> released;
    std::set<core::Owner> touched;
  };
  const After& after() const { return after_; }
  std::set<core::Owner> take_touched();

  struct Mark {
    Sequences sequences;
    After after;
  };
  Mark mark() const { return {sequences_, after_}; }
  void restore(Mark mark);

 private:
  struct Cached {
    std::optional<store::SessionRow> row;
    bool is_new = false;
    bool dirty = false;
  };
  Result<Cached*> load(const core::Owner& owner);
  core::Receipt receipt_of(const store::JobRow& job, core::ReceiptName name, core::JobStatus to);

  const Parts& parts_;
  const DueClock& due_;
  Sequences& sequences_;
  PoisonedOwners& poisoned_;
  std::map<core::Owner, Cached> sessions_;
  After after_;
  bool slots_held_ = false;
  bool repeats_ = false;
};

std::string owner_key(const core::Owner& owner);
std::string turn_key(const core::Owner& owner, const TurnId& turn);

}  // namespace waybill::engine
