#include "edge/mcp_tools.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/ids.h"
#include "edge/json.h"
#include "edge/method.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;
using Kind = McpArgumentKind;
using Shape = McpFieldShape;

constexpr std::size_t kJobsMax = 1000;
constexpr double kExactMax = 9007199254740992.0;  // 2^53

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

std::vector<std::string_view> statuses() {
  return {"queued", "running", "waiting_on_user", "succeeded", "failed", "stopped"};
}

McpArgument jobs_argument(bool required) {
  return {"jobs", Kind::texts, required, 0, kJobsMax, {}, {}, "Job ids."};
}

// What every result may carry besides its own.
void add_common(std::vector<McpField>& fields) {
  fields.push_back({"notices", Shape::texts, {}, "Ids of events handed over with this result."});
  fields.push_back({"notice", Shape::text, {}, "Those events as text: results of earlier jobs."});
  fields.push_back({"error", Shape::error, {}, "Why the call failed."});
}

McpTool start_tool() {
  McpTool tool{McpToolId::start,
               "start",
               "Start a background job",
               "Run a shell command as a job that outlives this call. Quick commands answer here "
               "with their output; others go on, and the answer says how the result will come.",
               {{"command", Kind::text, true, 1, kLineBytesMax, {}, {}, "Shell text (bash)."},
                {"label", Kind::text, false, 0, 1000, {}, {}, "Short name."},
                {"cwd", Kind::text, false, 1, 4096, {}, {}, "Working directory."},
                {"env", Kind::text_map, false, 0, 0, {}, {}, "Variables to set."},
                {"yield_ms",
                 Kind::number,
                 false,
                 0,
                 60000,
                 10000,
                 {},
                 "Wait this long for the end before answering."},
                {"deadline_s", Kind::number, false, 1, 31622400, {}, {}, "End the job after this."},
                {"stdin", Kind::flag, false, 0, 0, {}, {}, "Leave its input open for `write`."},
                {"pty", Kind::flag, false, 0, 0, {}, {}, "Run it on a terminal."},
                {"monitors",
                 Kind::texts,
                 false,
                 0,
                 5,
                 {},
                 {},
                 "Patterns (RE2): be told of output lines that fit."},
                {"key",
                 Kind::text,
                 false,
                 1,
                 kIdBytesMax,
                 {},
                 {},
                 "Idempotency key: the same again gives the same job."}},
               {},
               false,
               true,
               false,
               true};
  tool.fields = mcp_job_fields();
  tool.fields.push_back({"delivery_path",
                         Shape::word,
                         {"this_turn", "wake", "next_attach"},
                         "How the result of an unfinished job comes."});
  tool.fields.push_back({"next", Shape::text, {}, "What to do now."});
  tool.fields.push_back({"twin", Shape::text, {}, "An identical job that is running already."});
  tool.fields.push_back({"replayed", Shape::flag, {}, "The key was known; this is that job."});
  add_common(tool.fields);
  return tool;
}

McpTool output_tool() {
  McpTool tool{McpToolId::output,
               "output",
               "Read a job's output",
               "Read output of a job, by default its end.",
               {{"job", Kind::text, true, 1, kIdBytesMax, {}, {}, "Job id."},
                {"offset", Kind::number, false, 0, 9223372036854775807ULL, {}, {}, "First byte."},
                {"tail_lines",
                 Kind::number,
                 false,
                 0,
                 1000000,
                 {},
                 {},
                 "Start this many lines from the end."},
                {"bytes", Kind::number, false, 1, 1048576, 16384, {}, "Most bytes."}},
               {{"job", Shape::text, {}, "Its id."},
                {"data", Shape::text, {}, "Rendered output; `<` is written &lt;."},
                {"offset", Shape::number, {}, "Of the first byte."},
                {"next_offset", Shape::number, {}, "Where to read on."},
                {"end", Shape::number, {}, "Offset after the last byte so far."},
                {"gaps", Shape::gaps, {}, "Ranges that were not kept."},
                {"complete", Shape::flag, {}, "The job is finished and nothing is left to read."}},
               true,
               false,
               true,
               false};
  add_common(tool.fields);
  return tool;
}

McpTool list_tool() {
  McpTool tool{McpToolId::list,
               "list",
               "List jobs",
               "This session's jobs, newest first.",
               {{"statuses", Kind::words, false, 0, 6, {}, statuses(), "Only these."}},
               {{"jobs", Shape::jobs, {}, "At most 50."},
                {"more", Shape::flag, {}, "There are older ones."}},
               true,
               false,
               true,
               false};
  add_common(tool.fields);
  return tool;
}

