// Deliveries that are pushed into live clients: the assembled programs, a real daemon, and clients
// that are scripted in the shapes that the real ones were seen to speak.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/agent.h"

namespace waybill::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string script(const std::string& name) {
  return std::string(WAYBILL_SOURCE_DIR) + "/tests/clients/" + name;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

class AdapterTest : public ::testing::Test {
 protected:
  explicit AdapterTest(std::vector<std::string> settings = {}) : daemon({{}, with(settings)}) {}
  static std::vector<std::string> with(const std::vector<std::string>& settings) {
    std::vector<std::string> out;
    for (const std::string& one : settings) {
      out.push_back("--set");
      out.push_back(one);
    }
    return out;
  }
  void SetUp() override { daemon.start(); }

  std::string path(const std::string& name) const { return files.path() + "/" + name; }

  // The job's event, once `field` of it has this value: every change of the session is a reason to
  // look again.
  json::value event_once(const std::string& job, const std::string& field,
                         const std::string& value) {
    while (true) {
      const json::value session = daemon.json({"session", "show"});
      const json::value shown = daemon.show(job);
      const std::vector<json::value> events = items_at(shown, "events");
      if (!events.empty() && text_or_empty_at(events[0], field) == value) return events[0];
      const Output waited = daemon.cli({"session", "wait", "--timeout", "60s", "--revision",
                                        std::to_string(number_at(session, "session.revision"))});
      if (waited.exit_code != 0) {
        ADD_FAILURE() << field << " is not " << value << ": " << json::serialize(shown);
        return nullptr;
      }
    }
  }

  Daemon daemon;
  TempDir files;
};

// ---- Codex -------------------------------------------------------------------------------------

class CodexAdapterTest : public AdapterTest {
 protected:
  explicit CodexAdapterTest(std::vector<std::string> settings = {})
      : AdapterTest(std::move(settings)) {}

  void SetUp() override {
    AdapterTest::SetUp();
    daemon.set_env({"WAYBILL_SESSION=codex-th1"});
  }
  void start_codex() {
    Launch launch{{"/usr/bin/env", "python3", script("scripted_codex.py"), path("app.sock")}};
    launch.talks = true;
    codex = std::make_unique<Process>(std::move(launch));
    EXPECT_EQ(at(codex->json_line(), "done"), true);
  }
  void order(const json::object& what) {
    codex->say(json::serialize(what) + "\n");
    EXPECT_EQ(at(codex->json_line(), "done"), true);
  }
  // The next call that puts a text, whatever is read before it.
  json::value put() {
    while (true) {
      const json::value line = codex->json_line();
      if (!line.is_object()) return nullptr;
      const std::string method = text_at(line, "call");
      if (method != "thread/read") return line;
      ++probes;
    }
  }
  static std::string text_of(const json::value& call) {
    return text_at(call, "params.input.0.text");
  }

  Launch mcp() { return daemon.command({"mcp", "--app-server", "unix://" + path("app.sock")}); }
  static json::object meta(const std::string& turn) {
    return {{"threadId", "th1"},
            {"callId", "c1"},
            {"x-codex-turn-metadata", {{"sandbox", "none"}, {"turn_id", turn}}}};
  }
  std::string job_behind(Agent& agent, const Gate& gate, const std::string& turn) {
    const json::value started = agent.call(
        "start", {{"command", gate.command() + "; echo late"}, {"yield_ms", 0}}, meta(turn));
    return text_at(started, "structuredContent.job");
  }

