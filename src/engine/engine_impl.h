#pragma once
// The engine inside: what it keeps in memory beside the rows. Only engine.cc (start, effects, time)
// and transaction.cc (commands and their commit) include it; all of it lives on the engine's
// thread.

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/due_clock.h"
#include "engine/engine.h"
#include "engine/handle.h"
#include "engine/output_room.h"
#include "engine/pass_points.h"

namespace waybill::engine {

// A call that waits. It is looked at in the transaction of whatever touches its session, so that
// the settling transaction itself makes the offer to a host that is already waiting (SPEC section
// 6).
struct Waiter {
  Command command;
  Done done;
  core::Owner owner;
  ConnectionId connection = 0;
  MonoTime deadline{};
  int rank = 0;           // within one owner: who is asked first
  bool answered = false;  // in the transaction under way; gone once that is committed
  bool fresh = false;     // parked in the transaction under way; gone if that is undone
};

struct Answer {
  Done done;
  Result<Reply> result;
};

// One thing to do inside a transaction: a new ticket, or another look at a waiter.
struct Item {
  Command* command = nullptr;
  const Done* done = nullptr;
  Waiter* waiter = nullptr;
  bool last = false;  // its time is over: answer whatever there is
};

class Engine::Impl {
 public:
  explicit Impl(Parts parts) : parts_(std::move(parts)) {}
  ~Impl() { parts_.database.on_damage({}); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  Result<void> open();
  void run_batch(std::vector<Ticket> batch);
  void tick();
  std::optional<Millis> next_due() const;
  void close();
  const std::string& poisoned() const { return poisoned_; }
  const std::string& regressed() const { return parts_.regressed; }

 private:
  enum class Outcome { committed, voided };

  Result<void> load();
  Result<void> recover();
  void answer_regressed(const Ticket& ticket);
  Result<Reply> reconcile_now();
  Result<ReconcileReply> commit_reconciled();
  Result<void> take_copy();
  void mark() const;

  Outcome transact(const std::vector<Item>& items, Error& why);
  bool run_item(Work& work, const Item& item, std::vector<Answer>& answers);
  std::optional<core::Owner> concerned(const Command& command);
  bool look_at_waiters(Work& work, std::vector<Answer>& answers);
  bool run_timers(Work& work, std::vector<core::OwedKind>& kinds);
  void park(const Item& item);
  static void pass_points(const std::vector<Item>& items, Moment moment);
  void give(std::vector<Answer>& answers);
  void perform(const Work::After& after);
  void supervise(Work& work, const JobId& job);
  void start_monitors(const store::JobRow& job);
  void run_singly(const std::vector<Item>& items);
  bool waits(const Waiter* wanted) const;
  void forget_waiter(const Waiter* gone);
  void poison(const Error& error);
  void poison_damaged(const std::string& what);
  Work make_work() { return {parts_, due_, sequences_, poisoned_owners_}; }
  void tell_refused();
  void look_for_room(RunRequest& run, std::map<core::Owner, Result<void>>& rooms);
  void hold(const Item& item);
  void retry_held();
  Result<Reply> answer_voided(const Command& command, const Error& why);
  Result<Reply> answer_poisoned(const Command& command);
  void drop_waiters_of(ConnectionId connection);
  bool reachable(const core::Owner& owner) const;
  std::vector<SessionId> all_reachable() const;
  void replace_earlier(const Item& item, std::vector<Answer>& answers);
  Context context() {
    return {connections_, poisoned_owners_, [this](const auto& owner) { return reachable(owner); },
            [this] { return all_reachable(); }};
  }

  Parts parts_;
  OutputRoom room_{parts_, [this](const Error& error) { poison(error); }};
  DueClock due_{parts_.clock, parts_.boot, parts_.warn};
  bool passes_ = false;  // the transaction that was given up may do later: nothing was written
  Sequences sequences_;
  KeyedConnections connections_;
  PoisonedOwners poisoned_owners_;
  std::map<core::Owner, std::list<Waiter>> waiters_;
  std::string poisoned_;
  ErrorCode poisoned_as_ = ErrorCode::unavailable;
  std::size_t told_refused_ = 0;  // of the owners that are refused
  std::vector<Ticket> held_;      // happened, but the disk was full
  MonoTime held_due_{};
  unsigned held_tries_ = 0;
  MonoTime timers_after_{};  // after a transaction of timers that could not be done
  bool timers_due_ = false;  // the transaction under way also does what is due
};

}  // namespace waybill::engine