McpTool stop_tool() {
  McpTool tool{McpToolId::stop,
               "stop",
               "Stop jobs",
               "Stop jobs with all their processes. A finished job answers with its result.",
               {jobs_argument(false),
                {"all", Kind::flag, false, 0, 0, {}, {}, "Every unfinished job of the session."},
                {"reason", Kind::text, false, 0, 1000, {}, {}, "Kept on the job."}},
               {{"jobs", Shape::jobs, {}, "As asked; `stopping`: not all processes are gone yet."}},
               false,
               true,
               true,
               false};
  add_common(tool.fields);
  return tool;
}

McpTool write_tool() {
  McpTool tool{McpToolId::write,
               "write",
               "Write to a job's input",
               "Write to the input of a job started with `stdin`. Lines need their \\n.",
               {{"job", Kind::text, true, 1, kIdBytesMax, {}, {}, "Job id."},
                {"text", Kind::text, false, 0, kInputBytesMax, {}, {}, "The bytes as text."},
                {"close", Kind::flag, false, 0, 0, {}, {}, "Then end its input."}},
               {{"jobs", Shape::jobs, {}, "The job."},
                {"written", Shape::number, {}, "Bytes that were taken."},
                {"closed", Shape::flag, {}, "Nothing more can be written."}},
               false,
               true,
               false,
               true};
  add_common(tool.fields);
  return tool;
}

McpTool wait_tool() {
  McpTool tool{
      McpToolId::wait,
      "wait",
      "Wait for jobs",
      "Block until jobs finish. Only when nothing else can be done: results come by themselves.",
      {jobs_argument(true),
       {"any", Kind::flag, false, 0, 0, {}, {}, "One finished job is enough."},
       {"timeout_ms", Kind::number, false, 1, 600000, 30000, {}, "Longest wait."}},
      {{"jobs", Shape::jobs, {}, "In the order asked."},
       {"timed_out", Shape::flag, {}, "The time passed before the jobs were finished."}},
      true,
      false,
      true,
      false};
  add_common(tool.fields);
  return tool;
}

McpTool inbox_tool() {
  McpTool tool{McpToolId::inbox,
               "inbox",
               "Read pending results",
               "Results of finished jobs that have not been handed over yet.",
               {{"ack", Kind::texts, false, 0, kJobsMax, {}, {}, "Events that were dealt with."}},
               {{"acked", Shape::texts, {}, "Acknowledged now."},
                {"already", Shape::texts, {}, "Acknowledged before."}},
               false,
               false,
               true,
               false};
  add_common(tool.fields);
  return tool;
}

// ---- schemas -----------------------------------------------------------------------------------

json::object typed(std::string_view type) { return {{"type", view(type)}}; }

json::array word_list(const std::vector<std::string_view>& words) {
  json::array out;
  for (const std::string_view word : words) out.push_back(json::string(view(word)));
  return out;
}

json::object list_of(json::object items) {
  json::object out = typed("array");
  out["items"] = std::move(items);
  return out;
}

json::object argument_schema(const McpArgument& argument) {
  json::object out;
  switch (argument.kind) {
    case Kind::text:
      out = typed("string");
      if (argument.min > 0) out["minLength"] = argument.min;
      break;
    case Kind::number:
      out = typed("integer");
      out["minimum"] = argument.min;
      out["maximum"] = argument.max;
      if (argument.standard) out["default"] = *argument.standard;
      break;
    case Kind::flag:
      out = typed("boolean");
      break;
    case Kind::texts:
      out = list_of(typed("string"));
      break;
    case Kind::words:
      out = list_of(json::object{{"type", "string"}, {"enum", word_list(argument.words)}});
      break;
    case Kind::text_map:
      out = typed("object");
      out["additionalProperties"] = typed("string");
      break;
  }
  out["description"] = view(argument.description);
  return out;
}

json::object input_schema(const McpTool& tool) {
  json::object properties;
  json::array required;
  for (const McpArgument& argument : tool.arguments) {
    properties[view(argument.name)] = argument_schema(argument);
    if (argument.required) required.push_back(json::string(view(argument.name)));
  }
  json::object out = typed("object");
  out["properties"] = std::move(properties);
  if (!required.empty()) out["required"] = std::move(required);
  out["additionalProperties"] = false;
  return out;
}

json::object object_schema(const std::vector<McpField>& fields);

