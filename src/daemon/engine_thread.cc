#include "daemon/engine_thread.h"

#include <algorithm>
#include <exception>
#include <future>
#include <utility>

namespace waybill::daemon {
namespace {

// Whatever happens to a ticket, even an exception that destroys it, its caller hears once.
class AnswerOnce {
 public:
  explicit AnswerOnce(engine::Done done) : done_(std::move(done)) {}
  ~AnswerOnce() {
    answer(fail(ErrorCode::unavailable,
                "the daemon could not finish this; see daemon.log and `waybill doctor`"));
  }
  AnswerOnce(const AnswerOnce&) = delete;
  AnswerOnce& operator=(const AnswerOnce&) = delete;

  void answer(Result<engine::Reply> reply) {
    if (auto done = std::exchange(done_, nullptr)) done(std::move(reply));
  }

 private:
  engine::Done done_;
};

engine::Done once(engine::Done done) {
  auto guard = std::make_shared<AnswerOnce>(std::move(done));
  return [guard](Result<engine::Reply> reply) { guard->answer(std::move(reply)); };
}

}  // namespace

EngineThread::EngineThread(Hooks hooks) : hooks_(std::move(hooks)) {}

EngineThread::~EngineThread() { stop(); }

Result<void> EngineThread::start(Open open) {
  std::promise<Result<void>> promise;
  auto result = promise.get_future();
  thread_ = std::thread([this, open = std::move(open), &promise] {
    main(open, [&promise](Result<void> opened) { promise.set_value(std::move(opened)); });
  });
  return result.get();
}

void EngineThread::submit(engine::Command command, engine::Done done) {
  std::unique_lock lock(mutex_);
  const std::string refusal = refusal_now();
  if (refusal.empty()) {
    tickets_.push_back({std::move(command), once(std::move(done))});
    lock.unlock();
    wake_.notify_one();
    return;
  }
  lock.unlock();
  done(fail(ErrorCode::unavailable, refusal));
}

// Why no ticket is taken, "" when one is. Under the lock.
std::string EngineThread::refusal_now() const {
  if (stopping_ || ended_) return "the daemon is shutting down";
  if (!poisoned_.empty()) return poisoned_;
  if (tickets_.size() < kQueueMax) return "";
  return "the daemon has " + std::to_string(kQueueMax) + " requests waiting; try again";
}

void EngineThread::report(core::JobFacts facts) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;  // the files still say it; the next daemon reads them
    const JobId job = facts.job;
    const auto [place, is_new] = facts_.insert_or_assign(job, std::move(facts));
    if (is_new) reported_.push_back(job);
  }
  wake_.notify_one();
}

void EngineThread::tell(engine::Command happened) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return;
    told_.push_back(std::move(happened));
  }
  wake_.notify_one();
}

void EngineThread::poison(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    if (!poisoned_.empty()) return;
    poisoned_ = reason + "; nothing is changed until the daemon is restarted";
  }
  hooks_.on_poisoned(reason);
  wake_.notify_one();
}

std::string EngineThread::poisoned() const {
  const std::lock_guard lock(mutex_);
  return poisoned_;
}

std::string EngineThread::regressed() const {
  const std::lock_guard lock(mutex_);
  return regressed_;
}

void EngineThread::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void EngineThread::main(const Open& open, const std::function<void(Result<void>)>& opened) {
  std::unique_ptr<EngineSeat> seat;
  Result<void> result;
  try {
    auto made = open();
    if (made) {
      seat = std::move(*made);
      note_regressed(*seat);
    } else {
      result = fail(made.error());
    }
  } catch (const std::exception& error) {
    result =
        fail(ErrorCode::unavailable, std::string("the store cannot be opened: ") + error.what());
  }
  opened(std::move(result));
  if (seat) serve(*seat);
  std::deque<engine::Ticket> left;
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    left.swap(tickets_);
  }
  for (engine::Ticket& ticket : left) {
    ticket.done(fail(ErrorCode::unavailable, "the daemon is shutting down"));
  }
}

void EngineThread::serve(EngineSeat& seat) {
  bool trusted = true;  // false after an exception: its memory may contradict the store
  for (;;) {
    std::optional<Millis> due;
    if (trusted) due = seat.next_due();
    Work work = next(due);
    const bool stop = work.stop;
    if (trusted) {
      try {
        run(seat, std::move(work));
        if (stop) seat.close();
      } catch (const std::exception& error) {
        trusted = false;
        poison(std::string("the engine met something that cannot happen: ") + error.what());
      }
    } else {
      const std::string why = poisoned();
      for (engine::Ticket& ticket : work.batch) ticket.done(fail(ErrorCode::unavailable, why));
    }
    if (stop) return;
  }
}

// Waits for work: reports and what is told first, and always room for some tickets.
EngineThread::Work EngineThread::next(std::optional<Millis> due) {
  std::unique_lock lock(mutex_);
  const auto ready = [this] {
    return stopping_ || !tickets_.empty() || !reported_.empty() || !told_.empty();
  };
  Work work;
  if (due) {
    // Never less than a millisecond: a due time that does not move must not become a hot loop.
    work.tick = !wake_.wait_for(lock, std::max(*due, Millis{1}), ready) || *due <= Millis{0};
  } else {
    wake_.wait(lock, ready);
  }
  take_reports(work.batch);
  while (!tickets_.empty() && work.batch.size() < kBatchMax) {
    work.batch.push_back(std::move(tickets_.front()));
    tickets_.pop_front();
  }
  work.stop = stopping_ && tickets_.empty() && reported_.empty() && told_.empty();
  return work;
}

void EngineThread::take_reports(std::vector<engine::Ticket>& batch) {
  constexpr std::size_t kReportsMax = kBatchMax * 3 / 4;
  while (!reported_.empty() && batch.size() < kReportsMax) {
    auto node = facts_.extract(reported_.front());
    reported_.pop_front();
    batch.push_back(facts_ticket(std::move(node.mapped())));
  }
  while (!told_.empty() && batch.size() < kReportsMax) {
    batch.push_back({std::move(told_.front()), [](const Result<engine::Reply>&) {}});
    told_.pop_front();
  }
}

engine::Ticket EngineThread::facts_ticket(core::JobFacts facts) {
  auto done = [this, job = facts.job](const Result<engine::Reply>&) { hooks_.on_facts(job); };
  return {engine::ObservedFacts{std::move(facts)}, std::move(done)};
}

bool EngineThread::may_end_jobs(const engine::Command& command) const {
  return std::holds_alternative<engine::StopRequest>(command) ||
         std::holds_alternative<engine::StopAllRequest>(command) ||
         std::holds_alternative<engine::TurnRequest>(command);
}

void EngineThread::run(EngineSeat& seat, Work work) {
  const bool changes =
      work.tick || std::any_of(work.batch.begin(), work.batch.end(),
                               [this](const auto& ticket) { return may_end_jobs(ticket.command); });
  if (!work.batch.empty()) seat.run_batch(std::move(work.batch));
  if (work.tick) seat.tick();
  note_poison(seat);
  note_regressed(seat);
  if (changes) hooks_.on_change();
}

void EngineThread::note_regressed(const EngineSeat& seat) {
  std::string now = seat.regressed();
  const std::lock_guard lock(mutex_);
  regressed_ = std::move(now);
}

void EngineThread::note_poison(const EngineSeat& seat) {
  if (poison_noted_ || seat.poisoned().empty()) return;
  poison_noted_ = true;
  hooks_.on_poisoned(seat.poisoned());
}

}  // namespace waybill::daemon
