#pragma once
// The sandbox that Codex states with a tool call. An MCP server runs outside of it; what it starts
// for the model must not (SPEC section 4).

#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

namespace waybill::cli {

struct StatedSandbox {
  std::vector<std::string> wrapper;  // Codex's own sandbox program and the state; empty: no sandbox
  std::string refused;               // not empty: nothing may be started, and why
};

// `meta`: params._meta of the call. `codex`: the client's program, used where the call names none.
// `cwd`: absolute, where the command is to run. A sandbox that is stated and cannot be set up is a
// refusal, never a command without it.
StatedSandbox codex_sandbox(const boost::json::object& meta, const std::string& codex,
                            const std::string& cwd);

}  // namespace waybill::cli
