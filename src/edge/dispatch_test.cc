#include "edge/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <filesystem>

#include "edge/fake_service.h"
#include "edge/json.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DispatchTest : public ::testing::Test {
 protected:
  Result<json::object> call(std::string_view name, const json::object& params) {
    const MethodInfo* info = find_method(name);
    EXPECT_NE(info, nullptr) << name;
    const json::value value = params;
    Result<Params> decoded = Params::decode(*info, &value);
    if (!decoded) return fail(decoded.error());
    std::optional<Result<std::string>> answer;
    dispatch(info->method, *decoded, 42, service,
             [&answer](Result<std::string> text) { answer = std::move(text); });
    if (!answer) return fail(ErrorCode::unavailable, "no answer");
    if (!*answer) return fail(answer->error());
    return json::parse(**answer).as_object();
  }
  engine::RunRequest run(json::object params) {
    params.emplace("cwd", "/");
    const auto answer = call("job.run", params);
    EXPECT_TRUE(answer) << answer.error().message;
    if (!answer || service.commands.empty()) return {};
    return std::get<engine::RunRequest>(service.commands.back());
  }
  Error refused(std::string_view name, const json::object& params) {
    const auto answer = call(name, params);
    EXPECT_FALSE(answer) << to_text(params);
    return answer ? Error{ErrorCode::unavailable, ""} : answer.error();
  }

  FakeService service;
};

TEST_F(DispatchTest, CallerDefaultsAndConnection) {
  const engine::RunRequest request = run({{"command", "true"}});
  EXPECT_EQ(request.caller.owner.tenant.str(), "local");
  EXPECT_EQ(request.caller.owner.session.str(), "user");
  EXPECT_FALSE(request.caller.host_key);
  EXPECT_EQ(request.caller.connection, 42U);
  EXPECT_EQ(request.shell, "/bin/bash");
  EXPECT_TRUE(request.launchable);
  EXPECT_TRUE(request.env.empty());
}

TEST_F(DispatchTest, RunTakesEverything) {
  const engine::RunRequest request = run({{"command", "echo hi"},
                                          {"shell", "/bin/sh"},
                                          {"tenant", "t"},
                                          {"session", "s"},
                                          {"host_key", "k"},
                                          {"turn", "t1"},
                                          {"label", "tests"},
                                          {"deadline_ms", 90000},
                                          {"grace_ms", 0},
                                          {"cap_bytes", 65536},
                                          {"owner", "turn"},
                                          {"key", "idem"},
                                          {"env", {{"A", "1 2"}, {"WAYBILL_HOST_KEY", "k"}}}});
  EXPECT_EQ(request.caller.owner.session.str(), "s");
  EXPECT_EQ(request.caller.host_key->str(), "k");
  EXPECT_EQ(request.turn->str(), "t1");
  EXPECT_EQ(request.deadline->count(), 90000);
  EXPECT_EQ(request.grace->count(), 0);
  EXPECT_EQ(request.cap_bytes, 65536U);
  EXPECT_EQ(request.owner, core::OwnerKind::turn);
  EXPECT_EQ(request.key->str(), "idem");
  EXPECT_THAT(request.env, ElementsAre("A=1 2"));
}

TEST_F(DispatchTest, BytesSurvive) {
  const std::string command = "printf '\xFF\xFE'";
  const std::string env("A=\xFF\n=x\0B=\0WAYBILL_HOST_KEY=secret\0", 35);
  const engine::RunRequest request =
      run({{"command_base64", to_base64(command)}, {"env_base64", to_base64(env)}});
  EXPECT_EQ(request.command, command);
  EXPECT_THAT(request.env, ElementsAre("A=\xFF\n=x", "B="));
  const engine::RunRequest words =
      run({{"argv_base64", json::array{json::value(to_base64("ls")), to_base64("\xFF")}}});
  EXPECT_THAT(words.argv, ElementsAre("ls", "\xFF"));
  EXPECT_EQ(words.shell, "");
}

