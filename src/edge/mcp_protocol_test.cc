#include "edge/mcp_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "edge/json.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const char* const kModernMeta =
    R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
    R"("io.modelcontextprotocol/clientInfo":{"name":"claude-code","version":"2.1.332"},)"
    R"("io.modelcontextprotocol/clientCapabilities":{"roots":{},"elicitation":{}},)"
    R"("claudecode/toolUseId":"toolu_1","progressToken":5})";

class McpProtocolTest : public ::testing::Test {
 protected:
  void line(const std::string& text) { session.on_bytes(text + "\n"); }
  // One line, and its only answer.
  json::object ask(const std::string& text) {
    lines.clear();
    line(text);
    EXPECT_EQ(lines.size(), 1U) << text;
    if (lines.size() != 1) return {};
    EXPECT_EQ(lines[0].find('\n'), lines[0].size() - 1);
    return json::parse(lines[0]).as_object();
  }
  static int code_of(const json::object& answer) {
    const json::value* error = answer.if_contains("error");
    return error == nullptr ? 0 : error->at("code").to_number<int>();
  }
  json::object initialize(const std::string& version, const std::string& client = "test") {
    const json::object answer = ask(
        R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" + version +
        R"(","capabilities":{},"clientInfo":{"name":")" + client + R"(","version":"1"}}})");
    line(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
    EXPECT_EQ(lines.size(), 1U);
    lines.clear();
    return answer;
  }
  static std::string call_line(const std::string& id, const std::string& tool,
                               const std::string& arguments, const std::string& more = "") {
    return R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":"tools/call","params":{"name":")" +
           tool + R"(","arguments":)" + arguments + more + "}}";
  }

  std::vector<std::string> lines;
  std::vector<McpCall> calls;
  std::vector<std::string> cancelled;
  Result<void> taken;
  McpSession session{{[this](std::string text) { lines.push_back(std::move(text)); },
                      [this](McpCall call) {
                        calls.push_back(std::move(call));
                        return taken;
                      },
                      [this](const std::string& id) { cancelled.push_back(id); }}};
};

// ---- eras --------------------------------------------------------------------------------------

TEST_F(McpProtocolTest, CodexHandshakesAt2025_06_18) {
  const json::object answer = ask(
      R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18",)"
      R"("capabilities":{"elicitation":{},"experimental":{"codex/auth-change":{}}},)"
      R"("clientInfo":{"name":"codex-mcp-client","title":"Codex","version":"0.171.0"}}})");
  const json::object& result = answer.at("result").as_object();
  EXPECT_EQ(result.at("protocolVersion"), "2025-06-18");
  EXPECT_EQ(result.at("serverInfo").at("name"), "waybill");
  EXPECT_TRUE(result.at("capabilities").as_object().contains("tools"));
  EXPECT_TRUE(result.at("capabilities")
                  .at("experimental")
                  .as_object()
                  .contains("codex/sandbox-state-meta"));
  EXPECT_FALSE(result.contains("resultType"));
  lines.clear();
  line(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  EXPECT_TRUE(lines.empty());
  line(call_line("2", "start", R"({"command":"true"})",
                 R"(,"_meta":{"threadId":"t","callId":"c","progressToken":0,)"
                 R"("x-codex-turn-metadata":{"session_id":"s","turn_id":"u"}})"));
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].id, "2");
  EXPECT_EQ(calls[0].era, McpEra::v2025_06_18);
  EXPECT_EQ(calls[0].client_name, "codex-mcp-client");
  EXPECT_EQ(calls[0].progress_token, "0");
  EXPECT_EQ(calls[0].meta->at("x-codex-turn-metadata").at("turn_id"), "u");
  EXPECT_EQ(calls[0].arguments->at("command"), "true");
}

TEST_F(McpProtocolTest, ClaudeHandshakesAt2025_11_25) {
  const json::object answer = initialize("2025-11-25", "claude-code");
  EXPECT_EQ(answer.at("result").at("protocolVersion"), "2025-11-25");
  const json::object tools = ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})");
  EXPECT_EQ(tools.at("result").at("tools").as_array().size(), mcp_tools().size());
  EXPECT_FALSE(tools.at("result").as_object().contains("ttlMs"));
  line(call_line("\"a\"", "list", "{}", R"(,"_meta":{"claudecode/toolUseId":"toolu_9"})"));
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].id, "\"a\"");
  EXPECT_EQ(calls[0].client_name, "claude-code");
  EXPECT_EQ(calls[0].meta->at("claudecode/toolUseId"), "toolu_9");
  EXPECT_EQ(calls[0].progress_token, "");
}

