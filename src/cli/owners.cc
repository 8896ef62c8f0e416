#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/view.h"

namespace waybill::cli {
namespace {

Result<int> list(const Context& context) {
  TRY_ASSIGN(const json::object answer, ask(context, "owner.list", {}));
  if (context.json) {
    print_json(answer);
  } else if (array_of(answer, "owners").empty()) {
    print_line("Every owner can be recovered.");
  } else {
    Table table;
    for (const json::value& item : array_of(answer, "owners")) {
      if (!item.is_object()) continue;
      const json::object& owner = item.get_object();
      const std::size_t jobs = array_of(owner, "jobs").size();
      table.add({safe_line(text_of(owner, "session")), text_of(owner, "kind"),
                 std::to_string(jobs) + (jobs == 1 ? " job" : " jobs"),
                 safe_line(text_of(owner, "why"))});
    }
    print(table.text());
  }
  TRY(flush_stdout());
  return 0;
}

Result<int> release(const Context& context) {
  const auto reason = context.parsed.find("--reason");
  if (!reason || reason->empty()) {
    return fail(ErrorCode::bad_request,
                "`owners release` needs --reason R: it is kept on the jobs that are given up.");
  }
  json::object params{{"session", context.parsed.operands.front()}, {"reason", *reason}};
  if (!context.tenant.empty()) params["tenant"] = context.tenant;
  TRY_ASSIGN(const json::object answer, ask(context, "owner.release", params));
  if (context.json) {
    print_json(answer);
  } else {
    print(job_table(array_of(answer, "jobs")));
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace

Result<int> owners_command(const Context& context) {
  return context.parsed.command->id == CommandId::owners ? list(context) : release(context);
}

}  // namespace waybill::cli