TEST_F(DispatchTest, TheCommandIsSaidExactlyOnce) {
  EXPECT_THAT(refused("job.run", {{"cwd", "/"}}).message, HasSubstr("\"command\""));
  EXPECT_THAT(refused("job.run", {{"cwd", "/"}, {"command", ""}}).message, HasSubstr("command"));
  EXPECT_THAT(
      refused("job.run", {{"cwd", "/"}, {"command", "a"}, {"argv", json::array{"a"}}}).message,
      HasSubstr("exclude"));
  EXPECT_THAT(refused("job.run", {{"cwd", "/"}, {"argv", json::array{}}}).message,
              HasSubstr("argv"));
  EXPECT_THAT(
      refused("job.run", {{"cwd", "/"}, {"argv", json::array{"a"}}, {"shell", "/bin/sh"}}).message,
      HasSubstr("shell"));
  EXPECT_THAT(refused("job.run", {{"command", "a"}}).message, HasSubstr("cwd"));
  EXPECT_THAT(refused("job.run", {{"command", "a"}, {"cwd", "tmp"}}).message, HasSubstr("cwd"));
  EXPECT_TRUE(service.commands.empty());
}

TEST_F(DispatchTest, LimitsComeFromTheSettings) {
  service.the_settings.command_bytes_max = 1024;
  service.the_settings.environment_bytes_max = 1024;
  const Error command = refused("job.run", {{"cwd", "/"}, {"command", std::string(1025, 'x')}});
  EXPECT_EQ(command.code, ErrorCode::too_large);
  EXPECT_THAT(command.message, HasSubstr("1025"));
  EXPECT_THAT(command.message, HasSubstr("1024"));
  const Error env = refused(
      "job.run", {{"cwd", "/"}, {"command", "x"}, {"env", {{"A", std::string(1024, 'x')}}}});
  EXPECT_EQ(env.code, ErrorCode::too_large);
  const Error wait = refused("job.wait", {{"jobs", json::array{"j"}}, {"timeout_ms", 600001}});
  EXPECT_EQ(wait.code, ErrorCode::bad_request);
  EXPECT_THAT(wait.message, HasSubstr("600000"));
}

TEST_F(DispatchTest, AMissingDirectoryIsForTheEngineToWeigh) {
  const auto answer = call("job.run", {{"command", "x"}, {"cwd", "/no/such/directory"}});
  ASSERT_TRUE(answer);
  const auto& request = std::get<engine::RunRequest>(service.commands.back());
  ASSERT_FALSE(request.launchable);
  EXPECT_EQ(request.launchable.error().code, ErrorCode::cwd_missing);
  EXPECT_THAT(request.launchable.error().message, HasSubstr("cwd missing: /no/such/directory"));
}

TEST_F(DispatchTest, AShellMustBeAProgram) {
  ASSERT_TRUE(call("job.run", {{"command", "x"}, {"cwd", "/"}, {"shell", "/etc/passwd"}}));
  const auto& request = std::get<engine::RunRequest>(service.commands.back());
  ASSERT_FALSE(request.launchable);
  EXPECT_EQ(request.launchable.error().code, ErrorCode::not_found);
  EXPECT_THAT(request.launchable.error().message, HasSubstr("/etc/passwd"));
}

TEST_F(DispatchTest, UnicodeAndQuotesInTheDirectory) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("项目 é \"q\" " + std::to_string(getpid()));
  std::filesystem::create_directory(directory);
  ASSERT_TRUE(call("job.run", {{"command", "x"}, {"cwd", directory.string()}}));
  EXPECT_TRUE(std::get<engine::RunRequest>(service.commands.back()).launchable);
  std::filesystem::remove(directory);
}

