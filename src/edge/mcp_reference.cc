#include "edge/mcp_reference.h"

#include "edge/json.h"
#include "edge/mcp_protocol.h"
#include "edge/mcp_text.h"
#include "edge/mcp_tools.h"

namespace waybill::edge {
namespace {

constexpr std::string_view kIntro = R"(# MCP server

Made by `waybill __reference mcp` from the table that the server answers with; do not edit.

`waybill mcp` is an MCP server on stdin and stdout, one JSON message a line. An agent starts it:

```json
{"mcpServers": {"waybill": {"command": "waybill", "args": ["mcp"]}}}
```

It starts a daemon if none runs. Jobs live in the daemon: when stdin ends, the server ends quietly
and the jobs go on. Cancelling a call gives up its waiting and never touches a job.

## Eras

| version | begins with | wrong arguments |
|---|---|---|
| `2025-06-18` | `initialize` | error -32602 |
| `2025-11-25` | `initialize` | result with `isError` |
| `2026-07-28` | nothing; every request says its version in `params._meta` | result with `isError` |

`initialize` with another version is answered with the latest of the first two that is not later
than it, else with the oldest. A version in `_meta` that is not in this table is error -32022 with
`data.supported`. All eras may be spoken in one conversation; `server/discover` may be asked first.
An unknown tool is error -32602, an unknown method -32601, a line that is no JSON -32700, anything
that is no message, batches included, -32600; the conversation goes on after each of them.

Capabilities: `tools`, and `experimental: {"codex/sandbox-state-meta": {}}`, which makes Codex say
what its sandbox allows. `subscriptions/listen` is acknowledged with an empty set: nothing ever
changes.

## Who calls

Claude Code and Codex are known by what they tell: Codex names its thread and turn with each call,
Claude Code's hooks have said whose call it is, else its environment names the session. Any other
client acts in the session and with the host key of `--session` and `--host-key` (or
`WAYBILL_SESSION` and `WAYBILL_HOST_KEY`), else of its process. The first call attaches the session;
the lease lasts as long as the client's process. A session that another host has is not taken over:
then nothing is handed over here.

A job gets the environment of this process (of Codex: its own, without what looks like a credential)
with `env` on top, this process's file mode creation mask, and the client's working directory unless
`cwd` says otherwise.

## Results

The content of a result is text for a model; `structuredContent` says the same, complete by itself,
since clients show a model only one of the two (Claude Code and Codex: the second). What is not
known is left out. A call that fails is a result with `isError`, the text `code: sentence`, and
`error`.

What became pending for the session meanwhile is handed over with the result of whatever tool is
called next: as a second text, as `notice`, and with the ids in `notices`. It counts as accepted
once the line is written; when the call was cancelled before, it is given back. Job text is escaped:
`<` is written `&lt;`, so that no output can pass for a notice.

A call with a `progressToken` gets `notifications/progress` while it waits: when output comes or a
job ends, at most once a second, and at least every 15 seconds.
)";

constexpr std::string_view kExamples = R"(
## Examples

A quick command, and one that goes on:

```
→ {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"start",
   "arguments":{"command":"cargo test 2>&1 | tail -n 3"}}}
← {"jsonrpc":"2.0","id":3,"result":{"isError":false,"content":[{"type":"text","text":
   "j01m… (cargo test …): failed, exit 0, but stage 1 of 2 (cargo test 2>&1) exited 101 after 4.1s
   \n<output untrusted=\"true\">\n…\n</output>"}],
   "structuredContent":{"job":"j01m…","status":"failed","verdict":"stage_failed",…}}}
→ {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"start",
   "arguments":{"command":"make world","yield_ms":0}}}
← {"jsonrpc":"2.0","id":4,"result":{"isError":false,"content":[{"type":"text","text":
   "j01n… (make world): running\nThe job goes on. …"}],"structuredContent":{"job":"j01n…",
   "status":"running","delivery_path":"next_attach","next":"The job goes on. …",…}}}
```

(Here broken into lines; on the wire each message is one.) In 2026-07-28 the params of a request
hold `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
"io.modelcontextprotocol/clientCapabilities":{}}`, and the result `"resultType":"complete"`.
)";