TEST_F(McpProtocolTest, ClaudeDiscoversAndCallsAt2026_07_28WithoutInitialize) {
  const json::object found =
      ask(R"({"jsonrpc":"2.0","id":"d","method":"server/discover","params":{)" +
          std::string(kModernMeta) + "}}");
  const json::object& result = found.at("result").as_object();
  EXPECT_EQ(result.at("resultType"), "complete");
  EXPECT_EQ(result.at("supportedVersions").as_array()[0], "2026-07-28");
  EXPECT_TRUE(result.at("ttlMs").is_number());
  EXPECT_EQ(result.at("cacheScope"), "public");
  EXPECT_EQ(result.at("_meta").at("io.modelcontextprotocol/serverInfo").at("name"), "waybill");
  const json::object tools = ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{)" +
                                 std::string(kModernMeta) + "}}");
  EXPECT_EQ(tools.at("result").at("resultType"), "complete");
  EXPECT_TRUE(tools.at("result").at("ttlMs").is_number());
  line(call_line("2", "start", R"({"command":"true"})", "," + std::string(kModernMeta)));
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].era, McpEra::v2026_07_28);
  EXPECT_EQ(calls[0].client_name, "claude-code");
  EXPECT_EQ(calls[0].progress_token, "5");
  const json::object answer =
      json::parse(mcp_result_line(calls[0], {{"job", "j"}}, {"one", "two"}, false)).as_object();
  EXPECT_EQ(answer.at("result").at("resultType"), "complete");
  EXPECT_EQ(answer.at("result").at("content").as_array().size(), 2U);
  EXPECT_EQ(answer.at("result").at("structuredContent").at("job"), "j");
}

TEST_F(McpProtocolTest, AClientMayProbeAndThenFallBackToInitialize) {
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"server/discover"})")), -32602);
  const json::object answer = initialize("2025-11-25");
  EXPECT_EQ(answer.at("result").at("protocolVersion"), "2025-11-25");
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"server/discover"})")), -32601);
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})")), 0);
}

TEST_F(McpProtocolTest, OtherVersionsAreAnsweredWithTheNearestThatHasAHandshake) {
  const auto agreed = [this](const std::string& asked) {
    return std::string(initialize(asked).at("result").at("protocolVersion").as_string());
  };
  EXPECT_EQ(agreed("2024-11-05"), "2025-06-18");
  EXPECT_EQ(agreed("2025-03-26"), "2025-06-18");
  EXPECT_EQ(agreed("2025-09-01"), "2025-06-18");
  EXPECT_EQ(agreed("2026-07-28"), "2025-11-25");
  EXPECT_EQ(agreed("2099-01-01"), "2025-11-25");
  EXPECT_EQ(agreed(""), "2025-06-18");
}

TEST_F(McpProtocolTest, AnUnsupportedVersionNamesTheSupportedOnes) {
  const json::object answer =
      ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{)"
          R"("io.modelcontextprotocol/protocolVersion":"1900-01-01",)"
          R"("io.modelcontextprotocol/clientCapabilities":{}}}})");
  EXPECT_EQ(code_of(answer), -32022);
  EXPECT_EQ(answer.at("error").at("data").at("requested"), "1900-01-01");
  EXPECT_EQ(answer.at("error").at("data").at("supported").as_array().size(), 3U);
}

TEST_F(McpProtocolTest, AModernRequestWithoutItsRequiredFieldsIsRefused) {
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{)"
                        R"("io.modelcontextprotocol/protocolVersion":"2026-07-28"}}})")),
            -32602);
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{)"
                        R"("io.modelcontextprotocol/protocolVersion":7}}})")),
            -32602);
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list"})")), -32602);
  EXPECT_TRUE(calls.empty());
}

TEST_F(McpProtocolTest, PingBelongsToTheErasWithAHandshake) {
  EXPECT_EQ(to_text(ask(R"({"jsonrpc":"2.0","id":1,"method":"ping"})").at("result")), "{}");
  initialize("2025-06-18");
  EXPECT_EQ(to_text(ask(R"({"jsonrpc":"2.0","id":2,"method":"ping"})").at("result")), "{}");
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":3,"method":"ping","params":{)" +
                        std::string(kModernMeta) + "}}")),
            -32601);
}

