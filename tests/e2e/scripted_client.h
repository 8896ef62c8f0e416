#pragma once
// An agent client as a process of its own (tests/clients/scripted_client.py): it runs the hooks and
// the MCP server that `waybill setup` would have put into a real one, with the shapes recorded from
// real ones.

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "e2e/harness.h"

namespace waybill::e2e {

class ScriptedClient {
 public:
  struct Options {
    std::string client = "claude";
    std::string session = "11111111-2222-3333-4444-555555555555";
    std::string directory = "/tmp";
    std::vector<std::string> env = {};
  };
  ScriptedClient(const Daemon& daemon, Options options);
  explicit ScriptedClient(const Daemon& daemon) : ScriptedClient(daemon, Options{}) {}
  // Waits for everything that it started: what outlived it could start the next daemon.
  ~ScriptedClient();

  // One hook; what it printed, "" for nothing. A failed expectation when it does not exit with 0.
  std::string hook(const std::string& event, boost::json::object fields = {});
  boost::json::object hook_result(const std::string& event, boost::json::object fields = {});

  // The steps of a conversation, as the hooks see them. Each gives what the model reads of it.
  std::string start(const std::string& source = "startup");
  std::string prompt(const std::string& turn, const std::string& text = "do something");
  std::string tool_done(const std::string& turn);
  // "" when the turn is over; what it goes on with otherwise.
  std::string stop(const std::string& turn);
  // What Claude Code makes of a re-wake hook's message.
  std::string woken_prompt(const std::string& turn, const std::string& message);

  void wait_for_wake();        // starts the re-wake hook
  int woken();                 // waits for its end; its exit code
  std::string wake_message();  // what it said on stderr
  bool waiting();

  // A tool call with its PreToolUse hook before; the result.
  boost::json::value call(const std::string& turn, const std::string& tool,
                          const boost::json::object& arguments);
  // A PostToolUse hook that hangs with half of its output, and its end by SIGKILL.
  void stick_in_tool_hook(const std::string& turn);
  void kill_hook();
  // The Stop hook and a tool call at the same moment; what the model reads of both.
  std::string stop_and_list_at_once(const std::string& turn);
  // `start` with yield_ms 0: the job's id.
  std::string start_job(const std::string& turn, const std::string& command);

  // More of `_meta` for every later call.
  void meta(boost::json::object meta) { meta_ = std::move(meta); }
  // Later tool calls are made inside a subagent; "" by the main thread again.
  void subagent(const std::string& id) { subagent_ = id; }
  void flags(const std::vector<std::string>& flags);
  void crash() {
    crashed_ = true;
    process_.signal(9);
  }
  void finish();
  pid_t pid() const { return process_.pid(); }
  std::string session() const { return options_.client + "-" + options_.session; }

 private:
  boost::json::value ask(const boost::json::object& command);

  Options options_;
  std::string data_dir_;
  Process process_;
  std::string wake_message_;
  boost::json::object meta_;
  std::string subagent_;
  int calls_ = 0;
  bool finished_ = false;
  bool crashed_ = false;
};

// How many times the notice of this job's event is in the text.
std::size_t count_events(const std::string& text, const std::string& job);

// What a person sees of it; nothing is read for the host by that.
boost::json::value session_of(Daemon& daemon, const ScriptedClient& client);
std::string event_state(Daemon& daemon, const ScriptedClient& client, const std::string& job);
// The job has ended and the daemon has committed that.
void await_job(Daemon& daemon, const ScriptedClient& client, const std::string& job);
// A job of this turn that has ended after the call that started it was answered, so that its notice
// did not ride on that answer.
std::string ended_job(Daemon& daemon, ScriptedClient& client, const std::string& turn,
                      const std::string& command = "true");
// The job's event comes to be in this state.
void await_state(Daemon& daemon, const ScriptedClient& client, const std::string& job,
                 const std::string& state);
void await_phase(Daemon& daemon, const ScriptedClient& client, const std::string& phase);
// Waits until the re-wake hook waits at the daemon.
void await_reachable(Daemon& daemon, const ScriptedClient& client);

}  // namespace waybill::e2e
