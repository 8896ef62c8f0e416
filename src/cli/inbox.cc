#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "edge/json.h"

namespace waybill::cli {
namespace {

bool nothing_came(const json::object& answer) { return field(answer, "hand_over") == nullptr; }

Result<void> print_hand_over(Client& client, const Context& context, const json::object& answer) {
  const json::object& hand_over = object_of(answer, "hand_over");
  if (context.json) {
    print_line(edge::to_text(hand_over));
  } else {
    const std::string text = safe_block(text_of(hand_over, "text"));
    print(text.ends_with('\n') ? text : text + "\n");
  }
  return confirm(client, context, text_of(hand_over, "delivery"));
}

}  // namespace

Result<int> inbox_command(const Context& context) {
  TRY_ASSIGN(const auto timeout, timeout_of(context.parsed, "--timeout"));
  const bool follow = context.parsed.has("--follow");
  json::object params = caller_params(context);
  if (follow) params["follow"] = true;
  if (context.parsed.has("--no-ack")) params["no_ack"] = true;
  Client client(client_options(context));
  TRY(client.connect());
  Client::Waiting waiting;
  waiting.total = timeout;
  waiting.timed_out = nothing_came;
  const bool waits = follow || timeout.has_value();
  bool printed = false;
  while (true) {
    const Result<json::object> answer = waits ? client.call_waiting("inbox.take", params, waiting)
                                              : client.call("inbox.take", params);
    if (!answer) return fail(answer.error());
    if (nothing_came(*answer)) return waits && !printed ? kExitTimedOut : 0;
    TRY(print_hand_over(client, context, *answer));
    printed = true;
    if (!follow) return 0;
  }
}

}  // namespace waybill::cli
