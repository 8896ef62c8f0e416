#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/launch_params.h"
#include "cli/outcome.h"
#include "cli/output.h"
#include "cli/quote.h"
#include "cli/stream.h"
#include "cli/view.h"
#include "core/job.h"
#include "core/scope.h"
#include "edge/json.h"

namespace waybill::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

tl::unexpected<Error> usage(std::string message) {
  return fail(ErrorCode::bad_request, std::move(message));
}

Result<std::string> working_directory(const Parsed& parsed) {
  const std::string asked = parsed.find("--cwd").value_or("");
  if (!asked.empty() && asked.front() == '/') return asked;
  TRY_ASSIGN(const std::string here, current_directory());
  return asked.empty() ? here : here + "/" + asked;
}

Result<std::string> resolve_shell(const std::string& asked) {
  if (asked.find('/') != std::string::npos) {
    std::array<char, PATH_MAX> buffer{};
    const char* here = asked.front() == '/' ? "" : ::getcwd(buffer.data(), buffer.size());
    if (here == nullptr) return usage("--shell " + asked + " is relative; give an absolute path.");
    return asked.front() == '/' ? asked : std::string(here) + "/" + asked;
  }
  const char* path = std::getenv("PATH");
  std::string_view rest(path == nullptr ? "/usr/bin:/bin" : path);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string candidate = std::string(rest.substr(0, end)) + "/" + asked;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (candidate.front() == '/' && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return fail(ErrorCode::not_found,
              "There is no shell \"" + asked + "\" in PATH; install it or give its path.");
}

// The caller's own environment with --env on top.
Result<std::string> environment_of(const Parsed& parsed) {
  std::vector<std::string> changes = parsed.all("--env");
  for (const std::string& given : changes) {
    const std::size_t equals = given.find('=');
    if (equals == 0 || equals == std::string::npos) {
      return usage("--env needs NAME=value, not \"" + given + "\".");
    }
  }
  // In front, so that --env TERM=… wins.
  if (parsed.has("--pty")) changes.insert(changes.begin(), kOwnTerminal);
  return environment_block(own_environment(), changes);
}

Result<void> set_command(json::object& params, const Parsed& parsed) {
  if (parsed.has("--argv")) {
    if (parsed.has("--shell")) return usage("--shell and --argv exclude each other.");
    json::array words;
    for (const std::string& word : parsed.words)
      words.push_back(json::value(edge::to_base64(word)));
    params["argv_base64"] = std::move(words);
    return {};
  }
  set_bytes(params, "command",
            parsed.words.size() == 1 ? parsed.words.front() : shell_join(parsed.words));
  if (const auto shell = parsed.find("--shell")) {
    TRY_ASSIGN(const std::string path, resolve_shell(*shell));
    params["shell"] = path;
  }
  return {};
}

// --NAME as the parameter NAME, if it is there and a word of that enumeration.
template <class Enum>
Result<void> set_word(json::object& params, const Parsed& parsed, const std::string& name) {
  const auto given = parsed.find("--" + name);
  if (!given) return {};
  if (!core::from_word<Enum>(*given)) {
    std::string choice;
    for (const std::string_view word : core::Words<Enum>::words) {
      choice += (choice.empty() ? "" : ", ") + std::string(word);
    }
    return usage("--" + name + " is one of " + choice + ", not \"" + *given + "\".");
  }
  params[name] = *given;
  return {};
}

Result<void> set_monitors(json::object& params, const Parsed& parsed) {
  json::array patterns;
  for (const std::string& pattern : parsed.all("--monitor")) {
    if (!edge::is_valid_utf8(pattern)) return usage("--monitor takes a pattern in UTF-8.");
    patterns.push_back(json::value(pattern));
  }
  const bool any = !patterns.empty();
  if (any) params["monitors"] = std::move(patterns);
  TRY_ASSIGN(const auto events, number_of(parsed, "--monitor-events"));
  if (events) params["monitor_events_max"] = *events;
  TRY_ASSIGN(const auto rate, number_of(parsed, "--monitor-rate"));
  if (rate) params["monitor_per_minute"] = *rate;
  if (parsed.has("--monitor-wakes")) params["monitor_wakes"] = true;
  if (any || !(events || rate || parsed.has("--monitor-wakes"))) return {};
  return usage("--monitor-events, --monitor-rate and --monitor-wakes go with --monitor.");
}

Result<json::object> run_params(const Context& context) {
  const Parsed& parsed = context.parsed;
  json::object params = caller_params(context);
  TRY(set_command(params, parsed));
  TRY_ASSIGN(const std::string cwd, working_directory(parsed));
  set_bytes(params, "cwd", cwd);
  TRY_ASSIGN(const std::string block, environment_of(parsed));
  params["env_base64"] = edge::to_base64(block);
  params["umask"] = callers_umask();
  const char* turn = std::getenv("WAYBILL_TURN");
  const std::string in_turn = parsed.find("--turn").value_or(turn == nullptr ? "" : turn);
  if (!in_turn.empty()) params["turn"] = in_turn;
  TRY(set_wrapper(params, parsed));
  if (const auto label = parsed.find("--label")) params["label"] = edge::valid_utf8(*label);
  TRY_ASSIGN(const auto deadline, duration_of(parsed, "--deadline"));
  if (deadline) params["deadline_ms"] = deadline->count();
  TRY_ASSIGN(const auto within, duration_of(parsed, "--start-within"));
  if (within) params["start_within_ms"] = within->count();
  TRY_ASSIGN(const auto grace, duration_of(parsed, "--grace"));
  if (grace) params["grace_ms"] = grace->count();
  TRY_ASSIGN(const auto cap, size_of(parsed, "--cap"));
  if (cap) params["cap_bytes"] = *cap;
  TRY(set_word<core::OwnerKind>(params, parsed, "owner"));
  TRY(set_word<core::WakePolicy>(params, parsed, "wake"));
  TRY(set_word<core::LeftoverPolicy>(params, parsed, "leftovers"));
  TRY(set_monitors(params, parsed));
  if (parsed.has("--stdin")) params["stdin"] = true;
  if (parsed.has("--pty")) params["pty"] = true;
  params["key"] = parsed.find("--key").value_or(fresh_id("k"));
  return params;
}

bool stdout_is_pipe() {
  struct stat info{};
  return ::fstat(STDOUT_FILENO, &info) == 0 && S_ISFIFO(info.st_mode);
}

// Where people trip: what was typed is legal, but probably not what was meant.
void give_hints(const Context& context) {
  const std::vector<std::string>& words = context.parsed.words;
  if (context.json) return;
  static constexpr std::array<std::string_view, 8> kOperators{"|", "||", "&&", ";",
                                                              ">", ">>", "<",  "&"};
  const bool has_operator = std::any_of(words.begin(), words.end(), [](const std::string& word) {
    return std::find(kOperators.begin(), kOperators.end(), word) != kOperators.end();
  });
  if (words.size() == 1 && context.parsed.has("--argv") &&
      words[0].find(' ') != std::string::npos) {
    note("Hint: --argv looks for a program whose name is \"" + words[0] +
         "\"; leave out --argv, or give its words apart.");
  } else if (words.size() > 1 && has_operator) {
    note(
        "Hint: with several arguments every word is passed as it is, operators too; quote the "
        "whole command as one argument to let the shell read it.");
  } else if (words.size() > 1 && !context.parsed.has("--wait") && stdout_is_pipe()) {
    note(
        "Hint: what stands after the pipe reads this answer, not the job's output; to run the "
        "whole pipeline in the background quote it: waybill run -- '" +
        shell_join(words) + " | ...'");
  }
}

// How the result comes, in words that promise no more than the answer does.
std::string path_sentence(const json::object& answer) {
  const json::object& job = object_of(answer, "job");
  const std::string path = text_of(answer, "delivery_path");
  if (path == "this_turn") return "Its result comes into this turn.";
  if (path == "wake") return "Its result wakes the session.";
  if (text_of(job, "session") == core::kUserSession) {
    return "Its result: waybill wait " + text_of(job, "id");
  }
  return "Its result is kept for the session's host: it comes with its next `turn`, `inbox` or "
         "`session attach`.";
}

void print_accepted(const json::object& answer) {
  const json::object& job = object_of(answer, "job");
  print_line(job_line(job));
  print_line(path_sentence(answer));
  if (const std::string twin = text_of(answer, "twin"); !twin.empty()) {
    print_line("The same command is already running as " + twin + ".");
  }
  if (flag_of(answer, "replayed")) print_line("This key was used before; this is that job.");
}

// Ctrl-C as something to wait for; the mask stays for the rest of this short program.
UniqueFd interrupt_descriptor() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::optional<Millis> left_of(std::optional<Millis> total, SteadyClock::time_point deadline) {
  if (!total) return std::nullopt;
  return std::max(Millis{1}, std::chrono::ceil<Millis>(deadline - SteadyClock::now()));
}

// Streams, waits, prints the end. `answer` is what `run` said; its job is brought up to date.
Result<int> attend(Client& client, const Context& context, json::object answer,
                   std::optional<Millis> total) {
  const std::string id = text_of(object_of(answer, "job"), "id");
  const auto deadline = SteadyClock::now() + total.value_or(Millis{0});
  if (!context.json) {
    Stream stream;
    stream.job = id;
    stream.follow = true;
    stream.total = total;
    TRY(stream_output(client, context, stream));
  }
  json::object params = caller_params(context);
  params["jobs"] = json::array{json::value(id)};
  Client::Waiting waiting;
  waiting.total = left_of(total, deadline);
  waiting.timed_out = [](const json::object& reply) { return flag_of(reply, "timed_out"); };
  TRY_ASSIGN(const json::object reply, client.call_waiting("job.wait", params, waiting));
  const json::array& jobs = array_of(reply, "jobs");
  if (jobs.empty() || !jobs[0].is_object()) {
    return fail(ErrorCode::unsupported_version, "The daemon's answer names no job.");
  }
  const json::object& job = jobs[0].get_object();
  if (context.json) {
    answer["job"] = job;
    print_json(answer);
  }
  TRY(confirm(client, context, text_of(reply, "reported")));
  if (flag_of(reply, "timed_out") && !is_finished(job)) {
    note("Job " + id + " is still running; `waybill wait " + id + "` waits on.");
    return kExitTimedOut;
  }
  const int code = exit_code_of(job);
  if (!context.json && code != 0)
    note("Job " + id + " " + text_of(job, "status") + ": " + ending_of(job) + ".");
  return code;
}

}  // namespace

