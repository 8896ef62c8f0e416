// Commands and their commit: a savepoint each, one transaction, answers after it.

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/retry.h"
#include "engine/engine_impl.h"
#include "store/random.h"

namespace waybill::engine {
namespace {

// What is told once and by nobody again.
bool happened(const Command& command) {
  return std::holds_alternative<ObservedFacts>(command) ||
         std::holds_alternative<MonitorTold>(command) ||
         std::holds_alternative<ConnectionClosed>(command) ||
         std::holds_alternative<HostGone>(command);
}

}  // namespace

void Engine::Impl::run_batch(std::vector<Ticket> batch) {
  if (!parts_.regressed.empty() && poisoned_.empty()) {
    // One after the other: what comes after `reconcile` is served as ever.
    for (auto ticket = batch.begin(); ticket != batch.end(); ++ticket) {
      if (!parts_.regressed.empty()) {
        answer_regressed(*ticket);
        continue;
      }
      return run_batch({std::make_move_iterator(ticket), std::make_move_iterator(batch.end())});
    }
    return;
  }
  std::vector<Item> items;
  std::map<core::Owner, Result<void>> rooms;
  for (Ticket& ticket : batch) {
    auto* run = std::get_if<RunRequest>(&ticket.command);
    if (run != nullptr && poisoned_.empty()) look_for_room(*run, rooms);
    if (const auto* closed = std::get_if<ConnectionClosed>(&ticket.command)) {
      drop_waiters_of(closed->connection);
    }
    if (const auto* damaged = std::get_if<StoreDamaged>(&ticket.command)) {
      poison_damaged(damaged->what);
      ticket.done(std::monostate{});
    } else if (poisoned_.empty()) {
      items.push_back({&ticket.command, &ticket.done, nullptr, false});
    } else {
      ticket.done(answer_poisoned(ticket.command));
    }
  }
  // Making room may have met a commit that leaves everything open: then nothing goes on.
  for (const Item& item : items) {
    if (!poisoned_.empty()) (*item.done)(answer_poisoned(*item.command));
  }
  if (items.empty() || !poisoned_.empty()) return;
  Error why{ErrorCode::unavailable, {}};
  const bool done = transact(items, why) == Outcome::committed;
  if (!done) run_singly(items);
  if (done) held_due_ = parts_.clock.mono();  // there is space, perhaps again
  tell_refused();
}

// Before the transaction: what is removed to make room is removed, whatever becomes of that.
void Engine::Impl::look_for_room(RunRequest& run, std::map<core::Owner, Result<void>>& rooms) {
  const core::Owner& owner = run.caller.owner;
  const auto [room, is_new] = rooms.try_emplace(owner);
  if (is_new) room->second = room_.before_launch(owner);
  run.room = room->second;
}

// An owner may come to be refused by an effect, when nothing looks at who waits there.
void Engine::Impl::tell_refused() {
  if (told_refused_ == poisoned_owners_.size()) return;
  told_refused_ = poisoned_owners_.size();
  std::vector<Item> items;
  for (auto& [owner, list] : waiters_) {
    if (!poisoned_owners_.contains(owner)) continue;
    for (Waiter& waiter : list) items.push_back({&waiter.command, &waiter.done, &waiter, false});
  }
  Error why{ErrorCode::unavailable, {}};
  if (!items.empty() && transact(items, why) == Outcome::voided) told_refused_ = 0;  // later
}

// A batch that became void: each command alone, so that one that cannot be done takes no other with
// it.
void Engine::Impl::run_singly(const std::vector<Item>& items) {
  for (const Item& item : items) {
    // Answering one of them may have answered others that wait there too.
    if (item.waiter != nullptr && !waits(item.waiter)) continue;
    Error why{ErrorCode::unavailable, {}};
    if (poisoned_.empty() && transact({item}, why) == Outcome::committed) continue;
    if (item.done == nullptr) continue;
    if (poisoned_.empty() && passes_ && happened(*item.command)) {
      hold(item);
      continue;
    }
    auto answer =
        poisoned_.empty() ? answer_voided(*item.command, why) : answer_poisoned(*item.command);
    const Done done = *item.done;
    if (item.waiter != nullptr) forget_waiter(item.waiter);
    done(std::move(answer));
  }
}

bool Engine::Impl::waits(const Waiter* wanted) const {
  return std::ranges::any_of(waiters_, [&](const auto& entry) {
    return std::ranges::any_of(entry.second,
                               [&](const Waiter& waiter) { return &waiter == wanted; });
  });
}

void Engine::Impl::forget_waiter(const Waiter* gone) {
  for (auto& [owner, list] : waiters_) {
    std::erase_if(list, [&](const Waiter& waiter) { return &waiter == gone; });
  }
  std::erase_if(waiters_, [](const auto& entry) { return entry.second.empty(); });
}

// A fact that did not fit on the disk. Facts of one job grow: the newest says it all.
void Engine::Impl::hold(const Item& item) {
  constexpr std::size_t kHeldMax = 4096;
  const auto* facts = std::get_if<ObservedFacts>(item.command);
  std::erase_if(held_, [&](const Ticket& earlier) {
    const auto* other = std::get_if<ObservedFacts>(&earlier.command);
    return facts != nullptr && other != nullptr && other->facts.job == facts->facts.job;
  });
  if (facts == nullptr && held_.size() >= kHeldMax) return (*item.done)(std::monostate{});
  if (held_.empty()) {
    const core::Backoff backoff{parts_.settings.backoff_first, parts_.settings.backoff_max};
    held_due_ =
        parts_.clock.mono() + core::backoff_delay(backoff, held_tries_ + 1, store::random_unit());
  }
  held_.push_back({*item.command, *item.done});
}

void Engine::Impl::retry_held() {
  ++held_tries_;
  run_batch(std::exchange(held_, {}));  // what fails again is held again
  if (held_.empty()) held_tries_ = 0;
}

// A full disk takes no answer from those who only look.
Result<Reply> Engine::Impl::answer_voided(const Command& command, const Error& why) {
  if (!passes_) return fail(why);
  Work work = make_work();
  Context shared = context();
  auto read = read_only(work, shared, command);
  return read ? std::move(*read) : Result<Reply>(fail(why));
}

Engine::Impl::Outcome Engine::Impl::transact(const std::vector<Item>& items, Error& why) {
  const Sequences before = sequences_;
  Work work = make_work();
  std::vector<Answer> answers;
  const auto give_up = [&](const Error& error) {
    passes_ = parts_.database.wrote_nothing();
    parts_.database.rollback();
    sequences_ = before;
    for (auto& [owner, list] : waiters_) {
      // Who was parked here will be asked again, alone; who waited before goes on waiting.
      std::erase_if(list, [](const Waiter& waiter) { return waiter.fresh; });
      for (Waiter& waiter : list) waiter.answered = false;
    }
    why = error;
    return Outcome::voided;
  };
  const Error lost{
      ErrorCode::store_full,
      "The store could not take the change; nothing of it was done. Free some space on the "
      "disk that holds the store, or make it writable, then try again."};
  if (auto begun = parts_.database.begin(); !begun) return give_up(begun.error());
  std::vector<core::OwedKind> done;  // of what was due
  if (timers_due_ && !run_timers(work, done)) return give_up(lost);
  for (const Item& item : items) {
    if (!run_item(work, item, answers)) return give_up(lost);
  }
  if (!look_at_waiters(work, answers)) return give_up(lost);
  if (!due_.keep(parts_.database)) return give_up(lost);
  // Damage was met on the way: nothing of this may count.
  if (!poisoned_.empty()) return give_up({poisoned_as_, poisoned_});
  pass_points(items, Moment::before_commit);
  for (const core::OwedKind kind : done) pass(kind, OwedMoment::before);
  if (auto committed = parts_.database.commit(); !committed) {
    const Error& error = committed.error();
    // Full or read-only: known not to have happened. Anything else leaves open what is on the disk.
    if (!parts_.database.wrote_nothing()) poison(error);
    return give_up(error);
  }
  due_.kept();
  if (sequences_.node != before.node) mark();
  if (sequences_.running < before.running) room_.check_soon();
  pass_points(items, Moment::after_commit);
  for (const core::OwedKind kind : done) pass(kind, OwedMoment::after);
  give(answers);
  pass_points(items, Moment::after_answer);
  perform(work.after());
  return Outcome::committed;
}

// False when the whole transaction is gone.
bool Engine::Impl::run_item(Work& work, const Item& item, std::vector<Answer>& answers) {
  // Also those that were parked in this very transaction.
  if (const auto* closed = std::get_if<ConnectionClosed>(item.command)) {
    drop_waiters_of(closed->connection);
  }
  const Work::Mark mark = work.mark();
  if (!parts_.database.savepoint()) return false;
  Context shared = context();
  const bool first = item.waiter == nullptr;
  auto result = handle(work, shared, *item.command, {first, item.last});
  if (result) {
    if (auto flushed = work.flush(); !flushed) result = fail(flushed.error());
  }
  if (!result) {
    if (!parts_.database.in_transaction() || !parts_.database.rollback_to()) return false;
    work.restore(mark);
    if (result.error().code == ErrorCode::state_corrupt) {
      if (const auto owner = concerned(*item.command)) work.poison(*owner, result.error().message);
    }
    if (item.waiter != nullptr) item.waiter->answered = true;
    answers.push_back({*item.done, fail(result.error())});
    return true;
  }
  if (!parts_.database.release()) return false;
  if (*result) {
    if (item.waiter != nullptr) item.waiter->answered = true;
    answers.push_back({*item.done, std::move(**result)});
  } else if (first) {
    replace_earlier(item, answers);
    park(item);
  }
  return true;
}

// Whose state it is that does not parse.
std::optional<core::Owner> Engine::Impl::concerned(const Command& command) {
  const auto* observed = std::get_if<ObservedFacts>(&command);
  if (observed == nullptr) return owner_of(command);
  const auto job = store::find_job(parts_.database, observed->facts.job);
  if (!job || !*job) return std::nullopt;  // a row that does not parse was found at the start
  return (*job)->scope.owner;
}

// Offers made to one waiter touch the session again; that is looked at too, until nothing moves.
bool Engine::Impl::look_at_waiters(Work& work, std::vector<Answer>& answers) {
  for (;;) {
    std::set<core::Owner> touched = work.take_touched();
    if (touched.empty()) return true;
    touched.insert(core::Owner{});  // who waits on the whole node
    for (const core::Owner& owner : touched) {
      const auto found = waiters_.find(owner);
      if (found == waiters_.end()) continue;
      for (Waiter& waiter : found->second) {
        if (waiter.answered) continue;
        if (!run_item(work, {&waiter.command, &waiter.done, &waiter, false}, answers)) return false;
      }
    }
  }
}

bool Engine::Impl::run_timers(Work& work, std::vector<core::OwedKind>& kinds) {
  constexpr int kTimersPerBatch = 256;
  const auto due = store::due_timers(parts_.database, work.now(), kTimersPerBatch);
  if (!due) {
    parts_.warn(due.error().message);
    return true;
  }
  for (const core::Owed& owed : *due) {
    const Work::Mark mark = work.mark();
    if (!parts_.database.savepoint()) return false;
    Context shared = context();
    auto done = timer(work, shared, owed);
    if (done) done = work.flush();
    if (done) {
      if (!parts_.database.release()) return false;
      kinds.push_back(owed.kind);
      continue;
    }
    if (!parts_.database.in_transaction() || !parts_.database.rollback_to()) return false;
    work.restore(mark);
    parts_.warn("timer " + std::string(core::to_word(owed.kind)) + " " + owed.key + ": " +
                done.error().message);
    // It is tried again with back-off, so that a fault makes no hot loop.
    if (!postpone(work, owed, done.error().message)) return false;
  }
  return true;
}

void Engine::Impl::park(const Item& item) {
  const Waits waits = waits_of(*item.command);
  Waiter waiter;
  waiter.command = *item.command;
  waiter.done = *item.done;
  waiter.owner = waits.owner;
  waiter.connection = waits.connection;
  waiter.deadline = parts_.clock.mono() + waits.timeout;
  waiter.rank = waits.rank;
  waiter.fresh = true;
  std::list<Waiter>& list = waiters_[waits.owner];
  const auto at = std::ranges::find_if(list, [&](const Waiter& w) { return w.rank > waiter.rank; });
  list.insert(at, std::move(waiter));
}

void Engine::Impl::pass_points(const std::vector<Item>& items, Moment moment) {
  for (const Item& item : items) {
    // A call that waited is gone once it was answered.
    if (item.waiter == nullptr) std::visit(PassPoints{moment}, *item.command);
  }
}

// After the commit: answers and those who wait first, effects last (SPEC section 6).
void Engine::Impl::give(std::vector<Answer>& answers) {
  for (auto& [owner, list] : waiters_) {
    std::erase_if(list, [](const Waiter& w) { return w.answered; });
    for (Waiter& waiter : list) waiter.fresh = false;
  }
  std::erase_if(waiters_, [](const auto& entry) { return entry.second.empty(); });
  for (Answer& answer : answers) answer.done(std::move(answer.result));
}

}  // namespace waybill::engine
