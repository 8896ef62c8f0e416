#pragma once
// A scripted daemon for tests: it remembers what it was asked and answers when told to.

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "edge/service.h"

namespace waybill::edge {

class FakeService final : public Service {
 public:
  using Script = std::function<Result<engine::Reply>(const engine::Command&)>;

  engine::ConnectionId new_connection() override { return ++connections; }
  void submit(engine::Command command, std::function<void(Result<engine::Reply>)> done) override {
    commands.push_back(command);
    if (hold) {
      held.push_back(std::move(done));
      return;
    }
    done(script ? script(command) : Result<engine::Reply>(engine::Reply{}));
  }
  void query(Query query, std::function<void(Result<QueryReply>)> done) override {
    queries.push_back(std::move(query));
    done(query_reply);
  }
  void logs(LogsRequest request, std::function<void(Result<LogsReply>)> done) override {
    log_requests.push_back(std::move(request));
    done(logs_reply);
  }
  void write(WriteRequest request, std::function<void(Result<WriteReply>)> done) override {
    writes.push_back(std::move(request));
    done(write_reply);
  }
  void doctor(std::function<void(std::vector<Finding>)> done) override { done(findings); }
  void backup(std::string path, std::function<void(Result<BackupReply>)> done) override {
    backups.push_back(std::move(path));
    done(backup_reply);
  }
  void shutdown(ShutdownRequest request, std::function<void(Result<void>)> done) override {
    shutdowns.push_back(std::move(request));
    done({});
  }
  const Settings& settings() const override { return the_settings; }

  Settings the_settings;
  Script script;
  bool hold = false;
  std::uint64_t connections = 0;
  std::vector<engine::Command> commands;
  std::vector<std::function<void(Result<engine::Reply>)>> held;
  std::vector<Query> queries;
  Result<QueryReply> query_reply{engine::ListReply{}};
  std::vector<LogsRequest> log_requests;
  Result<LogsReply> logs_reply{LogsReply{}};
  std::vector<WriteRequest> writes;
  Result<WriteReply> write_reply{WriteReply{}};
  std::vector<Finding> findings;
  std::vector<std::string> backups;
  Result<BackupReply> backup_reply{BackupReply{}};
  std::vector<ShutdownRequest> shutdowns;
};

}  // namespace waybill::edge