Result<int> run_command(const Context& context) {
  TRY_ASSIGN(const json::object params, run_params(context));
  TRY_ASSIGN(const auto total, timeout_of(context.parsed, "--timeout"));
  const bool wait = context.parsed.has("--wait");
  if (total && !wait) return usage("--timeout goes with --wait; --deadline ends the job itself.");
  give_hints(context);
  ClientOptions options = client_options(context);
  UniqueFd interrupt;
  if (wait) {
    interrupt = interrupt_descriptor();
    options.interrupt_fd = interrupt.get();
  }
  Client client(options);
  TRY(client.connect());
  Result<json::object> answer = client.call("job.run", params);
  if (!answer) {
    if (!client.interrupted()) return fail(std::move(answer.error()));
    note("Interrupted before the answer; `waybill list` shows whether the job was accepted.");
    return kExitInterrupted;
  }
  if (!wait) {
    if (context.json) {
      print_json(*answer);
    } else {
      print_accepted(*answer);
    }
    TRY(flush_stdout());
    return 0;
  }
  const std::string id = text_of(object_of(*answer, "job"), "id");
  Result<int> code = attend(client, context, std::move(*answer), total);
  if (!code && client.interrupted()) {
    note("Job " + id + " runs on; `waybill wait " + id + "` waits for it, `waybill stop " + id +
         "` ends it.");
    return kExitInterrupted;
  }
  return code;
}

}  // namespace waybill::cli
