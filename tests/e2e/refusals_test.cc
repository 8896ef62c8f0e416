// Bad input, through the command line and through a raw socket: answered with a word that says what
// is wrong, harmless to everybody else.

#include <gtest/gtest.h>

#include <filesystem>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// ---- bytes on the socket -----------------------------------------------------------------------

struct Bytes {
  const char* name;
  std::string line;
};

void PrintTo(const Bytes& row, std::ostream* out) { *out << row.name; }

std::string call_with(const std::string& params) {
  return R"({"jsonrpc":"2.0","id":7,"method":"job.run","params":)" + params + "}";
}

std::vector<Bytes> bad_lines() {
  std::string nul = call_with(R"({"command":"true","cwd":"/","label":"a?b"})");
  nul[nul.find('?')] = '\0';
  return {
      {"no_json", "{{{"},
      {"half_an_object", R"({"jsonrpc":"2.0","id":1,)"},
      {"nested_brackets", std::string(200000, '[') + std::string(200000, ']')},
      {"nested_objects", call_with(std::string(200000, '{'))},
      {"huge_number", call_with(R"({"command":"true","cwd":"/","deadline_ms":1e400})")},
      {"number_beyond_64_bits",
       call_with(R"({"command":"true","cwd":"/","deadline_ms":99999999999999999999999})")},
      {"negative_number", call_with(R"({"command":"true","cwd":"/","deadline_ms":-1})")},
      {"fraction", call_with(R"({"command":"true","cwd":"/","deadline_ms":1.5})")},
      {"raw_NUL", nul},
      {"escaped_NUL_in_command", call_with(R"({"command":"tr\u0000ue","cwd":"/"})")},
      {"escaped_NUL_in_cwd", call_with(R"({"command":"true","cwd":"/\u0000/etc"})")},
      {"escaped_NUL_in_env", call_with(R"({"command":"true","cwd":"/","env":{"A":"b\u0000c"}})")},
      {"invalid_utf8", call_with("{\"command\":\"\xff\xfe\",\"cwd\":\"/\"}")},
      {"overlong_utf8", call_with("{\"command\":\"\xc0\xaf\",\"cwd\":\"/\"}")},
      {"lone_surrogate", call_with(R"({"command":"\ud800","cwd":"/"})")},
      {"wrong_type", call_with(R"({"command":["true"],"cwd":"/"})")},
      {"unknown_parameter", call_with(R"({"command":"true","cwd":"/","sudo":true})")},
      {"no_command", call_with(R"({"cwd":"/"})")},
      {"empty_command", call_with(R"({"command":"","cwd":"/"})")},
      {"two_commands", call_with(R"({"command":"true","argv":["true"],"cwd":"/"})")},
      {"relative_cwd", call_with(R"({"command":"true","cwd":"tmp"})")},
      {"env_name_with_equals", call_with(R"({"command":"true","cwd":"/","env":{"A=B":"c"}})")},
      {"id_with_a_slash", call_with(R"({"command":"true","cwd":"/","session":"../x"})")},
      {"unknown_method", R"({"jsonrpc":"2.0","id":7,"method":"job.destroy","params":{}})"},
      {"a_batch", R"([{"jsonrpc":"2.0","id":7,"method":"version"}])"},
      {"params_as_a_list", R"({"jsonrpc":"2.0","id":7,"method":"job.list","params":[1]})"},
      {"bad_base64", call_with(R"({"command_base64":"%%%","cwd":"/"})")},
  };
}

class BytesTest : public ::testing::TestWithParam<Bytes> {};

TEST_P(BytesTest, I12_bad_input_is_answered_and_runs_nothing) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  client.hello();
  client.send(GetParam().line + "\n");
  const auto answer = client.line();
  ASSERT_TRUE(answer) << "no answer";
  boost::system::error_code error;
  const json::value value = json::parse(*answer, error);
  ASSERT_FALSE(error) << *answer;
  EXPECT_EQ(text_at(value, "error.data.code"), "bad_request") << *answer;
  EXPECT_FALSE(text_at(value, "error.message").empty());
  EXPECT_EQ(daemon.cli({"run", "--wait", "--cwd", "/", "--", "exit 3"}).exit_code, 3);
  const json::value jobs = at(daemon.json({"list", "--all-sessions"}), "jobs");
  EXPECT_EQ(jobs.get_array().size(), 1U) << json::serialize(jobs);
}

