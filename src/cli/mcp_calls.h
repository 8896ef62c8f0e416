#pragma once
// The tools of `waybill mcp`, each as calls of the daemon. One call runs on one thread with one
// client; what it waits for can be given up through the client's interrupt descriptor, which never
// touches a job.

#include <boost/json/fwd.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "cli/client.h"
#include "cli/context.h"
#include "cli/identity.h"
#include "edge/mcp_protocol.h"

namespace waybill::cli {

struct McpAnswer {
  std::shared_ptr<boost::json::object> structured;  // never null
  std::string text;                                 // says the same, compactly
  bool is_error = false;
  // A delivery that this answer carries: to be confirmed with the same client once it is written.
  std::string reported;
  bool daemon_answers = true;  // false: there is nobody to ask for more
};

McpAnswer mcp_failed(const Error& error);

struct McpTask {
  Client& client;
  const Context& context;
  const Identity& identity;
  const edge::McpCall& call;
  unsigned umask = 022;  // of this process
  // Says what a call that waits waits for; may do nothing.
  std::function<void(std::string_view message)> progress;
};

// Never fails otherwise than by an answer that says so.
McpAnswer perform_call(const McpTask& task);

// An object with the session, key and tenant of a call.
boost::json::object mcp_caller(const Context& context, const Identity& identity);

}  // namespace waybill::cli
