#include "edge/rpc_session.h"

#include <boost/json.hpp>

#include "edge/dispatch.h"
#include "edge/encode.h"
#include "edge/json.h"
#include "edge/version.h"

namespace waybill::edge {
namespace {

namespace json = boost::json;

constexpr std::size_t kIdTextMax = 256;

enum class RpcFault { parse_error = -32700, invalid_request = -32600, method_not_found = -32601 };

std::string result_line(const std::string& id, const std::string& result) {
  return R"({"jsonrpc":"2.0","id":)" + id + R"(,"result":)" + result + "}\n";
}

std::string error_line(const std::string& id, const json::value& error) {
  return R"({"jsonrpc":"2.0","id":)" + id + R"(,"error":)" + to_text(error) + "}\n";
}

// Faults of the protocol itself keep JSON-RPC's own numbers; the stable code is bad_request.
std::string fault_line(const std::string& id, RpcFault fault, std::string message) {
  json::value error = encode_error(Error{ErrorCode::bad_request, std::move(message)});
  error.as_object()["code"] = static_cast<int>(fault);
  return error_line(id, error);
}

std::string hello_text(const Settings& settings) {
  return to_text(json::object{
      {"protocol", kProtocol},
      {"version", json::string_view(kVersion.data(), kVersion.size())},
      {"limits", json::object{{"line_bytes", kLineBytesMax},
                              {"calls", kCallsMax},
                              {"wait_timeout_ms", settings.wait_timeout.count()},
                              {"wait_timeout_max_ms", settings.wait_timeout_max.count()}}}});
}

Result<std::string> hello(const Params& params, const Settings& settings) {
  const std::uint64_t asked = params.number("protocol").value_or(0);
  if (asked == kProtocol) return hello_text(settings);
  const std::string which = asked > kProtocol ? "daemon" : "client";
  return fail(ErrorCode::unsupported_version,
              "The client speaks protocol " + std::to_string(asked) + " and this daemon (version " +
                  std::string(kVersion) + ") protocol " + std::to_string(kProtocol) +
                  ": upgrade the " + which +
                  ". `waybill shutdown` of the older version leaves jobs running.");
}

// An id is a text or a whole number, answered as it came.
std::optional<std::string> id_text(const json::value& id) {
  if (!id.is_string() && !id.is_int64() && !id.is_uint64() && !id.is_null()) return std::nullopt;
  std::string text = to_text(id);
  if (text.size() > kIdTextMax) return std::nullopt;
  return text;
}

}  // namespace

struct RpcSession::State : std::enable_shared_from_this<RpcSession::State> {
  State(engine::ConnectionId connection_id, Service& the_service,
        std::function<void(std::string)> sender)
      : connection(connection_id), service(the_service), send(std::move(sender)) {}

  void take_bytes(std::string_view bytes);
  void take_line(std::string_view line);
  void take_request(const json::object& request);
  void call(const std::string& id, const MethodInfo& info, const Params& params);
  void say(std::string line) {
    if (!closed) send(std::move(line));
  }

  engine::ConnectionId connection;
  Service& service;
  std::function<void(std::string)> send;
  std::string buffer;  // an unfinished line
  unsigned outstanding = 0;
  bool greeted = false;
  bool closing = false;
  bool closed = false;
};

void RpcSession::State::take_bytes(std::string_view bytes) {
  while (!bytes.empty() && !closed && !closing) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (buffer.size() + part.size() > kLineBytesMax) {
      closing = true;
      buffer.clear();
      return say(fault_line("null", RpcFault::invalid_request,
                            "The line is longer than " + std::to_string(kLineBytesMax) +
                                " bytes; the connection is closed."));
    }
    if (end == std::string_view::npos) {
      buffer += part;
      return;
    }
    bytes.remove_prefix(end + 1);
    if (buffer.empty()) {
      take_line(part);
    } else {
      buffer += part;
      const std::string line = std::exchange(buffer, {});
      take_line(line);
    }
  }
}

