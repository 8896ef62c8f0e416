#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/outcome.h"
#include "cli/output.h"
#include "cli/view.h"

namespace waybill::cli {
namespace {

constexpr Millis kWaitDefault{30000};

}  // namespace

Result<int> wait_command(const Context& context) {
  TRY_ASSIGN(const auto timeout, timeout_of(context.parsed, "--timeout"));
  json::object params = caller_params(context);
  json::array ids;
  for (const std::string& id : context.parsed.operands) ids.push_back(json::value(id));
  params["jobs"] = std::move(ids);
  if (context.parsed.has("--any")) params["any"] = true;
  Client client(client_options(context));
  TRY(client.connect());
  Client::Waiting waiting;
  waiting.total = timeout.value_or(kWaitDefault);
  waiting.timed_out = [](const json::object& reply) { return flag_of(reply, "timed_out"); };
  TRY_ASSIGN(const json::object answer, client.call_waiting("job.wait", params, waiting));
  const json::array& jobs = array_of(answer, "jobs");
  if (context.json) {
    print_json(answer);
  } else {
    for (const json::value& job : jobs) {
      if (job.is_object()) print_line(job_line(job.get_object()));
    }
  }
  TRY(confirm(client, context, text_of(answer, "reported")));
  return flag_of(answer, "timed_out") ? kExitTimedOut : exit_code_of(jobs);
}

}  // namespace waybill::cli
