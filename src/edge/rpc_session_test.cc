#include "edge/rpc_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

#include "edge/fake_service.h"
#include "edge/json.h"
#include "edge/method.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

class RpcSessionTest : public ::testing::Test {
 protected:
  void bytes(std::string_view text) { session.on_bytes(text); }
  void greet() {
    bytes(R"({"jsonrpc":"2.0","id":0,"method":"hello","params":{"protocol":1}})"
          "\n");
    ASSERT_EQ(lines.size(), 1U);
    lines.clear();
  }
  // Sends one call and gives its only answer.
  json::object call(std::string_view method, const json::value& params) {
    lines.clear();
    bytes(to_text(json::object{{"jsonrpc", "2.0"},
                               {"id", 7},
                               {"method", json::string_view(method.data(), method.size())},
                               {"params", params}}) +
          "\n");
    EXPECT_EQ(lines.size(), 1U) << method;
    if (lines.empty()) return {};
    return json::parse(lines.back()).as_object();
  }
  static std::string code_of(const json::object& answer) {
    const json::value* error = answer.if_contains("error");
    if (error == nullptr) return "";
    return std::string(error->as_object().at("data").as_object().at("code").as_string());
  }
  static std::string message_of(const json::object& answer) {
    return std::string(answer.at("error").as_object().at("message").as_string());
  }

  FakeService service;
  std::vector<std::string> lines;
  RpcSession session{1, service, [this](std::string line) { lines.push_back(std::move(line)); }};
};

TEST_F(RpcSessionTest, HelloAnswersWithProtocolAndLimits) {
  bytes(R"({"jsonrpc":"2.0","id":"a","method":"hello","params":{"protocol":1,"client":"t"}})"
        "\n");
  ASSERT_EQ(lines.size(), 1U);
  const json::object answer = json::parse(lines[0]).as_object();
  EXPECT_EQ(answer.at("id").as_string(), "a");
  EXPECT_EQ(answer.at("result").as_object().at("protocol").to_number<int>(), 1);
  EXPECT_EQ(lines[0].back(), '\n');
}

TEST_F(RpcSessionTest, AnotherProtocolNamesBothNumbersAndWhatToDo) {
  const json::object answer = call("hello", json::object{{"protocol", 9}});
  EXPECT_EQ(code_of(answer), "unsupported_version");
  EXPECT_THAT(message_of(answer), HasSubstr("protocol 9"));
  EXPECT_THAT(message_of(answer), HasSubstr("protocol 1"));
  EXPECT_THAT(message_of(answer), HasSubstr("upgrade the daemon"));
}

TEST_F(RpcSessionTest, NothingIsServedBeforeHello) {
  const json::object answer = call("version", json::object{});
  EXPECT_EQ(code_of(answer), "bad_request");
  EXPECT_THAT(message_of(answer), HasSubstr("hello"));
}

TEST_F(RpcSessionTest, LinesMayArriveInPiecesAndTogether) {
  const std::string hello = R"({"jsonrpc":"2.0","id":0,"method":"hello","params":{"protocol":1}})"
                            "\n";
  for (const char c : hello) bytes(std::string_view(&c, 1));
  EXPECT_EQ(lines.size(), 1U);
  bytes(hello + "\r\n\n" + hello);
  EXPECT_EQ(lines.size(), 3U);
}

