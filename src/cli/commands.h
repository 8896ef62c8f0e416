#pragma once
// One function per command. Each gives the exit code; an error is printed by main and decides the
// code by its row in base/error.

#include "base/result.h"
#include "cli/context.h"

namespace waybill::cli {

Result<int> serve_command(const Context& context);
Result<int> run_command(const Context& context);
Result<int> show_command(const Context& context);
Result<int> list_command(const Context& context);
Result<int> logs_command(const Context& context);
Result<int> wait_command(const Context& context);
Result<int> stop_command(const Context& context);
Result<int> write_command(const Context& context);
Result<int> session_command(const Context& context);
Result<int> turn_command(const Context& context);
Result<int> inbox_command(const Context& context);
Result<int> ack_command(const Context& context);
Result<int> mcp_command(const Context& context);
Result<int> status_command(const Context& context);
Result<int> shutdown_command(const Context& context);
Result<int> doctor_command(const Context& context);
Result<int> prune_command(const Context& context);
Result<int> owners_command(const Context& context);
Result<int> reconcile_command(const Context& context);
Result<int> backup_command(const Context& context);
Result<int> hook_command(const Context& context);
Result<int> host_command(const Context& context);
Result<int> setup_command(const Context& context);
Result<int> version_command(const Context& context);

inline constexpr int kExitTimedOut = 124;
inline constexpr int kExitInterrupted = 130;

}  // namespace waybill::cli
