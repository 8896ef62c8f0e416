#include "edge/mcp_protocol.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <utility>

#include "edge/json.h"
#include "edge/mcp_text.h"
#include "edge/version.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;

constexpr std::size_t kIdTextMax = 256;
constexpr std::size_t kSubscriptionsMax = 16;
// The tools change with the program only.
constexpr std::uint64_t kTtlMs = 3600000;

constexpr std::string_view kVersionKey = "io.modelcontextprotocol/protocolVersion";
constexpr std::string_view kCapabilitiesKey = "io.modelcontextprotocol/clientCapabilities";
constexpr std::string_view kClientInfoKey = "io.modelcontextprotocol/clientInfo";
constexpr std::string_view kServerInfoKey = "io.modelcontextprotocol/serverInfo";
constexpr std::string_view kSubscriptionKey = "io.modelcontextprotocol/subscriptionId";

struct EraWord {
  McpEra era;
  std::string_view word;
};
constexpr std::array<EraWord, 3> kEras{{{McpEra::v2025_06_18, "2025-06-18"},
                                        {McpEra::v2025_11_25, "2025-11-25"},
                                        {McpEra::v2026_07_28, "2026-07-28"}}};

enum class Fault {
  parse_error = -32700,
  invalid_request = -32600,
  method_not_found = -32601,
  invalid_params = -32602,
  unsupported_version = -32022,
};

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

std::string string_of(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(view(key));
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

// An id is a text or a whole number, answered as it came.
std::optional<std::string> id_text(const json::value* id) {
  if (id == nullptr || (!id->is_string() && !id->is_int64() && !id->is_uint64())) {
    return std::nullopt;
  }
  std::string text = to_text(*id);
  if (text.size() > kIdTextMax) return std::nullopt;
  return text;
}

json::object server_info() {
  return {{"name", "waybill"}, {"title", "Waybill"}, {"version", view(kVersion)}};
}

json::object capabilities() {
  return {{"tools", json::object{}},
          {"experimental", json::object{{"codex/sandbox-state-meta", json::object{}}}}};
}

json::array supported_versions() {
  json::array out;
  for (auto row = kEras.rbegin(); row != kEras.rend(); ++row) {
    out.push_back(json::string(view(row->word)));
  }
  return out;
}

// The version to go on with after `initialize`: the one asked for, else the latest that is not
// later, else the oldest. Only versions that have an `initialize`.
McpEra negotiate(std::string_view asked) {
  if (asked >= to_word(McpEra::v2025_11_25)) return McpEra::v2025_11_25;
  return McpEra::v2025_06_18;
}

std::string line_of(const std::string& id, std::string_view kind, const json::value& content) {
  return R"({"jsonrpc":"2.0","id":)" + id + ",\"" + std::string(kind) + "\":" + to_text(content) +
         "}\n";
}

std::string result_line(const std::string& id, McpEra era, json::object result) {
  if (era == McpEra::v2026_07_28) {
    result["resultType"] = "complete";
    result["_meta"] = json::object{{view(kServerInfoKey), server_info()}};
  }
  return line_of(id, "result", result);
}

json::object cacheable(json::object result, McpEra era) {
  if (era == McpEra::v2026_07_28) {
    result["ttlMs"] = kTtlMs;
    result["cacheScope"] = "public";
  }
  return result;
}

std::string fault_line(const std::string& id, Fault fault, std::string_view message) {
  return line_of(id, "error",
                 json::object{{"code", static_cast<int>(fault)}, {"message", view(message)}});
}

}  // namespace

std::string_view to_word(McpEra era) {
  for (const EraWord& row : kEras) {
    if (row.era == era) return row.word;
  }
  return {};
}

std::optional<McpEra> mcp_era_from_word(std::string_view word) {
  for (const EraWord& row : kEras) {
    if (row.word == word) return row.era;
  }
  return std::nullopt;
}

// One request, with what its `_meta` says about it.
struct Request {
  std::string id;
  std::string method;
  const json::object* params = nullptr;  // never null once decoded
  const json::object* meta = nullptr;
  McpEra era = McpEra::v2025_06_18;
  std::string client_name;
};

struct McpSession::State {
  explicit State(McpHandler the_handler) : handler(std::move(the_handler)) {}

  void take_bytes(std::string_view bytes);
  void take_line(std::string_view line);
  void take_message(const json::object& message);
  void take_notification(const std::string& method, const json::object& params);
  void take_request(Request request);
  bool find_era(Request& request);
  void answer(const Request& request);
  void initialize(const Request& request);
  void call_tool(const Request& request);
  void listen(const Request& request);

  void say(const Request& request, json::object result) {
    handler.send(result_line(request.id, request.era, std::move(result)));
  }
  void refuse(const std::string& id, Fault fault, std::string_view message) {
    handler.send(fault_line(id, fault, message));
  }

  McpHandler handler;
  std::string buffer;     // an unfinished line
  bool skipping = false;  // the rest of a line that was too long
  std::optional<McpEra> agreed;
  std::string client_name;                 // said at initialize
  std::vector<std::string> subscriptions;  // ids
};

