#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace waybill::cli {
namespace {

void add_jobs(Table& table, const json::object& answer, std::string_view list,
              std::string_view what) {
  for (const json::value& item : array_of(answer, list)) {
    if (!item.is_object()) continue;
    const json::object& job = item.get_object();
    table.add({std::string(what), safe_line(text_of(job, "job")), text_of(job, "status"),
               safe_line(text_of(job, "session"))});
  }
}

std::string page(const json::object& answer) {
  Table table;
  add_jobs(table, answer, "rebuilt", "rebuilt");
  add_jobs(table, answer, "settled", "brought up");
  add_jobs(table, answer, "ended", "not known");
  for (const json::value& item : array_of(answer, "quarantined")) {
    if (!item.is_object()) continue;
    const json::object& job = item.get_object();
    table.add({coloured(Colour::yellow, "quarantined"), safe_line(text_of(job, "job")),
               flag_of(job, "runs") ? "runs" : "does not run",
               safe_line(text_of(job, "path")) + ": " + safe_line(text_of(job, "why"))});
  }
  const std::string rows = table.text();
  if (flag_of(answer, "regressed")) {
    return rows + "The store is up to what the job directories say, and is served again.\n";
  }
  return rows + (rows.empty() ? "The store is not behind, and every directory has its row.\n"
                              : "The store is not behind. What is quarantined is kept and never "
                                "run; remove its directory when you do not need it.\n");
}

}  // namespace

Result<int> reconcile_command(const Context& context) {
  TRY_ASSIGN(const json::object answer, ask(context, "reconcile", {}));
  if (context.json) {
    print_json(answer);
  } else {
    print(page(answer));
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
