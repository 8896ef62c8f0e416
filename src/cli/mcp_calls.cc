#include "cli/mcp_calls.h"

#include <algorithm>
#include <limits>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/codex_sandbox.h"
#include "cli/host_process.h"
#include "cli/launch_params.h"
#include "cli/mcp_progress.h"
#include "cli/outcome.h"
#include "edge/json.h"
#include "edge/mcp_text.h"
#include "edge/mcp_tools.h"

namespace waybill::cli {
namespace {

// What is shown of an output that is handed over with a result, and of how many jobs at once.
constexpr std::uint64_t kShownBytes = 8 * 1024;
constexpr std::uint64_t kShownHeadBytes = 2 * 1024;
constexpr std::uint64_t kShownBytesMin = 1024;
constexpr std::size_t kShownJobsMax = 8;
constexpr std::uint64_t kListMax = 50;
// How long `stop` waits for the proof that every process is gone.
constexpr Millis kStopWait{10000};
// How long `write` waits for a job's start and for room.
constexpr Millis kWriteWait{10000};

std::uint64_t number_of(const McpTask& task, std::string_view name) {
  for (const edge::McpTool& tool : edge::mcp_tools()) {
    if (tool.id == task.call.tool) return edge::mcp_number(tool, *task.call.arguments, name);
  }
  return 0;
}

// The argument as it was given, under the name that the daemon knows it by.
void pass_on(const McpTask& task, json::object& params, std::string_view name) {
  const json::value* value = field(*task.call.arguments, name);
  if (value != nullptr) params[json::string_view(name.data(), name.size())] = *value;
}

void append_line(std::string& text, const std::string& line) {
  if (!text.empty() && text.back() != '\n') text += '\n';
  text += line;
}

Client::Waiting waiting_for(Millis total) {
  Client::Waiting waiting;
  waiting.total = total;
  waiting.timed_out = [](const json::object& reply) { return flag_of(reply, "timed_out"); };
  return waiting;
}

// ---- job summaries -----------------------------------------------------------------------------

edge::McpJobText job_text(const json::object& job) {
  edge::McpJobText out;
  out.id = text_of(job, "id");
  out.label = text_of(job, "label");
  out.command = text_of(job, "command_preview");
  out.status = text_of(job, "status");
  out.ending = ending_of(job);
  out.stopping = flag_of(job, "stopping");
  out.duration_ms = count_of(job, "duration_ms");
  return out;
}

json::object summary_of(const json::object& job) {
  json::object out{{"job", text_of(job, "id")}, {"status", text_of(job, "status")}};
  const auto add_line = [&out, &job](const char* to, std::string_view from) {
    if (const std::string text = text_of(job, from); !text.empty()) {
      out[to] = edge::mcp_untrusted_line(text);
    }
  };
  add_line("label", "label");
  add_line("command", "command_preview");
  if (flag_of(job, "stopping")) out["stopping"] = true;
  if (const auto bytes = count_of(object_of(job, "output"), "bytes")) out["output_bytes"] = *bytes;
  if (!is_finished(job)) return out;
  if (const std::string word = text_of(job, "verdict"); !word.empty()) out["verdict"] = word;
  out["ending"] = edge::mcp_untrusted_line(ending_of(job));
  const json::object& exit = object_of(job, "exit");
  if (const auto code = int_of(exit, "code")) out["exit_code"] = *code;
  if (const auto signal = int_of(exit, "signal")) out["signal"] = *signal;
  if (const auto duration = count_of(job, "duration_ms")) out["duration_ms"] = *duration;
  return out;
}

struct Piece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

Result<std::string> read_piece(const McpTask& task, const std::string& job, Piece piece) {
  json::object params = mcp_caller(task.context, task.identity);
  params["job"] = job;
  params["offset"] = piece.offset;
  params["bytes"] = piece.bytes;
  TRY_ASSIGN(const json::object page, task.client.call("job.logs", params));
  return edge::mcp_untrusted_output(text_of(page, "data"), piece.bytes * 2);
}

// The output of a finished job, or its beginning and its end, at most about `most` bytes of it.
// Nothing when it cannot be read.
json::object shown_output(const McpTask& task, const json::object& job, std::uint64_t most) {
  const std::string id = text_of(job, "id");
  const std::uint64_t bytes = count_of(object_of(job, "output"), "bytes").value_or(0);
  if (bytes <= most) {
    const Result<std::string> text = read_piece(task, id, {0, std::max<std::uint64_t>(most, 4)});
    if (!text) return {};
    return {{"text", *text}, {"bytes", bytes}, {"omitted_bytes", 0}};
  }
  const std::uint64_t head = std::min(kShownHeadBytes, most / 4);
  const std::uint64_t tail = most - head;
  const Result<std::string> first = read_piece(task, id, {0, head});
  Result<std::string> last = read_piece(task, id, {bytes - tail, tail});
  if (!first || !last) return {};
  // The end begins with a whole line, if there is one soon.
  if (const std::size_t newline = last->find('\n'); newline < last->size() / 2) {
    last->erase(0, newline + 1);
  }
  const std::uint64_t left_out = bytes - most;
  std::string text = *first;
  append_line(text,
              "[about " + std::to_string(left_out) + " bytes left out; read them with `output`]\n");
  return {{"text", text + *last}, {"bytes", bytes}, {"omitted_bytes", left_out}};
}

// Adds the output to a summary and to the text; says where there is none.
void show_output(const McpTask& task, const json::object& job, std::uint64_t most,
                 McpAnswer& answer, json::object& summary) {
  json::object output = shown_output(task, job, most);
  if (output.empty()) {
    append_line(answer.text, "Its output could not be read here; try `output`.");
    return;
  }
  const std::string text = text_of(output, "text");
  append_line(answer.text, text.empty() ? "No output." : edge::mcp_output_block(text));
  summary["output"] = std::move(output);
}

// One summary and line each; the outputs of the first few that are finished.
json::array show_jobs(const McpTask& task, const json::array& jobs, McpAnswer& answer,
                      bool with_output) {
  const auto finished = std::count_if(jobs.begin(), jobs.end(), [](const json::value& job) {
    return job.is_object() && is_finished(job.get_object());
  });
  const std::uint64_t share =
      std::max(kShownBytesMin,
               kShownBytes / std::max<std::uint64_t>(1, static_cast<std::uint64_t>(finished)));
  std::size_t shown = 0;
  json::array out;
  for (const json::value& item : jobs) {
    if (!item.is_object()) continue;
    const json::object& job = item.get_object();
    json::object summary = summary_of(job);
    append_line(answer.text, edge::mcp_job_text(job_text(job)));
    if (with_output && is_finished(job) && shown < kShownJobsMax) {
      show_output(task, job, share, answer, summary);
      ++shown;
    }
    out.push_back(std::move(summary));
  }
  return out;
}

McpAnswer empty_answer() {
  McpAnswer answer;
  answer.structured = std::make_shared<json::object>();
  return answer;
}

// ---- start -------------------------------------------------------------------------------------

Result<std::string> directory_of(const McpTask& task) {
  const std::string asked = text_of(*task.call.arguments, "cwd");
  if (!asked.empty() && asked.front() == '/') return asked;
  std::string here = task.identity.cwd;
  if (here.empty()) {
    TRY_ASSIGN(here, current_directory());
  }
  return asked.empty() ? here : here + "/" + asked;
}

// Of a variable: nothing that `env` could take for an option.
Result<void> check_name(std::string_view name) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  const bool good = !name.empty() && letter(name.front()) &&
                    std::all_of(name.begin(), name.end(),
                                [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  if (good) return {};
  return fail(ErrorCode::bad_request,
              "A variable's name in \"env\" has letters, digits and _, and begins with no digit.");
}

// What the command is run through: the sandbox that the client states, and inside of it the
// variables that the model asks for, which must not reach the sandbox's own program.
Result<std::vector<std::string>> wrapper_of(const McpTask& task, const std::string& directory) {
  StatedSandbox sandbox;
  if (task.identity.client == "codex") {
    sandbox = codex_sandbox(*task.call.meta, program_of(task.identity.host.pid), directory);
  }
  if (!sandbox.refused.empty()) return fail(ErrorCode::forbidden, sandbox.refused);
  std::vector<std::string> wrapper = std::move(sandbox.wrapper);
  const json::object& variables = object_of(*task.call.arguments, "env");
  if (!variables.empty()) wrapper.emplace_back("/usr/bin/env");
  for (const json::key_value_pair& pair : variables) {
    TRY(check_name(std::string_view(pair.key().data(), pair.key().size())));
    wrapper.push_back(std::string(pair.key()) + "=" + std::string(pair.value().get_string()));
  }
  return wrapper;
}

Result<json::object> launch_params(const McpTask& task) {
  json::object params = mcp_caller(task.context, task.identity);
  pass_on(task, params, "command");
  pass_on(task, params, "label");
  pass_on(task, params, "stdin");
  pass_on(task, params, "pty");
  pass_on(task, params, "monitors");
  TRY_ASSIGN(const std::string directory, directory_of(task));
  set_bytes(params, "cwd", directory);
  const bool given = !task.identity.environment.empty();
  std::vector<std::string> changes;
  if (flag_of(*task.call.arguments, "pty")) changes.emplace_back(kOwnTerminal);
  params["env_base64"] = edge::to_base64(
      environment_block(given ? task.identity.environment : own_environment(), changes));
  params["umask"] = task.umask;
  if (!task.identity.turn.empty()) params["turn"] = task.identity.turn;
  if (const std::uint64_t seconds = number_of(task, "deadline_s"); seconds > 0) {
    params["deadline_ms"] = seconds * 1000;
  }
  TRY_ASSIGN(const std::vector<std::string> wrapper, wrapper_of(task, directory));
  json::array words;
  for (const std::string& word : wrapper) words.push_back(json::value(word));
  if (!words.empty()) params["wrapper"] = std::move(words);
  const std::string key = text_of(*task.call.arguments, "key");
  params["key"] = key.empty() ? fresh_id("k") : key;
  return params;
}

// The job as it is after at most the time the caller gives it; as it was when the wait failed or
// was given up, for the launch stands.
json::object await_end(const McpTask& task, const json::object& job, McpAnswer& answer) {
  const std::string id = text_of(job, "id");
  const Millis most(static_cast<std::int64_t>(number_of(task, "yield_ms")));
  if (most.count() == 0) return job;
  json::object params = mcp_caller(task.context, task.identity);
  params["jobs"] = json::array{json::value(id)};
  const McpProgress progress(task.context, task.identity, {id}, task.progress);
  const Result<json::object> reply =
      task.client.call_waiting("job.wait", params, waiting_for(most));
  if (!reply) return job;
  answer.reported = text_of(*reply, "reported");
  const json::array& jobs = array_of(*reply, "jobs");
  return jobs.empty() || !jobs[0].is_object() ? job : jobs[0].get_object();
}

Result<McpAnswer> start(const McpTask& task) {
  TRY_ASSIGN(const json::object params, launch_params(task));
  TRY_ASSIGN(const json::object accepted, task.client.call("job.run", params));
  McpAnswer answer = empty_answer();
  const json::object job = await_end(task, object_of(accepted, "job"), answer);
  json::object& out = *answer.structured;
  out = summary_of(job);
  answer.text = edge::mcp_job_text(job_text(job));
  if (is_finished(job)) {
    show_output(task, job, kShownBytes, answer, out);
  } else {
    const std::string path = text_of(accepted, "delivery_path");
    const std::string next = edge::mcp_next_text(path);
    if (!path.empty()) out["delivery_path"] = path;
    out["next"] = next;
    append_line(answer.text, next);
  }
  if (const std::string twin = text_of(accepted, "twin"); !twin.empty()) {
    out["twin"] = twin;
    append_line(answer.text, "The same command was already running as " + twin + ".");
  }
  if (flag_of(accepted, "replayed")) {
    out["replayed"] = true;
    append_line(answer.text, "This key was used before; this is that job.");
  }
  return answer;
}

// ---- the others --------------------------------------------------------------------------------

Result<McpAnswer> output(const McpTask& task) {
  json::object params = mcp_caller(task.context, task.identity);
  const std::string job = text_of(*task.call.arguments, "job");
  const std::uint64_t bytes = number_of(task, "bytes");
  pass_on(task, params, "job");
  pass_on(task, params, "offset");
  pass_on(task, params, "tail_lines");
  params["bytes"] = bytes;
  if (!params.contains("offset") && !params.contains("tail_lines")) {
    json::object look = params;  // where the end is
    look["bytes"] = 1;
    TRY_ASSIGN(const json::object page, task.client.call("job.logs", look));
    const std::uint64_t end = count_of(page, "end").value_or(0);
    params["offset"] = end - std::min(end, bytes);
  }
  TRY_ASSIGN(const json::object page, task.client.call("job.logs", params));
  const std::uint64_t offset = count_of(page, "offset").value_or(0);
  const std::uint64_t next = count_of(page, "next_offset").value_or(0);
  const std::uint64_t end = count_of(page, "end").value_or(0);
  const std::string data =
      edge::mcp_untrusted_output(text_of(page, "data"), std::numeric_limits<std::size_t>::max());
  McpAnswer answer = empty_answer();
  *answer.structured = {{"job", job},
                        {"data", data},
                        {"offset", offset},
                        {"next_offset", next},
                        {"end", end},
                        {"gaps", array_of(page, "gaps")},
                        {"complete", flag_of(page, "complete")}};
  answer.text = job + ": bytes " + std::to_string(offset) + " to " + std::to_string(next) + " of " +
                std::to_string(end) +
                (flag_of(page, "complete") ? ", complete"
                 : next < end              ? ""
                                           : " so far");
  if (!data.empty()) append_line(answer.text, edge::mcp_output_block(data));
  if (next < end) {
    append_line(answer.text, "Read on with \"offset\": " + std::to_string(next) + ".");
  }
  return answer;
}

Result<McpAnswer> list(const McpTask& task) {
  json::object params = mcp_caller(task.context, task.identity);
  pass_on(task, params, "statuses");
  params["limit"] = kListMax;
  TRY_ASSIGN(const json::object page, task.client.call("job.list", params));
  McpAnswer answer = empty_answer();
  const bool more = field(page, "next_cursor") != nullptr;
  (*answer.structured)["jobs"] = show_jobs(task, array_of(page, "jobs"), answer, false);
  (*answer.structured)["more"] = more;
  if (answer.text.empty()) answer.text = "No jobs.";
  if (more) append_line(answer.text, "There are older ones.");
  return answer;
}

// Never made twice: of a call that is lost on the way it is not known what was taken.
Result<McpAnswer> write(const McpTask& task) {
  json::object params = mcp_caller(task.context, task.identity);
  pass_on(task, params, "job");
  pass_on(task, params, "close");
  const std::string text = text_of(*task.call.arguments, "text");
  params["data"] = text;
  params["timeout_ms"] = kWriteWait.count();
  TRY(task.client.call("version", {}));  // so that there is a daemon to write to
  const auto reply = task.client.call_once("job.write", params);
  if (!reply) {
    TRY(task.client.reconnect());
    return fail(ErrorCode::unavailable,
                "The connection to the daemon was lost: it is not known whether the text was "
                "taken. Look at the job's output before writing again.");
  }
  if (!*reply) return fail(reply->error());
  McpAnswer answer = empty_answer();
  const std::uint64_t written = count_of(**reply, "written").value_or(0);
  const bool closed = flag_of(**reply, "closed");
  (*answer.structured)["jobs"] = show_jobs(task, array_of(**reply, "jobs"), answer, false);
  (*answer.structured)["written"] = written;
  (*answer.structured)["closed"] = closed;
  append_line(answer.text, std::to_string(written) + " of " + std::to_string(text.size()) +
                               " bytes were taken" + (closed ? "; its input is closed." : "."));
  if (flag_of(**reply, "timed_out")) append_line(answer.text, "The rest found no room in time.");
  return answer;
}

Result<McpAnswer> stop(const McpTask& task) {
  json::object params = mcp_caller(task.context, task.identity);
  pass_on(task, params, "jobs");
  pass_on(task, params, "all");
  pass_on(task, params, "reason");
  params["wait"] = true;
  TRY_ASSIGN(const json::object reply,
             task.client.call_waiting("job.stop", params, waiting_for(kStopWait)));
  McpAnswer answer = empty_answer();
  answer.reported = text_of(reply, "reported");
  (*answer.structured)["jobs"] = show_jobs(task, array_of(reply, "jobs"), answer, true);
  if (answer.text.empty()) answer.text = "There was nothing to stop.";
  if (flag_of(reply, "timed_out")) {
    append_line(answer.text, "Not every process is gone yet; the stop goes on.");
  }
  return answer;
}

Result<McpAnswer> wait(const McpTask& task) {
  json::object params = mcp_caller(task.context, task.identity);
  pass_on(task, params, "jobs");
  pass_on(task, params, "any");
  const Millis most(static_cast<std::int64_t>(number_of(task, "timeout_ms")));
  std::vector<std::string> jobs;
  for (const json::value& job : array_of(*task.call.arguments, "jobs")) {
    jobs.emplace_back(job.get_string());
  }
  Result<json::object> reply = [&] {
    const McpProgress progress(task.context, task.identity, jobs, task.progress);
    return task.client.call_waiting("job.wait", params, waiting_for(most));
  }();
  if (!reply) return fail(std::move(reply.error()));
  McpAnswer answer = empty_answer();
  answer.reported = text_of(*reply, "reported");
  (*answer.structured)["jobs"] = show_jobs(task, array_of(*reply, "jobs"), answer, true);
  (*answer.structured)["timed_out"] = flag_of(*reply, "timed_out");
  if (flag_of(*reply, "timed_out")) append_line(answer.text, "The wait timed out.");
  return answer;
}

// What is pending is added like to any other result; here are the acknowledgements.
Result<McpAnswer> inbox(const McpTask& task) {
  McpAnswer answer = empty_answer();
  const json::array& ids = array_of(*task.call.arguments, "ack");
  if (ids.empty()) {
    TRY(task.client.call("version", {}));  // so that there is a daemon to take from
    return answer;
  }
  json::object params = mcp_caller(task.context, task.identity);
  params["ids"] = ids;
  TRY_ASSIGN(const json::object reply, task.client.call("ack", params));
  (*answer.structured)["acked"] = array_of(reply, "acked");
  (*answer.structured)["already"] = array_of(reply, "already");
  answer.text = "Acknowledged: " + std::to_string(ids.size()) + ".";
  return answer;
}

Result<McpAnswer> perform(const McpTask& task) {
  switch (task.call.tool) {
    case edge::McpToolId::start:
      return start(task);
    case edge::McpToolId::output:
      return output(task);
    case edge::McpToolId::list:
      return list(task);
    case edge::McpToolId::stop:
      return stop(task);
    case edge::McpToolId::write:
      return write(task);
    case edge::McpToolId::wait:
      return wait(task);
    case edge::McpToolId::inbox:
      return inbox(task);
  }
  return fail(ErrorCode::bad_request, "There is no such tool.");
}

}  // namespace

McpAnswer mcp_failed(const Error& error) {
  McpAnswer answer = empty_answer();
  *answer.structured = edge::mcp_error_content(error);
  answer.text = edge::mcp_error_text(error);
  answer.is_error = true;
  answer.daemon_answers = error.code != ErrorCode::unavailable;
  return answer;
}

json::object mcp_caller(const Context& context, const Identity& identity) {
  json::object out;
  if (!context.tenant.empty()) out["tenant"] = context.tenant;
  if (!identity.session.empty()) out["session"] = identity.session;
  if (!identity.host_key.empty()) out["host_key"] = identity.host_key;
  return out;
}

McpAnswer perform_call(const McpTask& task) {
  if (task.call.refused) return mcp_failed(*task.call.refused);
  Result<McpAnswer> answer = perform(task);
  if (!answer) return mcp_failed(answer.error());
  return std::move(*answer);
}

}  // namespace waybill::cli