void McpSession::State::take_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (!skipping && buffer.size() + part.size() > kLineBytesMax) {
      skipping = true;
      buffer.clear();
      buffer.shrink_to_fit();
      refuse("null", Fault::invalid_request,
             "The line is longer than " + std::to_string(kLineBytesMax) + " bytes.");
    }
    if (!skipping) buffer += part;
    if (end == std::string_view::npos) return;
    bytes.remove_prefix(end + 1);
    const std::string line = std::exchange(buffer, {});
    if (!std::exchange(skipping, false)) take_line(line);
  }
}

void McpSession::State::take_line(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.find_first_not_of(" \t") == std::string_view::npos) return;
  const Result<json::value> value = parse_json(line);
  if (!value) return refuse("null", Fault::parse_error, value.error().message);
  if (value->is_array()) {
    return refuse("null", Fault::invalid_request, "Batches are not supported; one message a line.");
  }
  if (!value->is_object()) {
    return refuse("null", Fault::invalid_request, "A message is a JSON object.");
  }
  take_message(value->get_object());
}

void McpSession::State::take_message(const json::object& message) {
  static const json::object nothing;
  const json::value* id_value = message.if_contains("id");
  const std::optional<std::string> id = id_text(id_value);
  const json::value* method = message.if_contains("method");
  if (method == nullptr && (message.contains("result") || message.contains("error"))) {
    return;  // a response; nothing was asked
  }
  if (string_of(message, "jsonrpc") != "2.0" || method == nullptr || !method->is_string() ||
      (id_value != nullptr && !id)) {
    return refuse(id.value_or("null"), Fault::invalid_request,
                  "A request needs \"jsonrpc\": \"2.0\", a text or whole number as \"id\" and a "
                  "text as \"method\".");
  }
  const json::value* params = message.if_contains("params");
  const bool has_params = params != nullptr && params->is_object();
  Request request;
  request.method = std::string(method->get_string());
  request.params = has_params ? &params->get_object() : &nothing;
  if (!id) return take_notification(request.method, *request.params);
  request.id = *id;
  if (params != nullptr && !has_params) {
    return refuse(request.id, Fault::invalid_params, "\"params\" must be an object.");
  }
  const json::value* meta = request.params->if_contains("_meta");
  if (meta != nullptr && !meta->is_object()) {
    return refuse(request.id, Fault::invalid_params, "\"params._meta\" must be an object.");
  }
  request.meta = meta == nullptr ? &nothing : &meta->get_object();
  take_request(std::move(request));
}

void McpSession::State::take_notification(const std::string& method, const json::object& params) {
  if (method != "notifications/cancelled") return;
  const std::optional<std::string> id = id_text(params.if_contains("requestId"));
  if (!id) return;
  std::erase(subscriptions, *id);
  handler.cancel(*id);
}

// Which version the request is of; false: it was refused.
bool McpSession::State::find_era(Request& request) {
  const json::value* version = request.meta->if_contains(view(kVersionKey));
  if (version == nullptr) {
    if (!agreed && request.method != "ping") {
      refuse(request.id, Fault::invalid_params,
             "Which version is spoken? Send `initialize` first, or name it in params._meta[\"" +
                 std::string(kVersionKey) + "\"].");
      return false;
    }
    request.era = agreed.value_or(McpEra::v2025_06_18);
    request.client_name = client_name;
    return true;
  }
  if (!version->is_string()) {
    refuse(request.id, Fault::invalid_params,
           "params._meta[\"" + std::string(kVersionKey) + "\"] must be text.");
    return false;
  }
  const std::string asked(version->get_string());
  const std::optional<McpEra> era = mcp_era_from_word(asked);
  if (!era) {
    handler.send(line_of(request.id, "error",
                         json::object{{"code", static_cast<int>(Fault::unsupported_version)},
                                      {"message", "Unsupported protocol version"},
                                      {"data", json::object{{"supported", supported_versions()},
                                                            {"requested", asked}}}}));
    return false;
  }
  const json::value* declared = request.meta->if_contains(view(kCapabilitiesKey));
  if (*era == McpEra::v2026_07_28 && (declared == nullptr || !declared->is_object())) {
    refuse(request.id, Fault::invalid_params,
           "params._meta[\"" + std::string(kCapabilitiesKey) + "\"] is required, an object.");
    return false;
  }
  request.era = *era;
  const json::value* info = request.meta->if_contains(view(kClientInfoKey));
  if (info != nullptr && info->is_object()) {
    request.client_name = string_of(info->get_object(), "name");
  }
  return true;
}

void McpSession::State::take_request(Request request) {
  if (request.method == "initialize") return initialize(request);
  if (find_era(request)) answer(request);
}

