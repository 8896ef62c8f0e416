#pragma once
// Whether an agent is on this machine, and which version. Runs the agent's program only to ask for
// its version, without input and for a bounded time.

#include <optional>
#include <string>

#include "cli/client_config.h"

namespace waybill::cli {

struct FoundClient {
  std::string path;
  std::string version;  // "": it did not say
};

// On $PATH, or where Claude Code installs itself.
std::optional<FoundClient> find_client(ClientId client);

// The first line that the program prints for --version, or the number in it; "" when it failed or
// took longer than 5 s. Nothing of it is left running.
std::string version_of(const std::string& program);

}  // namespace waybill::cli
