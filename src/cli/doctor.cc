#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/client_report.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace waybill::cli {
namespace {

constexpr int kExitProblem = 1;

Colour colour_of(std::string_view level) {
  if (level == "ok") return Colour::green;
  return level == "warning" ? Colour::yellow : Colour::red;
}

}  // namespace

Result<int> doctor_command(const Context& context) {
  Client client(client_options(context));
  TRY(client.connect());
  TRY_ASSIGN(json::object answer, client.call("doctor", {}));
  TRY_ASSIGN(const json::object status, client.call("status", caller_params(context)));
  json::array findings = array_of(answer, "findings");
  json::array clients;
  for (const ClientId id : kClients) report_client(id, clients, findings);
  report_reachable(status, findings);
  report_refused(status, findings);
  if (!object_of(status, "poisoned_owners").empty()) answer["ok"] = false;
  answer["findings"] = std::move(findings);
  answer["clients"] = std::move(clients);
  if (context.json) {
    print_json(answer);
  } else {
    Table table;
    for (const json::value& item : array_of(answer, "findings")) {
      if (!item.is_object()) continue;
      const std::string level = text_of(item.get_object(), "level");
      table.add({coloured(colour_of(level), level), text_of(item.get_object(), "subject"),
                 safe_line(text_of(item.get_object(), "message"))});
    }
    print(table.text());
  }
  TRY(flush_stdout());
  return flag_of(answer, "ok") ? 0 : kExitProblem;
}

}  // namespace waybill::cli
