#include "cli/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "cli/answer.h"
#include "cli/autostart.h"
#include "cli/fake_server.h"

namespace waybill::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ClientOptions options_for(const std::string& directory) {
  ClientOptions options;
  options.data_dir = directory;
  options.autostart = false;
  return options;
}

Scripted hello_and(const std::string& method, const std::string& answer) {
  return {method == "hello" ? kHello : answer};
}

// A program that stands in for `waybill serve`: a shell script that is given the ready descriptor.
std::string script_in(const TempDir& dir, const std::string& body) {
  const std::string path = dir.path() + "/serve.sh";
  std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
  ::chmod(path.c_str(), 0700);
  return path;
}

TEST(Client, SaysHelloAndAsks) {
  const TempDir dir;
  FakeServer server(dir.path(), [](const std::string& method, const json::object&) {
    return hello_and(method, R"({"x":1})");
  });
  Client client(options_for(dir.path()));
  ASSERT_TRUE(client.connect());
  EXPECT_EQ(client.daemon_version(), "0.1.0");
  const auto answer = client.call("status", {{"a", 1}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(count_of(*answer, "x"), 1U);
  EXPECT_THAT(server.methods(), ElementsAre("hello", "status"));
}

TEST(Client, AnotherProtocolIsSaidPlainly) {
  const TempDir dir;
  FakeServer server(dir.path(), [](const std::string&, const json::object&) {
    return Scripted{error_text("unsupported_version", "Protocol 1 against 2: upgrade.")};
  });
  Client client(options_for(dir.path()));
  const auto connected = client.connect();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, ErrorCode::unsupported_version);
  EXPECT_EQ(connected.error().message, "Protocol 1 against 2: upgrade.");
}

TEST(Client, ErrorsKeepTheirCodes) {
  const TempDir dir;
  FakeServer server(dir.path(), [](const std::string& method, const json::object&) {
    if (method == "a") return Scripted{error_text("cwd_missing", "cwd missing: /x")};
    return hello_and(method, error_text("brand_new", "Something."));
  });
  Client client(options_for(dir.path()));
  ASSERT_TRUE(client.connect());
  EXPECT_EQ(client.call("a", {}).error().code, ErrorCode::cwd_missing);
  const auto unknown = client.call("b", {});
  EXPECT_EQ(unknown.error().code, ErrorCode::unsupported_version);
  EXPECT_THAT(unknown.error().message, HasSubstr("brand_new"));
}

TEST(Client, NobodyThereIsRefusedAtOnceWithoutAutostart) {
  const TempDir dir;
  Client client(options_for(dir.path()));
  const auto connected = client.connect();
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, ErrorCode::unavailable);
  EXPECT_THAT(connected.error().message, HasSubstr("waybill serve --data " + dir.path()));
}

TEST(Client, ALostConnectionIsMadeAgainAndTheCallRepeated) {
  const TempDir dir;
  int calls = 0;
  FakeServer server(dir.path(), [&calls](const std::string& method, const json::object&) {
    if (method == "hello") return Scripted{kHello};
    return Scripted{++calls == 1 ? "" : R"({"ok":true})"};
  });
  Client client(options_for(dir.path()));
  ASSERT_TRUE(client.connect());
  const auto answer = client.call("job.wait", {});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_THAT(server.methods(), ElementsAre("hello", "job.wait", "hello", "job.wait"));
}

TEST(Client, UnavailableFromADaemonThatEndsIsAskedAgain) {
  const TempDir dir;
  int calls = 0;
  FakeServer server(dir.path(), [&calls](const std::string& method, const json::object&) {
    if (method == "hello") return Scripted{kHello};
    if (++calls == 1) return Scripted{error_text("unavailable", "Ending."), true};
    return Scripted{R"({"ok":true})"};
  });
  Client client(options_for(dir.path()));
  ASSERT_TRUE(client.connect());
  EXPECT_TRUE(client.call("job.wait", {}));
}

TEST(Client, UnavailableFromADaemonThatStaysIsTakenAtItsWord) {
  const TempDir dir;
  FakeServer server(dir.path(), [](const std::string& method, const json::object&) {
    return hello_and(method, error_text("unavailable", "No output any more."));
  });
  Client client(options_for(dir.path()));
  ASSERT_TRUE(client.connect());
  const auto answer = client.call("job.logs", {});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message, "No output any more.");
}

TEST(Client, ReconnectsWhenTheSocketAppears) {
  const TempDir dir;
  auto first = std::make_unique<FakeServer>(
      dir.path(),
      [](const std::string& method, const json::object&) { return hello_and(method, ""); });
  Client client(options_for(dir.path()));
  ASSERT_TRUE(client.connect());
  first.reset();
  std::filesystem::remove(dir.path() + "/waybill.sock");
  std::unique_ptr<FakeServer> second;
  std::thread later([&] {
    std::this_thread::sleep_for(Millis(200));
    second = std::make_unique<FakeServer>(dir.path(),
                                          [](const std::string& method, const json::object&) {
                                            return hello_and(method, R"({"ok":true})");
                                          });
  });
  const auto answer = client.call("job.wait", {});
  later.join();
  EXPECT_TRUE(answer) << answer.error().message;
}

TEST(Client, ReconnectingIsBounded) {
  const TempDir dir;
  auto server = std::make_unique<FakeServer>(
      dir.path(),
      [](const std::string& method, const json::object&) { return hello_and(method, ""); });
  ClientOptions options = options_for(dir.path());
  options.reconnect_for = Millis(300);
  Client client(options);
  ASSERT_TRUE(client.connect());
  server.reset();
  EXPECT_EQ(client.call("job.wait", {}).error().code, ErrorCode::unavailable);
}

