#include "cli/main.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "cli/answer.h"
#include "cli/fake_server.h"
#include "cli/quote.h"
#include "cli/reference.h"
#include "cli/serve.h"
#include "edge/reference.h"

namespace waybill::cli {

namespace {
ServeOptions served;
}  // namespace

// The daemon's side of the seam, for these tests.
int serve_main(const ServeOptions& options) {
  served = options;
  return 0;
}

namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const char* const kJob =
    R"({"id":"j1","status":"%S","verdict":"%V","exit":%E,"stages":null,"command_preview":"x"})";

std::string job_with(const std::string& status, const std::string& verdict,
                     const std::string& exit) {
  std::string out = kJob;
  out.replace(out.find("%S"), 2, status);
  out.replace(out.find("%V"), 2, verdict);
  out.replace(out.find("%E"), 2, exit);
  return out;
}

std::string exited(int code) {
  return R"({"kind":"exited","code":)" + std::to_string(code) + R"(,"signal":null})";
}

class MainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"WAYBILL_DATA", "WAYBILL_SESSION", "WAYBILL_TURN", "WAYBILL_HOST_KEY"})
      ::unsetenv(name);
  }
  void serve(FakeServer::Script script) {
    server = std::make_unique<FakeServer>(
        dir.path(),
        [script = std::move(script)](const std::string& method, const json::object& params) {
          if (method == "hello") return Scripted{kHello};
          if (method == "delivery.flushed") return Scripted{"{}"};
          return script(method, params);
        });
  }
  void serve(const std::string& answer) {
    serve([answer](const std::string&, const json::object&) { return Scripted{answer}; });
  }
  int run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"waybill", "--data", dir.path(), "--no-autostart"});
    return run_bare(std::move(arguments));
  }
  int run_bare(std::vector<std::string> arguments) {
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = main(static_cast<int>(argv.size()), argv.data());
    out = ::testing::internal::GetCapturedStdout();
    err = ::testing::internal::GetCapturedStderr();
    return code;
  }

  TempDir dir;
  std::unique_ptr<FakeServer> server;
  std::string out;
  std::string err;
};

TEST_F(MainTest, UsageErrorsAre120) {
  for (const std::vector<std::string>& wrong : std::initializer_list<std::vector<std::string>>{
           {},
           {"nonsense"},
           {"show"},
           {"show", "a", "b"},
           {"run"},
           {"run", "--"},
           {"run", "ls", "-l"},
           {"run", "--bogus", "--", "ls"},
           {"list", "--limit", "x"},
           {"wait"},
           {"wait", "--timeout", "0", "j"},
           {"wait", "--timeout", "soon", "j"},
           {"stop"},
           {"stop", "--all", "j"},
           {"session"},
           {"turn", "end"},
           {"session", "wait"},
           {"inbox", "--timeout", "-1"},
           {"run", "--secret", "X", "--", "ls"},
           {"run", "--wake=sometimes", "--", "ls"},
           {"agent", "start"},
           {"session", "dispose"},
           {"run", "--env", "=x", "--", "ls"},
           {"run", "--owner", "me", "--", "ls"},
           {"run", "--leftovers", "", "--", "ls"},
           {"run", "--timeout", "1s", "--", "ls"},
           {"logs", "j", "--offset", "1", "--tail", "2"}}) {
    EXPECT_EQ(run(wrong), 120) << (wrong.empty() ? "" : wrong[0]) << " " << err;
    EXPECT_THAT(err, AllOf(StartsWith("waybill: "), HasSubstr("[bad_request]")));
    EXPECT_EQ(out, "");
  }
}

TEST_F(MainTest, UsageErrorsSayWhatToDo) {
  run({"run", "ls", "-l"});
  EXPECT_THAT(err, HasSubstr("Put `--` before the command"));
  run({"run", "--secret", "X", "--", "ls"});
  EXPECT_THAT(err, HasSubstr("`run --secret` does not exist yet"));
  run({"agent"});
  EXPECT_THAT(err, HasSubstr("`agent` does not exist yet"));
}

TEST_F(MainTest, NoDaemonIs122AndJsonErrorsAreJson) {
  EXPECT_EQ(run({"list", "--json"}), 122);
  const std::string last = err.substr(err.find('{'));
  const json::value value = json::parse(last.substr(0, last.find('\n')));
  EXPECT_EQ(value.at("error").at("code"), "unavailable");
}