json::object field_schema(const McpField& field) {
  switch (field.shape) {
    case Shape::text:
      return typed("string");
    case Shape::number:
      return typed("integer");
    case Shape::flag:
      return typed("boolean");
    case Shape::texts:
      return list_of(typed("string"));
    case Shape::word:
      return {{"type", "string"}, {"enum", word_list(field.words)}};
    case Shape::output:
      return object_schema({{"text", Shape::text, {}, ""},
                            {"bytes", Shape::number, {}, ""},
                            {"omitted_bytes", Shape::number, {}, ""}});
    case Shape::jobs: {
      json::object job = object_schema(mcp_job_fields());
      job["required"] = json::array{"job", "status"};
      return list_of(std::move(job));
    }
    case Shape::gaps:
      return list_of(list_of(typed("integer")));
    case Shape::error: {
      json::object error =
          object_schema({{"code", Shape::text, {}, ""}, {"message", Shape::text, {}, ""}});
      error["required"] = json::array{"code", "message"};
      return error;
    }
  }
  return {};
}

json::object object_schema(const std::vector<McpField>& fields) {
  json::object properties;
  for (const McpField& field : fields) properties[view(field.name)] = field_schema(field);
  json::object out = typed("object");
  out["properties"] = std::move(properties);
  return out;
}

// ---- arguments ---------------------------------------------------------------------------------

std::string quoted(std::string_view name) { return "\"" + valid_utf8(name) + "\""; }

tl::unexpected<Error> wrong(const McpArgument& argument, const std::string& must) {
  return fail(ErrorCode::bad_request,
              "Argument " + quoted(argument.name) + " must be " + must + ".");
}

Result<void> check_text(const McpArgument& argument, const json::value& value) {
  const json::string* text = value.if_string();
  if (text == nullptr) return wrong(argument, "text");
  if (std::find(text->begin(), text->end(), '\0') != text->end()) {
    return wrong(argument, "text without a NUL character");
  }
  if (text->size() < argument.min) return wrong(argument, "a text that is not empty");
  if (argument.max != 0 && text->size() > argument.max) {
    return fail(ErrorCode::too_large, "Argument " + quoted(argument.name) + " has " +
                                          std::to_string(text->size()) + " bytes; at most " +
                                          std::to_string(argument.max) + " are allowed.");
  }
  return {};
}

Result<void> check_number(const McpArgument& argument, json::value& value) {
  const std::string must = "a whole number between " + std::to_string(argument.min) + " and " +
                           std::to_string(argument.max);
  if (value.is_double()) {
    const double number = value.get_double();
    if (number != std::floor(number) || number < 0 || number > kExactMax) {
      return wrong(argument, must);
    }
    value = static_cast<std::uint64_t>(number);
  }
  if (!value.is_number() || (value.is_int64() && value.get_int64() < 0)) {
    return wrong(argument, must);
  }
  const auto number = value.to_number<std::uint64_t>();
  if (number < argument.min || number > argument.max) return wrong(argument, must);
  return {};
}

Result<void> check_list(const McpArgument& argument, const json::value& value) {
  const json::array* items = value.if_array();
  if (items == nullptr) return wrong(argument, "a list of texts");
  if (items->size() > argument.max) {
    return fail(ErrorCode::too_large, "Argument " + quoted(argument.name) + " has " +
                                          std::to_string(items->size()) + " entries; at most " +
                                          std::to_string(argument.max) + " are allowed.");
  }
  std::string words;
  for (const std::string_view word : argument.words) words += " " + std::string(word);
  for (const json::value& item : *items) {
    McpArgument one = argument;
    one.min = 1;
    one.max = kLineBytesMax;
    TRY(check_text(one, item));
    if (argument.words.empty()) continue;
    const std::string_view text(item.get_string().data(), item.get_string().size());
    if (std::find(argument.words.begin(), argument.words.end(), text) == argument.words.end()) {
      return wrong(argument, "a list of these words:" + words);
    }
  }
  return {};
}

Result<void> check_map(const McpArgument& argument, const json::value& value) {
  const json::object* object = value.if_object();
  if (object == nullptr) return wrong(argument, "an object of texts");
  for (const json::key_value_pair& pair : *object) {
    const std::string name(pair.key());
    if (name.empty() || name.find('=') != std::string::npos ||
        name.find('\0') != std::string::npos) {
      return wrong(argument, "an object whose names are names of variables, not " + quoted(name));
    }
    TRY(check_text(argument, pair.value()));
  }
  return {};
}