TEST_F(McpProtocolTest, BothErasAreSpokenInOneConversation) {
  initialize("2025-06-18");
  EXPECT_EQ(ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{)" +
                std::string(kModernMeta) + "}}")
                .at("result")
                .at("resultType"),
            "complete");
  EXPECT_FALSE(ask(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})")
                   .at("result")
                   .as_object()
                   .contains("resultType"));
}

TEST_F(McpProtocolTest, ASubscriptionIsAcknowledgedWithNothing) {
  const json::object answer =
      ask(R"({"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{)" +
          std::string(kModernMeta) + R"(,"notifications":{"toolsListChanged":true}}})");
  EXPECT_EQ(answer.at("method"), "notifications/subscriptions/acknowledged");
  EXPECT_EQ(answer.at("params").at("_meta").at("io.modelcontextprotocol/subscriptionId"), "s");
  EXPECT_TRUE(answer.at("params").at("notifications").as_object().empty());
}

// ---- calls -------------------------------------------------------------------------------------

TEST_F(McpProtocolTest, WrongArgumentsAreAnErrorOrAResultByTheEra) {
  initialize("2025-06-18");
  const json::object old = ask(call_line("1", "start", R"({"command":7})"));
  EXPECT_EQ(code_of(old), -32602);
  EXPECT_THAT(std::string(old.at("error").at("message").as_string()), HasSubstr("\"command\""));
  EXPECT_TRUE(calls.empty());
  initialize("2025-11-25");
  line(call_line("1", "start", R"({"command":7})"));
  ASSERT_EQ(calls.size(), 1U);
  ASSERT_TRUE(calls[0].refused);
  EXPECT_EQ(calls[0].refused->code, ErrorCode::bad_request);
  EXPECT_EQ(mcp_error_text(*calls[0].refused).rfind("bad_request: Argument \"command\"", 0), 0U);
}

TEST_F(McpProtocolTest, AnUnknownToolOrAMalformedCallIsAProtocolFaultInEveryEra) {
  for (const std::string& more : {std::string(), "," + std::string(kModernMeta)}) {
    initialize("2025-11-25");
    EXPECT_EQ(code_of(ask(call_line("1", "explode", "{}", more))), -32602);
    EXPECT_EQ(code_of(ask(call_line("1", "list", "[]", more))), -32602);
    EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":1)" +
                          more + "}}")),
              -32602);
    EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"resources/list","params":{"x":1)" +
                          more + "}}")),
              -32601);
    EXPECT_EQ(
        code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"c")" +
                    more + "}}")),
        -32602);
  }
  EXPECT_TRUE(calls.empty());
}

TEST_F(McpProtocolTest, ArgumentsMayBeLeftOut) {
  initialize("2025-06-18");
  line(R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list"}})");
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_TRUE(calls[0].arguments->empty());
}

TEST_F(McpProtocolTest, TooManyCallsAreAResultAndADoubleIdIsAnError) {
  initialize("2025-11-25");
  taken = fail(ErrorCode::limit_reached, "Too many.");
  const json::object full = ask(call_line("1", "list", "{}"));
  EXPECT_EQ(full.at("result").at("isError"), true);
  EXPECT_EQ(full.at("result").at("structuredContent").at("error").at("code"), "limit_reached");
  EXPECT_EQ(full.at("result").at("content").at(0).at("text"), "limit_reached: Too many.");
  taken = fail(ErrorCode::conflict, "Double.");
  EXPECT_EQ(code_of(ask(call_line("1", "list", "{}"))), -32600);
}

TEST_F(McpProtocolTest, CancellationsArePassedOnByIdAndNeverAnswered) {
  initialize("2025-06-18");
  line(call_line("7", "wait", R"({"jobs":["j"]})"));
  line(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}})");
  line(
      R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"7","reason":"x"}})");
  line(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}})");
  line(R"({"jsonrpc":"2.0","method":"notifications/cancelled"})");
  EXPECT_TRUE(lines.empty());
  EXPECT_THAT(cancelled, ElementsAre("7", "\"7\""));
}

TEST_F(McpProtocolTest, ProgressCarriesTheTokenAsItCame) {
  McpCall call;
  call.progress_token = "\"t\"";
  const json::value line = json::parse(mcp_progress_line(call, 3, "a \"b\""));
  EXPECT_EQ(line.at("method"), "notifications/progress");
  EXPECT_EQ(line.at("params").at("progressToken"), "t");
  EXPECT_EQ(line.at("params").at("progress").to_number<int>(), 3);
  EXPECT_FALSE(line.at("params").as_object().contains("total"));
}