TEST_F(MainTest, RefusedIs121AndStateRefusedIs123) {
  serve(error_text("not_found", "There is no job j1."));
  EXPECT_EQ(run({"show", "j1"}), 121);
  EXPECT_EQ(err, "waybill: There is no job j1. [not_found]\n");
  server.reset();
  serve(error_text("state_corrupt", "Corrupt."));
  EXPECT_EQ(run({"show", "j1"}), 123);
}

TEST_F(MainTest, CommonFlagsStandAnywhereBeforeTheDashes) {
  serve(R"({"session":{"session":"s9","phase":"idle"}})");
  EXPECT_EQ(run({"session", "--session", "s9", "show", "--json", "--tenant", "t9"}), 0) << err;
  EXPECT_EQ(text_of(server->last_params(), "session"), "s9");
  EXPECT_EQ(text_of(server->last_params(), "tenant"), "t9");
  EXPECT_EQ(json::parse(out).at("session").at("session"), "s9");
}

TEST_F(MainTest, DefaultsComeFromTheEnvironment) {
  serve(R"({"session":{"session":"s1"}})");
  ::setenv("WAYBILL_DATA", dir.path().c_str(), 1);
  ::setenv("WAYBILL_SESSION", "from-env", 1);
  ::setenv("WAYBILL_HOST_KEY", "key1", 1);
  EXPECT_EQ(run_bare({"waybill", "session", "show", "--no-autostart"}), 0) << err;
  EXPECT_EQ(text_of(server->last_params(), "session"), "from-env");
  EXPECT_EQ(text_of(server->last_params(), "host_key"), "key1");
}

TEST_F(MainTest, RunSendsTheCallersEnvironmentDirectoryAndCommand) {
  serve(R"({"job":)" + job_with("running", "ok", "null") +
        R"(,"delivery_path":"next_attach","twin":null})");
  ::setenv("ODD_VALUE", "two words\n\xFF", 1);
  ::setenv("WAYBILL_HOST_KEY", "capability", 1);
  EXPECT_EQ(run({"run", "--env", "ADDED=1=2", "--cwd", "/", "--deadline", "90s", "--json", "--",
                 "echo", "a b", "it's"}),
            0)
      << err;
  const json::object params = server->last_params();
  EXPECT_EQ(text_of(params, "command"), "echo 'a b' 'it'\\''s'");
  EXPECT_EQ(text_of(params, "cwd"), "/");
  EXPECT_EQ(count_of(params, "deadline_ms"), 90000U);
  EXPECT_FALSE(text_of(params, "key").empty());
  const std::string block = *edge::from_base64(text_of(params, "env_base64"));
  EXPECT_THAT(block, HasSubstr(std::string("ODD_VALUE=two words\n\xFF\0", 22)));
  EXPECT_THAT(block, HasSubstr("ADDED=1=2"));
  EXPECT_THAT(block, Not(HasSubstr("capability")));
  EXPECT_TRUE(json::parse(out).as_object().contains("twin"));
  const std::string key = text_of(params, "key");
  run({"run", "--", "x"});
  EXPECT_NE(text_of(server->last_params(), "key"), key);
}

TEST_F(MainTest, RunFormsOfACommand) {
  serve(R"({"job":)" + job_with("running", "ok", "null") + R"(,"delivery_path":"wake"})");
  run({"run", "--", "a | b -- c"});
  EXPECT_EQ(text_of(server->last_params(), "command"), "a | b -- c");
  run({"run", "--argv", "--", "ls", "--", "a b"});
  const json::object params = server->last_params();
  const json::array& words = array_of(params, "argv_base64");
  ASSERT_EQ(words.size(), 3U);
  EXPECT_EQ(edge::from_base64(std::string(words[2].as_string())), "a b");
  run({"run", "--shell", "sh", "--", "x"});
  EXPECT_THAT(text_of(server->last_params(), "shell"), AllOf(StartsWith("/"), HasSubstr("sh")));
  EXPECT_EQ(run({"run", "--shell", "no-such-shell", "--", "x"}), 121);
  EXPECT_THAT(err, HasSubstr("no-such-shell"));
}

TEST_F(MainTest, HintsWherePeopleTrip) {
  serve(R"({"job":)" + job_with("running", "ok", "null") + R"(,"delivery_path":"wake"})");
  run({"run", "--", "cargo", "test", "|", "tail"});
  EXPECT_THAT(err, HasSubstr("Hint"));
  run({"run", "--argv", "--", "cargo test"});
  EXPECT_THAT(err, HasSubstr("Hint"));
  run({"run", "--", "cargo test | tail"});
  EXPECT_EQ(err, "");
}

