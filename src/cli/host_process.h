#pragma once
// Which process is the agent client that this program was started by. All programs of one client
// (its hooks, its MCP process) find the same one, and its host key is made from it: client kind and
// session process (SPEC section 5). It keeps hosts apart that mean well; against a process of the
// same user it is no secret.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::cli {

struct HostProcess {
  int pid = 0;
  std::uint64_t start = 0;  // field 22 of /proc/PID/stat
};

// Claude Code marks everything it starts with CLAUDE_CODE_SESSION_ID: the nearest ancestor without
// the mark that this process carries. Codex: the nearest ancestor whose program is `codex`. Without
// such an ancestor, and for any other client: the nearest one that is no shell. nullopt when there
// is none (an orphan).
std::optional<HostProcess> find_host(std::string_view client);

// A process by its id; nullopt when it is gone.
std::optional<HostProcess> process_of(int pid);

// "claude-<pid>-<start>".
std::string host_key_of(std::string_view client, const HostProcess& host);

// A process's command line and environment, as far as they can be read.
std::vector<std::string> command_line_of(int pid);
std::vector<std::string> environment_of(int pid);
std::optional<std::string> variable_of(const std::vector<std::string>& environment,
                                       std::string_view name);
// The program that it runs, an absolute path; "" when that cannot be read.
std::string program_of(int pid);

// Whether the client ends with its turn, so that nothing can wake it while it lives and nobody may
// keep its hooks waiting (`claude -p` without a stream of messages, `codex exec`).
bool is_one_shot(std::string_view client, const std::vector<std::string>& command_line);

}  // namespace waybill::cli