// ---- lines -------------------------------------------------------------------------------------

TEST_F(McpProtocolTest, GarbageIsAnsweredAndTheConversationGoesOn) {
  initialize("2025-11-25");
  for (const std::string& bad : std::initializer_list<std::string>{
           "{", "nonsense", std::string("\xFF\xFE{}"), "{}{}", std::string("{\"a\":\"\xC3\"}"),
           std::string(100000, '['), std::string(100000, '{'), std::string("\0", 1)}) {
    const json::object answer = ask(bad);
    EXPECT_EQ(code_of(answer), -32700) << bad.substr(0, 20);
    EXPECT_TRUE(answer.at("id").is_null());
  }
  for (const std::string& bad : std::initializer_list<std::string>{
           "[]", R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])", "1", "null", "{}",
           R"({"jsonrpc":"1.0","id":1,"method":"ping"})",
           R"({"jsonrpc":"2.0","id":null,"method":"ping"})",
           R"({"jsonrpc":"2.0","id":{},"method":"ping"})",
           R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})", R"({"jsonrpc":"2.0","id":1})",
           R"({"jsonrpc":"2.0","id":1,"method":7})"}) {
    EXPECT_EQ(code_of(ask(bad)), -32600) << bad;
  }
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]})")), -32602);
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"ping"})")), 0);
}

TEST_F(McpProtocolTest, ABatchIsRefusedInEveryEraAndNothingOfItHappens) {
  const std::string batch = "[" + call_line("1", "start", R"({"command":"true"})") + "]";
  EXPECT_EQ(code_of(ask(batch)), -32600);
  initialize("2025-06-18");
  EXPECT_EQ(code_of(ask(batch)), -32600);
  const std::string modern =
      "[" + call_line("1", "start", R"({"command":"true"})", "," + std::string(kModernMeta)) + "]";
  EXPECT_EQ(code_of(ask(modern)), -32600);
  EXPECT_TRUE(calls.empty());
}

TEST_F(McpProtocolTest, ResponsesAndUnknownNotificationsAreIgnored) {
  line(R"({"jsonrpc":"2.0","id":1,"result":{}})");
  line(R"({"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}})");
  line(R"({"jsonrpc":"2.0","method":"notifications/roots/list_changed"})");
  line(
      R"({"jsonrpc":"2.0","method":"tools/call","params":{"name":"stop","arguments":{"all":true}}})");
  line("");
  line(" \r");
  EXPECT_TRUE(lines.empty());
  EXPECT_TRUE(calls.empty());
}

TEST_F(McpProtocolTest, AnOverLongLineIsAnsweredOnceAndTheNextOneIsServed) {
  const std::string chunk(1024 * 1024, 'x');
  for (int i = 0; i < 20; ++i) session.on_bytes(chunk);
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(code_of(json::parse(lines[0]).as_object()), -32600);
  lines.clear();
  session.on_bytes("rest\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(code_of(json::parse(lines[0]).as_object()), 0);
}

TEST_F(McpProtocolTest, LinesMayArriveInPiecesTogetherAndWithoutALastNewline) {
  const std::string ping = R"({"jsonrpc":"2.0","id":1,"method":"ping"})";
  for (const char c : ping + "\r\n") session.on_bytes(std::string_view(&c, 1));
  EXPECT_EQ(lines.size(), 1U);
  session.on_bytes(ping + "\n\n" + ping + "\n" + ping);
  EXPECT_EQ(lines.size(), 3U);
  session.on_end();
  EXPECT_EQ(lines.size(), 4U);
  session.on_end();
  EXPECT_EQ(lines.size(), 4U);
}

TEST_F(McpProtocolTest, MutatedLinesNeverCrash) {
  initialize("2025-11-25");
  std::mt19937 random(20261130);
  const std::string seed =
      call_line("1", "start", R"({"command":"x","env":{"A":"b"}})", "," + std::string(kModernMeta));
  for (int round = 0; round < 20'000; ++round) {
    std::string text = seed;
    for (int i = 0; i < 4; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    line(text);
    lines.clear();
    calls.clear();
  }
  EXPECT_EQ(code_of(ask(R"({"jsonrpc":"2.0","id":1,"method":"ping"})")), 0);
}

}  // namespace
}  // namespace waybill::edge
