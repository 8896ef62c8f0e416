#include "cli/client.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cerrno>

#include "cli/autostart.h"
#include "cli/socket.h"
#include "edge/json.h"
#include "edge/version.h"

namespace waybill::cli {
namespace {

namespace json = boost::json;
using SteadyClock = std::chrono::steady_clock;

// How long a daemon that answered `unavailable` is given to close the connection: then it is
// ending, and the next one is asked.
constexpr Millis kEndingMax{1000};
// Connections lost in a row, without an answer between them, before the client gives up.
constexpr unsigned kLossesMax = 8;
// Between looks at a socket whose directory cannot be watched.
constexpr Millis kLookAgain{500};

json::string_view view(std::string_view text) { return {text.data(), text.size()}; }

std::string text_field(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

Millis left_until(SteadyClock::time_point deadline) {
  return std::max(Millis{0}, std::chrono::ceil<Millis>(deadline - SteadyClock::now()));
}

Error error_of(const json::object& error) {
  const json::value* data = error.if_contains("data");
  const std::string word =
      data != nullptr && data->is_object() ? text_field(data->get_object(), "code") : "";
  const std::string message = text_field(error, "message");
  if (const std::optional<ErrorCode> code = error_code_from_word(word)) return {*code, message};
  return {ErrorCode::unsupported_version,
          "The daemon answered with an error that this version does not know (" + word +
              "): " + message};
}

}  // namespace

Client::Client(ClientOptions options) : options_(std::move(options)) {
  if (options_.executable.empty()) options_.executable = own_executable();
}

Result<void> Client::connect() {
  const Result<void> connected = connect_once();
  if (connected || connected.error().code != ErrorCode::unavailable) return connected;
  if (!options_.autostart) {
    return fail(ErrorCode::unavailable, connected.error().message +
                                            " Start one with `waybill serve --data " +
                                            options_.data_dir + "`, or leave out --no-autostart.");
  }
  if (inside_a_job()) return start_daemon({options_.executable, options_.data_dir, options_.store});
  return reconnect();
}

// Connects and says hello; unavailable when nobody is there or the daemon is just ending.
Result<void> Client::connect_once() {
  buffer_.clear();
  fd_.reset();
  TRY_ASSIGN(fd_, connect_socket(options_.data_dir));
  return hello();
}

Result<void> Client::hello() {
  const auto answer = try_call("hello", json::object{{"protocol", edge::kProtocol},
                                                     {"client", "waybill"},
                                                     {"version", view(edge::kVersion)}});
  if (!answer) return fail(ErrorCode::unavailable, "The daemon closed the connection.");
  if (!*answer) return fail(answer->error());
  const json::object& result = **answer;
  daemon_version_ = text_field(result, "version");
  const json::value* limits = result.if_contains("limits");
  if (limits != nullptr && limits->is_object()) {
    const json::value* most = limits->get_object().if_contains("wait_timeout_max_ms");
    if (most != nullptr && most->is_int64() && most->get_int64() > 0) {
      slice_max_ = Millis(most->get_int64());
    }
  }
  return {};
}

// Starts a daemon unless that is not wanted; ok also when another one holds the data directory.
Result<void> Client::start() {
  // A lost connection is taken up again when somebody else has started one.
  if (!options_.autostart || inside_a_job()) return {};
  const Result<void> started =
      start_daemon({options_.executable, options_.data_dir, options_.store});
  if (started || started.error().code == ErrorCode::conflict) return {};
  return started;
}

Result<void> Client::reconnect() {
  const auto deadline = SteadyClock::now() + options_.reconnect_for;
  while (true) {
    DirectoryWatch watch(options_.data_dir);  // before looking, so that nothing is missed
    Result<void> connected = connect_once();
    if (connected || connected.error().code != ErrorCode::unavailable) return connected;
    const Result<void> started = start();
    connected = connect_once();
    if (connected || connected.error().code != ErrorCode::unavailable) return connected;
    if (!started) return started;
    const Millis left = left_until(deadline);
    if (left.count() == 0 || interrupted_) return connected;
    watch.wait(std::min(left, kLookAgain));
  }
}

void Client::send_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t sent = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(sent));
  }
}

Client::Exchange Client::exchange(const std::string& line, const std::string& id) {
  if (!fd_.valid()) return {Lost::yes, {}};
  // Even when this fails: what the daemon said before it closed (why it will not read) counts.
  send_all(line);
  return read_answer(id);
}

