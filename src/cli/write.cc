#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "edge/json.h"
#include "edge/method.h"

namespace waybill::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

// One call's wait. It ends early when the daemon ends, which then closes the connection.
constexpr Millis kSlice{30000};
constexpr Millis kEndingMax{1000};

std::string bytes_word(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " byte" : " bytes");
}

// Passes bytes on, in calls that are never made twice: each answer says how many were taken, and
// the next call begins there.
class Writer {
 public:
  Writer(const Context& context, std::optional<Millis> total)
      : client_(client_options(context)),
        params_(caller_params(context)),
        bounded_(total.has_value()),
        deadline_(SteadyClock::now() + total.value_or(Millis{0})) {
    params_["job"] = context.parsed.operands.front();
  }

  Result<void> connect() { return client_.connect(); }

  // Until all of it is taken. False: the time is over.
  Result<bool> write(std::string_view bytes, bool close) {
    while (true) {
      const auto began = SteadyClock::now();
      const Millis slice = slice_at(began);
      TRY_ASSIGN(const bool answered, ask(bytes, close, slice));
      if (!answered) continue;  // another daemon is to be asked
      const std::uint64_t taken = count_of(answer_, "written").value_or(0);
      bytes.remove_prefix(std::min<std::uint64_t>(taken, bytes.size()));
      written_ += taken;
      const bool closed = flag_of(answer_, "closed");
      if (bytes.empty() && (closed || !close) && !flag_of(answer_, "timed_out")) return true;
      if (closed && !bytes.empty()) continue;  // the next call is told why
      if (!flag_of(answer_, "timed_out")) {
        return fail(ErrorCode::unavailable, "The daemon took only a part" + so_far());
      }
      if (bounded_ && SteadyClock::now() >= deadline_) return false;
      if (SteadyClock::now() - began < slice && client_.wait_for_end(kEndingMax)) {
        TRY(client_.reconnect());
      }
    }
  }

  json::object answer(bool timed_out) {
    answer_["written"] = written_;
    answer_["timed_out"] = timed_out;
    return answer_;
  }

  std::string so_far() const { return " (" + bytes_word(written_) + " were taken)."; }

 private:
  Millis slice_at(SteadyClock::time_point now) const {
    if (!bounded_) return kSlice;
    return std::clamp(std::chrono::ceil<Millis>(deadline_ - now), Millis{1}, kSlice);
  }

  // False: the daemon was ending and took nothing.
  Result<bool> ask(std::string_view bytes, bool close, Millis slice) {
    params_["data_base64"] = edge::to_base64(bytes);
    params_["close"] = close;
    params_["timeout_ms"] = slice.count();
    // While our own input was waited for the daemon may have gone: nothing was asked of it yet.
    if (client_.wait_for_end(Millis{0})) TRY(client_.reconnect());
    auto answer = client_.call_once("job.write", params_);
    if (!answer) {
      return fail(ErrorCode::unavailable,
                  "The connection to the daemon was lost: of the next " + bytes_word(bytes.size()) +
                      " it is not known whether they were taken, and nothing is written twice" +
                      so_far());
    }
    if (*answer) {
      answer_ = std::move(**answer);
      return true;
    }
    Error error = std::move(answer->error());
    if (error.code == ErrorCode::unavailable && client_.wait_for_end(kEndingMax)) {
      TRY(client_.reconnect());
      return false;
    }
    if (written_ > 0) {
      if (error.message.ends_with('.')) error.message.pop_back();
      error.message += so_far();
    }
    return fail(std::move(error));
  }

  Client client_;
  json::object params_;
  json::object answer_;
  bool bounded_;
  SteadyClock::time_point deadline_;
  std::uint64_t written_ = 0;
};

// From our own stdin to its end, in pieces as they come.
Result<bool> pass_on(Writer& writer) {
  std::array<char, edge::kInputBytesMax> buffer;
  while (true) {
    const ssize_t n = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return fail(ErrorCode::bad_request, std::string("Standard input cannot be read: ") +
                                              strerrordesc_np(errno) + writer.so_far());
    }
    if (n == 0) return true;
    TRY_ASSIGN(const bool all, writer.write({buffer.data(), static_cast<std::size_t>(n)}, false));
    if (!all) return false;
  }
}

}  // namespace

Result<int> write_command(const Context& context) {
  TRY_ASSIGN(const auto total, timeout_of(context.parsed, "--timeout"));
  const bool close = context.parsed.has("--close");
  Writer writer(context, total);
  TRY(writer.connect());
  // First with nothing, so that nobody types for a job that takes no input.
  TRY_ASSIGN(bool all, writer.write({}, false));
  if (all && ::isatty(STDIN_FILENO) == 1) {
    note(std::string("What you type goes to the job; Ctrl-D at the beginning of a line ends ") +
         (close ? "this and closes its input." : "this and leaves its input open."));
  }
  if (all) {
    TRY_ASSIGN(all, pass_on(writer));
  }
  if (all && close) {
    TRY_ASSIGN(all, writer.write({}, true));
  }
  const json::object answer = writer.answer(!all);
  if (context.json) print_json(answer);
  TRY(flush_stdout());
  if (all) return 0;
  note("The time is over" + writer.so_far());
  return kExitTimedOut;
}

}  // namespace waybill::cli