TEST_F(MainTest, WaitGivesTheJobsOwnCode) {
  const auto waits = [this](const std::string& jobs) {
    server.reset();
    serve(R"({"jobs":[)" + jobs + R"(],"timed_out":false,"reported":null})");
    return run({"wait", "j1", "--json"});
  };
  const std::string fine = job_with("succeeded", "ok", exited(0));
  EXPECT_EQ(waits(fine), 0);
  EXPECT_EQ(waits(job_with("failed", "failed", exited(7))), 7);
  EXPECT_EQ(waits(fine + "," + job_with("failed", "failed", exited(9)) + "," +
                  job_with("failed", "failed", exited(7))),
            9);
  EXPECT_EQ(waits(job_with("failed", "signaled", R"({"kind":"signaled","code":null,"signal":15})")),
            143);
  EXPECT_EQ(waits(job_with("failed", "stage_failed", exited(0))), 119);
  EXPECT_EQ(waits(job_with("failed", "unknown", R"({"kind":"unknown","code":null})")), 125);
  EXPECT_EQ(waits(job_with("stopped", "unknown", "null")), 125);
  EXPECT_EQ(waits(job_with("failed", "not_started", R"({"kind":"not_started","code":null})")), 126);
}

TEST_F(MainTest, ATimedOutWaitIs124AndStillPrints) {
  serve(R"({"jobs":[)" + job_with("running", "ok", "null") + R"(],"timed_out":true})");
  EXPECT_EQ(run({"wait", "j1", "--timeout", "50ms", "--json"}), 124);
  EXPECT_EQ(json::parse(out).at("timed_out"), true);
}

TEST_F(MainTest, WhatWasReadIsConfirmedAfterwards) {
  serve(R"({"jobs":[)" + job_with("succeeded", "ok", exited(0)) +
        R"(],"timed_out":false,"reported":"d1"})");
  EXPECT_EQ(run({"wait", "j1", "--json"}), 0);
  EXPECT_THAT(server->methods(), ElementsAre("hello", "job.wait", "delivery.flushed"));
  EXPECT_THAT(out, Not(HasSubstr("reported")));
}

// Runs in a child of its own, with the standard descriptors that `prepare` leaves there.
int run_apart(std::vector<std::string> arguments, void (*prepare)()) {
  arguments.insert(arguments.begin(), "waybill");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // one that waits for an answer that cannot come is a failure, no standstill
    prepare();
    ::_exit(main(static_cast<int>(argv.size()), argv.data()));
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The lowest descriptor that is free is then that of stdout, and the socket would get it.
void close_stdout() { ::close(STDOUT_FILENO); }

void close_standard() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(fd);
}

TEST_F(MainTest, NothingIsWrittenIntoTheSocketWhenStdoutIsClosed) {
  serve([](const std::string& method, const json::object&) {
    if (method == "job.show") {
      return Scripted{R"({"job":)" + job_with("succeeded", "ok", exited(0)) +
                      R"(,"reported":"d1"})"};
    }
    return Scripted{R"({"data":"{\"method\":\"x\",\"params\":{},\"id\":1}\n","encoding":"utf-8",)"
                    R"("offset":0,"next_offset":9,"end":9,"complete":true,"gaps":[]})"};
  });
  const int unavailable = traits(ErrorCode::unavailable).exit_code;
  std::vector<std::string> expected;
  for (const auto prepare : {close_stdout, close_standard}) {
    const std::vector<std::string> common{"--data", dir.path(), "--no-autostart"};
    std::vector<std::string> logs = common;
    logs.insert(logs.end(), {"logs", "--raw", "j1"});
    EXPECT_EQ(run_apart(logs, prepare), unavailable);
    std::vector<std::string> show = common;
    show.insert(show.end(), {"show", "j1"});
    EXPECT_EQ(run_apart(show, prepare), unavailable);
    expected.insert(expected.end(), {"hello", "job.logs", "hello", "job.show"});
    EXPECT_EQ(server->methods(), expected);
  }
}

