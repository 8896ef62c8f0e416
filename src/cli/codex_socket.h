#pragma once
// Where a running Codex can be spoken to, and the way there.

#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"

namespace waybill::cli {

// What is known of the process that runs Codex.
struct CodexPlace {
  std::string configured;                 // --app-server or $WAYBILL_CODEX_APP_SERVER; "" none
  std::vector<std::string> command_line;  // of Codex itself
  std::vector<std::string> environment;   // of Codex itself
};

// Where Codex keeps its files, absolute; "" when that cannot be told.
std::string codex_home_of(const std::vector<std::string>& environment);

// The path of the unix socket of the app-server: what was configured; else what the command line
// says (--listen, --remote); else the control socket below CODEX_HOME. "" when it is no unix
// socket. That something is there is not said.
std::string codex_socket_path(const CodexPlace& place);

// A connected socket whose other end is a process of this user; unavailable otherwise. Does not
// block. Nothing but a unix socket that belongs to this user is ever connected to.
Result<UniqueFd> connect_own_socket(const std::string& path);

}  // namespace waybill::cli
