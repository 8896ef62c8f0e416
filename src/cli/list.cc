#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/view.h"

namespace waybill::cli {

Result<int> list_command(const Context& context) {
  json::object params = caller_params(context);
  json::array statuses;
  for (const std::string& status : context.parsed.all("--status")) {
    statuses.push_back(json::value(status));
  }
  if (!statuses.empty()) params["statuses"] = std::move(statuses);
  if (context.parsed.has("--all-sessions")) params["all_sessions"] = true;
  TRY_ASSIGN(const auto limit, number_of(context.parsed, "--limit"));
  if (limit) params["limit"] = *limit;
  if (const auto cursor = context.parsed.find("--cursor")) params["cursor"] = *cursor;
  TRY_ASSIGN(const json::object answer, ask(context, "job.list", params));
  if (context.json) {
    print_json(answer);
  } else {
    print(job_table(array_of(answer, "jobs")));
    if (const std::string next = text_of(answer, "next_cursor"); !next.empty()) {
      print_line(coloured(Colour::grey, "More: --cursor " + next));
    }
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
