#include "e2e/commands.h"

namespace waybill::e2e {

namespace json = boost::json;

std::string findings_of(const json::value& job) {
  std::string text;
  const json::value stages = at(job, "stages");
  if (!stages.is_array()) return text;
  for (const json::value& stage : stages.get_array()) {
    text += (text.empty() ? "" : " ") + text_at(stage, "finding");
  }
  return text;
}

std::vector<int> stage_exits_of(const json::value& job) {
  std::vector<int> exits;
  const json::value stages = at(job, "stages");
  if (!stages.is_array()) return exits;
  for (const json::value& stage : stages.get_array()) {
    exits.push_back(static_cast<int>(number_at(stage, "exit.code")));
  }
  return exits;
}

static void expect_exit(const json::value& job, const Row& row) {
  if (row.signal != 0) {
    EXPECT_EQ(text_at(job, "exit.kind"), "signaled");
    EXPECT_EQ(number_at(job, "exit.signal"), row.signal);
    EXPECT_TRUE(at(job, "exit.code").is_null());
    return;
  }
  EXPECT_EQ(text_at(job, "exit.kind"), "exited");
  EXPECT_EQ(number_at(job, "exit.code"), row.shell_exit);
  EXPECT_TRUE(at(job, "exit.signal").is_null());
}

void expect_row(Daemon& daemon, const Row& row) {
  SCOPED_TRACE(std::string(row.shell) + " " + row.name + ": " + row.command);
  const json::value job = daemon.finished(daemon.accept(row.command, {"--shell", row.shell}));
  SCOPED_TRACE(json::serialize(job));
  expect_exit(job, row);
  EXPECT_EQ(stage_exits_of(job), row.stages);
  EXPECT_EQ(findings_of(job), row.findings);
  EXPECT_EQ(text_or_empty_at(job, "stages_reason"), row.reason);
  EXPECT_EQ(text_at(job, "verdict"), row.verdict);
  EXPECT_EQ(text_at(job, "status"), row.status);
  EXPECT_EQ(endings_of(job).size(), 1U);
  const Output raw = daemon.cli({"logs", "--raw", text_at(job, "id")});
  if (row.output != nullptr) {
    EXPECT_EQ(raw.out, row.output);
  }
  const Output waited = daemon.cli({"wait", text_at(job, "id")});
  EXPECT_EQ(waited.exit_code, row.run_exit) << waited.describe();
}

}  // namespace waybill::e2e
