#include "edge/json_edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <random>

namespace waybill::edge {
namespace {

namespace json = boost::json;
using ::testing::HasSubstr;

constexpr std::size_t kZero = 0;

JsonText parse_ok(const std::string& text) {
  Result<JsonText> out = JsonText::parse(text, "f.json");
  EXPECT_TRUE(out) << text << "\n" << (out ? "" : out.error().message);
  return out ? *out : JsonText::fresh("f.json");
}

std::string after_set(const std::string& text, const JsonPath& path, const json::value& value) {
  JsonText document = parse_ok(text);
  EXPECT_TRUE(document.set(path, value));
  return document.text();
}

TEST(JsonEdit, LooksLikeItsNeighbours) {
  const json::value value = json::parse(R"({"b":[1,{}],"c":{"d":"e"}})");
  EXPECT_EQ(after_set("{\"a\":1}", {"x"}, value),
            "{\"a\":1,\"x\":{\"b\":[1,{}],\"c\":{\"d\":\"e\"}}}");
  EXPECT_EQ(after_set("{\"a\": 1, \"b\": 2}", {"x"}, json::parse("[1,2]")),
            "{\"a\": 1, \"b\": 2, \"x\": [1, 2]}");
  EXPECT_EQ(after_set("{\n\t\"a\": 1\n}\n", {"x", "y"}, 2),
            "{\n\t\"a\": 1,\n\t\"x\": {\n\t\t\"y\": 2\n\t}\n}\n");
  EXPECT_EQ(after_set("{\r\n    \"a\": 1\r\n}", {"x", "y"}, 2),
            "{\r\n    \"a\": 1,\r\n    \"x\": {\r\n        \"y\": 2\r\n    }\r\n}");
  EXPECT_EQ(after_set("{\n  \"a\": {}\n}", {"a", "y"}, 2), "{\n  \"a\": { \n    \"y\": 2\n  }\n}");
}

TEST(JsonEdit, AFreshDocument) {
  JsonText document = JsonText::fresh("f.json");
  ASSERT_TRUE(document.push({"hooks", "Stop"}, "x"));
  EXPECT_EQ(document.text(), "{\n  \"hooks\": {\n    \"Stop\": [\n      \"x\"\n    ]\n  }\n}\n");
  EXPECT_FALSE(document.remove({"hooks", "Stop", kZero}));
}

TEST(JsonEdit, WhatWasThereEmptyStays) {
  for (const std::string text :
       {"{}", "{ }", "{\n}", " {\t} \r\n", "{\n  \"hooks\": {}\n}\n", "{\"hooks\":{ \r\n }}",
        "{\"hooks\":{\"Stop\":[]}}", "{\n  \"hooks\": {\"Stop\": [\r]}\n}", "{\"hooks\": {\n\n}}",
        "\xEF\xBB\xBF{\"hooks\":{\"Stop\":[\n]}}"}) {
    JsonText document = parse_ok(text);
    ASSERT_TRUE(document.push({"hooks", "Stop"}, json::parse(R"({"a":[1]})")));
    EXPECT_TRUE(document.remove({"hooks", "Stop", kZero})) << document.text();
    EXPECT_EQ(document.text(), text);
  }
}

TEST(JsonEdit, OfDuplicateKeysTheLastCounts) {
  const std::string text = R"({"a":{"x":1},"\u0061":{"x":2,"x":3}})";
  JsonText document = parse_ok(text);
  EXPECT_EQ(document.value({"a", "x"}), "3");
  ASSERT_TRUE(document.set({"a", "x"}, 4));
  EXPECT_EQ(document.text(), R"({"a":{"x":1},"\u0061":{"x":2,"x":4}})");
}

TEST(JsonEdit, RemovingBetweenOthersTakesOneComma) {
  JsonText document = parse_ok("{\"a\" : 1 ,\n \"b\":2, \"c\":3 }");
  EXPECT_TRUE(document.remove({"b"}));
  EXPECT_EQ(document.text(), "{\"a\" : 1, \"c\":3 }");
  EXPECT_TRUE(document.remove({"a"}));
  EXPECT_EQ(document.text(), "{\"c\":3 }");
  EXPECT_TRUE(document.remove({"nothing", "here"}));
  EXPECT_EQ(document.text(), "{\"c\":3 }");
}

TEST(JsonEdit, RefusesWhatIsNoJsonWithItsPlace) {
  const std::vector<std::pair<std::string, std::string>> rows{
      {"", "f.json:1:1"},
      {"  \n", "f.json:2:1"},
      {"{\n  \"a\": 1,\n}", "f.json:3:1"},
      {"{\"a\": 01}", "f.json:1:8"},
      {"{\"a\": tru}", "f.json:1:7"},
      {"{\"a\": \"\x01\"}", "f.json:1:8"},
      {"{\"a\": \"\\x\"}", "f.json:1:9"},
      {"{} {}", "f.json:1:4"},
      {"// c\n{}", "f.json:1:1"},
      {"[]", "f.json:1:1"},
      {"{\"a\": 1", "f.json:1:8"},
      {"{\"a\": \"b", "f.json:1:7"},
      {std::string("{\0}", 3), "f.json:1:2"},
      {"{\"a\":" + std::string(100000, '['), "f.json:1:"}};
  for (const auto& [text, place] : rows) {
    const Result<JsonText> out = JsonText::parse(text, "f.json");
    ASSERT_FALSE(out) << text;
    EXPECT_EQ(out.error().code, ErrorCode::bad_request);
    EXPECT_THAT(out.error().message, HasSubstr(place)) << text;
  }
}

TEST(JsonEdit, TakesWhatClientsWrite) {
  parse_ok("{\"half\":\"\\ud83d\",\"raw\":\"\xFF\",\"n\":-0.10e+05,\"big\":1e999}");
  JsonText document = parse_ok(R"({"hooks":[1],"m":{"w":"\ud800"}})");
  const std::string before = document.text();
  const Result<void> pushed = document.push({"hooks", "Stop"}, 1);
  ASSERT_FALSE(pushed);
  EXPECT_THAT(pushed.error().message, HasSubstr("f.json:1:10"));
  EXPECT_FALSE(document.push({"m"}, 1));
  EXPECT_EQ(document.text(), before);
  EXPECT_FALSE(document.parsed({"m", "w"}));
  EXPECT_EQ(document.keys({"m"}), std::vector<std::string>{"w"});
}

// ---- any document ------------------------------------------------------------------------------

class Writer {
 public:
  explicit Writer(unsigned seed) : random_(seed), layout_(seed % 4) {}

