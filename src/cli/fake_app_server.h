#pragma once
// A scripted app-server on a real socket, for tests: WebSocket frames, one connection at a time.

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/answer.h"
#include "edge/json.h"

namespace waybill::cli {

// What comes back: the text of "result", or of an error's message when it starts with '!'; a frame
// as it is when it starts with '='; "" closes the connection, "…" says nothing.
class FakeAppServer {
 public:
  using Script = std::function<std::string(const std::string& method, const json::object&)>;

  FakeAppServer(const std::string& path, Script script)
      : script_(std::move(script)),
        acceptor_(context_, boost::asio::local::stream_protocol::endpoint(path)),
        thread_([this] { serve(); }) {}
  ~FakeAppServer() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      if (open_ >= 0) ::shutdown(open_, SHUT_RDWR);
    }
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    thread_.join();
  }

  std::vector<std::string> methods() {
    const std::lock_guard lock(mutex_);
    return methods_;
  }
  json::object last_params() {
    const std::lock_guard lock(mutex_);
    return last_params_;
  }

 private:
  using Stream = boost::beast::websocket::stream<boost::asio::local::stream_protocol::socket>;

  void serve() {
    boost::beast::error_code error;
    while (true) {
      boost::asio::local::stream_protocol::socket socket(context_);
      acceptor_.accept(socket, error);
      if (error) return;
      Stream stream(std::move(socket));
      {
        const std::lock_guard lock(mutex_);
        if (ending_) return;
        open_ = stream.next_layer().native_handle();
      }
      stream.accept(error);
      while (!error && converse(stream)) {
      }
      const std::lock_guard lock(mutex_);
      open_ = -1;
    }
  }
  bool converse(Stream& stream) {
    boost::beast::flat_buffer buffer;
    boost::beast::error_code error;
    stream.read(buffer, error);
    if (error) return false;
    const auto value = edge::parse_json(boost::beast::buffers_to_string(buffer.data()));
    const json::object& call = value->get_object();
    const std::string method = text_of(call, "method");
    {
      const std::lock_guard lock(mutex_);
      methods_.push_back(method);
      last_params_ = object_of(call, "params");
    }
    const json::value* id = field(call, "id");
    if (id == nullptr) return true;
    const std::string answer = method == "initialize" ? "{}" : script_(method, last_params_);
    if (answer.empty()) return false;
    if (answer == "…") return true;
    const std::string number = edge::to_text(*id);
    const std::string frame =
        answer[0] == '=' ? answer.substr(1)
        : answer[0] == '!'
            ? edge::to_text(json::object{
                  {"id", *id}, {"error", {{"code", -32600}, {"message", answer.substr(1)}}}})
            : R"({"id":)" + number + R"(,"result":)" + answer + "}";
    stream.write(boost::asio::buffer(std::string(R"({"method":"noise","params":{}})")), error);
    if (!error) stream.write(boost::asio::buffer(frame), error);
    return !error;
  }

  const Script script_;
  boost::asio::io_context context_;
  boost::asio::local::stream_protocol::acceptor acceptor_;
  std::mutex mutex_;
  std::vector<std::string> methods_;
  json::object last_params_;
  int open_ = -1;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace waybill::cli
