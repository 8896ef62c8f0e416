#pragma once
// Writes to the standard input of jobs that do not fit at once: they wait for the job's start and
// for room in its FIFO without a thread of their own and without polling. Writes to one job are
// done one after the other, in the order in which they came.

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "base/unique_fd.h"
#include "daemon/loop.h"
#include "daemon/output_watch.h"
#include "daemon/worker.h"
#include "edge/service.h"
#include "engine/queries.h"

namespace waybill::daemon {

// One look and try.
struct WriteStep {
  engine::JobView job;
  std::uint64_t taken = 0;
  enum class Next {
    done,    // everything that was asked
    closed,  // nothing more can be written
    start,   // again when the job has changed
    room,    // again when `fd` is writable
  } next = Next::done;
  UniqueFd fd;
};

// Writes what is left of the request from byte `done` on, or only looks when `look_only`. Runs on
// the reader's thread. An error means that this step took nothing and that no other one would.
using WriteSome = std::function<Result<WriteStep>(const edge::WriteRequest& request,
                                                  std::uint64_t done, bool look_only)>;
using WriteDone = std::function<void(Result<edge::WriteReply>)>;

WriteSome write_some_of(engine::Queries& queries, std::string data_dir);

// Lives on the loop's thread.
class InputWrites {
 public:
  static constexpr std::size_t kWritesMax = 256;

  InputWrites(Loop& loop, Worker& reader, OutputWatch& watch, std::string data_dir,
              WriteSome write);
  ~InputWrites();
  InputWrites(const InputWrites&) = delete;
  InputWrites& operator=(const InputWrites&) = delete;

  void start(edge::WriteRequest request, WriteDone done);

  // Its writes go no further; what they would have answered is forgotten.
  void connection_closed(engine::ConnectionId connection);

  // The daemon ends: everyone is told what was taken.
  void finish();

 private:
  using Number = std::uint64_t;
  struct Write;
  void step(Number number);
  void on_step(Number number, Result<std::shared_ptr<WriteStep>> step);
  void wait_for(Number number, WriteStep& step);
  void on_changed(Number number);
  void on_time_out(Number number);
  void answer(Number number, Result<edge::WriteReply> reply);
  void answer_taken(Number number, bool closed);
  void remove(Number number);
  bool is_first(Number number) const;

  Loop& loop_;
  Worker& reader_;
  OutputWatch& watch_;
  const std::string data_dir_;
  const WriteSome write_;
  Number next_ = 1;
  std::unordered_map<Number, std::unique_ptr<Write>> writes_;
  std::unordered_map<JobId, std::deque<Number>> by_job_;
};

}  // namespace waybill::daemon
