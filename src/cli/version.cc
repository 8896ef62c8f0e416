#include "edge/version.h"

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "edge/json.h"

namespace waybill::cli {

Result<int> version_command(const Context& context) {
  ClientOptions options = client_options(context);
  options.autostart = false;
  options.reconnect_for = Millis{0};
  Client client(options);
  const Result<void> connected = client.connect();
  const std::string version(edge::kVersion);
  if (context.json) {
    print_line(edge::to_text(json::object{
        {"version", version},
        {"protocol", edge::kProtocol},
        {"daemon", connected ? json::value(client.daemon_version()) : json::value(nullptr)}}));
  } else {
    print_line("waybill " + version);
    if (connected && client.daemon_version() != version) {
      print_line("daemon  " + safe_line(client.daemon_version()));
    }
    if (!connected && connected.error().code != ErrorCode::unavailable) {
      note(connected.error().message);
    }
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
