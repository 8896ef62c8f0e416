#pragma once
// What a protocol needs from the daemon. Calls come from the I/O thread and return at once;
// callbacks come back on the I/O thread, exactly once, or never when the connection was closed
// meanwhile.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/command.h"

namespace waybill::edge {

// Reads, answered by the reader thread.
struct SessionsRequest {
  TenantId tenant;
};
using Query = std::variant<engine::ShowRequest, engine::ListRequest, SessionsRequest>;
using QueryReply = std::variant<engine::JobView, engine::ListReply, engine::SessionListReply>;

struct LogsRequest {
  engine::Caller caller;
  JobId job;
  std::optional<std::uint64_t> offset;      // null: from the start, or from `tail_lines`
  std::uint64_t bytes = 64 * 1024;          // at most, of raw output, per answer
  std::optional<std::uint64_t> tail_lines;  // start so that about this many lines are left
  bool raw = false;
  std::optional<Millis>
      wait;  // nothing new and not terminal: answer when there is, at most after this
};

struct LogsReply {
  std::uint64_t offset = 0;
  std::uint64_t next_offset = 0;
  std::uint64_t end = 0;        // offset after the last byte so far
  std::vector<core::Gap> gaps;  // inside [offset, next_offset)
  std::string data;             // raw bytes, or rendered text (valid UTF-8)
  bool rendered = true;
  bool complete = false;  // the job is terminal and next_offset == end
};

// Bytes for the standard input of a job.
struct WriteRequest {
  engine::Caller caller;
  JobId job;
  std::string data;
  bool close = false;      // afterwards
  Millis timeout{30'000};  // for the job's start and for room
};

// Never hides bytes that were taken: an error means that none of them were.
struct WriteReply {
  engine::JobView job;
  std::uint64_t written = 0;
  bool closed = false;  // nothing more can be written
  bool timed_out = false;
};

// What `doctor` finds about this daemon; one line each.
struct Finding {
  std::string subject;  // "store", "shim", "survival", "sandbox" …
  enum class Level { ok, warning, problem } level = Level::ok;
  std::string message;
};

struct ShutdownRequest {
  bool stop_jobs = false;
  std::string reason;
};

struct BackupReply {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint64_t newest_receipt = 0;
};

class Service {
 public:
  virtual ~Service() = default;

  virtual engine::ConnectionId new_connection() = 0;
  virtual void submit(engine::Command command, std::function<void(Result<engine::Reply>)> done) = 0;
  virtual void query(Query query, std::function<void(Result<QueryReply>)> done) = 0;
  virtual void logs(LogsRequest request, std::function<void(Result<LogsReply>)> done) = 0;
  virtual void write(WriteRequest request, std::function<void(Result<WriteReply>)> done) = 0;
  virtual void doctor(std::function<void(std::vector<Finding>)> done) = 0;
  virtual void backup(std::string path, std::function<void(Result<BackupReply>)> done) = 0;
  // `done` is called when the stop wishes are confirmed (stop_jobs) or at once; then the daemon
  // ends.
  virtual void shutdown(ShutdownRequest request, std::function<void(Result<void>)> done) = 0;
  virtual const Settings& settings() const = 0;
};

}  // namespace waybill::edge
