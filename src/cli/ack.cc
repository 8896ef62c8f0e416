#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace waybill::cli {

Result<int> ack_command(const Context& context) {
  json::object params = caller_params(context);
  json::array ids;
  for (const std::string& id : context.parsed.operands) ids.push_back(json::value(id));
  params["ids"] = std::move(ids);
  TRY_ASSIGN(const json::object answer, ask(context, "ack", params));
  if (context.json) {
    print_json(answer);
  } else {
    for (const json::value& id : array_of(answer, "acked")) {
      print_line("acknowledged  " + safe_line(id.is_string() ? id.get_string() : ""));
    }
    for (const json::value& id : array_of(answer, "already")) {
      print_line("already       " + safe_line(id.is_string() ? id.get_string() : ""));
    }
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