INSTANTIATE_TEST_SUITE_P(Refusals, BytesTest, ::testing::ValuesIn(bad_lines()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(RefusalsTest, I14_a_line_without_an_end_is_cut_off) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  client.hello();
  client.send(std::string(17 * 1024 * 1024, 'x'));
  const auto answer = client.line();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(contains(*answer, "too_large") || contains(*answer, "bad_request")) << *answer;
  EXPECT_EQ(daemon.cli({"status"}).exit_code, 0);
}

TEST(RefusalsTest, a_call_before_hello_is_refused) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  client.send(R"({"jsonrpc":"2.0","id":1,"method":"status","params":{}})"
              "\n");
  const auto answer = client.line();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(contains(*answer, "hello")) << *answer;
}

// ---- what belongs to others --------------------------------------------------------------------

TEST(RefusalsTest, I1_jobs_of_another_session_are_not_found) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("a");
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  const std::string running = daemon.accept(gate.command());
  const std::string ended = daemon.accept("exit 3");
  daemon.finished(ended);
  daemon.act_as_host("b", "other-key");
  for (const std::string& id : {running, ended}) {
    for (const char* verb : {"show", "logs", "wait", "stop"}) {
      const Output output = daemon.cli({verb, id});
      EXPECT_EQ(output.exit_code, 121) << verb << output.describe();
      EXPECT_TRUE(contains(output.err, "[not_found]")) << verb << output.err;
    }
  }
  EXPECT_TRUE(at(daemon.json({"list"}), "jobs").get_array().empty());
  const Output ack = daemon.cli({"ack", ended + ".failed.1"});
  EXPECT_TRUE(contains(ack.err, "[not_found]")) << ack.describe();
  EXPECT_EQ(daemon.cli({"--json", "inbox"}).out, "");
  const Output never = daemon.cli({"show", "j00000000000000000000000000"});
  EXPECT_TRUE(contains(never.err, "[not_found]")) << never.describe();
  daemon.act_as_host("a");
  EXPECT_EQ(text_at(daemon.show(running), "status"), "running");
  EXPECT_EQ(text_at(daemon.show(ended), "events.0.state"), "pending");
  gate.open();
}

TEST(RefusalsTest, I1_a_second_host_is_fenced_until_it_attaches) {
  Daemon daemon;
  daemon.start();
  daemon.act_as_host("s", "first");
  daemon.json({"session", "attach", "--host-pid", std::to_string(daemon.pid())});
  daemon.act_as_host("s", "second");
  EXPECT_TRUE(contains(daemon.cli({"turn", "begin"}).err, "[fenced]"));
  EXPECT_EQ(daemon.cli({"session", "attach"}).exit_code, 0);
  EXPECT_EQ(daemon.cli({"turn", "begin", "--turn", "t1"}).exit_code, 0);
  daemon.act_as_host("s", "first");
  EXPECT_TRUE(contains(daemon.cli({"turn", "end", "--turn", "t1"}).err, "[fenced]"));
  EXPECT_TRUE(contains(daemon.cli({"inbox"}).err, "[fenced]"));
}

// ---- replays and refusals of the command line --------------------------------------------------

TEST(RefusalsTest, a_replay_answers_with_the_original_job) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  const std::string command = "echo ran >> '" + temp.path() + "/runs'; exit 3";
  const std::string id = daemon.accept(command, {"--key", "k1"});
  daemon.finished(id);
  EXPECT_EQ(daemon.accept(command, {"--key", "k1"}), id);
  const Output other = daemon.cli({"run", "--key", "k1", "--", "echo something else"});
  EXPECT_EQ(other.exit_code, 121);
  EXPECT_TRUE(contains(other.err, "[conflict]")) << other.describe();
  daemon.restart();
  EXPECT_EQ(daemon.accept(command, {"--key", "k1"}), id);
  EXPECT_EQ(read_file(temp.path() + "/runs"), "ran\n");
}

struct Usage {
  const char* name;
  std::vector<std::string> arguments;
  int exit_code;
  const char* says;
};

