#include "daemon/log_waits.h"

#include <optional>
#include <utility>
#include <vector>

namespace waybill::daemon {

struct LogWaits::Wait {
  edge::LogsRequest request;
  LogsDone done;
  std::optional<OutputWatch::Number> watched;
  std::unique_ptr<Timer> timer;
  bool reading = false;
  bool changed = false;  // since the read that is under way began
  bool timed_out = false;
};

LogWaits::LogWaits(Loop& loop, Worker& reader, OutputWatch& watch, ReadPage read)
    : loop_(loop), reader_(reader), watch_(watch), read_(std::move(read)) {}

LogWaits::~LogWaits() = default;

void LogWaits::start(edge::LogsRequest request, LogsDone done) {
  if (waits_.size() >= kWaitsMax) {
    return done(fail(ErrorCode::limit_reached,
                     std::to_string(kWaitsMax) + " callers already read logs; try again"));
  }
  const Number number = next_++;
  auto wait = std::make_unique<Wait>();
  wait->request = std::move(request);
  wait->done = std::move(done);
  if (wait->request.wait) {
    wait->timer = loop_.after(*wait->request.wait, [this, number] {
      const auto found = waits_.find(number);
      if (found == waits_.end()) return;
      found->second->timed_out = true;
      on_changed(number);
    });
  }
  waits_.emplace(number, std::move(wait));
  read(number);
}

void LogWaits::read(Number number) {
  Wait& wait = *waits_.at(number);
  wait.reading = true;
  wait.changed = false;
  const bool queued = reader_.post([this, number, request = wait.request] {
    // A reading that fails in an unforeseen way is still answered.
    Result<LogsPage> page = fail(ErrorCode::unavailable, "the output could not be read");
    try {
      page = read_(request);
    } catch (...) {
      loop_.post([this, number, page] { on_page(number, page); });
      throw;
    }
    loop_.post([this, number, page = std::move(page)] { on_page(number, page); });
  });
  if (!queued)
    answer(number, fail(ErrorCode::unavailable, "too many reads are waiting; try again"));
}

void LogWaits::on_page(Number number, Result<LogsPage> page) {
  const auto found = waits_.find(number);
  if (found == waits_.end()) return;
  Wait& wait = *found->second;
  wait.reading = false;
  if (!page) return answer(number, fail(std::move(page.error())));
  if (!page->nothing_new || !wait.request.wait || wait.timed_out) {
    return answer(number, std::move(page->reply));
  }
  // Only now is it known that the job exists and is the caller's. What came between the read and
  // the watch is found by reading once more.
  if (!wait.watched) {
    wait.watched = watch_.add(wait.request.job, [this, number] { on_changed(number); });
    wait.changed = true;
  }
  if (wait.changed) read(number);
}

void LogWaits::on_changed(Number number) {
  const auto found = waits_.find(number);
  if (found == waits_.end()) return;
  if (found->second->reading) {
    found->second->changed = true;
  } else {
    read(number);
  }
}

void LogWaits::answer(Number number, Result<edge::LogsReply> reply) {
  const auto found = waits_.find(number);
  const std::unique_ptr<Wait> wait = std::move(found->second);
  waits_.erase(found);
  if (wait->watched) watch_.remove(*wait->watched);
  wait->done(std::move(reply));
}

void LogWaits::connection_closed(engine::ConnectionId connection) {
  std::vector<Number> gone;
  for (const auto& [number, wait] : waits_) {
    if (wait->request.caller.connection == connection) gone.push_back(number);
  }
  for (const Number number : gone) {
    if (waits_.at(number)->watched) watch_.remove(*waits_.at(number)->watched);
    waits_.erase(number);
  }
}

}  // namespace waybill::daemon