TEST_F(DispatchTest, OnlyTheHostsReadGoesThroughTheEngine) {
  service.query_reply = QueryReply(engine::JobView{});
  ASSERT_TRUE(call("job.show", {{"job", "j1"}, {"session", "s1"}}));
  EXPECT_TRUE(service.commands.empty());
  EXPECT_EQ(service.queries.size(), 1U);
  service.script = [](const engine::Command&) { return engine::Reply(engine::JobReply{}); };
  ASSERT_TRUE(call("job.show", {{"job", "j1"}, {"session", "s1"}, {"host_key", "k"}}));
  EXPECT_TRUE(std::holds_alternative<engine::ShowRequest>(service.commands.back()));
  // In the session `user` the person is the host.
  service.commands.clear();
  ASSERT_TRUE(call("job.show", {{"job", "j1"}}));
  EXPECT_TRUE(std::holds_alternative<engine::ShowRequest>(service.commands.back()));
}

TEST_F(DispatchTest, StopNamesJobsOrAll) {
  EXPECT_THAT(refused("job.stop", json::object{}).message, HasSubstr("all"));
  EXPECT_THAT(refused("job.stop", {{"all", true}, {"jobs", json::array{"j"}}}).message,
              HasSubstr("all"));
  service.script = [](const engine::Command&) { return engine::Reply(engine::JobsReply{}); };
  const auto answer = call("job.stop", {{"all", true}, {"reason", "enough"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at("timed_out"), false);
  EXPECT_TRUE(answer->at("reported").is_null());
}

TEST_F(DispatchTest, AttachNotesTheStartOfTheHostsProcess) {
  service.script = [](const engine::Command&) { return engine::Reply(engine::AttachReply{}); };
  ASSERT_TRUE(call("session.attach", {{"host_pid", ::getpid()}, {"host_key", "k"}}));
  const auto& request = std::get<engine::AttachRequest>(service.commands.back());
  EXPECT_EQ(request.host_pid, ::getpid());
  EXPECT_GT(request.host_pid_start.value_or(0), 0U);
  EXPECT_THAT(refused("session.attach", {{"host_pid", 4194303}}).message, HasSubstr("host_pid"));
}

TEST_F(DispatchTest, TurnVerbsAndTheirWaits) {
  service.script = [](const engine::Command&) {
    engine::TurnReply reply;
    reply.turn.id = TurnId("t1");
    return engine::Reply(reply);
  };
  const auto answer = call("turn.end", {{"turn", "t1"}, {"wait", true}, {"timeout_ms", 1000}});
  ASSERT_TRUE(answer);
  const auto& request = std::get<engine::TurnRequest>(service.commands.back());
  EXPECT_EQ(request.verb, core::TurnVerb::end);
  EXPECT_TRUE(request.wait);
  EXPECT_EQ(request.timeout.count(), 1000);
  EXPECT_EQ(answer->at("turn"), "t1");
  EXPECT_EQ(answer->at("state"), "open");
  EXPECT_TRUE(answer->at("messages").as_array().empty());
  EXPECT_EQ(refused("turn.begin", {{"turn", "t1"}, {"wait", true}}).code, ErrorCode::bad_request);
}

TEST_F(DispatchTest, SessionWaitSaysWhetherTheTimeRanOut) {
  service.script = [](const engine::Command&) {
    engine::SessionView session;
    session.revision = 5;
    return engine::Reply(session);
  };
  EXPECT_EQ(call("session.wait", {{"revision", 4}})->at("timed_out"), false);
  EXPECT_EQ(call("session.wait", {{"revision", 5}})->at("timed_out"), true);
}

TEST_F(DispatchTest, RawLogsThatAreNoTextAreBase64) {
  service.logs_reply->data =
      "\xFF\x00"
      "a";
  service.logs_reply->rendered = false;
  service.logs_reply->gaps = {{3, 9}};
  const auto answer = call("job.logs", {{"job", "j"}, {"raw", true}, {"offset", 0}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->at("encoding"), "base64");
  EXPECT_EQ(answer->at("gaps").as_array().at(0).as_array().at(1).to_number<int>(), 9);
  EXPECT_TRUE(service.log_requests.back().raw);
  EXPECT_THAT(refused("job.logs", {{"job", "j"}, {"offset", 0}, {"tail_lines", 3}}).message,
              HasSubstr("exclude"));
}

TEST_F(DispatchTest, ErrorsOfTheEngineComeThrough) {
  service.script = [](const engine::Command&) -> Result<engine::Reply> {
    return fail(ErrorCode::fenced, "An other host took over.");
  };
  EXPECT_EQ(refused("inbox.take", json::object{}).code, ErrorCode::fenced);
}

TEST_F(DispatchTest, AWriteTakesAnyBytesUpToItsLimit) {
  const std::string bytes("a\0\xff\n", 4);
  service.write_reply->written = 4;
  const auto answer =
      call("job.write",
           {{"job", "j"}, {"data_base64", to_base64(bytes)}, {"close", true}, {"timeout_ms", 7}});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->at("written"), 4);
  EXPECT_EQ(answer->at("closed"), false);
  ASSERT_EQ(service.writes.size(), 1U);
  EXPECT_EQ(service.writes[0].data, bytes);
  EXPECT_TRUE(service.writes[0].close);
  EXPECT_EQ(service.writes[0].timeout, Millis(7));
  EXPECT_EQ(service.writes[0].caller.connection, 42U);
  ASSERT_TRUE(call("job.write", {{"job", "j"}, {"data", "text"}}));
  EXPECT_EQ(service.writes[1].data, "text");
  EXPECT_EQ(service.writes[1].timeout, service.the_settings.wait_timeout);
  EXPECT_EQ(refused("job.write", {{"job", "j"}, {"data", "x"}, {"data_base64", "eA=="}}).code,
            ErrorCode::bad_request);
  const std::string most(kInputBytesMax, 'x');
  EXPECT_TRUE(call("job.write", {{"job", "j"}, {"data_base64", to_base64(most)}}));
  EXPECT_EQ(refused("job.write", {{"job", "j"}, {"data_base64", to_base64(most + "x")}}).code,
            ErrorCode::too_large);
}

TEST_F(DispatchTest, ATerminalIsDumbUnlessTheEnvironmentNamesIt) {
  EXPECT_THAT(run({{"command", "x"}, {"pty", true}}).env, ElementsAre("TERM=dumb"));
  EXPECT_THAT(run({{"command", "x"}, {"pty", true}, {"env", {{"TERM", "vt100"}}}}).env,
              ElementsAre("TERM=vt100"));
  EXPECT_TRUE(run({{"command", "x"}}).env.empty());
}

TEST_F(DispatchTest, ABackupNeedsTheWholePathOfAFile) {
  service.backup_reply = BackupReply{"/tmp/backup.db", 4096, 7};
  const auto made = call("backup", {{"path", "/tmp/backup.db"}});
  ASSERT_TRUE(made);
  EXPECT_EQ(json::serialize(*made), R"({"path":"/tmp/backup.db","bytes":4096,"newest_receipt":7})");
  EXPECT_THAT(service.backups, ElementsAre("/tmp/backup.db"));
  for (const char* path : {"backup.db", "/tmp/", ""}) {
    EXPECT_EQ(refused("backup", {{"path", path}}).code, ErrorCode::bad_request) << path;
  }
}

TEST_F(DispatchTest, EveryMethodIsServed) {
  for (const MethodInfo& info : methods()) {
    json::object params;
    for (const Param& param : info.params) {
      if (!param.required) continue;
      const json::string_view name(param.name.data(), param.name.size());
      if (param.kind == ParamKind::number) params[name] = 1;
      if (param.kind == ParamKind::id) params[name] = "x";
      if (param.kind == ParamKind::text_list) params[name] = json::array{"x"};
      if (param.kind == ParamKind::text) params[name] = "x";
    }
    if (info.method == Method::job_run) params = {{"command", "x"}, {"cwd", "/"}};
    if (info.method == Method::job_stop) params = {{"all", true}};
    if (info.method == Method::backup) params = {{"path", "/tmp/backup.db"}};
    if (info.method == Method::hello) continue;
    EXPECT_TRUE(call(info.name, params)) << info.name;
  }
}

}  // namespace
}  // namespace waybill::edge
