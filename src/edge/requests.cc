#include "edge/requests.h"

#include <algorithm>

#include "base/kernel.h"
#include "edge/launch_check.h"
#include "edge/process_stat.h"
#include "text/line_pattern.h"

namespace waybill::edge {
namespace {

constexpr std::string_view kHostKeyName = "WAYBILL_HOST_KEY";

tl::unexpected<Error> bad(std::string message) {
  return fail(ErrorCode::bad_request, std::move(message));
}

Result<Millis> timeout_of(const Params& params, std::string_view name, Millis fallback,
                          const CallContext& context) {
  const std::optional<std::uint64_t> value = params.number(name);
  if (!value) return fallback;
  const Millis timeout(static_cast<Millis::rep>(*value));
  if (timeout > context.settings.wait_timeout_max) {
    return bad("Parameter \"" + std::string(name) + "\" is " + std::to_string(*value) +
               "; at most " + std::to_string(context.settings.wait_timeout_max.count()) +
               " ms (setting wait_timeout_max). Ask again after it.");
  }
  return timeout;
}

Result<std::vector<JobId>> job_ids(const Params& params) {
  std::vector<JobId> out;
  for (const std::string& text : params.list("jobs")) {
    TRY_ASSIGN(JobId id, parse_id<JobId>(text, "Parameter \"jobs\""));
    out.push_back(std::move(id));
  }
  return out;
}

Result<void> only_one_of(const Params& params, std::initializer_list<std::string_view> names) {
  std::string_view seen;
  for (const std::string_view name : names) {
    if (!params.has(name)) continue;
    if (!seen.empty()) {
      return bad("Parameters \"" + std::string(seen) + "\" and \"" + std::string(name) +
                 "\" exclude each other.");
    }
    seen = name;
  }
  return {};
}

bool is_host_key(std::string_view entry) {
  return entry.substr(0, kHostKeyName.size() + 1) == std::string(kHostKeyName) + "=";
}

Result<std::vector<std::string>> split_environment(std::string_view block) {
  std::vector<std::string> out;
  while (!block.empty()) {
    const std::size_t end = std::min(block.find('\0'), block.size());
    const std::string_view entry = block.substr(0, end);
    block.remove_prefix(std::min(end + 1, block.size()));
    if (entry.empty()) continue;
    const std::size_t equals = entry.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return bad("Parameter \"env_base64\" has an entry that is not NAME=value.");
    }
    out.emplace_back(entry);
  }
  return out;
}

// The caller's environment without the capability, which no job may see.
Result<std::vector<std::string>> environment_of(const Params& params, const CallContext& context) {
  TRY(only_one_of(params, {"env", "env_base64"}));
  TRY_ASSIGN(std::vector<std::string> entries, split_environment(params.text("env_base64")));
  for (auto& [name, value] : params.pairs("env")) entries.push_back(name + "=" + value);
  std::erase_if(entries, [](const std::string& entry) { return is_host_key(entry); });
  std::uint64_t size = 0;
  for (const std::string& entry : entries) size += entry.size() + 1;
  if (size > context.settings.environment_bytes_max) {
    return fail(ErrorCode::too_large, "The environment has " + std::to_string(size) +
                                          " bytes; at most " +
                                          std::to_string(context.settings.environment_bytes_max) +
                                          " are allowed (setting environment_bytes_max).");
  }
  return entries;
}

// What the terminal can do, unless the caller has said it: nothing.
void add_terminal_name(std::vector<std::string>& env) {
  const bool named = std::any_of(
      env.begin(), env.end(), [](const std::string& entry) { return entry.starts_with("TERM="); });
  if (!named) env.emplace_back("TERM=dumb");
}

Result<void> take_command(const Params& params, const CallContext& context,
                          engine::RunRequest& request) {
  TRY(only_one_of(params, {"command", "command_base64", "argv", "argv_base64"}));
  request.command = params.text("command") + params.text("command_base64");
  request.argv = params.list("argv");
  for (std::string& one : params.list("argv_base64")) request.argv.push_back(std::move(one));
  std::uint64_t size = request.command.size();
  for (const std::string& one : request.argv) size += one.size() + 1;
  const bool shell_form = params.has("command") || params.has("command_base64");
  if (shell_form ? request.command.empty() : request.argv.empty() || request.argv[0].empty()) {
    return bad("Parameter \"command\" or \"argv\" must say what to run.");
  }
  if (size > context.settings.command_bytes_max) {
    return fail(ErrorCode::too_large, "The command has " + std::to_string(size) +
                                          " bytes; at most " +
                                          std::to_string(context.settings.command_bytes_max) +
                                          " are allowed (setting command_bytes_max). Put it into "
                                          "a script file.");
  }
  if (!shell_form && params.has("shell")) {
    return bad("Parameter \"shell\" goes with \"command\", not with \"argv\".");
  }
  if (shell_form) request.shell = params.find_text("shell").value_or("/bin/bash");
  if (shell_form && request.shell.empty()) return bad("Parameter \"shell\" must not be empty.");
  return {};
}

Result<void> check_wrapper(const std::vector<std::string>& wrapper) {
  if (wrapper.empty() || wrapper.front().starts_with('/')) return {};
  return bad(
      "Parameter \"wrapper\" must begin with the absolute path of a program: the job's own "
      "PATH and directory must not choose it.");
}

// Refused here, where it can be said, rather than by the kernel after the job was accepted.
Result<void> check_words(const std::vector<std::string>& words, std::string_view what) {
  for (const std::string& word : words) {
    if (word.size() < kWordBytesMax) continue;
    return fail(ErrorCode::too_large,
                "One " + std::string(what) + " has " + std::to_string(word.size()) +
                    " bytes; the kernel takes at most " + std::to_string(kWordBytesMax - 1) +
                    ". Put it into a file.");
  }
  return {};
}

std::optional<Millis> millis_of(const Params& params, std::string_view name) {
  const std::optional<std::uint64_t> value = params.number(name);
  if (!value) return std::nullopt;
  return Millis(static_cast<Millis::rep>(*value));
}

Result<std::vector<core::Monitor>> monitors_of(const Params& params, const CallContext& context) {
  std::vector<core::Monitor> monitors;
  for (const std::string& pattern : params.list("monitors")) {
    TRY(text::LinePattern::compile(pattern));
    core::Monitor monitor;
    monitor.number = static_cast<std::uint32_t>(monitors.size()) + 1;
    monitor.pattern = pattern;
    monitor.events_max = params.number("monitor_events_max").value_or(0);
    monitor.per_minute = params.number("monitor_per_minute").value_or(0);
    monitor.wakes = params.flag("monitor_wakes");
    monitors.push_back(std::move(monitor));
  }
  const std::uint64_t most = context.settings.monitors_per_job;
  if (monitors.size() > most) {
    return fail(ErrorCode::limit_reached, "A job may have at most " + std::to_string(most) +
                                              " monitors (setting monitors_per_job), not " +
                                              std::to_string(monitors.size()) + ".");
  }
  return monitors;
}

}  // namespace

