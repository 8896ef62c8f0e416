#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/view.h"
#include "edge/json.h"

namespace waybill::cli {
namespace {

constexpr Millis kWaitDefault{30000};

// Both together, so that what is left out is empty and not what was known.
void set_rules(json::object& params, const Parsed& parsed) {
  if (!parsed.has("--allow") && !parsed.has("--deny")) return;
  for (const char* name : {"allow", "deny"}) {
    json::array patterns;
    for (const std::string& one : parsed.all(std::string("--") + name)) {
      if (!one.empty()) patterns.push_back(json::value(edge::valid_utf8(one)));
    }
    params[name] = std::move(patterns);
  }
}

Result<int> attach(const Context& context) {
  json::object params = caller_params(context);
  if (context.host_key.empty()) {
    return fail(ErrorCode::bad_request,
                "`session attach` needs the host's key: --host-key K or $WAYBILL_HOST_KEY.");
  }
  TRY_ASSIGN(const auto pid, number_of(context.parsed, "--host-pid"));
  if (pid) params["host_pid"] = *pid;
  TRY_ASSIGN(const auto lease, timeout_of(context.parsed, "--lease"));
  if (lease) params["lease_ms"] = lease->count();
  if (context.parsed.has("--one-shot")) params["one_shot"] = true;
  TRY(set_wrapper(params, context.parsed));
  set_rules(params, context.parsed);
  TRY_ASSIGN(const json::object answer, ask(context, "session.attach", params));
  if (context.json) {
    print_json(answer);
  } else {
    const json::object& outstanding = object_of(answer, "outstanding");
    print(session_page(object_of(answer, "session")));
    const json::array& jobs = array_of(outstanding, "jobs");
    if (!jobs.empty()) print("\n" + job_table(jobs));
  }
  TRY(flush_stdout());
  return 0;
}

Result<int> show(const Context& context) {
  TRY_ASSIGN(const json::object answer, ask(context, "session.show", caller_params(context)));
  if (context.json) {
    print_json(answer);
  } else {
    print(session_page(object_of(answer, "session")));
  }
  TRY(flush_stdout());
  return 0;
}

Result<int> list(const Context& context) {
  json::object params;
  if (!context.tenant.empty()) params["tenant"] = context.tenant;
  TRY_ASSIGN(const json::object answer, ask(context, "session.list", params));
  if (context.json) {
    print_json(answer);
  } else {
    print(session_table(array_of(answer, "sessions")));
  }
  TRY(flush_stdout());
  return 0;
}

Result<int> wait(const Context& context) {
  TRY_ASSIGN(const auto revision, number_of(context.parsed, "--revision"));
  if (!revision) return fail(ErrorCode::bad_request, "`session wait` needs --revision N.");
  TRY_ASSIGN(const auto timeout, timeout_of(context.parsed, "--timeout"));
  json::object params = caller_params(context);
  params["revision"] = *revision;
  Client client(client_options(context));
  TRY(client.connect());
  Client::Waiting waiting;
  waiting.total = timeout.value_or(kWaitDefault);
  waiting.timed_out = [](const json::object& reply) { return flag_of(reply, "timed_out"); };
  TRY_ASSIGN(const json::object answer, client.call_waiting("session.wait", params, waiting));
  if (context.json) {
    print_json(answer);
  } else {
    print(session_page(object_of(answer, "session")));
  }
  TRY(flush_stdout());
  return flag_of(answer, "timed_out") ? kExitTimedOut : 0;
}

}  // namespace

Result<int> session_command(const Context& context) {
  const std::string_view name = context.parsed.command->name;
  if (name == "attach") return attach(context);
  if (name == "show") return show(context);
  if (name == "list") return list(context);
  return wait(context);
}

}  // namespace waybill::cli
