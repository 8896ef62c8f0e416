#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/stream.h"

namespace waybill::cli {

Result<int> logs_command(const Context& context) {
  const Parsed& parsed = context.parsed;
  Stream stream;
  stream.job = parsed.operands.front();
  TRY_ASSIGN(stream.offset, number_of(parsed, "--offset"));
  TRY_ASSIGN(stream.tail_lines, number_of(parsed, "--tail"));
  TRY_ASSIGN(stream.bytes, size_of(parsed, "--bytes"));
  stream.raw = parsed.has("--raw");
  stream.follow = parsed.has("--follow");
  if (stream.offset && stream.tail_lines) {
    return fail(ErrorCode::bad_request, "--offset and --tail exclude each other.");
  }
  if (stream.bytes == 0U) return fail(ErrorCode::bad_request, "--bytes must be above zero.");
  Client client(client_options(context));
  TRY(client.connect());
  TRY(stream_output(client, context, stream));
  return 0;
}

}  // namespace waybill::cli