TEST_F(MainTest, AFullStandardOutputIsSaidToBe) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full here";
  serve(
      R"({"hand_over":{"delivery":"d1","repeat":false,"mode":"followup","events":[],"text":"hi"}})");
  std::string log = dir.path() + "/err";
  static const char* err_path = nullptr;
  err_path = log.c_str();
  EXPECT_EQ(run_apart({"--data", dir.path(), "--no-autostart", "inbox"},
                      [] {
                        ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO);
                        ::dup2(::open(err_path, O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
                      }),
            traits(ErrorCode::unavailable).exit_code);
  std::ifstream file(log);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}),
              AllOf(HasSubstr("standard output"), HasSubstr("[unavailable]")));
  EXPECT_THAT(server->methods(), ElementsAre("hello", "inbox.take"));
}

TEST_F(MainTest, InboxPrintsOneLineAndConfirms) {
  serve(
      R"({"hand_over":{"delivery":"d1","repeat":false,"mode":"followup","events":[],"text":"hi"}})");
  EXPECT_EQ(run({"inbox", "--json"}), 0);
  EXPECT_EQ(json::parse(out).at("delivery"), "d1");
  EXPECT_THAT(server->methods(), ElementsAre("hello", "inbox.take", "delivery.flushed"));
  EXPECT_FALSE(server->last_params().contains("timeout_ms"));
  run({"inbox", "--timeout", "2s"});
  EXPECT_EQ(out, "hi\n");
}

TEST_F(MainTest, AnEmptyInbox) {
  serve(R"({"hand_over":null})");
  EXPECT_EQ(run({"inbox", "--json"}), 0);
  EXPECT_EQ(out, "");
  EXPECT_EQ(run({"inbox", "--json", "--timeout", "50ms"}), 124);
  EXPECT_EQ(out, "");
}

TEST_F(MainTest, TurnBeginMakesAnIdAndConfirmsMessages) {
  serve([](const std::string&, const json::object& params) {
    return Scripted{R"({"turn":")" + text_of(params, "turn") +
                    R"(","state":"open","stopped":false,"messages":[{"delivery":"d7","text":"t"}],)"
                    R"("revision":1,"waiting_for":[],"timed_out":false})"};
  });
  EXPECT_EQ(run({"turn", "begin", "--json"}), 0);
  EXPECT_THAT(std::string(json::parse(out).at("turn").as_string()), StartsWith("t"));
  EXPECT_THAT(server->methods(), ElementsAre("hello", "turn.begin", "delivery.flushed"));
  ::setenv("WAYBILL_TURN", "t-env", 1);
  EXPECT_EQ(run({"turn", "end", "--wait", "--json"}), 0);
  EXPECT_EQ(json::parse(out).at("turn"), "t-env");
}

TEST_F(MainTest, LogsPageByPage) {
  serve([](const std::string&, const json::object& params) {
    const std::uint64_t offset = count_of(params, "offset").value_or(0);
    if (offset == 0) {
      return Scripted{R"({"offset":0,"next_offset":3,"end":6,"gaps":[],"data":"abc",)"
                      R"("encoding":"utf8","complete":false})"};
    }
    return Scripted{R"({"offset":3,"next_offset":6,"end":6,"gaps":[],"data":")" +
                    edge::to_base64("d\xFF\n") + R"(","encoding":"base64","complete":true})"};
  });
  EXPECT_EQ(run({"logs", "j1", "--raw"}), 0);
  EXPECT_EQ(out, "abcd\xFF\n");
  EXPECT_EQ(run({"logs", "j1", "--json"}), 0);
  EXPECT_EQ(json::parse(out).at("next_offset").to_number<int>(), 3);
}

TEST_F(MainTest, RunWaitStreamsAndGivesTheCode) {
  serve([](const std::string& method, const json::object&) {
    if (method == "job.run") {
      return Scripted{R"({"job":)" + job_with("running", "ok", "null") +
                      R"(,"delivery_path":"next_attach","twin":null})"};
    }
    if (method == "job.logs") {
      return Scripted{R"({"offset":0,"next_offset":3,"end":3,"gaps":[],"data":"hi\n",)"
                      R"("encoding":"utf8","complete":true})"};
    }
    return Scripted{R"({"jobs":[)" + job_with("failed", "failed", exited(3)) +
                    R"(],"timed_out":false,"reported":"d2"})"};
  });
  EXPECT_EQ(run({"run", "--wait", "--", "x"}), 3);
  EXPECT_EQ(out, "hi\n");
  EXPECT_EQ(run({"run", "--wait", "--json", "--", "x"}), 3);
  EXPECT_EQ(json::parse(out).at("job").at("status"), "failed");
}

