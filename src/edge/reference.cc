#include "edge/reference.h"

#include "edge/json.h"
#include "edge/method.h"
#include "edge/rpc_session.h"
#include "edge/version.h"

namespace waybill::edge {
namespace {

constexpr std::string_view kIntro = R"(# RPC reference

Made by `waybill __reference rpc` from the table that the daemon decodes calls with; do not edit.

JSON-RPC 2.0 on the unix socket `waybill.sock` of the data directory, one UTF-8 object per line.
The first call is `hello`. Several calls may be outstanding; answers carry the call's id and come
in any order. Calls without an id (notifications) are ignored; batches are refused. A parameter that
is null counts as left out; an unknown parameter or a wrong type is `bad_request` and names the
field. Times are RFC 3339 UTC with milliseconds; in answers, what is not known is null, never left
out. The job and session objects are described in docs/cli.md.
)";

std::string limits_text() {
  return "\nLimits: a line " + std::to_string(kLineBytesMax) + " bytes, depth " +
         std::to_string(kDepthMax) + ", " + std::to_string(kCallsMax) +
         " unanswered calls per connection. Protocol " + std::to_string(kProtocol) + ".\n";
}

std::string errors_text() {
  std::string out =
      "\n## Errors\n\n`{\"code\": number, \"message\": sentence, \"data\": {\"code\": word, "
      "\"retryable\": bool}}`. A line that is not JSON is -32700, not a call -32600, an unknown "
      "method -32601, all with the word `bad_request`. Any call may be answered `bad_request` or "
      "`unavailable`.\n\n| word | number | retryable |\n|---|---|---|\n";
  for (int i = 0; i <= static_cast<int>(ErrorCode::unavailable); ++i) {
    const ErrorTraits& row = traits(static_cast<ErrorCode>(i));
    out += "| `" + std::string(row.word) + "` | " + std::to_string(row.rpc_code) + " | " +
           (row.retryable ? "yes" : "no") + " |\n";
  }
  return out;
}

std::string limit_of(const Param& param) {
  switch (param.kind) {
    case ParamKind::number:
      return std::to_string(param.min) + " to " + std::to_string(param.max);
    case ParamKind::text:
    case ParamKind::id:
    case ParamKind::bytes:
    case ParamKind::any_bytes:
      return "at most " + std::to_string(param.max) + " bytes";
    case ParamKind::word:
    case ParamKind::word_list: {
      std::string out;
      for (const std::string_view word : param.words) {
        out += (out.empty() ? "`" : ", `") + std::string(word) + "`";
      }
      return out;
    }
    case ParamKind::flag:
      return "";
    case ParamKind::text_list:
    case ParamKind::bytes_list:
    case ParamKind::text_map:
      return param.max < kLineBytesMax ? "at most " + std::to_string(param.max) : "";
  }
  return "";
}

std::string method_text(const MethodInfo& info) {
  std::string out = "\n## " + std::string(info.name) + "\n\n" + std::string(info.summary) + "\n";
  if (!info.params.empty()) {
    out += "\n| parameter | type | | limit | meaning |\n|---|---|---|---|---|\n";
    for (const Param& param : info.params) {
      out += "| `" + std::string(param.name) + "` | " + std::string(kind_word(param.kind)) + " | " +
             (param.required ? "required" : "") + " | " + limit_of(param) + " | " +
             std::string(param.description) + " |\n";
    }
  }
  out += "\nResult: " + std::string(info.result) + "\n";
  if (!info.errors.empty()) {
    out += "\nErrors: ";
    for (std::size_t i = 0; i < info.errors.size(); ++i) {
      out += (i == 0 ? "`" : ", `") + std::string(to_word(info.errors[i])) + "`";
    }
    out += "\n";
  }
  return out;
}

}  // namespace

std::string rpc_reference() {
  std::string out = std::string(kIntro) + limits_text() + errors_text();
  for (const MethodInfo& info : methods()) out += method_text(info);
  return out;
}

}  // namespace waybill::edge