TEST_F(RpcSessionTest, GarbageIsAnsweredAndTheConnectionGoesOn) {
  greet();
  for (const std::string& bad : std::initializer_list<std::string>{
           std::string("{"), std::string("nonsense"), std::string("\xFF\xFE{}"),
           std::string("{}{}"), std::string("{\"a\":\"\xC3\"}"), std::string(100, '['),
           std::string("{\"a\":1e999999}x"), std::string("\0", 1)}) {
    lines.clear();
    bytes(bad + "\n");
    ASSERT_EQ(lines.size(), 1U) << bad;
    EXPECT_THAT(lines[0], HasSubstr("-32700")) << bad;
  }
  lines.clear();
  for (const std::string& bad : std::initializer_list<std::string>{
           "[]", "[{}]", "1", "null", "{}", R"({"jsonrpc":"1.0","id":1})",
           R"({"jsonrpc":"2.0","id":{},"method":"version"})",
           R"({"jsonrpc":"2.0","id":1.5,"method":"version"})",
           R"({"jsonrpc":"2.0","id":1,"method":7})"}) {
    lines.clear();
    bytes(bad + "\n");
    ASSERT_EQ(lines.size(), 1U) << bad;
    EXPECT_THAT(lines[0], HasSubstr("-32600")) << bad;
  }
  EXPECT_EQ(code_of(call("version", json::object{})), "");
  EXPECT_FALSE(session.wants_close());
}

TEST_F(RpcSessionTest, DepthIsLimited) {
  greet();
  std::string deep = R"({"jsonrpc":"2.0","id":1,"method":"version","params":)";
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  bytes(deep + "\n");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_THAT(lines[0], HasSubstr("-32700"));
}

TEST_F(RpcSessionTest, NotificationsAreIgnored) {
  greet();
  bytes(R"({"jsonrpc":"2.0","method":"job.stop","params":{"all":true}})"
        "\n");
  EXPECT_TRUE(lines.empty());
  EXPECT_TRUE(service.commands.empty());
}

TEST_F(RpcSessionTest, UnknownMethodHasItsOwnNumber) {
  greet();
  const json::object answer = call("job.explode", json::object{});
  EXPECT_EQ(answer.at("error").as_object().at("code").to_number<int>(), -32601);
}

TEST_F(RpcSessionTest, AnEndlessLineClosesTheConnection) {
  greet();
  const std::string chunk(1024 * 1024, 'x');
  for (int i = 0; i < 20; ++i) bytes(chunk);
  EXPECT_TRUE(session.wants_close());
  EXPECT_EQ(lines.size(), 1U);
  bytes("\n{}\n");
  EXPECT_EQ(lines.size(), 1U);
}

TEST_F(RpcSessionTest, AnswersCarryTheirIdsInAnyOrder) {
  greet();
  service.hold = true;
  bytes(R"({"jsonrpc":"2.0","id":1,"method":"status"})"
        "\n"
        R"({"jsonrpc":"2.0","id":2,"method":"status"})"
        "\n");
  EXPECT_EQ(session.outstanding(), 2U);
  service.held[1](engine::Reply{});
  service.held[0](engine::Reply{});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(json::parse(lines[0]).as_object().at("id").to_number<int>(), 2);
  EXPECT_EQ(json::parse(lines[1]).as_object().at("id").to_number<int>(), 1);
  EXPECT_EQ(session.outstanding(), 0U);
}

TEST_F(RpcSessionTest, OutstandingCallsAreBounded) {
  greet();
  service.hold = true;
  for (unsigned i = 0; i < kCallsMax + 1; ++i) {
    bytes(R"({"jsonrpc":"2.0","id":1,"method":"status"})"
          "\n");
  }
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(code_of(json::parse(lines[0]).as_object()), "limit_reached");
  EXPECT_EQ(service.held.size(), kCallsMax);
}

TEST_F(RpcSessionTest, AnswersAfterTheEndGoNowhere) {
  greet();
  service.hold = true;
  bytes(R"({"jsonrpc":"2.0","id":1,"method":"status"})"
        "\n");
  session.on_closed();
  session.on_closed();
  ASSERT_EQ(service.commands.size(), 2U);
  EXPECT_TRUE(std::holds_alternative<engine::ConnectionClosed>(service.commands[1]));
  service.held[0](engine::Reply{});
  EXPECT_TRUE(lines.empty());
}

