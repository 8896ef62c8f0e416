#pragma once
// A job's output, page by page, to stdout.

#include <optional>
#include <string>

#include "cli/client.h"
#include "cli/context.h"

namespace waybill::cli {

struct Stream {
  std::string job;
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> tail_lines;
  std::optional<std::uint64_t> bytes;  // most raw bytes in all
  bool raw = false;
  bool follow = false;          // until the job is finished and all is read
  std::optional<Millis> total;  // follow: most time
};

enum class StreamEnd { complete, reached, timed_out };

Result<StreamEnd> stream_output(Client& client, const Context& context, const Stream& stream);

}  // namespace waybill::cli
