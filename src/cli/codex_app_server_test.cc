#include "cli/codex_app_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/write.hpp>

#include "cli/fake_app_server.h"
#include "cli/fake_server.h"

namespace waybill::cli {
namespace {

using edge::ProbeState;
using edge::PutOutcome;
using ::testing::ElementsAre;

class CodexAppServerTest : public ::testing::Test {
 protected:
  std::string path() const { return directory.path() + "/app.sock"; }
  static AppServerLimits quick() {
    AppServerLimits limits;
    limits.call = Millis{100};
    limits.message_bytes = 64 * 1024;
    return limits;
  }
  static std::string thread(const std::string& status) {
    return R"({"thread":{"id":"th1","status":{"type":")" + status + R"(","activeFlags":[]}}})";
  }
  // Every method but this one is answered as a thread that runs.
  static FakeAppServer::Script but(const std::string& method, const std::string& answer) {
    return [=](const std::string& asked, const json::object&) -> std::string {
      if (asked == method) return answer;
      if (asked == "thread/read") return thread("active");
      if (asked == "thread/turns/list") {
        return R"({"data":[{"id":"turn-9","items":[],"status":"inProgress"}]})";
      }
      return R"({"turnId":"turn-9"})";
    };
  }

  TempDir directory;
};

TEST_F(CodexAppServerTest, an_idle_thread_is_woken_on_the_connection_that_probed_it) {
  FakeAppServer server(path(), but("thread/read", thread("idle")));
  CodexAppServer codex(path(), "th1");
  EXPECT_EQ(codex.probe().state, ProbeState::idle);
  EXPECT_EQ(codex.wake("hello"), PutOutcome::accepted);
  EXPECT_THAT(server.methods(),
              ElementsAre("initialize", "initialized", "thread/read", "turn/start"));
  const json::object params = server.last_params();
  EXPECT_EQ(text_of(params, "threadId"), "th1");
  EXPECT_EQ(text_of(params, "turnTrigger"), "background_job");
  EXPECT_EQ(edge::to_text(array_of(params, "input")),
            R"([{"type":"text","text":"hello","text_elements":[]}])");
  EXPECT_TRUE(codex.durable());
}

TEST_F(CodexAppServerTest, an_active_thread_is_steered_with_the_turn_that_is_in_progress) {
  FakeAppServer server(path(), but("", ""));
  CodexAppServer codex(path(), "th1");
  codex.saw_turn("turn-old");
  const edge::Probe probe = codex.probe();
  EXPECT_EQ(probe.state, ProbeState::running);
  EXPECT_EQ(probe.turn, "turn-9");
  EXPECT_EQ(codex.steer(probe.turn, "hello"), PutOutcome::accepted);
  EXPECT_EQ(server.methods().back(), "turn/steer");
  const json::object params = server.last_params();
  EXPECT_EQ(text_of(params, "expectedTurnId"), "turn-9");
}

TEST_F(CodexAppServerTest, the_turn_of_a_tool_call_stands_in_for_a_list_that_is_not_there) {
  FakeAppServer server(path(), but("thread/turns/list", "!unknown method"));
  CodexAppServer codex(path(), "th1");
  EXPECT_EQ(codex.probe().turn, "");
  codex.saw_turn("turn-7");
  EXPECT_EQ(codex.probe().turn, "turn-7");
}

TEST_F(CodexAppServerTest, a_stale_turn_is_told_from_a_thread_that_is_idle) {
  {
    FakeAppServer server(path(),
                         [](const std::string& method, const json::object& params) -> std::string {
                           if (method == "thread/read") return thread("active");
                           if (method == "thread/turns/list") return R"({"data":[]})";
                           return "!expected active turn id `" + text_of(params, "expectedTurnId") +
                                  "` but found `turn-8`";
                         });
    CodexAppServer codex(path(), "th1");
    EXPECT_EQ(codex.steer("turn-1", "x"), PutOutcome::stale_turn);
    EXPECT_EQ(codex.probe().turn, "turn-8") << "as the message said";
  }
  std::filesystem::remove(path());
  FakeAppServer server(path(), but("turn/steer", "!no active turn to steer"));
  CodexAppServer codex(path(), "th1");
  EXPECT_EQ(codex.steer("turn-1", "x"), PutOutcome::not_running);
}

TEST_F(CodexAppServerTest, another_error_is_a_refusal) {
  FakeAppServer server(path(), but("turn/start", "!thread not found"));
  CodexAppServer codex(path(), "th1");
  EXPECT_EQ(codex.wake("x"), PutOutcome::busy);
}

TEST_F(CodexAppServerTest, a_thread_of_another_process_is_gone_here) {
  FakeAppServer server(path(), but("thread/read", thread("notLoaded")));
  EXPECT_EQ(CodexAppServer(path(), "th1").probe().state, ProbeState::gone);
}

TEST_F(CodexAppServerTest, a_thread_in_an_error_state_is_tried) {
  FakeAppServer server(path(), but("thread/read", thread("systemError")));
  EXPECT_EQ(CodexAppServer(path(), "th1").probe().state, ProbeState::unknown);
}

TEST_F(CodexAppServerTest, silence_ends_with_the_time_of_the_call) {
  FakeAppServer server(path(), but("turn/start", "…"));
  CodexAppServer codex(path(), "th1", quick());
  EXPECT_EQ(codex.wake("x"), PutOutcome::unreachable);
}

TEST_F(CodexAppServerTest, garbage_a_huge_frame_and_an_end_in_the_middle_are_unreachable) {
  for (const std::string& answer : {std::string("={{{"), "=" + std::string(128 * 1024, 'x'),
                                    std::string("=[]"), std::string()}) {
    std::filesystem::remove(path());
    FakeAppServer server(path(), but("turn/start", answer));
    CodexAppServer codex(path(), "th1", quick());
    EXPECT_EQ(codex.wake("x"), PutOutcome::unreachable) << answer.substr(0, 10);
  }
}

TEST_F(CodexAppServerTest, messages_without_end_are_given_up) {
  FakeAppServer server(path(), but("turn/start", R"(={"id":99,"result":{}})"));
  AppServerLimits limits;
  limits.messages = 2;
  CodexAppServer codex(path(), "th1", limits);
  EXPECT_EQ(codex.wake("x"), PutOutcome::unreachable);
}

TEST_F(CodexAppServerTest, nobody_there_is_gone_and_unreachable) {
  CodexAppServer codex(path(), "th1", quick());
  EXPECT_EQ(codex.probe().state, ProbeState::gone);
  EXPECT_EQ(codex.wake("x"), PutOutcome::unreachable);
  EXPECT_EQ(codex.steer("t", "x"), PutOutcome::unreachable);
  EXPECT_EQ(codex.inject("x"), PutOutcome::unreachable);
}

TEST_F(CodexAppServerTest, a_server_of_another_kind_or_one_that_says_nothing_is_gone) {
  namespace asio = boost::asio;
  asio::io_context context;
  asio::local::stream_protocol::acceptor acceptor(context,
                                                  asio::local::stream_protocol::endpoint(path()));
  EXPECT_EQ(CodexAppServer(path(), "th1", quick()).probe().state, ProbeState::gone);
  std::thread other([&] {
    acceptor.accept();  // of the one that has gone again
    auto socket = acceptor.accept();
    boost::system::error_code error;
    asio::write(socket, asio::buffer(std::string("220 mail.example ESMTP\r\n")), error);
  });
  EXPECT_EQ(CodexAppServer(path(), "th1").probe().state, ProbeState::gone);
  other.join();
}

}  // namespace
}  // namespace waybill::cli
