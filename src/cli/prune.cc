#include <utility>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/parse.h"
#include "cli/view.h"

namespace waybill::cli {
namespace {

struct Pruned {
  json::array jobs;
  std::uint64_t bytes = 0;
  std::uint64_t dropped_events = 0;
};

// Page after page, until there is no more.
Result<Pruned> prune_all(Client& client, json::object params) {
  Pruned all;
  for (;;) {
    TRY_ASSIGN(const json::object page, client.call("prune", params));
    for (const json::value& job : array_of(page, "jobs")) all.jobs.push_back(job);
    all.bytes += count_of(page, "bytes").value_or(0);
    all.dropped_events += count_of(page, "dropped_events").value_or(0);
    const std::optional<std::uint64_t> next = count_of(page, "next");
    if (!next) return all;
    params["after"] = *next;
  }
}

std::string page_of(const Pruned& pruned, bool dry_run) {
  std::string text;
  if (dry_run) {
    Table table;
    for (const json::value& item : pruned.jobs) {
      if (!item.is_object()) continue;
      const json::object& job = item.get_object();
      table.add({text_of(job, "id"), text_of(job, "status"), text_of(job, "finished_at"),
                 human_size(count_of(job, "bytes").value_or(0)), safe_line(text_of(job, "session")),
                 safe_line(text_of(job, "label"))});
    }
    text = table.text();
  }
  text += (dry_run ? "Would remove " : "Removed ") + std::to_string(pruned.jobs.size()) +
          " job(s), " + human_size(pruned.bytes) + ".";
  if (pruned.dropped_events > 0) {
    text += " " + std::to_string(pruned.dropped_events) +
            " event(s) of the session user that nobody took were dropped.";
  }
  return text + "\n";
}

}  // namespace

Result<int> prune_command(const Context& context) {
  json::object params;
  TRY_ASSIGN(const std::optional<Millis> age, duration_of(context.parsed, "--older-than"));
  if (age) params["older_than_ms"] = age->count();
  const bool dry_run = context.parsed.has("--dry-run");
  if (dry_run) params["dry_run"] = true;
  Client client(client_options(context));
  TRY(client.connect());
  TRY_ASSIGN(Pruned pruned, prune_all(client, std::move(params)));
  if (context.json) {
    print_json(json::object{{"jobs", std::move(pruned.jobs)},
                            {"bytes", pruned.bytes},
                            {"dropped_events", pruned.dropped_events},
                            {"dry_run", dry_run}});
  } else {
    print(page_of(pruned, dry_run));
  }
  TRY(flush_stdout());
  return 0;
}

}  // namespace waybill::cli
