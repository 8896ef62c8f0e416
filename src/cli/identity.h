#pragma once
// Who calls a tool: which session, turn and host a call of an MCP client belongs to. What a client
// tells of itself is taken for what it is: the word of a process of the same user (SPEC section 5).

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/client.h"
#include "cli/context.h"
#include "cli/host_process.h"

namespace waybill::cli {

struct Identity {
  std::string client;    // "claude", "codex", "mcp"
  std::string host_key;  // "" none: nothing is handed over
  std::string session;
  std::string turn;       // "" not known
  std::string call;       // the client's id of this call, "" if it has none
  bool subagent = false;  // made inside a subagent: no notice of the session may ride on it
  std::string cwd;        // where commands run unless they say otherwise; "" this process's
  HostProcess host;
  // What jobs get as their environment, "NAME=value"; empty: this process's own.
  std::vector<std::string> environment;
};

// `meta`: params._meta of the call ({} if none). `client_name`: clientInfo.name. Asked once per
// tool call, on the thread of that call; attaches the session to its host where that is not done.
Result<Identity> identify(Client& client, const Context& context, const boost::json::object& meta,
                          std::string_view client_name);

}  // namespace waybill::cli
