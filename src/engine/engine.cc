#include "engine/engine.h"

#include <algorithm>
#include <utility>

#include "engine/access.h"
#include "engine/deliver.h"
#include "engine/engine_impl.h"
#include "engine/jobs.h"
#include "engine/owners.h"
#include "engine/retention.h"
#include "store/check.h"
#include "store/monitors.h"
#include "store/node.h"

namespace waybill::engine {
namespace {

constexpr Millis kTimersPause{1000};

}  // namespace

// ---- start -------------------------------------------------------------------------------------

Result<void> Engine::Impl::open() {
  parts_.database.on_damage([this](const std::string& what) { poison_damaged(what); });
  TRY(due_.open(parts_.database));
  TRY(load());
  if (!parts_.regressed.empty()) return {};  // what runs, runs on; what is there, is kept
  if (parts_.copy) TRY(take_copy());
  return recover();
}

// Everything that is kept in memory, from rows.
Result<void> Engine::Impl::load() {
  TRY_ASSIGN(sequences_.job, store::max_job_seq(parts_.database));
  TRY_ASSIGN(sequences_.node, store::max_node_seq(parts_.database));
  TRY_ASSIGN(sequences_.inbox, store::max_inbox_seq(parts_.database));
  TRY_ASSIGN(sequences_.running, store::count_running(parts_.database));
  TRY_ASSIGN(const std::vector<store::BadRow> bad, store::check_live_rows(parts_.database));
  Work work = make_work();
  if (!poisoned_.empty()) return fail(poisoned_as_, poisoned_);
  for (const store::BadRow& row : bad) work.poison(row.owner, row.what);
  return {};
}

// What is owed, from rows.
Result<void> Engine::Impl::recover() {
  Work work = make_work();
  TRY(parts_.database.begin());
  const auto derive = [&]() -> Result<void> {
    TRY(check_place(work));
    TRY(refuse_unrecoverable(work));
    TRY(return_rows_of_earlier_daemon(work));
    TRY(renew_leases_after_restart(work));
    TRY(recover_jobs(work));
    TRY(plan_prune(work));
    TRY(work.flush());
    TRY(due_.keep(parts_.database, true));
    crash_point("open.before_commit");
    return parts_.database.commit();
  };
  if (auto recovered = derive(); !recovered) {
    parts_.database.rollback();
    return recovered;
  }
  due_.kept();
  crash_point("open.after_commit");
  mark();
  perform(work.after());
  crash_point("open.after_effects");
  return {};
}

// ---- effects -----------------------------------------------------------------------------------

void Engine::Impl::perform(const Work::After& after) {
  Work work = make_work();
  for (const JobId& job : after.supervise) supervise(work, job);
  for (const JobId& job : after.forget) parts_.channel.forget(job);
  for (const core::Owner& owner : after.released) poisoned_owners_.erase(owner);
  told_refused_ = std::min(told_refused_, poisoned_owners_.size());
  for (const JobId& job : after.unmonitor) {
    if (parts_.monitor) parts_.monitor(job, {});
  }
  for (const core::Owner& owner : after.watch) {
    const auto session = store::find_session(parts_.database, owner);
    if (!session || !*session || !(*session)->host_pid) continue;
    parts_.watch_host(owner, *(*session)->host_pid, (*session)->host_pid_start.value_or(0));
  }
}

void Engine::Impl::supervise(Work& work, const JobId& id) {
  const auto job = store::find_job(parts_.database, id);
  if (!job || !*job) {
    parts_.warn("job " + id.str() + " cannot be supervised: " +
                (job ? std::string("it is not there") : job.error().message));
    return;
  }
  // Nobody touches what may be alive at another place, whoever asks (I12).
  const auto elsewhere = store::is_unrecoverable(parts_.database, id);
  if (!elsewhere || *elsewhere) return;
  start_monitors(**job);
  auto order = supervise_order(work, **job);
  if (!order) {
    // Kept, not launched (SPEC section 8); the owner is refused until a person has looked.
    work.poison((*job)->scope.owner, order.error().message);
    return;
  }
  // What runs is watched on; nothing new is started for an owner that is refused (I12).
  if (work.poisoned((*job)->scope.owner)) order->launch.reset();
  pass(core::OwedKind::supervise, OwedMoment::before);
  parts_.channel.supervise(std::move(*order));
  pass(core::OwedKind::supervise, OwedMoment::after);
}

void Engine::Impl::start_monitors(const store::JobRow& job) {
  if (job.monitors == 0 || job.status != core::JobStatus::running || !parts_.monitor) return;
  auto monitors = store::monitors_of(parts_.database, job.id);
  if (!monitors)
    return parts_.warn("job " + job.id.str() + " is not monitored: " + monitors.error().message);
  parts_.monitor(job.id, std::move(*monitors));
}

// ---- time --------------------------------------------------------------------------------------

void Engine::Impl::tick() {
  if (!poisoned_.empty() || !parts_.regressed.empty()) return;
  const MonoTime now = parts_.clock.mono();
  std::vector<Item> items;
  for (auto& [owner, list] : waiters_) {
    for (Waiter& waiter : list) {
      if (waiter.deadline <= now) items.push_back({&waiter.command, &waiter.done, &waiter, true});
    }
  }
  const auto timer = store::next_timer(parts_.database);
  timers_due_ = timer && *timer && **timer <= due_.now() && timers_after_ <= now;
  if (!items.empty() || timers_due_) {
    Error why{ErrorCode::unavailable, {}};
    const bool done = transact(items, why) == Outcome::committed;
    // A full disk makes no hot loop: timers pause, callers whose time is over are told.
    if (!done && timers_due_) timers_after_ = now + kTimersPause;
    timers_due_ = false;
    if (!done) run_singly(items);
  }
  timers_due_ = false;
  if (!poisoned_.empty()) return;
  const auto room_due = room_.due_in(sequences_.running > 0);
  if (room_due && *room_due <= Millis(0)) room_.check();
  if (!held_.empty() && held_due_ <= now) retry_held();
}

std::optional<Millis> Engine::Impl::next_due() const {
  if (!poisoned_.empty() || !parts_.regressed.empty()) return std::nullopt;
  std::optional<Millis> due;
  const auto consider = [&](Millis left) {
    left = std::max(left, Millis(0));
    if (!due || left < *due) due = left;
  };
  const MonoTime now = parts_.clock.mono();
  if (!held_.empty()) consider(std::chrono::ceil<Millis>(held_due_ - now));
  for (const auto& [owner, list] : waiters_) {
    for (const Waiter& waiter : list) {
      consider(std::chrono::ceil<Millis>(waiter.deadline - now));
    }
  }
  if (const auto room = room_.due_in(sequences_.running > 0)) consider(*room);
  const auto timer = store::next_timer(parts_.database);
  if (timer && *timer) {
    const Millis left = **timer - due_.now();
    consider(std::max(left, std::chrono::ceil<Millis>(timers_after_ - now)));
  }
  return due;
}

// ---- the rest ----------------------------------------------------------------------------------

void Engine::Impl::close() {
  for (auto& [owner, list] : waiters_) {
    for (Waiter& waiter : list) {
      waiter.done(
          fail(ErrorCode::unavailable, "The daemon is ending; ask again, it will be started."));
    }
  }
  waiters_.clear();
}

void Engine::Impl::poison(const Error& error) {
  poisoned_ = "A commit failed in a way that leaves open what is on the disk: " + error.message +
              " Look at the disk, then restart the daemon; nothing was discarded.";
  parts_.warn(poisoned_);
}

// What a page says cannot be trusted any more, so nothing that was read from it may be acted upon
// (I12).
void Engine::Impl::poison_damaged(const std::string& what) {
  if (!poisoned_.empty()) return;
  poisoned_as_ = ErrorCode::state_corrupt;
  poisoned_ = "The store is damaged: " + what +
              ". Nothing is changed and nothing is started any more; restore a backup or repair it "
              "with sqlite3, then restart the daemon. Jobs run on.";
  parts_.warn(poisoned_);
}

Result<Reply> Engine::Impl::answer_poisoned(const Command& command) {
  Work work = make_work();
  Context shared = context();
  if (auto read = read_only(work, shared, command)) {
    if (auto* status = *read ? std::get_if<StatusReply>(&**read) : nullptr)
      status->poisoned = poisoned_;
    return std::move(*read);
  }
  return fail(poisoned_as_, poisoned_);
}

void Engine::Impl::drop_waiters_of(ConnectionId connection) {
  for (auto& [owner, list] : waiters_) {
    std::erase_if(list, [&](const Waiter& waiter) { return waiter.connection == connection; });
  }
  std::erase_if(waiters_, [](const auto& entry) { return entry.second.empty(); });
}

namespace {

bool waits_for_deliveries(const Waiter& waiter) {
  return std::holds_alternative<InboxRequest>(waiter.command) ||
         std::holds_alternative<WakeRequest>(waiter.command);
}

}  // namespace

bool Engine::Impl::reachable(const core::Owner& owner) const {
  const auto found = waiters_.find(owner);
  return found != waiters_.end() && std::ranges::any_of(found->second, waits_for_deliveries);
}

std::vector<SessionId> Engine::Impl::all_reachable() const {
  constexpr std::size_t kMost = 1000;
  std::vector<SessionId> sessions;
  for (const auto& [owner, list] : waiters_) {
    if (sessions.size() == kMost) break;
    if (core::is_user_session(owner)) continue;
    if (std::ranges::any_of(list, waits_for_deliveries)) sessions.push_back(owner.session);
  }
  return sessions;
}

// One call at a time waits for a session's wake: the newest, which its client will keep longest.
void Engine::Impl::replace_earlier(const Item& item, std::vector<Answer>& answers) {
  const auto* request = std::get_if<WakeRequest>(item.command);
  if (request == nullptr) return;
  for (Waiter& waiter : waiters_[request->caller.owner]) {
    if (waiter.answered || !std::holds_alternative<WakeRequest>(waiter.command)) continue;
    waiter.answered = true;
    answers.push_back({waiter.done, Reply(WakeReply{false, true})});
  }
}

Engine::Engine(Parts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {}
Engine::~Engine() = default;
Result<void> Engine::open() { return impl_->open(); }
void Engine::run_batch(std::vector<Ticket> batch) { impl_->run_batch(std::move(batch)); }
void Engine::tick() { impl_->tick(); }
std::optional<Millis> Engine::next_due() const { return impl_->next_due(); }
void Engine::close() { impl_->close(); }
const std::string& Engine::poisoned() const { return impl_->poisoned(); }

}  // namespace waybill::engine
