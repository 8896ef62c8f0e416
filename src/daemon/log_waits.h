#pragma once
// Waiting for more of a job's output without polling: a page is read; when it holds nothing new the
// job's directory is watched and the page read again when something changes.

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/result.h"
#include "daemon/loop.h"
#include "daemon/output_watch.h"
#include "daemon/worker.h"
#include "edge/service.h"

namespace waybill::daemon {

struct LogsPage {
  edge::LogsReply reply;
  bool nothing_new = false;  // no bytes, and more may come
};

// Where pages come from; runs on the reader's thread.
using ReadPage = std::function<Result<LogsPage>(const edge::LogsRequest&)>;
using LogsDone = std::function<void(Result<edge::LogsReply>)>;

// Lives on the loop's thread.
class LogWaits {
 public:
  static constexpr std::size_t kWaitsMax = 1024;

  LogWaits(Loop& loop, Worker& reader, OutputWatch& watch, ReadPage read);
  ~LogWaits();
  LogWaits(const LogWaits&) = delete;
  LogWaits& operator=(const LogWaits&) = delete;

  void start(edge::LogsRequest request, LogsDone done);

  // Its waits are forgotten, unanswered.
  void connection_closed(engine::ConnectionId connection);

 private:
  using Number = std::uint64_t;
  struct Wait;
  void read(Number number);
  void on_page(Number number, Result<LogsPage> page);
  void on_changed(Number number);
  void answer(Number number, Result<edge::LogsReply> reply);

  Loop& loop_;
  Worker& reader_;
  OutputWatch& watch_;
  const ReadPage read_;
  Number next_ = 1;
  std::unordered_map<Number, std::unique_ptr<Wait>> waits_;
};

}  // namespace waybill::daemon