void PrintTo(const Usage& row, std::ostream* out) { *out << row.name; }

std::vector<Usage> usages() {
  return {
      {"missing_directory", {"run", "--cwd", "/no/such", "--", "true"}, 121, "[cwd_missing]"},
      {"no_command", {"run", "--"}, 120, "waybill:"},
      {"unknown_flag", {"run", "--no-such-flag", "--", "true"}, 120, "--no-such-flag"},
      {"unknown_verb", {"destroy"}, 120, "destroy"},
      {"bad_duration", {"run", "--deadline", "soon", "--", "true"}, 120, "soon"},
      {"negative_duration", {"run", "--deadline", "-1s", "--", "true"}, 120, "-1s"},
      {"bad_size", {"run", "--cap", "many", "--", "true"}, 120, "many"},
      {"bad_owner", {"run", "--owner", "nobody", "--", "true"}, 120, "nobody"},
      {"owner_turn_without_a_turn",
       {"run", "--owner", "turn", "--", "true"},
       121,
       "[no_delivery_path]"},
      {"command_that_is_too_long", {"run", "--", std::string(100000, ':')}, 0, ""},
      {"turn_of_the_person", {"turn", "begin"}, 121, "[bad_request]"},
      {"wait_for_nothing", {"wait"}, 120, "waybill:"},
      {"wait_timeout_of_zero", {"wait", "j1", "--timeout", "0s"}, 120, "0s"},
      {"ack_of_nothing", {"ack"}, 120, "waybill:"},
      {"ack_of_what_is_not_there", {"ack", "j1.failed.1"}, 121, "[not_found]"},
      {"id_that_is_none", {"show", "../../etc/passwd"}, 121, "["},
      {"bad_cursor", {"list", "--cursor", "zzz"}, 121, "[bad_request]"},
      {"limit_too_large", {"list", "--limit", "501"}, 121, "[bad_request]"},
  };
}

class UsageTest : public ::testing::TestWithParam<Usage> {};

TEST_P(UsageTest, an_error_says_what_is_wrong) {
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli(GetParam().arguments);
  EXPECT_EQ(output.exit_code, GetParam().exit_code) << output.describe();
  EXPECT_TRUE(contains(output.err, GetParam().says)) << output.describe();
}

INSTANTIATE_TEST_SUITE_P(Refusals, UsageTest, ::testing::ValuesIn(usages()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(RefusalsTest, too_large_names_size_and_limit) {
  Daemon::Options options;
  options.arguments = {"--set", "command_bytes_max=4096", "--set", "environment_bytes_max=65536"};
  Daemon daemon(options);
  daemon.start();
  const Output command = daemon.cli({"run", "--", std::string(5000, ':')});
  EXPECT_EQ(command.exit_code, 121) << command.describe();
  EXPECT_TRUE(contains(command.err, "[too_large]")) << command.err;
  EXPECT_TRUE(contains(command.err, "5000") && contains(command.err, "4096")) << command.err;
  const Output env = daemon.cli({"run", "--env", "BIG=" + std::string(70000, 'b'), "--", "true"});
  EXPECT_EQ(env.exit_code, 121) << env.describe();
  EXPECT_TRUE(contains(env.err, "[too_large]")) << env.err;
  EXPECT_TRUE(contains(env.err, "65536")) << env.err;
  EXPECT_TRUE(at(daemon.json({"list"}), "jobs").get_array().empty());
}

TEST(RefusalsTest, I14_the_queue_has_a_limit) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=1", "--set", "queued_per_session=2"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  daemon.accept(gate.command());
  daemon.accept("true");
  daemon.accept("true");
  const Output full = daemon.cli({"run", "--", "true"});
  EXPECT_EQ(full.exit_code, 121);
  EXPECT_TRUE(contains(full.err, "[limit_reached]")) << full.describe();
  gate.open();
}

TEST(RefusalsTest, without_a_daemon_and_without_starting_one) {
  Daemon daemon;
  const Output output = daemon.cli({"list"});
  EXPECT_EQ(output.exit_code, 122) << output.describe();
  EXPECT_FALSE(fs::exists(daemon.data_dir() + "/waybill.db"));
}

}  // namespace
}  // namespace waybill::e2e
