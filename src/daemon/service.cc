#include "daemon/service.h"

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

namespace waybill::daemon {
namespace {

constexpr char kBusy[] = "too many reads are waiting; try again";

Result<edge::QueryReply> run_query(engine::Queries& queries, const edge::Query& query) {
  if (const auto* show = std::get_if<engine::ShowRequest>(&query)) {
    TRY_ASSIGN(engine::JobView view, queries.show(show->caller, show->job));
    return edge::QueryReply(std::move(view));
  }
  if (const auto* list = std::get_if<engine::ListRequest>(&query)) {
    TRY_ASSIGN(engine::ListReply reply, queries.list(*list));
    return edge::QueryReply(std::move(reply));
  }
  TRY_ASSIGN(engine::SessionListReply reply,
             queries.sessions(std::get<edge::SessionsRequest>(query).tenant));
  return edge::QueryReply(std::move(reply));
}

}  // namespace

DaemonService::DaemonService(Parts parts) : parts_(std::move(parts)) {}

engine::ConnectionId DaemonService::new_connection() { return next_connection_++; }

const Settings& DaemonService::settings() const { return parts_.settings; }

void DaemonService::submit(engine::Command command,
                           std::function<void(Result<engine::Reply>)> done) {
  if (const auto* closed = std::get_if<engine::ConnectionClosed>(&command)) {
    parts_.logs.connection_closed(closed->connection);
    parts_.writes.connection_closed(closed->connection);
    parts_.engine.tell(*closed);
    return;
  }
  if (answer_without_engine(command, done)) return;
  if (std::holds_alternative<engine::StatusRequest>(command)) done = with_identity(std::move(done));
  to_engine(std::move(command), std::move(done));
}

// The engine knows the state of the work; which process serves it is the daemon's to say.
engine::Done DaemonService::with_identity(engine::Done done) const {
  return [done = std::move(done), &basic = parts_.basic_status](Result<engine::Reply> reply) {
    if (auto* status = reply ? std::get_if<engine::StatusReply>(&*reply) : nullptr) {
      status->pid = basic.pid;
      status->started_at = basic.started_at;
    }
    done(std::move(reply));
  };
}

void DaemonService::to_engine(engine::Command command, engine::Done done) {
  parts_.engine.submit(std::move(command), [&loop = parts_.loop,
                                            done = std::move(done)](Result<engine::Reply> reply) {
    loop.post([done, reply = std::move(reply)]() mutable { done(std::move(reply)); });
  });
}

// While the daemon as a whole is poisoned its engine is not asked, and reads go on.
bool DaemonService::answer_without_engine(const engine::Command& command,
                                          const engine::Done& done) {
  const std::string poisoned = parts_.engine.poisoned();
  if (poisoned.empty()) return false;
  if (std::holds_alternative<engine::StatusRequest>(command)) {
    engine::StatusReply status = parts_.basic_status;
    status.poisoned = poisoned;
    parts_.loop.post([done, status = std::move(status)] { done(engine::Reply(status)); });
    return true;
  }
  if (const auto* show = std::get_if<engine::ShowRequest>(&command)) {
    query(*show, [done](Result<edge::QueryReply> reply) {
      if (!reply) return done(fail(std::move(reply.error())));
      done(engine::Reply(engine::JobReply{std::get<engine::JobView>(std::move(*reply)), {}}));
    });
    return true;
  }
  return false;
}

void DaemonService::query(edge::Query query, std::function<void(Result<edge::QueryReply>)> done) {
  const bool queued = parts_.reader.post(
      [&loop = parts_.loop, &queries = parts_.queries, query = std::move(query), done] {
        Result<edge::QueryReply> reply = fail(ErrorCode::unavailable, "the store cannot be read");
        try {
          reply = run_query(queries, query);
        } catch (...) {
          loop.post([done, reply] { done(reply); });
          throw;
        }
        loop.post([done, reply = std::move(reply)]() mutable { done(std::move(reply)); });
      });
  if (!queued) {
    parts_.loop.post([done] { done(fail(ErrorCode::unavailable, kBusy)); });
  }
}

void DaemonService::logs(edge::LogsRequest request,
                         std::function<void(Result<edge::LogsReply>)> done) {
  if (request.wait) request.wait = std::min(*request.wait, parts_.settings.wait_timeout_max);
  parts_.logs.start(std::move(request), std::move(done));
}

// For what changes a job without asking the engine.
Result<void> DaemonService::may_change() const {
  if (std::string why = parts_.engine.poisoned(); !why.empty()) {
    return fail(ErrorCode::unavailable, std::move(why));
  }
  const std::string why = parts_.engine.regressed();
  if (why.empty()) return {};
  return fail(ErrorCode::store_regressed, "The store is behind what this node has seen: " + why +
                                              ". Nothing is changed until `waybill reconcile`.");
}

// A call with the host's key is refused like every other one when the host is fenced.
void DaemonService::write(edge::WriteRequest request,
                          std::function<void(Result<edge::WriteReply>)> done) {
  if (auto may = may_change(); !may) {
    return parts_.loop.post([done = std::move(done), error = may.error()] { done(fail(error)); });
  }
  request.timeout = std::min(request.timeout, parts_.settings.wait_timeout_max);
  if (!request.caller.host_key) return parts_.writes.start(std::move(request), std::move(done));
  engine::SessionShowRequest who{request.caller};
  to_engine(std::move(who), [this, request = std::move(request),
                             done = std::move(done)](const Result<engine::Reply>& reply) {
    if (!reply) return done(fail(reply.error()));
    parts_.writes.start(request, done);
  });
}

void DaemonService::doctor(std::function<void(std::vector<edge::Finding>)> done) {
  const std::string poisoned = parts_.engine.poisoned();
  const std::string regressed = parts_.engine.regressed();
  const auto add_poison = [poisoned, regressed](std::vector<edge::Finding> findings) {
    if (!regressed.empty()) {
      findings.insert(findings.begin(), {"engine", edge::Finding::Level::problem,
                                         "store_regressed: " + regressed +
                                             "; only reads are served until `waybill reconcile`"});
    }
    if (!poisoned.empty()) {
      findings.insert(findings.begin(), {"engine", edge::Finding::Level::problem, poisoned});
    }
    return findings;
  };
  const bool queued = parts_.reader.post([this, add_poison, done] {
    auto findings = add_poison(parts_.examine());
    parts_.loop.post([done, findings = std::move(findings)] { done(findings); });
  });
  if (!queued) {
    parts_.loop.post([add_poison, done] {
      done(add_poison({{"reader", edge::Finding::Level::warning, kBusy}}));
    });
  }
}

void DaemonService::backup(std::string path, std::function<void(Result<edge::BackupReply>)> done) {
  const bool queued = parts_.copier.post([this, path = std::move(path), done] {
    auto made = parts_.back_up(path);
    parts_.loop.post([done, made = std::move(made)] { done(made); });
  });
  if (!queued) {
    parts_.loop.post(
        [done] { done(fail(ErrorCode::unavailable, "other backups are being made; try again")); });
  }
}

void DaemonService::shutdown(edge::ShutdownRequest request,
                             std::function<void(Result<void>)> done) {
  if (!request.stop_jobs) {
    parts_.loop.post([this, done = std::move(done)] {
      done({});
      parts_.end();
    });
    return;
  }
  engine::StopAllRequest stop;
  stop.reason = std::move(request.reason);
  to_engine(std::move(stop), [this, done = std::move(done)](const Result<engine::Reply>& reply) {
    if (!reply) return done(fail(reply.error()));
    // What is not confirmed yet keeps its durable stop wish: the next daemon goes on with it.
    done({});
    parts_.end();
  });
}

}  // namespace waybill::daemon
