#include "cli/main.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/reference.h"
#include "edge/mcp_reference.h"
#include "edge/reference.h"

namespace waybill::cli {
namespace {

Result<int> perform(const Context& context) {
  switch (context.parsed.command->id) {
    case CommandId::serve:
      return serve_command(context);
    case CommandId::run:
      return run_command(context);
    case CommandId::show:
      return show_command(context);
    case CommandId::list:
      return list_command(context);
    case CommandId::logs:
      return logs_command(context);
    case CommandId::wait:
      return wait_command(context);
    case CommandId::stop:
      return stop_command(context);
    case CommandId::write:
      return write_command(context);
    case CommandId::session_attach:
    case CommandId::session_show:
    case CommandId::session_list:
    case CommandId::session_wait:
      return session_command(context);
    case CommandId::turn_begin:
    case CommandId::turn_step:
    case CommandId::turn_end:
    case CommandId::turn_stop:
    case CommandId::turn_resume:
    case CommandId::turn_abandon:
      return turn_command(context);
    case CommandId::inbox:
      return inbox_command(context);
    case CommandId::ack:
      return ack_command(context);
    case CommandId::mcp:
      return mcp_command(context);
    case CommandId::status:
      return status_command(context);
    case CommandId::prune:
      return prune_command(context);
    case CommandId::shutdown:
      return shutdown_command(context);
    case CommandId::doctor:
      return doctor_command(context);
    case CommandId::owners:
    case CommandId::owners_release:
      return owners_command(context);
    case CommandId::reconcile:
      return reconcile_command(context);
    case CommandId::backup:
      return backup_command(context);
    case CommandId::hook:
      return hook_command(context);
    case CommandId::host:
      return host_command(context);
    case CommandId::setup:
      return setup_command(context);
    case CommandId::version:
      return version_command(context);
  }
  return 0;
}

// The hidden command that writes the reference pages.
Result<int> reference_command(const std::vector<std::string>& arguments) {
  const std::string page = arguments.size() == 2 ? arguments[1] : "";
  if (page != "rpc" && page != "cli" && page != "mcp") {
    return fail(ErrorCode::bad_request, "`__reference` needs rpc, cli or mcp.");
  }
  print(page == "rpc"   ? edge::rpc_reference()
        : page == "mcp" ? edge::mcp_reference()
                        : cli_reference());
  TRY(flush_stdout());
  return 0;
}

Result<int> perform(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "__reference") return reference_command(arguments);
  if (arguments.size() == 1 && arguments[0] == "--version") return perform({"version"});
  TRY_ASSIGN(Parsed parsed, parse(arguments));
  if (parsed.command == nullptr) {
    print(parsed.help);
    TRY(flush_stdout());
    return 0;
  }
  TRY_ASSIGN(const Context context, make_context(std::move(parsed)));
  return perform(context);
}

// Makes descriptors 0, 1 and 2 exist, before anything else is opened: whatever got one of these
// numbers would take what is printed, and a socket would take it as requests. A stdout that was
// closed is one that cannot be written to, so that nothing counts as read that nobody saw.
bool settle_standard_descriptors() {
  constexpr int kModes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    if (::open("/dev/null", kModes[fd]) != fd) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (!settle_standard_descriptors()) return traits(ErrorCode::unavailable).exit_code;
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
  const bool json = std::find(arguments.begin(), dashes, "--json") != dashes;
  try {
    if (::sodium_init() < 0) return traits(ErrorCode::unavailable).exit_code;
    const Result<int> code = perform(arguments);
    if (code) return *code;
    print_error(code.error(), json);
    return traits(code.error().code).exit_code;
  } catch (const std::exception& error) {
    print_error(Error{ErrorCode::unavailable, std::string("Cannot go on: ") + error.what()}, json);
    return traits(ErrorCode::unavailable).exit_code;
  }
}

}  // namespace waybill::cli
