#include "e2e/scripted_client.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

namespace waybill::e2e {
namespace {

namespace json = boost::json;

Launch launch_of(const Daemon& daemon, const ScriptedClient::Options& options) {
  Launch launch;
  launch.argv = {"/usr/bin/env",
                 "python3",
                 std::string(WAYBILL_SOURCE_DIR "/tests/clients/scripted_client.py"),
                 waybill_program(),
                 daemon.data_dir(),
                 options.client,
                 options.session,
                 options.directory};
  launch.env = options.env;
  launch.unset = {"CLAUDE_CODE_SESSION_ID", "CLAUDECODE", "CLAUDE_PROJECT_DIR"};
  launch.talks = true;
  return launch;
}

// What the model reads of a hook's output.
std::string read_by_model(const std::string& out) {
  if (out.empty()) return {};
  const json::value value = json::parse(out);
  if (const json::value* context = value.as_object().if_contains("hookSpecificOutput")) {
    return text_at(*context, "additionalContext");
  }
  return text_at(value, "reason");
}

}  // namespace

ScriptedClient::ScriptedClient(const Daemon& daemon, Options options)
    : options_(std::move(options)),
      data_dir_(daemon.data_dir()),
      process_(launch_of(daemon, options_)) {}

ScriptedClient::~ScriptedClient() {
  finish();
  if (!crashed_) return;  // else it has waited itself
  for (const pid_t pid : processes_with(data_dir_)) {
    const std::string words = read_file("/proc/" + std::to_string(pid) + "/cmdline");
    const bool ours = words.find(std::string("\0mcp\0", 5)) != std::string::npos ||
                      words.find(std::string("\0hook\0", 6)) != std::string::npos;
    EXPECT_TRUE(!ours || await_end(pid)) << words;
  }
}

json::value ScriptedClient::ask(const json::object& command) {
  process_.say(json::serialize(command) + "\n");
  return process_.json_line();
}

json::object ScriptedClient::hook_result(const std::string& event, json::object fields) {
  const json::value answer = ask({{"op", "hook"}, {"event", event}, {"fields", std::move(fields)}});
  return answer.is_object() ? answer.as_object() : json::object{};
}

std::string ScriptedClient::hook(const std::string& event, json::object fields) {
  const json::object done = hook_result(event, std::move(fields));
  EXPECT_EQ(number_at(done, "exit"), 0) << event << ": " << text_at(done, "err");
  return text_at(done, "out");
}

std::string ScriptedClient::start(const std::string& source) {
  return read_by_model(hook("SessionStart", {{"source", source}}));
}

std::string ScriptedClient::prompt(const std::string& turn, const std::string& text) {
  return read_by_model(hook("UserPromptSubmit", {{"prompt_id", turn}, {"prompt", text}}));
}

std::string ScriptedClient::tool_done(const std::string& turn) {
  return read_by_model(hook("PostToolUse", {{"prompt_id", turn},
                                            {"tool_name", "Bash"},
                                            {"tool_input", json::object{{"command", "ls"}}},
                                            {"tool_use_id", "toolu_other"},
                                            {"tool_response", json::object{}}}));
}

std::string ScriptedClient::stop(const std::string& turn) {
  return read_by_model(hook("Stop", {{"prompt_id", turn}, {"stop_hook_active", false}}));
}

std::string ScriptedClient::woken_prompt(const std::string& turn, const std::string& message) {
  return prompt(turn,
                "<task-notification>\n<summary>Stop hook feedback</summary>\n</task-notification>\n"
                "<system-reminder>\nStop hook blocking error from command \"Stop\": " +
                    message + "\n</system-reminder>");
}

void ScriptedClient::wait_for_wake() { ask({{"op", "wait"}}); }

int ScriptedClient::woken() {
  const json::value answer = ask({{"op", "woken"}});
  wake_message_ = text_at(answer, "err");
  return static_cast<int>(number_at(answer, "exit"));
}

std::string ScriptedClient::wake_message() { return wake_message_; }

bool ScriptedClient::waiting() {
  const json::value answer = ask({{"op", "waiting"}});
  return at(answer, "waiting").as_bool();
}

json::value ScriptedClient::call(const std::string& turn, const std::string& tool,
                                 const json::object& arguments) {
  const std::string id = "toolu_" + std::to_string(++calls_);
  json::object fields{{"prompt_id", turn},
                      {"tool_name", "mcp__waybill__" + tool},
                      {"tool_input", arguments},
                      {"tool_use_id", id}};
  if (!subagent_.empty()) fields["agent_id"] = subagent_;
  hook("PreToolUse", std::move(fields));
  const json::value answer = ask({{"op", "call"},
                                  {"tool", tool},
                                  {"arguments", arguments},
                                  {"call", id},
                                  {"turn", turn},
                                  {"meta", meta_}});
  return at(answer, "result");
}

void ScriptedClient::stick_in_tool_hook(const std::string& turn) {
  const json::object fields{{"prompt_id", turn}, {"tool_name", "Bash"}, {"tool_use_id", "toolu_x"}};
  ask({{"op", "stuck_hook"}, {"event", "PostToolUse"}, {"fields", fields}});
}

void ScriptedClient::kill_hook() { ask({{"op", "kill_hook"}}); }

std::string ScriptedClient::stop_and_list_at_once(const std::string& turn) {
  const json::object fields{{"prompt_id", turn}, {"stop_hook_active", false}};
  const json::value both = ask(
      {{"op", "at_once"},
       {"commands", json::array{json::object{{"op", "hook"}, {"event", "Stop"}, {"fields", fields}},
                                json::object{{"op", "call"},
                                             {"tool", "list"},
                                             {"arguments", json::object{}},
                                             {"call", "toolu_" + std::to_string(++calls_)},
                                             {"turn", turn}}}}});
  std::string read = read_by_model(text_at(both, "0.out"));
  const json::value content = at(both, "1.result.structuredContent");
  if (content.as_object().contains("notice")) read += text_at(content, "notice");
  return read;
}

std::string ScriptedClient::start_job(const std::string& turn, const std::string& command) {
  return text_at(call(turn, "start", {{"command", command}, {"yield_ms", 0}}),
                 "structuredContent.job");
}

void ScriptedClient::flags(const std::vector<std::string>& flags) {
  json::array words;
  for (const std::string& one : flags) words.push_back(json::value(one));
  ask({{"op", "flags"}, {"flags", std::move(words)}});
}

void ScriptedClient::finish() {
  if (std::exchange(finished_, true)) return;
  process_.hang_up();
  process_.finish();
}

std::size_t count_events(const std::string& text, const std::string& job) {
  std::size_t count = 0;
  const std::string entry = "<event id=\"" + job + ".";
  for (std::size_t at = text.find(entry); at != std::string::npos; at = text.find(entry, at + 1)) {
    ++count;
  }
  return count;
}

json::value session_of(Daemon& daemon, const ScriptedClient& client) {
  return daemon.json({"session", "show", "--session", client.session()});
}

std::string event_state(Daemon& daemon, const ScriptedClient& client, const std::string& job) {
  return text_at(daemon.json({"show", job, "--session", client.session()}), "job.events.0.state");
}

void await_job(Daemon& daemon, const ScriptedClient& client, const std::string& job) {
  daemon.cli({"wait", job, "--timeout", "60s", "--session", client.session()});
}

std::string ended_job(Daemon& daemon, ScriptedClient& client, const std::string& turn,
                      const std::string& command) {
  static int gates = 0;
  const TempDir dir;
  Gate gate(dir.path() + "/gate" + std::to_string(++gates));
  const std::string job = client.start_job(turn, gate.command() + "; " + command);
  gate.open();
  await_job(daemon, client, job);
  return job;
}

void await_state(Daemon& daemon, const ScriptedClient& client, const std::string& job,
                 const std::string& state) {
  std::string now;
  for (const auto deadline = std::chrono::steady_clock::now() + kCap;
       std::chrono::steady_clock::now() < deadline;) {
    const std::string revision =
        std::to_string(number_at(session_of(daemon, client), "session.revision"));
    now = event_state(daemon, client, job);
    if (now == state) return;
    // An offer alone does not raise the revision, so this may well time out.
    daemon.cli({"session", "wait", "--revision", revision, "--timeout", "1s", "--session",
                client.session()});
  }
  ADD_FAILURE() << "the event does not come to be " << state << " but is " << now;
}

void await_phase(Daemon& daemon, const ScriptedClient& client, const std::string& phase) {
  for (std::string revision = "0";;) {
    const Output waited = daemon.cli({"session", "wait", "--revision", revision, "--timeout", "60s",
                                      "--session", client.session(), "--json"});
    ASSERT_EQ(waited.exit_code, 0) << waited.describe();
    const json::value session = waited.json();
    if (text_at(session, "session.phase") == phase) return;
    revision = std::to_string(number_at(session, "session.revision"));
  }
}

void await_reachable(Daemon& daemon, const ScriptedClient& client) {
  for (const auto deadline = std::chrono::steady_clock::now() + kCap;
       std::chrono::steady_clock::now() < deadline;) {
    const json::value status = daemon.json({"status"});
    for (const json::value& one : items_at(status, "reachable")) {
      if (one.as_string() == client.session()) return;
    }
    std::this_thread::yield();
  }
  ADD_FAILURE() << "nobody waits for a wake";
}

}  // namespace waybill::e2e
