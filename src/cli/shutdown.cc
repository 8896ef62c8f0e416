#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace waybill::cli {
namespace {

constexpr Millis kEndMax{30000};

}  // namespace

Result<int> shutdown_command(const Context& context) {
  ClientOptions options = client_options(context);
  options.autostart = false;
  options.reconnect_for = Millis{0};
  Client client(options);
  if (const auto connected = client.connect(); !connected) {
    if (connected.error().code != ErrorCode::unavailable) return fail(connected.error());
    return fail(ErrorCode::unavailable, "No daemon runs for " + context.data_dir + ".");
  }
  json::object params;
  if (context.parsed.has("--stop-jobs")) params["stop_jobs"] = true;
  if (const auto reason = context.parsed.find("--reason")) params["reason"] = *reason;
  TRY_ASSIGN(const json::object answer, client.call("shutdown", params));
  const bool ended = client.wait_for_end(kEndMax);
  if (context.json) {
    print_json(answer);
  } else {
    print_line(ended ? "The daemon ended." : "The daemon is ending.");
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
