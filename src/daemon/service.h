#pragma once
// The edge's view of the daemon, put together from its threads. Lives on the loop's thread; answers
// come back there.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/engine_thread.h"
#include "daemon/input_writes.h"
#include "daemon/log_waits.h"
#include "daemon/loop.h"
#include "daemon/worker.h"
#include "edge/service.h"
#include "engine/queries.h"

namespace waybill::daemon {

class DaemonService final : public edge::Service {
 public:
  struct Parts {
    Loop& loop;
    EngineThread& engine;
    Worker& reader;
    engine::Queries& queries;  // used on the reader's thread only
    LogWaits& logs;
    InputWrites& writes;
    Settings settings;
    std::function<std::vector<edge::Finding>()> examine;                   // on the reader's thread
    std::function<void()> end;                                             // the daemon ends
    Worker& copier;                                                        // for backups alone
    std::function<Result<edge::BackupReply>(const std::string&)> back_up;  // on its thread
    // Status that can be told without the engine, when that is poisoned.
    engine::StatusReply basic_status;
  };

  explicit DaemonService(Parts parts);

  engine::ConnectionId new_connection() override;
  void submit(engine::Command command, std::function<void(Result<engine::Reply>)> done) override;
  void query(edge::Query query, std::function<void(Result<edge::QueryReply>)> done) override;
  void logs(edge::LogsRequest request, std::function<void(Result<edge::LogsReply>)> done) override;
  void write(edge::WriteRequest request,
             std::function<void(Result<edge::WriteReply>)> done) override;
  void doctor(std::function<void(std::vector<edge::Finding>)> done) override;
  void backup(std::string path, std::function<void(Result<edge::BackupReply>)> done) override;
  void shutdown(edge::ShutdownRequest request, std::function<void(Result<void>)> done) override;
  const Settings& settings() const override;

 private:
  Result<void> may_change() const;
  bool answer_without_engine(const engine::Command& command, const engine::Done& done);
  engine::Done with_identity(engine::Done done) const;
  void to_engine(engine::Command command, engine::Done done);

  Parts parts_;
  engine::ConnectionId next_connection_ = 1;
};

}  // namespace waybill::daemon