void McpSession::State::answer(const Request& request) {
  const bool modern = request.era == McpEra::v2026_07_28;
  if (request.method == "tools/call") return call_tool(request);
  if (request.method == "tools/list") {
    if (request.params->contains("cursor")) {
      return refuse(request.id, Fault::invalid_params, "There is one page; leave out \"cursor\".");
    }
    return say(request, cacheable({{"tools", mcp_tool_list()}}, request.era));
  }
  if (request.method == "ping" && !modern) return say(request, {});
  if (request.method == "server/discover" && modern) {
    return say(request, cacheable({{"supportedVersions", supported_versions()},
                                   {"capabilities", capabilities()},
                                   {"instructions", view(mcp_instructions())}},
                                  request.era));
  }
  if (request.method == "subscriptions/listen" && modern) return listen(request);
  refuse(request.id, Fault::method_not_found,
         "There is no method \"" + request.method + "\" in " + std::string(to_word(request.era)) +
             ".");
}

void McpSession::State::initialize(const Request& request) {
  const json::value* asked = request.params->if_contains("protocolVersion");
  if (asked == nullptr || !asked->is_string()) {
    return refuse(request.id, Fault::invalid_params,
                  "\"protocolVersion\" is required, a text like \"2025-11-25\".");
  }
  const json::value* info = request.params->if_contains("clientInfo");
  client_name =
      info != nullptr && info->is_object() ? string_of(info->get_object(), "name") : std::string();
  agreed = negotiate(std::string(asked->get_string()));
  handler.send(line_of(request.id, "result",
                       json::object{{"protocolVersion", view(to_word(*agreed))},
                                    {"capabilities", capabilities()},
                                    {"serverInfo", server_info()},
                                    {"instructions", view(mcp_instructions())}}));
}

// Nothing that can be subscribed to ever changes, so that the stream stays silent after its
// beginning.
void McpSession::State::listen(const Request& request) {
  if (subscriptions.size() >= kSubscriptionsMax) {
    return refuse(request.id, Fault::invalid_request, "Too many subscriptions are open.");
  }
  subscriptions.push_back(request.id);
  handler.send(R"({"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":)"
               R"({"_meta":{")" +
               std::string(kSubscriptionKey) + "\":" + request.id + "},\"notifications\":{}}}\n");
}

void McpSession::State::call_tool(const Request& request) {
  const json::value* name = request.params->if_contains("name");
  const json::value* arguments = request.params->if_contains("arguments");
  if (name == nullptr || !name->is_string()) {
    return refuse(request.id, Fault::invalid_params, "\"name\" is required, the name of a tool.");
  }
  if (arguments != nullptr && !arguments->is_object() && !arguments->is_null()) {
    return refuse(request.id, Fault::invalid_params, "\"arguments\" must be an object.");
  }
  const McpTool* tool = find_mcp_tool(std::string(name->get_string()));
  if (tool == nullptr) {
    return refuse(request.id, Fault::invalid_params,
                  "Unknown tool: " + std::string(name->get_string()));
  }
  McpCall call;
  call.id = request.id;
  call.era = request.era;
  call.tool = tool->id;
  call.client_name = request.client_name;
  call.meta = std::make_shared<json::object>(*request.meta);
  call.progress_token = id_text(request.meta->if_contains("progressToken")).value_or("");
  auto checked = std::make_shared<json::object>();
  if (arguments != nullptr && arguments->is_object()) *checked = arguments->get_object();
  if (Result<void> fits = check_mcp_arguments(*tool, *checked); !fits) {
    if (call.era == McpEra::v2025_06_18) {
      return refuse(request.id, Fault::invalid_params, fits.error().message);
    }
    call.refused = std::move(fits.error());
  }
  call.arguments = std::move(checked);
  const Result<void> taken = handler.call(call);
  if (taken) return;
  if (taken.error().code == ErrorCode::conflict) {
    return refuse(request.id, Fault::invalid_request, taken.error().message);
  }
  handler.send(mcp_result_line(call, mcp_error_content(taken.error()),
                               {mcp_error_text(taken.error())}, true));
}

McpSession::McpSession(McpHandler handler) : state_(std::make_unique<State>(std::move(handler))) {}

McpSession::~McpSession() = default;

void McpSession::on_bytes(std::string_view bytes) { state_->take_bytes(bytes); }

void McpSession::on_end() {
  if (!state_->buffer.empty()) state_->take_bytes("\n");
}

std::string mcp_result_line(const McpCall& call, const json::object& structured,
                            const std::vector<std::string>& texts, bool is_error) {
  json::array content;
  for (const std::string& text : texts) {
    content.push_back(json::object{{"type", "text"}, {"text", text}});
  }
  return result_line(
      call.id, call.era,
      {{"content", std::move(content)}, {"structuredContent", structured}, {"isError", is_error}});
}

std::string mcp_progress_line(const McpCall& call, std::uint64_t progress,
                              std::string_view message) {
  return R"({"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":)" +
         call.progress_token + ",\"progress\":" + std::to_string(progress) +
         ",\"message\":" + to_text(json::string(view(message))) + "}}\n";
}

json::object mcp_error_content(const Error& error) {
  return {{"error", json::object{{"code", view(to_word(error.code))}, {"message", error.message}}}};
}

std::string mcp_error_text(const Error& error) {
  return std::string(to_word(error.code)) + ": " + error.message;
}

}  // namespace waybill::edge