Client::Exchange Client::read_answer(const std::string& id) {
  std::size_t looked = 0;
  while (true) {
    const std::size_t end = buffer_.find('\n', looked);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      looked = 0;
      const Result<json::value> value = edge::parse_json(line);
      if (!value || !value->is_object()) return {Lost::yes, {}};
      const json::value* answered = value->get_object().if_contains("id");
      if (answered == nullptr) continue;  // a notification
      if (answered->is_null() || edge::to_text(*answered) == id) return {Lost::no, std::move(line)};
      continue;  // the late answer to a call that was given up
    }
    looked = buffer_.size();
    std::array<pollfd, 2> entries{{{fd_.get(), POLLIN, 0}, {options_.interrupt_fd, POLLIN, 0}}};
    if (::poll(entries.data(), entries.size(), -1) < 0) continue;
    if (entries[1].revents != 0) {
      interrupted_ = true;
      return {Lost::no, fail(ErrorCode::unavailable, "Interrupted.")};
    }
    std::array<char, 64 * 1024> chunk{};
    const ssize_t got = ::recv(fd_.get(), chunk.data(), chunk.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {Lost::yes, {}};
    buffer_.append(chunk.data(), static_cast<std::size_t>(got));
  }
}

Result<json::object> Client::answer_of(const std::string& line) const {
  TRY_ASSIGN(const json::value value, edge::parse_json(line));
  const json::object& answer = value.get_object();
  const json::value* error = answer.if_contains("error");
  if (error != nullptr && error->is_object()) return fail(error_of(error->get_object()));
  const json::value* result = answer.if_contains("result");
  if (result == nullptr || !result->is_object()) {
    return fail(ErrorCode::unsupported_version, "The daemon's answer has no result.");
  }
  return result->get_object();
}

std::optional<Result<json::object>> Client::said_to(std::string_view method,
                                                    const json::object& params) {
  const std::string id = std::to_string(++next_id_);
  const std::string line = edge::to_text(json::object{
      {"jsonrpc", "2.0"}, {"id", next_id_}, {"method", view(method)}, {"params", params}});
  if (line.size() > edge::kLineBytesMax) {
    return fail(ErrorCode::too_large, "The call has " + std::to_string(line.size()) +
                                          " bytes; at most " + std::to_string(edge::kLineBytesMax) +
                                          " are allowed.");
  }
  Exchange done = exchange(line + "\n", id);
  if (done.lost == Lost::yes) return std::nullopt;
  if (!done.line) return fail(std::move(done.line.error()));
  return answer_of(*done.line);
}

std::optional<Result<json::object>> Client::try_call(std::string_view method,
                                                     const json::object& params) {
  auto answer = said_to(method, params);
  if (answer && !*answer && !interrupted_ && answer->error().code == ErrorCode::unavailable &&
      wait_for_end(kEndingMax)) {
    return std::nullopt;
  }
  return answer;
}

std::optional<Result<json::object>> Client::call_once(std::string_view method,
                                                      const json::object& params) {
  return said_to(method, params);
}

Result<json::object> Client::call(std::string_view method, const json::object& params) {
  for (unsigned tries = 0; tries < kLossesMax; ++tries) {
    if (auto answer = try_call(method, params)) return std::move(*answer);
    TRY(reconnect());
  }
  return gives_up();
}

Result<json::object> Client::call_waiting(std::string_view method, json::object params,
                                          const Waiting& waiting) {
  const auto deadline = SteadyClock::now() + waiting.total.value_or(Millis{0});
  for (unsigned losses = 0; losses < kLossesMax;) {
    const Millis left = waiting.total ? left_until(deadline) : slice_max_;
    const Millis slice = std::clamp(left, Millis{1}, slice_max_);
    params[view(waiting.field)] = slice.count();
    auto answer = try_call(method, params);
    if (!answer) {
      ++losses;
      TRY(reconnect());
      continue;
    }
    losses = 0;
    if (!*answer || !waiting.timed_out(**answer)) return std::move(*answer);
    if (waiting.total && left_until(deadline).count() == 0) return std::move(*answer);
  }
  return gives_up();
}

tl::unexpected<Error> Client::gives_up() const {
  return fail(ErrorCode::unavailable,
              "The daemon closes every connection; see " + options_.data_dir + "/daemon.log.");
}

bool Client::wait_for_end(Millis most) {
  const auto deadline = SteadyClock::now() + most;
  while (true) {
    const Millis left = left_until(deadline);
    pollfd entry{fd_.get(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, static_cast<int>(left.count()));
    if (ready == 0) return false;
    if (ready < 0) continue;
    std::array<char, 4096> chunk{};
    const ssize_t got = ::recv(fd_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) return true;
  }
}

}  // namespace waybill::cli
