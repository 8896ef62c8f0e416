#pragma once
// What the tools say to a model, and how output of jobs is shown to it. Output, labels, commands
// and whatever else a job controls is escaped (text/frame.h): it can neither forge nor close a
// notice.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace waybill::edge {

// A few lines about the server as a whole, for the model's context.
std::string_view mcp_instructions();

// How the result of a job that goes on will come, and what to do meanwhile: no more than the
// delivery path (`this_turn`, `wake`, `next_attach`) allows to promise.
std::string mcp_next_text(std::string_view delivery_path);

// What is known of one job; "" or nothing where it is not.
struct McpJobText {
  std::string id;
  std::string label;
  std::string command;
  std::string status;
  std::string ending;
  bool stopping = false;
  std::optional<std::uint64_t> duration_ms;
};

// One line: id, label or command, status, how it ended and how long it took.
std::string mcp_job_text(const McpJobText& job);

// Job text as one line that can stand in a result.
std::string mcp_untrusted_line(std::string_view text);

// Rendered output, escaped, whole characters and at most `bytes_max` bytes of it.
std::string mcp_untrusted_output(std::string_view rendered, std::size_t bytes_max);

// Escaped output in its frame.
std::string mcp_output_block(std::string_view escaped);

}  // namespace waybill::edge