TEST_F(MainTest, ServeIsHandedOn) {
  EXPECT_EQ(run({"serve", "--set", "stop_grace=1s", "--set", "a=b=c", "--ready-fd", "9", "--json"}),
            0)
      << err;
  EXPECT_EQ(served.data_dir, dir.path());
  ASSERT_EQ(served.settings.size(), 2U);
  EXPECT_EQ(served.settings[1].second, "b=c");
  EXPECT_EQ(served.ready_fd, 9);
  EXPECT_TRUE(served.json);
}

TEST_F(MainTest, VersionNeedsNoDaemon) {
  EXPECT_EQ(run({"version", "--json"}), 0);
  EXPECT_TRUE(json::parse(out).at("daemon").is_null());
  EXPECT_EQ(run({"--help"}), 0);
  EXPECT_THAT(out, HasSubstr("run"));
  EXPECT_EQ(run({"run", "--help"}), 0);
  EXPECT_THAT(out, HasSubstr("--label"));
}

TEST_F(MainTest, DoctorAddsClientsAndWhoCanBeWoken) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string path = variable("PATH");
  const std::string home = variable("HOME");
  ::setenv("PATH", dir.path().c_str(), 1);
  ::setenv("HOME", dir.path().c_str(), 1);
  std::string status = R"({"reachable":["s1","s2"]})";
  serve([&status](const std::string& method, const json::object&) {
    return Scripted{method == "status" ? status : R"({"ok":true,"findings":[]})"};
  });
  EXPECT_EQ(run({"doctor"}), 0) << err;
  EXPECT_THAT(out, HasSubstr("can be woken now: s1, s2"));
  EXPECT_THAT(out, HasSubstr("client codex   not installed"));
  status = "{}";
  EXPECT_EQ(run({"doctor", "--json"}), 0) << err;
  EXPECT_THAT(out, HasSubstr("can be woken now: none"));
  EXPECT_EQ(json::parse(out).at("clients").as_array().size(), 2U);
  ::setenv("PATH", path.c_str(), 1);
  ::setenv("HOME", home.c_str(), 1);
}

TEST_F(MainTest, ShutdownWaitsForTheEnd) {
  EXPECT_EQ(run({"shutdown"}), 122);
  serve([](const std::string&, const json::object&) {
    return Scripted{R"({"shutting_down":true})"};
  });
  std::thread end([this] {
    while (server->methods().size() < 2) std::this_thread::yield();
    server.reset();
  });
  EXPECT_EQ(run({"shutdown", "--json"}), 0);
  end.join();
}

TEST(Quote, RoundTripsThroughRealShells) {
  const std::vector<std::vector<std::string>> cases{
      {"printf", "%s\\0", "a b", "it's", "\"q\"", "$HOME", "`x`", "a\nb", "",    "*",  "~", "!x",
       "{a,b}",  "#c",    "a=b", "=ls",  "\\",    "é\xFF", "-n",  "a;b",  "[x]", "%1", "^a"},
      {"printf", "%s\\0", "|", "&&", ">", "<(x)"}};
  for (const char* shell : {"/bin/bash", "/bin/sh", "/usr/bin/zsh"}) {
    if (::access(shell, X_OK) != 0) continue;
    for (const std::vector<std::string>& words : cases) {
      const std::string command = shell_join(words);
      const std::string line = std::string(shell) + " -c " + shell_quote(command);
      FILE* pipe = ::popen(line.c_str(), "r");
      std::string got;
      for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
        got.push_back(static_cast<char>(c));
      }
      ::pclose(pipe);
      std::string want;
      for (std::size_t i = 2; i < words.size(); ++i) want += words[i] + '\0';
      EXPECT_EQ(got, want) << shell << " " << command;
    }
  }
  EXPECT_EQ(shell_join({"time", "ls"}), "'time' ls");
  EXPECT_EQ(shell_join({"A=b", "ls", "-l"}), "'A=b' ls -l");
}

TEST(Reference, TheCommittedPagesAreTheGeneratedOnes) {
  const auto page = [](const std::string& name) {
    std::ifstream file(WAYBILL_SOURCE_DIR "/docs/" + name, std::ios::binary);
    return std::string((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  };
  EXPECT_EQ(page("cli.md"), cli_reference()) << "run: build/waybill __reference cli > docs/cli.md";
  EXPECT_EQ(page("rpc.md"), edge::rpc_reference());
}

}  // namespace
}  // namespace waybill::cli