engine::Caller caller_of(const Params& params, const CallContext& context) {
  engine::Caller caller;
  caller.owner.tenant = TenantId(params.find_text("tenant").value_or(core::kDefaultTenant));
  caller.owner.session = SessionId(params.find_text("session").value_or(core::kUserSession));
  if (params.has("host_key")) caller.host_key = HostKey(params.text("host_key"));
  caller.connection = context.connection;
  return caller;
}

Result<engine::RunRequest> run_request(const Params& params, const CallContext& context) {
  engine::RunRequest request;
  request.caller = caller_of(params, context);
  TRY(take_command(params, context, request));
  TRY(only_one_of(params, {"cwd", "cwd_base64"}));
  request.cwd = params.text("cwd") + params.text("cwd_base64");
  if (request.cwd.empty() || request.cwd.front() != '/') {
    return bad("Parameter \"cwd\" must be an absolute path.");
  }
  TRY_ASSIGN(request.env, environment_of(params, context));
  if (params.has("turn")) request.turn = TurnId(params.text("turn"));
  request.wrapper = params.list("wrapper");
  TRY(check_wrapper(request.wrapper));
  TRY(check_words(request.argv, "argument"));
  TRY(check_words(request.env, "variable of the environment"));
  request.label = params.text("label");
  request.deadline = millis_of(params, "deadline_ms");
  request.start_within = millis_of(params, "start_within_ms");
  request.grace = millis_of(params, "grace_ms");
  request.wake =
      core::from_word<core::WakePolicy>(params.text("wake")).value_or(core::WakePolicy::always);
  request.leftovers = core::from_word<core::LeftoverPolicy>(params.text("leftovers"))
                          .value_or(core::LeftoverPolicy::kill);
  if (params.flag("stdin")) request.stdin_policy = core::StdinPolicy::open;
  request.pty = params.flag("pty");
  TRY_ASSIGN(request.monitors, monitors_of(params, context));
  if (request.pty) add_terminal_name(request.env);
  request.umask = static_cast<unsigned>(params.number("umask").value_or(022));
  request.cap_bytes = params.number("cap_bytes");
  request.owner = params.text("owner") == "turn" ? core::OwnerKind::turn : core::OwnerKind::session;
  if (params.has("key")) request.key = IdempotencyKey(params.text("key"));
  request.launchable = check_launchable(request.cwd, request.shell);
  return request;
}