std::string kind_word_of(McpArgumentKind kind) {
  switch (kind) {
    case McpArgumentKind::text:
      return "text";
    case McpArgumentKind::number:
      return "whole number";
    case McpArgumentKind::flag:
      return "true or false";
    case McpArgumentKind::texts:
      return "list of texts";
    case McpArgumentKind::words:
      return "list of words";
    case McpArgumentKind::text_map:
      return "object of texts";
  }
  return "";
}

std::string shape_word_of(McpFieldShape shape) {
  switch (shape) {
    case McpFieldShape::text:
      return "text";
    case McpFieldShape::number:
      return "whole number";
    case McpFieldShape::flag:
      return "true or false";
    case McpFieldShape::texts:
      return "list of texts";
    case McpFieldShape::word:
      return "word";
    case McpFieldShape::output:
      return "`{text, bytes, omitted_bytes}`";
    case McpFieldShape::jobs:
      return "list of jobs";
    case McpFieldShape::gaps:
      return "`[[from, to]]`";
    case McpFieldShape::error:
      return "`{code, message}`";
  }
  return "";
}

std::string words_text(const std::vector<std::string_view>& words) {
  std::string out;
  for (const std::string_view word : words) {
    out += (out.empty() ? "`" : ", `") + std::string(word) + "`";
  }
  return out;
}

std::string limit_of(const McpArgument& argument) {
  if (!argument.words.empty()) return words_text(argument.words);
  if (argument.kind == McpArgumentKind::number) {
    std::string out = std::to_string(argument.min) + " to " + std::to_string(argument.max);
    if (argument.standard) out += "; " + std::to_string(*argument.standard);
    return out;
  }
  if (argument.max == 0) return "";
  return "at most " + std::to_string(argument.max) +
         (argument.kind == McpArgumentKind::text ? " bytes" : "");
}

std::string fields_text(const std::vector<McpField>& fields) {
  std::string out = "\n| field | type | meaning |\n|---|---|---|\n";
  for (const McpField& field : fields) {
    out += "| `" + std::string(field.name) + "` | " + shape_word_of(field.shape) + " | " +
           std::string(field.description);
    if (!field.words.empty()) out += " " + words_text(field.words) + ".";
    out += " |\n";
  }
  return out;
}

std::string tool_text(const McpTool& tool) {
  std::string out =
      "\n## " + std::string(tool.name) + "\n\n" + std::string(tool.description) + "\n";
  out += "\nHints:";
  out += tool.read_only ? " read-only" : tool.destructive ? " destructive" : " not destructive";
  out += tool.idempotent ? ", idempotent" : "";
  out += tool.open_world ? ", open world.\n" : ".\n";
  out += "\n| argument | type | | limit; default | meaning |\n|---|---|---|---|---|\n";
  for (const McpArgument& argument : tool.arguments) {
    out += "| `" + std::string(argument.name) + "` | " + kind_word_of(argument.kind) + " | " +
           (argument.required ? "required" : "") + " | " + limit_of(argument) + " | " +
           std::string(argument.description) + " |\n";
  }
  return out + fields_text(tool.fields);
}

}  // namespace

std::string mcp_reference() {
  std::string out(kIntro);
  out += "\nWhat a model is told about the server:\n\n```\n" + std::string(mcp_instructions()) +
         "\n```\n";
  for (const McpTool& tool : mcp_tools()) out += tool_text(tool);
  out += "\n## Jobs\n\nEach entry of `jobs`:\n" + fields_text(mcp_job_fields());
  return out + std::string(kExamples);
}

}  // namespace waybill::edge
