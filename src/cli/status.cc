#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace waybill::cli {
namespace {

std::string count_text(const json::object& answer, std::string_view key) {
  return std::to_string(count_of(answer, key).value_or(0));
}

std::string status_page(const json::object& answer) {
  Table table;
  table.add({"version", text_of(answer, "version")});
  table.add({"data", safe_line(text_of(answer, "data_dir"))});
  table.add({"store", safe_line(text_of(answer, "store"))});
  table.add({"process", count_text(answer, "pid") + ", since " + text_of(answer, "started_at")});
  table.add({"jobs", count_text(answer, "running_jobs") + " running, " +
                         count_text(answer, "queued_jobs") + " queued"});
  table.add({"sessions", count_text(answer, "sessions")});
  table.add({"undelivered", count_text(answer, "undelivered")});
  std::string owed = count_text(answer, "owed");
  for (const json::key_value_pair& kind : object_of(answer, "owed_by_kind")) {
    owed += ", " + std::string(kind.key()) + " " +
            count_text(object_of(answer, "owed_by_kind"), std::string(kind.key()));
  }
  table.add({"owed", owed});
  if (const std::string why = text_of(answer, "poisoned"); !why.empty()) {
    table.add({coloured(Colour::red, "refusing"), safe_line(why)});
  }
  for (const json::key_value_pair& owner : object_of(answer, "poisoned_owners")) {
    table.add({coloured(Colour::red, "refusing"),
               safe_line(std::string(owner.key())) + ": " +
                   safe_line(owner.value().is_string() ? owner.value().get_string() : "")});
  }
  return table.text();
}

}  // namespace

Result<int> status_command(const Context& context) {
  TRY_ASSIGN(const json::object answer, ask(context, "status", caller_params(context)));
  if (context.json) {
    print_json(answer);
  } else {
    print(status_page(answer));
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
