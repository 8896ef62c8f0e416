#include "daemon/input_writes.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "supervise/job_input.h"

namespace waybill::daemon {
namespace {

using supervise::InputState;

Error no_input(const JobId& job) {
  return {ErrorCode::bad_request, "Job " + job.str() +
                                      " has no standard input to write to; start it with --stdin "
                                      "(`stdin` in `job.run`)."};
}

// Why nothing can be written to a job that runs.
Error why_not(const JobId& job, InputState state, int error) {
  const std::string name = "of job " + job.str();
  switch (state) {
    case InputState::closed:
      return {ErrorCode::conflict,
              "The standard input " + name + " was closed by an earlier write."};
    case InputState::unread:
      return {ErrorCode::conflict, "The command " + name + " has closed its standard input."};
    case InputState::lost:
      return {ErrorCode::conflict,
              "The supervisor " + name + " is gone, and the job's standard input with it."};
    case InputState::open:
    case InputState::full:
    case InputState::not_started:
    case InputState::failed:
      break;
  }
  return {ErrorCode::unavailable,
          "The standard input " + name + " cannot be written to: " + strerrordesc_np(error) + "."};
}

Result<WriteStep> close_after(const std::string& data_dir, const JobId& job, WriteStep step) {
  if (const int error = supervise::close_input(data_dir, job)) {
    if (step.taken == 0) return fail(why_not(job, InputState::failed, error));
    step.next = WriteStep::Next::done;  // the answer says that it is not closed
    return step;
  }
  step.next = WriteStep::Next::closed;
  return step;
}

Result<WriteStep> write_some(const std::string& data_dir, const edge::WriteRequest& request,
                             std::uint64_t done, WriteStep step) {
  const std::string_view rest = std::string_view(request.data).substr(done);
  supervise::InputFeed feed = supervise::feed_input(data_dir, request.job, rest);
  step.taken = feed.taken;
  switch (feed.state) {
    case InputState::open:
      if (!request.close) return step;
      return close_after(data_dir, request.job, std::move(step));
    case InputState::full:
      step.next = WriteStep::Next::room;
      step.fd = std::move(feed.fd);
      return step;
    case InputState::not_started:
      step.next = WriteStep::Next::start;
      return step;
    case InputState::closed:
      // The one who closed it may have died before the hint.
      if (request.close) supervise::close_input(data_dir, request.job);
      break;
    case InputState::unread:
    case InputState::lost:
    case InputState::failed:
      break;
  }
  step.next = WriteStep::Next::closed;
  const bool ended_as_wished = rest.empty() && feed.state != InputState::failed;
  if (ended_as_wished || done + step.taken > 0) return step;
  return fail(why_not(request.job, feed.state, feed.error));
}

}  // namespace

WriteSome write_some_of(engine::Queries& queries, std::string data_dir) {
  return [&queries, data_dir = std::move(data_dir)](const edge::WriteRequest& request,
                                                    std::uint64_t done,
                                                    bool look_only) -> Result<WriteStep> {
    WriteStep step;
    TRY_ASSIGN(step.job, queries.show(request.caller, request.job));
    if (step.job.stdin_policy != core::StdinPolicy::open) return fail(no_input(request.job));
    if (core::is_terminal(step.job.status)) {
      step.next = WriteStep::Next::closed;
      if (done > 0) return step;
      return fail(ErrorCode::already_terminal, "Job " + request.job.str() + " has ended (" +
                                                   std::string(core::to_word(step.job.status)) +
                                                   "); nobody reads its input.");
    }
    if (look_only) return step;
    if (step.job.status == core::JobStatus::queued) {
      step.next = WriteStep::Next::start;
      return step;
    }
    return write_some(data_dir, request, done, std::move(step));
  };
}

struct InputWrites::Write {
  edge::WriteRequest request;
  WriteDone done;
  std::uint64_t taken = 0;
  std::optional<engine::JobView> job;  // as it was last seen
  std::optional<OutputWatch::Number> watched;
  std::unique_ptr<Timer> timer;
  UniqueFd fd;  // waited for; declared before its watch
  std::unique_ptr<Watch> room;
  bool stepping = false;
  bool changed = false;  // since the step that is under way began
  bool timed_out = false;
  bool behind = false;  // its time was over before its turn
};

InputWrites::InputWrites(Loop& loop, Worker& reader, OutputWatch& watch, std::string data_dir,
                         WriteSome write)
    : loop_(loop),
      reader_(reader),
      watch_(watch),
      data_dir_(std::move(data_dir)),
      write_(std::move(write)) {}

InputWrites::~InputWrites() = default;

void InputWrites::start(edge::WriteRequest request, WriteDone done) {
  if (writes_.size() >= kWritesMax) {
    return done(fail(ErrorCode::limit_reached,
                     std::to_string(kWritesMax) + " writes are waiting already; try again"));
  }
  const Number number = next_++;
  auto write = std::make_unique<Write>();
  write->request = std::move(request);
  write->done = std::move(done);
  write->timer = loop_.after(write->request.timeout, [this, number] { on_time_out(number); });
  by_job_[write->request.job].push_back(number);
  writes_.emplace(number, std::move(write));
  if (is_first(number)) step(number);
}

bool InputWrites::is_first(Number number) const {
  return by_job_.at(writes_.at(number)->request.job).front() == number;
}

void InputWrites::step(Number number) {
  Write& write = *writes_.at(number);
  write.stepping = true;
  write.changed = false;
  write.room.reset();
  write.fd.reset();
  // Whose time is over before its turn only learns how the job stands.
  const bool look_only = write.timed_out && !is_first(number);
  write.behind = look_only;
  const bool queued = reader_.post([this, number, look_only, request = write.request,
                                    done = write.taken] {
    // A step that fails in an unforeseen way is still answered.
    Result<std::shared_ptr<WriteStep>> out =
        fail(ErrorCode::unavailable, "the job's input could not be written");
    const auto tell = [&] { loop_.post([this, number, out] { on_step(number, out); }); };
    try {
      Result<WriteStep> step = write_(request, done, look_only);
      out = step ? Result<std::shared_ptr<WriteStep>>(std::make_shared<WriteStep>(std::move(*step)))
                 : fail(std::move(step.error()));
    } catch (...) {
      tell();
      throw;
    }
    tell();
  });
  if (queued) return;
  write.stepping = false;
  if (write.taken > 0) return answer_taken(number, false);
  answer(number, fail(ErrorCode::unavailable, "too many reads are waiting; try again"));
}

void InputWrites::on_step(Number number, Result<std::shared_ptr<WriteStep>> step) {
  const auto found = writes_.find(number);
  if (found == writes_.end()) return;
  Write& write = *found->second;
  write.stepping = false;
  if (!step) {
    if (write.taken > 0) return answer_taken(number, false);
    return answer(number, fail(std::move(step.error())));
  }
  WriteStep& taken = **step;
  write.job = std::move(taken.job);
  write.taken += taken.taken;
  switch (taken.next) {
    case WriteStep::Next::done:
      return answer_taken(number, false);
    case WriteStep::Next::closed:
      return answer_taken(number, true);
    case WriteStep::Next::start:
    case WriteStep::Next::room:
      if (write.timed_out) return answer_taken(number, false);
      return wait_for(number, taken);
  }
}

void InputWrites::wait_for(Number number, WriteStep& step) {
  Write& write = *writes_.at(number);
  if (step.next == WriteStep::Next::room) {
    write.fd = std::move(step.fd);
    write.room = loop_.watch(write.fd.get());
    write.room->writable([this, number] { this->step(number); });
  }
  // What came between the step and the watch is found by another step.
  if (write.watched) {
    if (write.changed) on_changed(number);
    return;
  }
  write.watched = watch_.add(write.request.job, [this, number] { on_changed(number); });
  this->step(number);
}

void InputWrites::on_changed(Number number) {
  const auto found = writes_.find(number);
  if (found == writes_.end()) return;
  Write& write = *found->second;
  if (write.stepping) {
    write.changed = true;
    return;
  }
  // The job's directory changes with every piece of output; while room is waited for, only the end
  // of the command matters.
  if (write.room && !supervise::main_end_recorded(data_dir_, write.request.job)) return;
  step(number);
}

void InputWrites::on_time_out(Number number) {
  const auto found = writes_.find(number);
  if (found == writes_.end()) return;
  found->second->timed_out = true;
  if (!found->second->stepping) step(number);
}

void InputWrites::answer_taken(Number number, bool closed) {
  Write& write = *writes_.at(number);
  edge::WriteReply reply;
  reply.job = std::move(*write.job);
  reply.written = write.taken;
  reply.closed = closed;
  const bool all =
      !write.behind && write.taken == write.request.data.size() && (closed || !write.request.close);
  reply.timed_out = write.timed_out && !all && !closed;
  answer(number, std::move(reply));
}

void InputWrites::answer(Number number, Result<edge::WriteReply> reply) {
  const WriteDone done = std::move(writes_.at(number)->done);
  remove(number);
  done(std::move(reply));
}

// The next one for the same job, if there is one, begins.
void InputWrites::remove(Number number) {
  const auto found = writes_.find(number);
  const std::unique_ptr<Write> write = std::move(found->second);
  writes_.erase(found);
  if (write->watched) watch_.remove(*write->watched);
  const auto queue = by_job_.find(write->request.job);
  const bool first = queue->second.front() == number;
  std::erase(queue->second, number);
  if (queue->second.empty()) {
    by_job_.erase(queue);
  } else if (first && !writes_.at(queue->second.front())->stepping) {
    step(queue->second.front());
  }
}

void InputWrites::connection_closed(engine::ConnectionId connection) {
  std::vector<Number> gone;
  for (const auto& [number, write] : writes_) {
    if (write->request.caller.connection == connection) gone.push_back(number);
  }
  for (const Number number : gone) remove(number);
}

void InputWrites::finish() {
  std::vector<std::pair<WriteDone, Result<edge::WriteReply>>> answers;
  for (auto& [number, write] : writes_) {
    if (write->watched) watch_.remove(*write->watched);
    Result<edge::WriteReply> reply =
        fail(ErrorCode::unavailable, "the daemon ends; nothing of this write was taken");
    if (write->taken > 0) {
      reply = edge::WriteReply{std::move(*write->job), write->taken, false, true};
    }
    answers.emplace_back(std::move(write->done), std::move(reply));
  }
  writes_.clear();
  by_job_.clear();
  for (auto& [done, reply] : answers) done(std::move(reply));
}

}  // namespace waybill::daemon