  std::unique_ptr<Process> codex;
  int probes = 0;
};

TEST_F(CodexAdapterTest, O03_an_idle_thread_is_woken_exactly_once_and_the_event_is_accepted) {
  start_codex();
  Agent agent(mcp());
  agent.initialize();
  Gate gate(path("gate"));
  const std::string job = job_behind(agent, gate, "turn-1");
  gate.open();
  const json::value woken = put();
  EXPECT_EQ(text_at(woken, "call"), "turn/start");
  EXPECT_EQ(text_at(woken, "params.threadId"), "th1");
  EXPECT_EQ(text_at(woken, "params.turnTrigger"), "background_job");
  EXPECT_EQ(text_of(woken).rfind("<waybill_notice ", 0), 0U) << text_of(woken);
  EXPECT_THAT(text_of(woken), HasSubstr(job));
  const json::value event = event_once(job, "acked_as", "accepted");
  EXPECT_EQ(text_at(event, "state"), "acked");
  // Nothing of it comes with a tool's result, nor a second time into the thread.
  EXPECT_EQ(items_at(agent.call("list", {}, meta("turn-2")), "content").size(), 1U);
  EXPECT_EQ(agent.hang_up().exit_code, 0);
  codex->hang_up();
  EXPECT_EQ(count(codex->finish().out, "\"turn/start\""), 1U);
  EXPECT_EQ(probes, 1);
}

TEST_F(CodexAdapterTest, I1_a_running_thread_is_steered_with_the_turn_of_its_tool_call) {
  start_codex();
  order({{"thread", "active"}, {"turn", "turn-1"}});
  Agent agent(mcp());
  agent.initialize();
  Gate gate(path("gate"));
  const std::string job = job_behind(agent, gate, "turn-1");
  gate.open();
  const json::value steered = put();
  EXPECT_EQ(text_at(steered, "call"), "turn/steer");
  EXPECT_EQ(text_at(steered, "params.expectedTurnId"), "turn-1");
  EXPECT_THAT(text_of(steered), HasSubstr(job));
  event_once(job, "acked_as", "accepted");
}

TEST_F(CodexAdapterTest, I3_a_turn_that_ended_between_probe_and_steer_is_probed_again) {
  start_codex();
  order({{"thread", "active"}, {"turn", "turn-1"}});
  order({{"once", "turn/steer"}, {"thread", "idle"}});
  Agent agent(mcp());
  agent.initialize();
  Gate gate(path("gate"));
  const std::string job = job_behind(agent, gate, "turn-1");
  gate.open();
  EXPECT_EQ(text_at(put(), "call"), "turn/steer");
  const json::value woken = put();
  EXPECT_EQ(text_at(woken, "call"), "turn/start");
  EXPECT_THAT(text_of(woken), HasSubstr(job));
  event_once(job, "acked_as", "accepted");
  EXPECT_EQ(probes, 2);
}

TEST_F(CodexAdapterTest, a_turn_that_was_followed_by_another_is_steered_as_the_answer_says) {
  start_codex();
  order({{"thread", "active"}, {"turn", "turn-2"}});
  Agent agent(mcp());
  agent.initialize();
  Gate gate(path("gate"));
  const std::string job = job_behind(agent, gate, "turn-1");
  gate.open();
  EXPECT_EQ(text_at(put(), "params.expectedTurnId"), "turn-1");
  EXPECT_EQ(text_at(put(), "params.expectedTurnId"), "turn-2");
  event_once(job, "acked_as", "accepted");
}

class ShortOfferTest : public CodexAdapterTest {
 protected:
  ShortOfferTest() : CodexAdapterTest({"offer_deadline=200ms"}) {}
};

TEST_F(ShortOfferTest, I3_the_daemon_killed_between_take_and_flush_puts_nothing_twice) {
  start_codex();
  order({{"hold", "turn/start"}});
  Agent agent(mcp());
  agent.initialize();
  Gate gate(path("gate"));
  const std::string job = job_behind(agent, gate, "turn-1");
  gate.open();
  EXPECT_THAT(text_of(put()), Not(HasSubstr("repeat=")));
  daemon.kill_9();
  order({{"release", 1}});
  daemon.start();
  // The next daemon has taken the offer back; the loop acknowledges it by its name, since the
  // thread has it for good.
  event_once(job, "state", "acked");
  EXPECT_EQ(agent.hang_up().exit_code, 0);
}

TEST_F(ShortOfferTest, I18_a_thread_that_is_not_there_is_asked_for_as_often_as_the_budget_says) {
  start_codex();
  order({{"thread", "notLoaded"}});
  Agent agent(mcp());
  agent.initialize();
  Gate gate(path("gate"));
  const std::string job = job_behind(agent, gate, "turn-1");
  gate.open();
  const json::value event = event_once(job, "withheld", "budget");
  EXPECT_EQ(text_at(event, "state"), "pending");
  EXPECT_EQ(number_at(event, "tries"), 0) << "it was never taken";
  EXPECT_EQ(agent.hang_up().exit_code, 0);
  codex->hang_up();
  const std::string calls = codex->finish().out;
  EXPECT_EQ(count(calls, "\"thread/read\""), 3U) << calls;
  EXPECT_EQ(count(calls, "\"turn/"), 0U) << calls;
}

TEST_F(ShortOfferTest, without_an_app_server_the_event_stays_pending) {
  Agent agent(mcp());
  agent.initialize();
  Gate gate(path("gate"));
  const std::string job = job_behind(agent, gate, "turn-1");
  gate.open();
  const json::value event = event_once(job, "withheld", "budget");
  EXPECT_EQ(text_at(event, "state"), "pending");
  EXPECT_EQ(agent.hang_up().exit_code, 0);
}

// ---- Claude Code, its input owned --------------------------------------------------------------

class HostTest : public AdapterTest {
 protected:
  void SetUp() override {
    AdapterTest::SetUp();
    daemon.set_env({"WAYBILL_SESSION=claude-s-1"});
  }
  std::unique_ptr<Process> host(const std::vector<std::string>& command,
                                const std::string& input = "") {
    std::vector<std::string> words{"host", "claude", "--"};
    words.insert(words.end(), command.begin(), command.end());
    Launch launch = daemon.command(words);
    launch.env.push_back("SCRIPTED_SESSION=s-1");
    launch.talks = true;
    launch.input = input;
    return std::make_unique<Process>(std::move(launch));
  }
  std::unique_ptr<Process> claude() {
    return host({"python3", script("scripted_claude.py"), path("tool")});
  }
  static void ask(Process& process, const std::string& text) {
    process.say(json::serialize(json::object{{"type", "user"},
                                             {"message", {{"role", "user"}, {"content", text}}}}) +
                "\n");
  }
  static json::value until(Process& process, const std::string& field, const std::string& value) {
    while (true) {
      json::value line = process.json_line();
      if (!line.is_object()) {
        ADD_FAILURE() << "no line with " << field << " " << value;
        return nullptr;
      }
      const json::value* found = line.as_object().if_contains(field);
      if (found != nullptr && *found == json::value(value)) return line;
    }
  }
  static std::string result(Process& process) {
    return text_at(until(process, "type", "result"), "result");
  }
};

TEST_F(HostTest, I2_an_idle_client_is_woken_once_and_its_result_acknowledges) {
  const auto client = claude();
  ask(*client, "hello");
  EXPECT_EQ(result(*client), "hello");
  const std::string job = daemon.accept("echo done");
  const std::string woken = result(*client);
  EXPECT_EQ(woken.rfind("<waybill_notice ", 0), 0U) << woken;
  EXPECT_THAT(woken, HasSubstr(job));
  EXPECT_EQ(text_at(event_once(job, "state", "acked"), "acked_as"), "processed");
  ask(*client, "more");
  EXPECT_EQ(result(*client), "more");
  client->hang_up();
  const Output output = client->finish();
  EXPECT_EQ(output.exit_code, 0) << output.describe();
}

TEST_F(HostTest, I1_a_running_client_is_steered_and_the_turn_that_saw_it_acknowledges) {
  const auto client = claude();
  Gate tool(path("tool"));
  ask(*client, "TOOL");
  until(*client, "type", "assistant");
  const std::string job = daemon.accept("echo done");
  until(*client, "subtype", "heard");
  event_once(job, "state", "accepted");
  tool.open();
  const std::string both = result(*client);
  EXPECT_THAT(both, HasSubstr("TOOL\n<waybill_notice "));
  EXPECT_THAT(both, HasSubstr(job));
  EXPECT_EQ(text_at(event_once(job, "state", "acked"), "acked_as"), "processed");
}

TEST_F(HostTest, I3_a_client_that_is_killed_gives_everything_back) {
  const auto client = claude();
  Gate tool(path("tool"));
  ask(*client, "TOOL DIE");
  until(*client, "type", "assistant");
  const std::string job = daemon.accept("echo done");
  event_once(job, "state", "accepted");
  tool.open();
  EXPECT_EQ(client->finish().exit_code, 128 + SIGKILL);
  const json::value event = event_once(job, "state", "pending");
  EXPECT_EQ(number_at(event, "tries"), 1);
}

TEST_F(HostTest, the_clients_exit_code_is_handed_on) {
  const auto client = claude();
  ask(*client, "EXIT 7");
  EXPECT_EQ(client->finish().exit_code, 7);
}

TEST_F(HostTest, a_signal_is_handed_on) {
  const auto client = claude();
  ask(*client, "hello");
  result(*client);
  client->signal(SIGTERM);
  EXPECT_EQ(client->finish().exit_code, 128 + SIGTERM);
}

TEST_F(HostTest, every_byte_passes_both_ways_and_the_end_of_input_too) {
  std::string bytes;
  for (int i = 0; i < 200000; ++i) bytes += std::to_string(i) + (i % 7 == 0 ? "\n" : "\x01\xff");
  bytes += std::string("{\"type\":\"result\"}\nno end of line");
  const auto client = host({"cat"}, bytes);
  client->hang_up();
  const Output output = client->finish();
  EXPECT_EQ(output.exit_code, 0) << output.err;
  EXPECT_EQ(output.out.size(), bytes.size());
  EXPECT_TRUE(output.out == bytes);
}

TEST_F(HostTest, a_program_that_is_not_there_is_said) {
  const Output output = host({"/no/such/program"})->finish();
  EXPECT_NE(output.exit_code, 0);
  EXPECT_THAT(output.err, HasSubstr("/no/such/program"));
}

}  // namespace
}  // namespace waybill::e2e
