#pragma once
// MCP over lines of JSON: the server's side of the conversation, as a state machine without threads
// and without input or output of its own.
//
// Three eras are spoken, side by side in one conversation: 2025-06-18 and 2025-11-25, which begin
// with `initialize`, and 2026-07-28, where every request names its version in `params._meta` and
// nothing is remembered between requests.
//
// Guarantees:
// - Every request gets exactly one answer, here or from whoever takes its call; notifications and
//   responses get none. A cancelled call gets none from here.
// - A line that is no JSON, no message, too deep or too long is answered with an error; the
//   conversation goes on with the next line.
// - Memory: one unfinished line, at most kLineBytesMax.
// - Arguments of a call that is given out are checked against the table of tools.
// Not thread-safe; `send` and `call` are called while bytes are given in.

#include <boost/json/fwd.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "edge/mcp_tools.h"

namespace waybill::edge {

enum class McpEra { v2025_06_18, v2025_11_25, v2026_07_28 };

// The version as it stands in messages.
std::string_view to_word(McpEra era);
std::optional<McpEra> mcp_era_from_word(std::string_view word);

// A call of a tool, to be answered with `mcp_result_line`.
struct McpCall {
  std::string id;  // the request's, as JSON text
  McpEra era = McpEra::v2025_06_18;
  McpToolId tool = McpToolId::list;
  std::shared_ptr<const boost::json::object> arguments;  // never null
  std::shared_ptr<const boost::json::object> meta;       // params._meta; never null
  std::string client_name;                               // "" not said
  std::string progress_token;                            // as JSON text; "" none
  std::optional<Error> refused;  // the arguments are wrong: the result is this error
};

struct McpHandler {
  std::function<void(std::string line)> send;
  // Takes a call. conflict: a call with this id is not answered yet; limit_reached: too many are.
  std::function<Result<void>(McpCall call)> call;
  // The client gave this request up. It may be long answered, or never have been.
  std::function<void(const std::string& id)> cancel;
};

class McpSession {
 public:
  explicit McpSession(McpHandler handler);
  ~McpSession();
  McpSession(const McpSession&) = delete;
  McpSession& operator=(const McpSession&) = delete;

  void on_bytes(std::string_view bytes);
  // No more bytes: what stands after the last newline counts as a line.
  void on_end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The answer to a call: `structured` as it is, and each text as a content item.
std::string mcp_result_line(const McpCall& call, const boost::json::object& structured,
                            const std::vector<std::string>& texts, bool is_error);

// notifications/progress; `progress` must grow from one to the next of a call.
std::string mcp_progress_line(const McpCall& call, std::uint64_t progress,
                              std::string_view message);

// What stands in structuredContent and in the text of a call that failed.
boost::json::object mcp_error_content(const Error& error);
std::string mcp_error_text(const Error& error);

}  // namespace waybill::edge
