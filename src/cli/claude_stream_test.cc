#include "cli/claude_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "edge/json.h"

namespace waybill::cli {
namespace {

using edge::ProbeState;
using edge::PutOutcome;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr const char* kInit = R"({"type":"system","subtype":"init","session_id":"s-1"})"
                              "\n";
constexpr const char* kResult = R"({"type":"result","subtype":"success"})"
                                "\n";
constexpr const char* kTool = R"({"type":"user","message":{},"parent_tool_use_id":null})"
                              "\n";
constexpr const char* kSpoke = R"({"type":"assistant","message":{},"parent_tool_use_id":null})"
                               "\n";
constexpr const char* kAsked = R"({"type":"user","message":{"role":"user","content":"x"}})"
                               "\n";

class ClaudeStreamTest : public ::testing::Test {
 protected:
  // Puts a text while this thread moves the bytes.
  PutOutcome put(const std::function<PutOutcome()>& call) {
    std::future<PutOutcome> outcome = std::async(std::launch::async, call);
    waits.get_future().wait();
    waits = {};
    line = stream.next_line();
    if (!line.empty()) stream.written();
    return outcome.get();
  }
  PutOutcome wake(const std::string& text = "note") {
    return put([&] { return stream.wake(text); });
  }
  PutOutcome steer(const std::string& turn) {
    return put([&] { return stream.steer(turn, "note"); });
  }

  std::promise<void> waits;
  std::vector<std::string> sessions;
  std::vector<std::string> read;
  std::string line;
  ClaudeStream stream{
      {[this] { waits.set_value(); }, [this](const std::string& one) { sessions.push_back(one); },
       [this](const std::string& one) { read.push_back(one); }},
      Millis{20000}};
};

TEST_F(ClaudeStreamTest, a_turn_runs_from_a_users_line_or_an_init_to_its_result) {
  EXPECT_EQ(stream.probe().state, ProbeState::idle);
  stream.received(kInit);
  EXPECT_THAT(sessions, ElementsAre("s-1"));
  EXPECT_EQ(stream.probe().state, ProbeState::running);
  stream.received(kResult);
  EXPECT_EQ(stream.probe().state, ProbeState::idle);
  const std::string asked = kAsked;
  stream.sent(asked.substr(0, 10));
  EXPECT_EQ(stream.probe().state, ProbeState::idle) << "half a line";
  stream.sent(asked.substr(10));
  EXPECT_EQ(stream.probe().state, ProbeState::running);
  stream.received(kInit);
  EXPECT_THAT(sessions, ElementsAre("s-1")) << "the same one";
  EXPECT_EQ(stream.probe().turn, "2");
  stream.closed();
  EXPECT_EQ(stream.probe().state, ProbeState::gone);
}

TEST_F(ClaudeStreamTest, a_wake_is_one_line_of_the_recorded_shape) {
  stream.received(std::string(kInit) + kResult);
  EXPECT_EQ(wake("a \"b\"\nc"), PutOutcome::accepted);
  EXPECT_EQ(line, R"({"type":"user","message":{"role":"user","content":[{"type":"text","text":)"
                  R"("a \"b\"\nc"}]},"parent_tool_use_id":null})"
                  "\n");
  EXPECT_EQ(stream.probe().state, ProbeState::running);
}

TEST_F(ClaudeStreamTest, I2_what_woke_a_turn_counts_as_read_at_its_result_and_not_before) {
  stream.received(std::string(kInit) + kResult);
  wake();
  stream.recorded("d1");
  stream.received(std::string(kInit) + kTool + kSpoke);
  EXPECT_THAT(read, IsEmpty());
  stream.received(kResult);
  EXPECT_THAT(read, ElementsAre("d1"));
  stream.received(kResult);
  EXPECT_THAT(read, ElementsAre("d1")) << "once";
}

TEST_F(ClaudeStreamTest, I2_a_result_before_the_delivery_is_recorded_counts_too) {
  stream.received(std::string(kInit) + kResult);
  wake();
  stream.received(std::string(kInit) + kResult);
  EXPECT_THAT(read, IsEmpty());
  stream.recorded("d1");
  EXPECT_THAT(read, ElementsAre("d1"));
}

TEST_F(ClaudeStreamTest, I2_what_entered_a_running_turn_counts_only_when_the_model_saw_it) {
  stream.received(kInit);
  EXPECT_EQ(steer("1"), PutOutcome::accepted);
  stream.recorded("d1");
  stream.received(kSpoke);  // begun before the line was there
  stream.received(kResult);
  EXPECT_THAT(read, IsEmpty()) << "the turn that follows takes it";
  stream.received(std::string(kInit) + kResult);
  EXPECT_THAT(read, ElementsAre("d1"));
  stream.received(kInit);
  EXPECT_EQ(steer("3"), PutOutcome::accepted);
  stream.recorded("d2");
  stream.received(std::string(kTool) + kSpoke + kResult);
  EXPECT_THAT(read, ElementsAre("d1", "d2"));
}

TEST_F(ClaudeStreamTest, a_subagents_messages_prove_nothing) {
  stream.received(kInit);
  steer("1");
  stream.recorded("d1");
  stream.received(R"({"type":"user","parent_tool_use_id":"toolu_1"})"
                  "\n"
                  R"({"type":"assistant","parent_tool_use_id":"toolu_1"})"
                  "\n");
  stream.received(kResult);
  EXPECT_THAT(read, IsEmpty());
}

TEST_F(ClaudeStreamTest, a_steer_enters_no_other_turn) {
  stream.received(kInit);
  EXPECT_EQ(steer("7"), PutOutcome::stale_turn);
  EXPECT_EQ(line, "");
  stream.received(kResult);
  EXPECT_EQ(steer("1"), PutOutcome::not_running);
  EXPECT_EQ(line, "");
}

TEST(ClaudeStream, a_line_of_somebody_else_is_never_broken) {
  ClaudeStream stream{{[] {}, [](const std::string&) {}, [](const std::string&) {}}, Millis{1}};
  stream.received(std::string(kInit) + kResult);
  stream.sent("{\"half");
  EXPECT_EQ(stream.wake("note"), PutOutcome::busy);
  EXPECT_EQ(stream.next_line(), "");
  stream.sent(" a line\"}\n");
  EXPECT_EQ(stream.next_line(), "") << "it was given back";
}

TEST(ClaudeStream, a_client_that_is_gone_is_unreachable) {
  ClaudeStream stream{{[] {}, [](const std::string&) {}, [](const std::string&) {}}, Millis{1}};
  stream.closed();
  EXPECT_EQ(stream.wake("note"), PutOutcome::unreachable);
}

TEST(ClaudeStream, garbage_and_lines_without_end_do_no_harm) {
  std::vector<std::string> sessions;
  ClaudeStream stream{
      {[] {}, [&](const std::string& one) { sessions.push_back(one); }, [](const std::string&) {}},
      Millis{1}};
  stream.received("{{{\n[]\n\n\"x\"\n{\"type\":7}\n");
  stream.received(R"({"type":"system","subtype":"init","session_id":"not an id"})"
                  "\n");
  EXPECT_THAT(sessions, IsEmpty());
  EXPECT_EQ(stream.probe().state, ProbeState::running);
  stream.received(R"({"type":"result","result":")");
  const std::string much(1024 * 1024, 'x');
  for (int i = 0; i < 5; ++i) stream.received(much);
  EXPECT_EQ(stream.probe().state, ProbeState::running);
  stream.received("\"}\n");
  EXPECT_EQ(stream.probe().state, ProbeState::idle) << "a result, however long";
}

}  // namespace
}  // namespace waybill::cli
