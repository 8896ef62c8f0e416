#pragma once
// How a closed client is started again for a session whose job has ended: with its own resume
// command, the environment and the directory that it had, and what it was configured with. Never
// with more rights: flags that skip approvals are not carried over.

#include <boost/json/fwd.hpp>
#include <string>
#include <vector>

#include "cli/host_process.h"
#include "edge/hook.h"

namespace waybill::cli {

// The client's command line, as words; empty when its program cannot be found out. Pure but for
// `program`, the absolute path of the client's program.
std::vector<std::string> resume_command(edge::HookClient client, const std::string& session,
                                        const std::string& program,
                                        const std::vector<std::string>& command_line);

// Sets resume_argv, resume_cwd and resume_env_base64 of `session.attach`.
void add_resume(boost::json::object& params, edge::HookClient client, const edge::HookInput& input,
                const HostProcess& host);

// Whether this process belongs to a client that was started so.
bool started_by_wake();

}  // namespace waybill::cli