Result<engine::ListRequest> list_request(const Params& params, const CallContext& context) {
  engine::ListRequest request;
  request.caller = caller_of(params, context);
  for (const std::string& word : params.list("statuses")) {
    if (const auto status = core::from_word<core::JobStatus>(word)) {
      request.statuses.push_back(*status);
    }
  }
  request.all_sessions = params.flag("all_sessions");
  request.limit = static_cast<std::uint32_t>(params.number("limit").value_or(50));
  request.cursor = params.text("cursor");
  return request;
}

Result<LogsRequest> logs_request(const Params& params, const CallContext& context) {
  TRY(only_one_of(params, {"offset", "tail_lines"}));
  LogsRequest request;
  request.caller = caller_of(params, context);
  request.job = JobId(params.text("job"));
  request.offset = params.number("offset");
  request.bytes = params.number("bytes").value_or(request.bytes);
  request.tail_lines = params.number("tail_lines");
  request.raw = params.flag("raw");
  if (params.has("wait_ms")) {
    TRY_ASSIGN(const Millis wait, timeout_of(params, "wait_ms", Millis{1}, context));
    request.wait = wait;
  }
  return request;
}

Result<engine::WaitRequest> wait_request(const Params& params, const CallContext& context) {
  engine::WaitRequest request;
  request.caller = caller_of(params, context);
  TRY_ASSIGN(request.jobs, job_ids(params));
  if (request.jobs.empty()) return bad("Parameter \"jobs\" must name at least one job.");
  request.any = params.flag("any");
  TRY_ASSIGN(request.timeout,
             timeout_of(params, "timeout_ms", context.settings.wait_timeout, context));
  return request;
}

Result<engine::StopRequest> stop_request(const Params& params, const CallContext& context) {
  engine::StopRequest request;
  request.caller = caller_of(params, context);
  TRY_ASSIGN(request.jobs, job_ids(params));
  request.all = params.flag("all");
  if (request.all != request.jobs.empty()) {
    return bad("Give either \"jobs\" with at least one job, or \"all\": true.");
  }
  request.reason = params.text("reason");
  request.wait = params.flag("wait");
  TRY_ASSIGN(request.timeout,
             timeout_of(params, "timeout_ms", context.settings.wait_timeout, context));
  return request;
}

Result<WriteRequest> write_request(const Params& params, const CallContext& context) {
  TRY(only_one_of(params, {"data", "data_base64"}));
  WriteRequest request;
  request.caller = caller_of(params, context);
  request.job = JobId(params.text("job"));
  request.data = params.text("data") + params.text("data_base64");
  request.close = params.flag("close");
  TRY_ASSIGN(request.timeout,
             timeout_of(params, "timeout_ms", context.settings.wait_timeout, context));
  return request;
}

namespace {

Result<std::optional<engine::ResumeCommand>> resume_of(const Params& params,
                                                       const CallContext& context) {
  std::optional<engine::ResumeCommand> none;
  if (!params.has("resume_argv")) return none;
  engine::ResumeCommand resume;
  resume.argv = params.list("resume_argv");
  if (resume.argv.empty() || resume.argv.front().empty()) {
    return bad("Parameter \"resume_argv\" must begin with a program.");
  }
  resume.cwd = params.text("resume_cwd");
  if (resume.cwd.empty() || resume.cwd.front() != '/') {
    return bad("Parameter \"resume_cwd\" must be an absolute path.");
  }
  TRY_ASSIGN(resume.env, split_environment(params.text("resume_env_base64")));
  std::erase_if(resume.env, [](const std::string& entry) { return is_host_key(entry); });
  std::uint64_t size = 0;
  for (const std::string& entry : resume.env) size += entry.size() + 1;
  if (size > context.settings.environment_bytes_max) {
    return fail(ErrorCode::too_large, "The client's environment has " + std::to_string(size) +
                                          " bytes (setting environment_bytes_max).");
  }
  return std::optional<engine::ResumeCommand>(std::move(resume));
}

}  // namespace

Result<engine::AttachRequest> attach_request(const Params& params, const CallContext& context) {
  engine::AttachRequest request;
  request.caller = caller_of(params, context);
  if (const auto pid = params.number("host_pid")) {
    request.host_pid = static_cast<int>(*pid);
    if (const auto stat = process_stat(*request.host_pid)) request.host_pid_start = stat->start;
    if (!request.host_pid_start) {
      return bad("Parameter \"host_pid\" names no running process: " + std::to_string(*pid) + ".");
    }
  }
  request.lease = millis_of(params, "lease_ms");
  request.one_shot = params.flag("one_shot");
  request.join = params.flag("join");
  request.client = params.text("client");
  if (params.has("wrapper")) request.wrapper = params.list("wrapper");
  if (request.wrapper) TRY(check_wrapper(*request.wrapper));
  if (params.has("allow") || params.has("deny")) {
    request.rules = core::Rules{params.list("allow"), params.list("deny")};
  }
  TRY_ASSIGN(request.resume, resume_of(params, context));
  return request;
}

