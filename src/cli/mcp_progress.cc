#include "cli/mcp_progress.h"

#include <poll.h>
#include <sys/eventfd.h>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/mcp_calls.h"
#include "cli/view.h"

namespace waybill::cli {
namespace {

constexpr Millis kOftenest{1000};
constexpr Millis kRarest{15000};
// With the pause after a message, a silent job is told of in time.
constexpr Millis kLook = kRarest - kOftenest;

}  // namespace

McpProgress::McpProgress(const Context& context, const Identity& identity,
                         std::vector<std::string> jobs,
                         std::function<void(std::string_view message)> say)
    : context_(context), identity_(identity), jobs_(std::move(jobs)), say_(std::move(say)) {
  if (!say_) return;
  end_.reset(::eventfd(0, EFD_CLOEXEC));
  thread_ = std::thread([this] { follow(); });
}

McpProgress::~McpProgress() {
  if (!thread_.joinable()) return;
  ::eventfd_write(end_.get(), 1);
  thread_.join();
}

bool McpProgress::ended_within(Millis time) const {
  pollfd entry{end_.get(), POLLIN, 0};
  return ::poll(&entry, 1, static_cast<int>(time.count())) > 0;
}

void McpProgress::follow() {
  ClientOptions options = client_options(context_);
  options.autostart = false;  // the call itself sees to the daemon
  options.reconnect_for = Millis{0};
  options.interrupt_fd = end_.get();
  Client client(options);
  std::uint64_t seen = 0;
  for (std::size_t at = 0; !client.interrupted();) {
    std::string message = "Waiting.";
    if (at < jobs_.size()) {
      json::object params = mcp_caller(context_, identity_);
      params["job"] = jobs_[at];
      params["offset"] = seen;
      params["bytes"] = 1;
      params["raw"] = true;
      params["wait_ms"] = kLook.count();
      const Result<json::object> page = client.call("job.logs", params);
      if (client.interrupted()) return;
      if (!page) {
        if (page.error().code == ErrorCode::not_found) {
          at = jobs_.size();
        } else if (ended_within(kLook)) {
          return;
        }
      } else {
        seen = std::max(seen, count_of(*page, "end").value_or(0));
        message = jobs_[at] + ": " + human_size(seen) + " of output";
        if (flag_of(*page, "complete")) {
          message = jobs_[at++] + " is finished";
          seen = 0;
        }
      }
    } else if (ended_within(kLook)) {
      return;
    }
    say_(message);
    if (ended_within(kOftenest)) return;
  }
}

}  // namespace waybill::cli