// A value of a type that the parameter cannot take.
std::vector<json::value> wrong_values(const Param& param) {
  std::vector<json::value> out{json::object{{"x", json::object{}}}, json::array{json::object{}},
                               1.5};
  switch (param.kind) {
    case ParamKind::number:
      out.emplace_back("1");
      out.emplace_back(true);
      out.emplace_back(-1);
      out.emplace_back(1e300);
      break;
    case ParamKind::flag:
      out.emplace_back("true");
      out.emplace_back(1);
      break;
    case ParamKind::text:
    case ParamKind::id:
    case ParamKind::word:
    case ParamKind::bytes:
    case ParamKind::any_bytes:
      out.emplace_back(1);
      out.emplace_back(false);
      out.emplace_back(json::string("a\0b", 3));
      break;
    case ParamKind::text_list:
    case ParamKind::word_list:
    case ParamKind::bytes_list:
      out.emplace_back("x");
      out.emplace_back(json::array{1});
      out.emplace_back(json::array{nullptr});
      break;
    case ParamKind::text_map:
      out.emplace_back("x");
      out.emplace_back(json::object{{"A", 1}});
      out.emplace_back(json::object{{"A=B", "1"}});
      out.emplace_back(json::object{{"", "1"}});
      break;
  }
  return out;
}

TEST_F(RpcSessionTest, EveryParameterOfEveryMethodRefusesOtherTypesByName) {
  greet();
  unsigned tried = 0;
  for (const MethodInfo& info : methods()) {
    for (const Param& param : info.params) {
      for (const json::value& wrong : wrong_values(param)) {
        json::object params;
        params[json::string_view(param.name.data(), param.name.size())] = wrong;
        const json::object answer = call(info.name, params);
        EXPECT_EQ(code_of(answer), "bad_request")
            << info.name << " " << param.name << " " << to_text(wrong);
        EXPECT_THAT(message_of(answer), HasSubstr("\"" + std::string(param.name) + "\""));
        ++tried;
      }
    }
    const json::object answer = call(info.name, json::object{{"no_such", 1}});
    EXPECT_EQ(code_of(answer), "bad_request");
    EXPECT_THAT(message_of(answer), HasSubstr("\"no_such\""));
    EXPECT_EQ(code_of(call(info.name, json::array{1})), "bad_request");
  }
  EXPECT_GT(tried, 400U);
  EXPECT_TRUE(service.commands.empty());
}

TEST_F(RpcSessionTest, RequiredParametersAreNamed) {
  greet();
  for (const MethodInfo& info : methods()) {
    for (const Param& param : info.params) {
      if (!param.required) continue;
      const json::object answer = call(info.name, json::object{});
      EXPECT_EQ(code_of(answer), "bad_request");
      EXPECT_THAT(message_of(answer), HasSubstr("needs the parameter"));
    }
  }
}

TEST_F(RpcSessionTest, LongTextsAndDuplicateKeysDoNoHarm) {
  greet();
  const std::string mega(1024 * 1024, 'a');
  EXPECT_EQ(code_of(call("job.show", json::object{{"job", mega}})), "too_large");
  EXPECT_EQ(code_of(call("job.run", json::object{{"command", "true"}, {"label", mega}})),
            "too_large");
  lines.clear();
  bytes(R"({"jsonrpc":"2.0","id":1,"id":2,"method":"hello","method":"version"})"
        "\n");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(json::parse(lines[0]).as_object().at("id").to_number<int>(), 2);
}

TEST_F(RpcSessionTest, MutatedLinesNeverCrash) {
  greet();
  std::mt19937 random(20261130);
  const std::string seed = R"({"jsonrpc":"2.0","id":1,"method":"job.run",)"
                           R"("params":{"command":"x","cwd":"/","env":{"A":"b"}}})";
  for (int round = 0; round < 20'000; ++round) {
    std::string line = seed;
    for (int i = 0; i < 4; ++i) {
      line[random() % line.size()] = static_cast<char>(random() % 256);
    }
    bytes(line + "\n");
    lines.clear();
  }
  EXPECT_EQ(code_of(call("version", json::object{})), "");
}

}  // namespace
}  // namespace waybill::edge
