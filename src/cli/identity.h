#pragma once
// Who calls a tool: which session, turn and host a call of an MCP client belongs to.

#include <boost/json/fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/client.h"
#include "cli/context.h"

namespace waybill::cli {

struct Identity {
  std::string client;
  std::string host_key;
  std::string session;
  std::string turn;
  std::string call;
  std::string cwd;
  int host_pid = 0;
  std::vector<std::string> wrapper;
  std::string refused;
};

// `meta`: params._meta of the call ({} if none). `client_name`: clientInfo.name. Asked once per
// tool call, on the thread of that call.
Result<Identity> identify(Client& client, const Context& context, const boost::json::object& meta,
                          std::string_view client_name);

}  // namespace waybill::cli
