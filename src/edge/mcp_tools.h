#pragma once
// The one described table of the tools that `waybill mcp` offers. What a client is told about them
// (tools/list), what their arguments may be, what their results look like, and the page docs/mcp.md
// are made from it.

#include <boost/json/fwd.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace waybill::edge {

enum class McpToolId { start, output, list, stop, write, wait, inbox };

enum class McpArgumentKind {
  text,      // valid UTF-8 without NUL, at most `max` bytes
  number,    // whole, min..max
  flag,      // true or false
  texts,     // at most `max` texts, none of them empty
  words,     // each one of `words`
  text_map,  // object of text to text: names of environment variables and their values
};

struct McpArgument {
  std::string_view name;
  McpArgumentKind kind = McpArgumentKind::text;
  bool required = false;
  std::uint64_t min = 0;
  std::uint64_t max = 0;
  std::optional<std::uint64_t> standard;  // the number that counts when left out
  std::vector<std::string_view> words;
  std::string_view description;
};

enum class McpFieldShape {
  text,
  number,
  flag,
  texts,
  word,    // one of `words`
  output,  // the shown part of an output
  jobs,    // list of job summaries
  gaps,    // [[from, to]]
  error,   // {code, message}
};

struct McpField {
  std::string_view name;
  McpFieldShape shape = McpFieldShape::text;
  std::vector<std::string_view> words;
  std::string_view description;
};

struct McpTool {
  McpToolId id;
  std::string_view name;
  std::string_view title;
  std::string_view description;
  std::vector<McpArgument> arguments;
  std::vector<McpField> fields;  // of structuredContent, each there when it is known
  bool read_only = false;
  bool destructive = false;
  bool idempotent = false;
  bool open_world = false;
};

const std::vector<McpTool>& mcp_tools();

// nullptr when there is none of that name.
const McpTool* find_mcp_tool(std::string_view name);

// What one job looks like in `jobs`.
const std::vector<McpField>& mcp_job_fields();

// The tools as tools/list gives them, in the order of the table; the same bytes every time.
boost::json::array mcp_tool_list();

// Refuses arguments that the table does not know, lacks, or does not allow, naming them
// (bad_request or too_large). null counts as left out and is removed; a number like 5.0 becomes 5.
// What remains needs no further checks of form.
Result<void> check_mcp_arguments(const McpTool& tool, boost::json::object& arguments);

// The number of an argument, or what counts when it was left out.
std::uint64_t mcp_number(const McpTool& tool, const boost::json::object& arguments,
                         std::string_view name);

}  // namespace waybill::edge
