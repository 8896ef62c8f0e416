#pragma once
// Deliveries into the Codex threads whose tool calls come to this MCP server: one loop for each
// session seen, through the app-server that holds its thread, else through `codex queue`.

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cli/codex_app_server.h"
#include "cli/context.h"
#include "cli/delivery_loop.h"
#include "cli/identity.h"

namespace waybill::cli {

// Through the app-server where it holds the thread, else through the other one; `other` may be
// null.
class CodexAdapter : public edge::Adapter {
 public:
  CodexAdapter(std::unique_ptr<CodexAppServer> server, std::unique_ptr<edge::Adapter> other);

  edge::Probe probe() override;
  edge::PutOutcome steer(const std::string& turn, std::string_view text) override;
  edge::PutOutcome wake(std::string_view text) override;
  edge::PutOutcome inject(std::string_view text) override;
  bool carries() const override { return now_ == nullptr || now_->carries(); }
  bool durable() const override { return true; }
  void saw_turn(const std::string& turn);  // any thread

 private:
  const std::unique_ptr<CodexAppServer> server_;  // null: none can be known
  const std::unique_ptr<edge::Adapter> other_;
  edge::Adapter* now_ = nullptr;  // as of the last probe
};

class CodexDeliveries {
 public:
  explicit CodexDeliveries(const Context& context) : context_(context) {}

  // A tool call has come; any thread. Of clients other than Codex nothing comes of it.
  void saw(const Identity& identity);
  // No more are begun, and those that run end.
  void ask_to_end();
  bool await_end(Millis most);

 private:
  struct One {
    std::shared_ptr<CodexAdapter> adapter;
    std::unique_ptr<DeliveryLoop> loop;
  };

  const Context& context_;
  std::mutex mutex_;
  std::map<std::string, One> sessions_;
  bool ending_ = false;
};

}  // namespace waybill::cli
