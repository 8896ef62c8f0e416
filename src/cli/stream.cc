#include "cli/stream.h"

#include <algorithm>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/output.h"
#include "edge/json.h"

namespace waybill::cli {
namespace {

constexpr std::uint64_t kPageBytes = 256 * 1024;
constexpr std::uint64_t kPageBytesMax = 1024 * 1024;

using SteadyClock = std::chrono::steady_clock;

struct Position {
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> tail_lines;
  std::uint64_t read = 0;  // raw bytes so far
};

json::object page_params(const Context& context, const Stream& stream, const Position& at) {
  json::object params = caller_params(context);
  params["job"] = stream.job;
  if (stream.raw) params["raw"] = true;
  if (at.offset) {
    params["offset"] = *at.offset;
  } else if (at.tail_lines) {
    params["tail_lines"] = *at.tail_lines;
  }
  const std::uint64_t page = context.json ? kPageBytesMax : kPageBytes;
  params["bytes"] = stream.bytes ? std::min(*stream.bytes - at.read, page) : page;
  return params;
}

Result<void> print_page(const Context& context, const json::object& page) {
  if (context.json) {
    print_json(page);
    return flush_stdout();
  }
  for (const json::value& gap : array_of(page, "gaps")) {
    if (!gap.is_array() || gap.get_array().size() != 2) continue;
    note("Bytes " + edge::to_text(gap.get_array()[0]) + " to " + edge::to_text(gap.get_array()[1]) +
         " were not kept.");
  }
  std::string data = text_of(page, "data");
  if (text_of(page, "encoding") == "base64") data = edge::from_base64(data).value_or("");
  print(stdout_is_terminal() ? safe_block(data) : data);
  return flush_stdout();
}

bool nothing_new(const json::object& page) {
  return !flag_of(page, "complete") && count_of(page, "offset") == count_of(page, "next_offset");
}

Result<json::object> next_page(Client& client, const Context& context, const Stream& stream,
                               const Position& at, SteadyClock::time_point deadline) {
  json::object params = page_params(context, stream, at);
  if (!stream.follow) return client.call("job.logs", params);
  Client::Waiting waiting;
  waiting.field = "wait_ms";
  if (stream.total) {
    const auto left = std::chrono::ceil<Millis>(deadline - SteadyClock::now());
    waiting.total = std::max(left, Millis{1});
  }
  waiting.timed_out = nothing_new;
  return client.call_waiting("job.logs", std::move(params), waiting);
}

}  // namespace

Result<StreamEnd> stream_output(Client& client, const Context& context, const Stream& stream) {
  const auto deadline = SteadyClock::now() + stream.total.value_or(Millis{0});
  Position at{stream.offset, stream.tail_lines, 0};
  std::optional<std::uint64_t> end;  // not followed: what was there when we came
  while (true) {
    TRY_ASSIGN(const json::object page, next_page(client, context, stream, at, deadline));
    TRY(print_page(context, page));
    const std::uint64_t next = count_of(page, "next_offset").value_or(0);
    at.read += next - std::min(next, count_of(page, "offset").value_or(next));
    at.offset = next;
    if (!end) end = count_of(page, "end").value_or(0);
    if (flag_of(page, "complete")) return StreamEnd::complete;
    if (stream.bytes && at.read >= *stream.bytes) return StreamEnd::reached;
    if (!stream.follow && (context.json || next >= *end || nothing_new(page))) {
      return StreamEnd::reached;
    }
    if (stream.follow && stream.total && SteadyClock::now() >= deadline) {
      return StreamEnd::timed_out;
    }
  }
}

}  // namespace waybill::cli