TEST(Client, WaitsInSlicesThatTheDaemonAllows) {
  const TempDir dir;
  std::vector<std::int64_t> slices;
  FakeServer server(dir.path(), [&slices](const std::string& method, const json::object& params) {
    if (method == "hello") {
      return Scripted{R"({"protocol":1,"version":"x","limits":{"wait_timeout_max_ms":50}})"};
    }
    slices.push_back(params.at("timeout_ms").as_int64());
    return Scripted{slices.size() == 3 ? R"({"timed_out":false})" : R"({"timed_out":true})"};
  });
  Client client(options_for(dir.path()));
  ASSERT_TRUE(client.connect());
  Client::Waiting waiting;
  waiting.total = Millis(60000);
  waiting.timed_out = [](const json::object& answer) { return flag_of(answer, "timed_out"); };
  ASSERT_TRUE(client.call_waiting("job.wait", {}, waiting));
  EXPECT_THAT(slices, ElementsAre(50, 50, 50));
}

TEST(Client, LongPathsAreReached) {
  const TempDir dir;
  const std::string deep = dir.path() + "/" + std::string(120, 'd');
  std::filesystem::create_directory(deep);
  FakeServer server(deep, [](const std::string& method, const json::object&) {
    return hello_and(method, R"({"ok":true})");
  });
  Client client(options_for(deep));
  EXPECT_TRUE(client.connect());
}

TEST(Client, APileOfGarbageIsNotTrusted) {
  const TempDir dir;
  FakeServer server(dir.path(), [](const std::string& method, const json::object&) {
    return Scripted{method == "hello" ? kHello : "[1]"};
  });
  Client client(options_for(dir.path()));
  ASSERT_TRUE(client.connect());
  EXPECT_EQ(client.call("status", {}).error().code, ErrorCode::unsupported_version);
}

TEST(Autostart, TheDaemonsOwnErrorIsPrinted) {
  const TempDir dir;
  const std::string program = script_in(
      dir, R"(printf '{"ready":false,"error":{"code":"store_newer","message":"Too new."}}\n' >&3)");
  const auto started = start_daemon({program, dir.path() + "/data", ""});
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::store_newer);
  EXPECT_EQ(started.error().message, "Too new.");
}

TEST(Autostart, AnEndWithoutAWordNamesTheLog) {
  const TempDir dir;
  const auto started = start_daemon({script_in(dir, "echo broken; exit 3"), dir.path() + "/d", ""});
  ASSERT_FALSE(started);
  EXPECT_THAT(started.error().message, HasSubstr("daemon.log"));
  std::ifstream log(dir.path() + "/d/daemon.log");
  std::string line;
  std::getline(log, line);
  EXPECT_EQ(line, "broken");
}

TEST(Autostart, I10_ADaemonIsNotStartedInsideAJobWithWhichItWouldEnd) {
  const TempDir dir;
  const std::string program = script_in(dir, R"(echo '{"ready":true}' >&3)");
  for (const char* variable : {"WAYBILL_JOB", "WAYBILL_WAKE"}) {
    ::setenv(variable, "1", 1);
    const auto started = start_daemon({program, dir.path() + "/data", ""});
    ::unsetenv(variable);
    ASSERT_FALSE(started) << variable;
    EXPECT_EQ(started.error().code, ErrorCode::unavailable);
    EXPECT_THAT(started.error().message, HasSubstr("waybill serve"));
  }
  EXPECT_TRUE(start_daemon({program, dir.path() + "/data", ""}));
}

TEST(Autostart, WhatItIsGiven) {
  const TempDir dir;
  ::setenv("WAYBILL_HOST_KEY", "secret", 1);
  const std::string program = script_in(
      dir, "echo \"$@\"; echo \"key=$WAYBILL_HOST_KEY\"; pwd; echo '{\"ready\":true}' >&3");
  const auto started = start_daemon({program, dir.path() + "/data", "sqlite:x"});
  ::unsetenv("WAYBILL_HOST_KEY");
  ASSERT_TRUE(started) << started.error().message;
  std::ifstream log(dir.path() + "/data/daemon.log");
  std::string arguments;
  std::string key;
  std::string cwd;
  std::getline(log, arguments);
  std::getline(log, key);
  std::getline(log, cwd);
  EXPECT_EQ(arguments, "serve --data " + dir.path() + "/data --ready-fd 3 --store sqlite:x");
  EXPECT_EQ(key, "key=");
  EXPECT_EQ(cwd, "/");
  struct stat info{};
  ASSERT_EQ(::stat((dir.path() + "/data").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0700U);
}

TEST(Autostart, TheLoserOfTwoStartersConnects) {
  const TempDir dir;
  std::unique_ptr<FakeServer> winner;
  ClientOptions options = options_for(dir.path());
  options.autostart = true;
  options.executable = script_in(
      dir, R"(printf '{"ready":false,"error":{"code":"conflict","message":"Held."}}\n' >&3)");
  std::thread later([&] {
    std::this_thread::sleep_for(Millis(200));
    winner = std::make_unique<FakeServer>(dir.path(),
                                          [](const std::string& method, const json::object&) {
                                            return hello_and(method, R"({"ok":true})");
                                          });
  });
  Client client(options);
  const auto connected = client.connect();
  later.join();
  EXPECT_TRUE(connected) << connected.error().message;
}

}  // namespace
}  // namespace waybill::cli