Result<engine::WakeRequest> wake_request(const Params& params, const CallContext& context) {
  engine::WakeRequest request;
  request.caller = caller_of(params, context);
  TRY_ASSIGN(request.timeout,
             timeout_of(params, "timeout_ms", context.settings.wait_timeout, context));
  return request;
}

engine::CallRequest call_request(const Params& params, const CallContext& context) {
  engine::CallRequest request;
  request.caller = caller_of(params, context);
  request.call = params.text("call");
  if (params.has("turn")) request.turn = TurnId(params.text("turn"));
  request.subagent = params.flag("subagent");
  request.by_user = params.flag("by_user");
  return request;
}

engine::HostRequest host_request(const Params& params, const CallContext& context) {
  engine::HostRequest request;
  request.caller.owner.tenant = TenantId(params.find_text("tenant").value_or(core::kDefaultTenant));
  request.caller.host_key = HostKey(params.text("host_key"));
  request.caller.connection = context.connection;
  request.call = params.text("call");
  return request;
}

Result<engine::ReleaseOwnerRequest> release_owner_request(const Params& params) {
  const TenantId tenant(params.find_text("tenant").value_or(core::kDefaultTenant));
  engine::ReleaseOwnerRequest request{{tenant, SessionId(params.text("session"))},
                                      params.text("reason")};
  if (request.reason.empty()) {
    return fail(ErrorCode::bad_request, "reason: say why; it is kept on the jobs.");
  }
  return request;
}

Settings answer_settings(const Params& params, const Settings& settings) {
  Settings out = settings;
  if (!params.takes("text_bytes")) return out;
  if (const auto most = params.number("text_bytes")) {
    out.hand_over_bytes = std::min(out.hand_over_bytes, *most);
  }
  return out;
}

Result<engine::SessionWaitRequest> session_wait_request(const Params& params,
                                                        const CallContext& context) {
  engine::SessionWaitRequest request;
  request.caller = caller_of(params, context);
  request.revision = params.number("revision").value_or(0);
  TRY_ASSIGN(request.timeout,
             timeout_of(params, "timeout_ms", context.settings.wait_timeout, context));
  return request;
}

Result<engine::TurnRequest> turn_request(core::TurnVerb verb, const Params& params,
                                         const CallContext& context) {
  engine::TurnRequest request;
  request.caller = caller_of(params, context);
  request.verb = verb;
  request.turn = TurnId(params.text("turn"));
  if (verb == core::TurnVerb::end || verb == core::TurnVerb::stop) {
    request.wait = params.flag("wait");
    TRY_ASSIGN(request.timeout,
               timeout_of(params, "timeout_ms", context.settings.wait_timeout, context));
  }
  request.adapter = params.flag("adapter");
  if (verb == core::TurnVerb::end) request.over = params.flag("over");
  if (verb == core::TurnVerb::begin) {
    request.supersede = params.flag("supersede");
    request.author =
        core::from_word<core::Author>(params.text("author")).value_or(core::Author::user);
  }
  return request;
}

Result<engine::InboxRequest> inbox_request(const Params& params, const CallContext& context) {
  engine::InboxRequest request;
  request.caller = caller_of(params, context);
  request.follow = params.flag("follow");
  request.no_ack = params.flag("no_ack");
  request.tool = params.text("path") == "tool";
  if (request.tool && (request.follow || request.no_ack)) {
    return bad("Parameter \"path\" = \"tool\" goes neither with \"follow\" nor \"no_ack\".");
  }
  if (params.has("timeout_ms")) {
    TRY_ASSIGN(const Millis timeout, timeout_of(params, "timeout_ms", Millis{1}, context));
    request.timeout = timeout;
  }
  return request;
}

engine::PruneRequest prune_request(const Params& params) {
  engine::PruneRequest request;
  if (const auto age = params.number("older_than_ms")) {
    request.older_than = Millis(static_cast<Millis::rep>(*age));
  }
  request.dry_run = params.flag("dry_run");
  request.after = params.number("after").value_or(0);
  return request;
}

Result<engine::AckRequest> ack_request(const Params& params, const CallContext& context) {
  engine::AckRequest request;
  request.caller = caller_of(params, context);
  request.ids = params.list("ids");
  if (request.ids.empty()) return bad("Parameter \"ids\" must name at least one id.");
  for (const std::string& id : request.ids) TRY(check_id(id, "Parameter \"ids\""));
  return request;
}

}  // namespace waybill::edge
