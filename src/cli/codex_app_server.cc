#include "cli/codex_app_server.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <optional>
#include <utility>

#include "base/ids.h"
#include "cli/answer.h"
#include "cli/codex_socket.h"
#include "edge/json.h"
#include "edge/version.h"

namespace waybill::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using SteadyClock = std::chrono::steady_clock;
using Socket = asio::local::stream_protocol::socket;

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

json::array input_of(std::string_view text) {
  return {json::object{{"type", "text"}, {"text", view(text)}, {"text_elements", json::array{}}}};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

// What came of a call: nothing at all, an error's message, or a result.
struct CodexAppServer::Answer {
  bool answered = false;
  std::string error;
  json::object result;

  bool ok() const { return answered && error.empty(); }
};

class CodexAppServer::Connection {
 public:
  explicit Connection(const AppServerLimits& limits) : limits_(limits), stream_(context_) {}

  bool open(const std::string& path) {
    Result<UniqueFd> fd = connect_own_socket(path);
    if (!fd) return false;
    const SteadyClock::time_point deadline = SteadyClock::now() + limits_.call;
    beast::error_code error;
    stream_.next_layer().assign(asio::local::stream_protocol(), fd->get(), error);
    if (error) return false;
    (void)fd->release();  // the stream's now
    stream_.read_message_max(limits_.message_bytes);
    bool shaken = false;
    stream_.async_handshake("localhost", "/", [&](beast::error_code failed) { shaken = !failed; });
    if (!run(deadline) || !shaken) return false;
    stream_.text(true);
    const json::object hello{{"clientInfo", json::object{{"name", "waybill"},
                                                         {"title", "Waybill"},
                                                         {"version", view(edge::kVersion)}}},
                             {"capabilities", json::object{{"experimentalApi", true}}}};
    if (!call("initialize", hello).ok()) return false;
    return write(json::object{{"method", "initialized"}}, deadline);
  }

  Answer call(std::string_view method, const json::object& params) {
    const SteadyClock::time_point deadline = SteadyClock::now() + limits_.call;
    const std::int64_t id = ++last_id_;
    if (!write({{"id", id}, {"method", view(method)}, {"params", params}}, deadline)) return {};
    // Notifications come in between; what the server asks of clients is another client's to answer.
    for (unsigned i = 0; i < limits_.messages; ++i) {
      const std::optional<std::string> text = read(deadline);
      if (!text) return {};
      const Result<json::value> value = edge::parse_json(*text);
      if (!value || !value->is_object()) return {};
      const json::object& message = value->get_object();
      const json::value* answered = field(message, "id");
      if (answered == nullptr || *answered != id || field(message, "method")) continue;
      return answer_of(message);
    }
    return {};
  }

 private:
  static Answer answer_of(const json::object& message) {
    Answer answer;
    answer.answered = true;
    if (const json::value* error = field(message, "error")) {
      answer.error = error->is_object() ? text_of(error->get_object(), "message") : "";
      if (answer.error.empty()) answer.error = "an error without words";
      return answer;
    }
    answer.result = object_of(message, "result");
    return answer;
  }

  bool write(const json::object& message, SteadyClock::time_point deadline) {
    const std::string text = edge::to_text(message);
    bool written = false;
    stream_.async_write(asio::buffer(text),
                        [&](beast::error_code failed, std::size_t) { written = !failed; });
    return run(deadline) && written;
  }

  std::optional<std::string> read(SteadyClock::time_point deadline) {
    beast::flat_buffer buffer;
    bool got = false;
    stream_.async_read(buffer, [&](beast::error_code failed, std::size_t) { got = !failed; });
    if (!run(deadline) || !got) return std::nullopt;
    return beast::buffers_to_string(buffer.data());
  }

  // Until what was begun is done. False, and the connection is no more, when time has run out.
  bool run(SteadyClock::time_point deadline) {
    context_.restart();
    context_.run_until(deadline);
    if (context_.stopped()) return true;
    beast::error_code error;
    stream_.next_layer().close(error);
    context_.run();
    return false;
  }

  const AppServerLimits limits_;
  asio::io_context context_;
  beast::websocket::stream<Socket> stream_;
  std::int64_t last_id_ = 0;
};

CodexAppServer::CodexAppServer(std::string path, std::string thread, AppServerLimits limits)
    : path_(std::move(path)), thread_(std::move(thread)), limits_(limits) {}

CodexAppServer::~CodexAppServer() = default;

CodexAppServer::Answer CodexAppServer::call(std::string_view method, const json::object& params) {
  if (!connection_) {
    auto made = std::make_unique<Connection>(limits_);
    if (!made->open(path_)) return {};
    connection_ = std::move(made);
  }
  Answer answer = connection_->call(method, params);
  if (!answer.answered) connection_.reset();
  return answer;
}

edge::Probe CodexAppServer::probe() {
  connection_.reset();
  const Answer read = call("thread/read", json::object{{"threadId", view(thread_)}});
  if (!read.ok()) return {edge::ProbeState::gone, ""};
  const std::string status = text_of(object_of(object_of(read.result, "thread"), "status"), "type");
  if (status == "idle") return {edge::ProbeState::idle, ""};
  if (status == "active") return {edge::ProbeState::running, running_turn()};
  if (status == "notLoaded") return {edge::ProbeState::gone, ""};
  return {edge::ProbeState::unknown, ""};
}

// The status does not name the turn: the newest one that is in progress, else the one that a tool
// call was seen of.
std::string CodexAppServer::running_turn() {
  const Answer listed = call(
      "thread/turns/list", {{"threadId", view(thread_)}, {"limit", 1}, {"sortDirection", "desc"}});
  for (const json::value& turn : array_of(listed.result, "data")) {
    if (!turn.is_object() || text_of(turn.get_object(), "status") != "inProgress") continue;
    const std::string id = text_of(turn.get_object(), "id");
    if (!id.empty()) return id;
  }
  return hint();
}

edge::PutOutcome CodexAppServer::steer(const std::string& turn, std::string_view text) {
  const Answer answer = call(
      "turn/steer",
      {{"threadId", view(thread_)}, {"expectedTurnId", view(turn)}, {"input", input_of(text)}});
  connection_.reset();
  if (!answer.answered) return edge::PutOutcome::unreachable;
  if (answer.error.empty()) return edge::PutOutcome::accepted;
  if (contains(answer.error, "no active turn")) return edge::PutOutcome::not_running;
  if (contains(answer.error, "expected active turn id")) {
    saw_turn(active_turn_of(answer.error));
    return edge::PutOutcome::stale_turn;
  }
  return edge::PutOutcome::busy;
}

edge::PutOutcome CodexAppServer::wake(std::string_view text) {
  const Answer answer = call(
      "turn/start",
      {{"threadId", view(thread_)}, {"input", input_of(text)}, {"turnTrigger", "background_job"}});
  connection_.reset();
  if (!answer.answered) return edge::PutOutcome::unreachable;
  return answer.error.empty() ? edge::PutOutcome::accepted : edge::PutOutcome::busy;
}

edge::PutOutcome CodexAppServer::inject(std::string_view text) {
  const json::object item{
      {"type", "message"},
      {"role", "user"},
      {"content", json::array{json::object{{"type", "input_text"}, {"text", view(text)}}}}};
  const Answer answer =
      call("thread/inject_items", {{"threadId", view(thread_)}, {"items", json::array{item}}});
  connection_.reset();
  if (!answer.answered) return edge::PutOutcome::unreachable;
  return answer.error.empty() ? edge::PutOutcome::accepted : edge::PutOutcome::busy;
}

void CodexAppServer::saw_turn(const std::string& turn) {
  if (turn.empty()) return;
  const std::lock_guard lock(mutex_);
  hint_ = turn;
}

std::string CodexAppServer::hint() {
  const std::lock_guard lock(mutex_);
  return hint_;
}

std::string active_turn_of(const std::string& message) {
  constexpr std::string_view kBefore = "but found";
  std::size_t at = message.find(kBefore);
  if (at == std::string::npos) return {};
  at = message.find_first_not_of(" `'\"", at + kBefore.size());
  if (at == std::string::npos) return {};
  const std::size_t end = message.find_first_of(" `'\".,", at);
  std::string id = message.substr(at, end == std::string::npos ? end : end - at);
  return check_id(id, "turn") ? id : std::string();
}

}  // namespace waybill::cli