  std::size_t below(std::size_t n) { return random_() % n; }

  std::string document() {
    const std::string mark = below(8) == 0 ? "\xEF\xBB\xBF" : "";
    return mark + blank(0) + object(0) + blank(0);
  }

  std::string key() {
    static const std::vector<std::string> names{"a", "b", "hooks", "Stop", "mcpServers", "", "\\"};
    return names[below(names.size())];
  }

 private:
  // Laid out by hand, by a printer, on one line, or without any.
  std::string blank(std::size_t depth) {
    if (layout_ == 0) return "";
    if (layout_ == 1) return "\n" + std::string(depth * 2, ' ');
    if (layout_ == 2) return below(2) == 0 ? " " : "";
    std::string out;
    for (std::size_t n = below(4); n > 0; --n) out += " \t\n\r"[below(4)];
    return out;
  }

  std::string value(std::size_t depth) {
    static const std::vector<std::string> plain{
        "1", "-0.5e+3", "1E2", "true", "null", R"("x")", R"("\u00e9\n{[,\"")", "\"\xC3\xA9\""};
    const std::size_t kind = below(depth > 3 ? 8 : 14);
    if (kind < plain.size()) return plain[kind];
    return kind < 11 ? object(depth) : array(depth);
  }

  std::string object(std::size_t depth) {
    std::string out = "{" + blank(depth + 1);
    const std::size_t n = below(4);
    for (std::size_t i = 0; i < n; ++i) {
      if (i > 0) out += blank(depth + 1) + "," + blank(depth + 1);
      out += json::serialize(json::string(key())) + blank(0) + ":" + blank(0) + value(depth + 1);
    }
    return out + (n > 0 ? blank(depth) : "") + "}";
  }

  std::string array(std::size_t depth) {
    std::string out = "[" + blank(depth + 1);
    const std::size_t n = below(4);
    for (std::size_t i = 0; i < n; ++i) {
      if (i > 0) out += blank(depth + 1) + "," + blank(depth + 1);
      out += value(depth + 1);
    }
    return out + (n > 0 ? blank(depth) : "") + "]";
  }

  std::mt19937 random_;
  std::size_t layout_;
};

json::value root_of(const JsonText& document) {
  const std::optional<json::value> root = document.parsed({});
  EXPECT_TRUE(root) << document.text();
  return root.value_or(nullptr);
}

// The same change on a value; false when something on the way is in the way.
bool change(json::value& root, const JsonPath& path, const json::value& value, bool element) {
  json::value* at = &root;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!at->is_object()) return false;
    json::object& object = at->get_object();
    const std::string& key = std::get<std::string>(path[i]);
    if (!object.contains(key)) {
      const bool last = i + 1 == path.size();
      if (last && !element) {
        object[key] = value;
        return true;
      }
      object[key] = last ? json::value(json::array()) : json::value(json::object());
    }
    at = &object[key];
  }
  if (!element) {
    *at = value;
    return true;
  }
  if (!at->is_array()) return false;
  at->get_array().push_back(value);
  return true;
}

struct Added {
  JsonPath path;
  bool element;
  json::value value;
};

void take_out(JsonText& document, const Added& added) {
  JsonPath path = added.path;
  if (!added.element) {
    document.remove(path);
    return;
  }
  path.emplace_back(kZero);
  for (std::size_t i = 0; i < document.count(added.path); ++i) {
    path.back() = i;
    if (document.parsed(path) != added.value) continue;
    document.remove(path);
    return;
  }
}

TEST(JsonEdit, AnyDocumentGetsItsBytesBack) {
  std::size_t changes = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Writer writer(seed);
    const std::string text = writer.document();
    JsonText document = parse_ok(text);
    json::value expected = root_of(document);
    std::vector<Added> all;
    for (std::size_t n = 1 + writer.below(5); n > 0; --n) {
      JsonPath path;
      for (std::size_t steps = 1 + writer.below(3); steps > 0; --steps)
        path.push_back(writer.key());
      const bool element = writer.below(2) == 0;
      if (!element && document.value(path)) continue;  // a replacement is not an addition
      const json::value value{{"ours", seed}, {"n", json::array{n, "x"}}};
      json::value changed = expected;
      const std::string before = document.text();
      const bool fits = change(changed, path, value, element);
      const Result<void> done = element ? document.push(path, value) : document.set(path, value);
      ASSERT_EQ(done.has_value(), fits) << text;
      if (!fits) {
        ASSERT_EQ(document.text(), before);
        continue;
      }
      expected = changed;
      ASSERT_TRUE(JsonText::parse(document.text(), "f")) << document.text();
      ASSERT_EQ(root_of(document), expected) << document.text();
      all.push_back({path, element, value});
      ++changes;
    }
    if (seed % 2 == 0) std::reverse(all.begin(), all.end());
    for (const Added& added : all) take_out(document, added);
    ASSERT_EQ(document.text(), text) << "seed " << seed;
  }
  EXPECT_GT(changes, 4000U);
}

// Damaged documents: the scanner takes what Boost.JSON takes and nothing else.
TEST(JsonEdit, DamageIsSeen) {
  const std::string alphabet = "{}[]\",:01.-eE+ntfu\\ \n";
  std::size_t refused = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Writer writer(seed);
    std::string text = writer.document();
    if (text.starts_with("\xEF")) text.erase(0, 3);
    for (std::size_t n = 1 + writer.below(3); n > 0 && !text.empty(); --n) {
      const std::size_t at = writer.below(text.size());
      const char c = alphabet[writer.below(alphabet.size())];
      if (writer.below(3) == 0) {
        text.erase(at, 1);
      } else if (writer.below(2) == 0) {
        text[at] = c;
      } else {
        text.insert(at, 1, c);
      }
    }
    json::error_code error;
    json::parse_options options;
    options.allow_invalid_utf8 = true;
    const json::value value = json::parse(text, error, {}, options);
    const Result<JsonText> ours = JsonText::parse(text, "f");
    ASSERT_EQ(ours.has_value(), !error && value.is_object()) << text;
    refused += ours ? 0U : 1U;
  }
  EXPECT_GT(refused, 1000U);
}

}  // namespace
}  // namespace waybill::edge
