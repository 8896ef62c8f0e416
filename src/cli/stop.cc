#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/view.h"

namespace waybill::cli {
namespace {

constexpr Millis kStopWaitDefault{30000};

}  // namespace

Result<int> stop_command(const Context& context) {
  const Parsed& parsed = context.parsed;
  const bool all = parsed.has("--all");
  const bool wait = parsed.has("--wait");
  if (all != parsed.operands.empty()) {
    return fail(ErrorCode::bad_request, "`stop` needs either job ids or --all.");
  }
  TRY_ASSIGN(const auto timeout, timeout_of(parsed, "--timeout"));
  json::object params = caller_params(context);
  if (all) {
    params["all"] = true;
  } else {
    json::array ids;
    for (const std::string& id : parsed.operands) ids.push_back(json::value(id));
    params["jobs"] = std::move(ids);
  }
  if (const auto reason = parsed.find("--reason")) params["reason"] = *reason;
  if (wait) params["wait"] = true;
  Client client(client_options(context));
  TRY(client.connect());
  Client::Waiting waiting;
  waiting.total = timeout.value_or(kStopWaitDefault);
  waiting.timed_out = [](const json::object& reply) { return flag_of(reply, "timed_out"); };
  Result<json::object> answer =
      wait ? client.call_waiting("job.stop", params, waiting) : client.call("job.stop", params);
  if (!answer) return fail(std::move(answer.error()));
  const bool timed_out = wait && flag_of(*answer, "timed_out");
  const std::string reported = text_of(*answer, "reported");
  const json::array& jobs = array_of(*answer, "jobs");
  if (context.json) {
    print_json(*answer);
  } else if (jobs.empty()) {
    print_line("Nothing to stop.");
  } else {
    for (const json::value& job : jobs) {
      if (job.is_object()) print_line(job_line(job.get_object()));
    }
  }
  TRY(confirm(client, context, reported));
  return timed_out ? kExitTimedOut : 0;
}

}  // namespace waybill::cli
