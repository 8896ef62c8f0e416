#include "cli/outcome.h"

#include "cli/answer.h"
#include "core/exit.h"
#include "core/job.h"

namespace waybill::cli {
namespace {

core::Exit exit_of(const json::object& object) {
  core::Exit exit;
  exit.kind =
      core::from_word<core::ExitKind>(text_of(object, "kind")).value_or(core::ExitKind::unknown);
  exit.code = int_of(object, "code");
  exit.signal = int_of(object, "signal");
  exit.core = flag_of(object, "core");
  exit.step = text_of(object, "step");
  exit.error = int_of(object, "errno");
  exit.reason = text_of(object, "reason");
  return exit;
}

core::Stages stages_of(const json::object& job) {
  core::Stages stages;
  for (const json::value& item : array_of(job, "stages")) {
    if (!item.is_object()) continue;
    core::Stage stage;
    stage.command = text_of(item.get_object(), "command");
    stage.exit = exit_of(object_of(item.get_object(), "exit"));
    stage.finding = core::from_word<core::StageFinding>(text_of(item.get_object(), "finding"))
                        .value_or(core::StageFinding::ok);
    stages.claimed.push_back(std::move(stage));
  }
  stages.reason = core::from_word<core::StagesReason>(text_of(job, "stages_reason"));
  for (const json::value& item : array_of(object_of(job, "earlier"), "pipelines")) {
    if (!item.is_object()) continue;
    core::EarlierPipeline pipeline;
    pipeline.finding = core::from_word<core::EarlierFinding>(text_of(item.get_object(), "finding"))
                           .value_or(core::EarlierFinding::excused);
    for (const json::value& status : array_of(item.get_object(), "statuses")) {
      if (status.is_int64()) pipeline.statuses.push_back(static_cast<int>(status.get_int64()));
    }
    stages.earlier.push_back(std::move(pipeline));
  }
  return stages;
}

core::Verdict verdict_of(const json::object& job) {
  return core::from_word<core::Verdict>(text_of(job, "verdict")).value_or(core::Verdict::unknown);
}

}  // namespace

bool is_finished(const json::object& job) {
  const auto status = core::from_word<core::JobStatus>(text_of(job, "status"));
  return status && core::is_terminal(*status);
}

int exit_code_of(const json::object& job) {
  if (!is_finished(job)) return 0;
  // Without an exit (stopped in the queue) this is the unknown one.
  return core::exit_code_of(exit_of(object_of(job, "exit")), verdict_of(job));
}

int exit_code_of(const json::array& jobs) {
  for (const json::value& job : jobs) {
    if (!job.is_object()) continue;
    if (const int code = exit_code_of(job.get_object()); code != 0) return code;
  }
  return 0;
}

std::string ending_of(const json::object& job) {
  if (!is_finished(job)) return "";
  if (field(job, "exit") == nullptr) return "never started";
  const std::string cut = text_of(job, "cause") == "deadline" ? "its deadline had passed: " : "";
  return cut + core::describe(exit_of(object_of(job, "exit")), stages_of(job), verdict_of(job));
}

}  // namespace waybill::cli