void RpcSession::State::take_line(std::string_view line) {
  if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
  if (line.empty()) return;
  Result<json::value> value = parse_json(line);
  if (!value) {
    return say(fault_line("null", RpcFault::parse_error, std::move(value.error().message)));
  }
  if (value->is_array()) {
    return say(fault_line("null", RpcFault::invalid_request,
                          "Batches are not supported; send one object per line."));
  }
  const json::object* request = value->if_object();
  if (request == nullptr) {
    return say(fault_line("null", RpcFault::invalid_request,
                          "A call is an object with \"jsonrpc\", \"id\" and \"method\"."));
  }
  take_request(*request);
}

void RpcSession::State::take_request(const json::object& request) {
  const json::value* id_value = request.if_contains("id");
  const std::optional<std::string> id =
      id_value == nullptr ? std::optional<std::string>("null") : id_text(*id_value);
  const json::value* version = request.if_contains("jsonrpc");
  const json::value* method = request.if_contains("method");
  if (!id || version == nullptr || !version->is_string() || version->get_string() != "2.0" ||
      method == nullptr || !method->is_string()) {
    return say(fault_line(id.value_or("null"), RpcFault::invalid_request,
                          "A call needs \"jsonrpc\": \"2.0\", a text or whole number as \"id\" "
                          "and a text as \"method\"."));
  }
  if (id_value == nullptr) return;  // a notification: none is defined, and none is answered
  const std::string name(method->get_string());
  const MethodInfo* info = find_method(name);
  if (info == nullptr) {
    return say(fault_line(*id, RpcFault::method_not_found,
                          "There is no method \"" + name + "\"; see docs/rpc.md."));
  }
  if (!greeted && info->method != Method::hello) {
    return say(error_line(*id, encode_error(Error{ErrorCode::bad_request,
                                                  "The first call of a connection must be hello "
                                                  "with the protocol's number."})));
  }
  const Result<Params> params = Params::decode(*info, request.if_contains("params"));
  if (!params) return say(error_line(*id, encode_error(params.error())));
  call(*id, *info, *params);
}

void RpcSession::State::call(const std::string& id, const MethodInfo& info, const Params& params) {
  if (info.method == Method::hello) {
    const Result<std::string> answer = hello(params, service.settings());
    if (!answer) return say(error_line(id, encode_error(answer.error())));
    greeted = true;
    return say(result_line(id, *answer));
  }
  if (outstanding >= kCallsMax) {
    return say(error_line(
        id, encode_error(Error{ErrorCode::limit_reached,
                               "This connection already has " + std::to_string(kCallsMax) +
                                   " unanswered calls; wait for an answer first."})));
  }
  ++outstanding;
  dispatch(info.method, params, connection, service,
           [weak = weak_from_this(), id](Result<std::string> answer) {
             const std::shared_ptr<State> self = weak.lock();
             if (!self || self->closed) return;
             --self->outstanding;
             if (!answer) return self->say(error_line(id, encode_error(answer.error())));
             self->say(result_line(id, *answer));
           });
}

RpcSession::RpcSession(engine::ConnectionId connection, Service& service,
                       std::function<void(std::string)> send)
    : state_(std::make_shared<State>(connection, service, std::move(send))) {}

RpcSession::~RpcSession() { on_closed(); }

void RpcSession::on_bytes(std::string_view bytes) {
  const std::shared_ptr<State> keep = state_;  // `send` may end this session
  keep->take_bytes(bytes);
}

void RpcSession::on_closed() {
  if (std::exchange(state_->closed, true)) return;
  state_->service.submit(engine::ConnectionClosed{state_->connection},
                         [](const Result<engine::Reply>&) {});
}

bool RpcSession::wants_close() const { return state_->closing; }

unsigned RpcSession::outstanding() const { return state_->outstanding; }

}  // namespace waybill::edge