Result<void> check_argument(const McpArgument& argument, json::value& value) {
  switch (argument.kind) {
    case Kind::text:
      return check_text(argument, value);
    case Kind::number:
      return check_number(argument, value);
    case Kind::flag:
      return value.is_bool() ? Result<void>{} : wrong(argument, "true or false");
    case Kind::texts:
    case Kind::words:
      return check_list(argument, value);
    case Kind::text_map:
      return check_map(argument, value);
  }
  return {};
}

const McpArgument* find_argument(const McpTool& tool, std::string_view name) {
  for (const McpArgument& argument : tool.arguments) {
    if (argument.name == name) return &argument;
  }
  return nullptr;
}

}  // namespace

const std::vector<McpField>& mcp_job_fields() {
  static const std::vector<McpField> fields{
      {"job", Shape::text, {}, "Its id."},
      {"label", Shape::text, {}, "Its short name."},
      {"command", Shape::text, {}, "The beginning of its command."},
      {"status", Shape::word, statuses(), "Where it stands."},
      {"stopping", Shape::flag, {}, "A stop is under way."},
      {"verdict",
       Shape::word,
       {"ok", "failed", "stage_failed", "signaled", "unknown", "not_started"},
       "How it ended; `stage_failed`: the shell said 0, but a stage of the pipeline failed."},
      {"ending", Shape::text, {}, "The same as a sentence."},
      {"exit_code", Shape::number, {}, "The shell's own code, when it exited."},
      {"signal", Shape::number, {}, "The signal that ended it."},
      {"duration_ms", Shape::number, {}, "From its start to the end of its main process."},
      {"output_bytes", Shape::number, {}, "Bytes written so far."},
      {"output",
       Shape::output,
       {},
       "The output, or its beginning and end, of a finished job; untrusted, `<` is written &lt;."}};
  return fields;
}

const std::vector<McpTool>& mcp_tools() {
  static const std::vector<McpTool> tools{start_tool(), output_tool(), list_tool(), stop_tool(),
                                          write_tool(), wait_tool(),   inbox_tool()};
  return tools;
}

const McpTool* find_mcp_tool(std::string_view name) {
  for (const McpTool& tool : mcp_tools()) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

json::array mcp_tool_list() {
  json::array out;
  for (const McpTool& tool : mcp_tools()) {
    json::object annotations{{"title", view(tool.title)}, {"readOnlyHint", tool.read_only}};
    if (!tool.read_only) annotations["destructiveHint"] = tool.destructive;
    annotations["idempotentHint"] = tool.idempotent;
    annotations["openWorldHint"] = tool.open_world;
    out.push_back(json::object{{"name", view(tool.name)},
                               {"title", view(tool.title)},
                               {"description", view(tool.description)},
                               {"inputSchema", input_schema(tool)},
                               {"outputSchema", object_schema(tool.fields)},
                               {"annotations", std::move(annotations)}});
  }
  return out;
}

Result<void> check_mcp_arguments(const McpTool& tool, json::object& arguments) {
  std::vector<std::string> left_out;
  for (json::key_value_pair& pair : arguments) {
    const std::string name(pair.key());
    const McpArgument* argument = find_argument(tool, name);
    if (argument == nullptr) {
      std::string known;
      for (const McpArgument& one : tool.arguments) {
        known += (known.empty() ? "" : ", ") + std::string(one.name);
      }
      return fail(ErrorCode::bad_request, "The tool " + std::string(tool.name) +
                                              " has no argument " + quoted(name) + "; it takes " +
                                              known + ".");
    }
    if (pair.value().is_null()) {
      left_out.push_back(name);
      continue;
    }
    TRY(check_argument(*argument, pair.value()));
  }
  for (const std::string& name : left_out) arguments.erase(name);
  for (const McpArgument& argument : tool.arguments) {
    if (argument.required && !arguments.contains(view(argument.name))) {
      return fail(ErrorCode::bad_request, "The tool " + std::string(tool.name) +
                                              " needs the argument " + quoted(argument.name) + ".");
    }
  }
  if (tool.id == McpToolId::stop && !arguments.contains("jobs") && !arguments.contains("all")) {
    return fail(ErrorCode::bad_request, "The tool stop needs \"jobs\" or \"all\".");
  }
  return {};
}

std::uint64_t mcp_number(const McpTool& tool, const json::object& arguments,
                         std::string_view name) {
  const McpArgument* argument = find_argument(tool, name);
  CHECK(argument != nullptr);
  const json::value* value = arguments.if_contains(view(name));
  if (value == nullptr) return argument->standard.value_or(0);
  return value->to_number<std::uint64_t>();
}

}  // namespace waybill::edge
