#pragma once
// The client's side of a conversation with `waybill mcp`.

#include <map>

#include "e2e/harness.h"

namespace waybill::e2e {

namespace json = boost::json;

// `waybill mcp` of one daemon, and the client's side of the conversation.
class Agent {
 public:
  explicit Agent(Launch launch) : process_(talking(std::move(launch))) {}

  void notify(const std::string& method, const json::object& params = {}) {
    send({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
  }
  // Sends a request and gives its id.
  int request(const std::string& method, json::object params = {}) {
    const int id = ++last_id_;
    if (modern_) {
      json::object meta;
      if (params.contains("_meta")) meta = params["_meta"].as_object();
      meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28";
      meta["io.modelcontextprotocol/clientCapabilities"] = json::object{};
      params["_meta"] = std::move(meta);
    }
    send({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", std::move(params)}});
    return id;
  }
  int begin(const std::string& tool, const json::object& arguments, const json::object& meta = {}) {
    json::object params{{"name", tool}, {"arguments", arguments}};
    if (!meta.empty()) params["_meta"] = meta;
    return request("tools/call", std::move(params));
  }
  // The answer to that request, however many come before it; null when none comes.
  json::value answer(int id) {
    while (!answers_.contains(id)) {
      if (!read_one()) return nullptr;
    }
    const json::value answer = answers_.at(id);
    answers_.erase(id);
    return answer;
  }
  // The result of a call.
  json::value call(const std::string& tool, const json::object& arguments = {},
                   const json::object& meta = {}) {
    return at(answer(begin(tool, arguments, meta)), "result");
  }
  // The next notification.
  json::value notification() {
    while (notifications_.empty()) {
      if (!read_one()) return nullptr;
    }
    const json::value first = notifications_.front();
    notifications_.erase(notifications_.begin());
    return first;
  }
  // The notice that the inbox gives, as soon as there is one: what was on its way elsewhere comes
  // back on its own time.
  std::string notice() {
    for (const auto deadline = std::chrono::steady_clock::now() + kCap;
         std::chrono::steady_clock::now() < deadline;) {
      const json::value result = call("inbox");
      if (items_at(result, "content").size() > 1) return text_at(result, "content.1.text");
    }
    ADD_FAILURE() << "no notice comes";
    return "";
  }
  void cancel(int id) { notify("notifications/cancelled", {{"requestId", id}}); }
  json::value initialize(const std::string& version = "2025-11-25") {
    const json::value answered =
        answer(request("initialize", {{"protocolVersion", version},
                                      {"capabilities", json::object{}},
                                      {"clientInfo", {{"name", "test"}, {"version", "1"}}}}));
    notify("notifications/initialized");
    return answered;
  }
  void speak_modern() { modern_ = true; }
  void send_line(const std::string& line) { process_.say(line + "\n"); }
  // Ends stdin. What was answered until the end can be asked for afterwards.
  Output hang_up() {
    process_.hang_up();
    while (read_one()) {
    }
    return process_.finish();
  }
  bool answered(int id) const { return answers_.contains(id); }
  Process& process() { return process_; }

 private:
  static Launch talking(Launch launch) {
    launch.talks = true;
    return launch;
  }
  void send(const json::object& message) { send_line(json::serialize(message)); }
  bool read_one() {
    const json::value line = process_.json_line();
    if (!line.is_object()) return false;
    const json::object& message = line.as_object();
    if (message.contains("id") && message.at("id").is_number()) {
      answers_[message.at("id").to_number<int>()] = line;
    } else {
      notifications_.push_back(line);
    }
    return true;
  }

  Process process_;
  int last_id_ = 0;
  bool modern_ = false;
  std::map<int, json::value> answers_;
  std::vector<json::value> notifications_;
};

}  // namespace waybill::e2e
