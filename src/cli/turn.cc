#include <cstdlib>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/view.h"

namespace waybill::cli {
namespace {

constexpr Millis kWaitDefault{30000};

Result<std::string> turn_id(const Context& context) {
  const char* fallback = std::getenv("WAYBILL_TURN");
  const std::string id =
      context.parsed.find("--turn").value_or(fallback == nullptr ? "" : fallback);
  if (!id.empty()) return id;
  if (context.parsed.command->id == CommandId::turn_begin) return fresh_id("t");
  return fail(ErrorCode::bad_request, "`turn " + std::string(context.parsed.command->name) +
                                          "` needs --turn T or $WAYBILL_TURN.");
}

void print_turn(const json::object& answer) {
  print_line("turn " + text_of(answer, "turn") + "  " + text_of(answer, "state") +
             (flag_of(answer, "stopped") ? "  stopped" : ""));
  for (const json::value& message : array_of(answer, "messages")) {
    if (!message.is_object()) continue;
    const std::string text = safe_block(text_of(message.get_object(), "text"));
    print(text.ends_with('\n') ? text : text + "\n");
  }
  for (const json::value& job : array_of(answer, "waiting_for")) {
    if (job.is_object()) print_line("waits for  " + job_line(job.get_object()));
  }
}

// Asks again only while there is nothing to tell: time ran out and no message came.
bool only_timed_out(const json::object& answer) {
  return flag_of(answer, "timed_out") && array_of(answer, "messages").empty();
}

}  // namespace

Result<int> turn_command(const Context& context) {
  json::object params = caller_params(context);
  TRY_ASSIGN(const std::string id, turn_id(context));
  params["turn"] = id;
  TRY_ASSIGN(const auto timeout, timeout_of(context.parsed, "--timeout"));
  const bool wait = context.parsed.has("--wait");
  if (timeout && !wait) return fail(ErrorCode::bad_request, "--timeout goes with --wait.");
  if (wait) params["wait"] = true;
  const std::string method = "turn." + std::string(context.parsed.command->name);
  Client client(client_options(context));
  TRY(client.connect());
  Client::Waiting waiting;
  waiting.total = timeout.value_or(kWaitDefault);
  waiting.timed_out = only_timed_out;
  Result<json::object> answer =
      wait ? client.call_waiting(method, params, waiting) : client.call(method, params);
  if (!answer) return fail(std::move(answer.error()));
  if (context.json) {
    print_json(*answer);
  } else {
    print_turn(*answer);
  }
  TRY(flush_stdout());
  for (const json::value& message : array_of(*answer, "messages")) {
    if (message.is_object()) {
      TRY(confirm(client, context, text_of(message.get_object(), "delivery")));
    }
  }
  return wait && flag_of(*answer, "timed_out") ? kExitTimedOut : 0;
}

}  // namespace waybill::cli
