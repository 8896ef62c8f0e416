// `waybill mcp`: the MCP server on stdin and stdout.
//
// Threads: the caller's reads stdin and answers what needs no daemon; each call of a tool has a
// thread and a client of its own, at most kCallsMax at once, so that reading never waits for a
// call. What they share is behind the mutexes of the classes below. An answer is written only after
// the call was taken out of the table of calls in flight; whoever cancels it first wins.

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/unique_fd.h"
#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/codex_delivery.h"
#include "cli/commands.h"
#include "cli/identity.h"
#include "cli/launch_params.h"
#include "cli/mcp_calls.h"
#include "edge/mcp_protocol.h"

namespace waybill::cli {
namespace {

constexpr std::size_t kCallsMax = 32;
// Threads: also those of calls that are answered or given up, and are just ending.
constexpr std::size_t kThreadsMax = 2 * kCallsMax;
constexpr std::size_t kIdleClientsMax = 4;
constexpr std::uint64_t kNoticeBytesMax = 8 * 1024;
// After the end of stdin: how long calls may go on, and how long they are given once told to end.
constexpr Millis kLastCalls{2000};
constexpr Millis kLastWords{500};

// A client with the descriptor that interrupts it.
struct Connection {
  explicit Connection(ClientOptions options)
      : interrupt(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), client([&] {
          options.interrupt_fd = interrupt.get();
          return options;
        }()) {}
  UniqueFd interrupt;
  Client client;
};

// Idle connections, so that calls do not each begin with a new one.
class Connections {
 public:
  explicit Connections(const Context& context) : options_(client_options(context)) {}

  std::shared_ptr<Connection> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_shared<Connection>(options_);
    std::shared_ptr<Connection> connection = std::move(idle_.back());
    idle_.pop_back();
    return connection;
  }
  void give_back(std::shared_ptr<Connection> connection) {
    const std::lock_guard lock(mutex_);
    if (idle_.size() < kIdleClientsMax) idle_.push_back(std::move(connection));
  }

 private:
  const ClientOptions options_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Connection>> idle_;
};

// Lines to stdout, each whole.
class Writer {
 public:
  // Whether all of it is with the reader's side of the pipe.
  bool write(std::string_view line) {
    const std::lock_guard lock(mutex_);
    while (!line.empty() && !broken_) {
      const ssize_t wrote = ::write(STDOUT_FILENO, line.data(), line.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) {
        broken_ = true;
      } else {
        line.remove_prefix(static_cast<std::size_t>(wrote));
      }
    }
    return !broken_;
  }

 private:
  std::mutex mutex_;
  bool broken_ = false;
};

// The calls that are not answered yet.
class Calls {
 public:
  Result<void> add(const std::string& id, std::shared_ptr<Connection> connection) {
    const std::lock_guard lock(mutex_);
    if (calls_.contains(id)) {
      return fail(ErrorCode::conflict, "A request with this id is not answered yet.");
    }
    if (calls_.size() >= kCallsMax || running_ >= kThreadsMax) {
      return fail(ErrorCode::limit_reached, std::to_string(kCallsMax) +
                                                " calls are not answered yet; wait for one of "
                                                "them first.");
    }
    calls_.emplace(id, std::move(connection));
    ++running_;
    return {};
  }

  // The client gave it up: nothing is written for it any more.
  void cancel(const std::string& id) {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    ::eventfd_write(found->second->interrupt.get(), 1);
    calls_.erase(found);
  }

  // Whether its answer is to be written; from then on it cannot be cancelled.
  bool begin_answer(const std::string& id, const Connection* connection) {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(id);
    if (found == calls_.end() || found->second.get() != connection) return false;
    calls_.erase(found);
    return true;
  }

  void ended() {
    const std::lock_guard lock(mutex_);
    --running_;
    changed_.notify_all();
  }

  bool wait_for_all(Millis most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [this] { return running_ == 0; });
  }

  void interrupt_all() {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, connection] : calls_) ::eventfd_write(connection->interrupt.get(), 1);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::shared_ptr<Connection>> calls_;
  std::size_t running_ = 0;  // threads
};

ClientOptions inbox_options(const Context& context) {
  ClientOptions options = client_options(context);
  options.autostart = false;  // a call has just spoken to the daemon
  options.reconnect_for = Millis{0};
  return options;
}

class McpServer {
 public:
  explicit McpServer(const Context& context)
      : context_(context),
        umask_(callers_umask()),
        connections_(context),
        deliveries_(context),
        inbox_(inbox_options(context)) {}

  void serve();

 private:
  struct HandOver {
    json::object value;  // empty: nothing
    json::object caller;
  };

  // One call on its thread.
  struct Task {
    edge::McpCall call;
    std::shared_ptr<Connection> connection;
    std::uint64_t hand_overs = 0;  // on their way when it came
  };

  Result<void> take(edge::McpCall call);
  void run_guarded(const Task& task);
  bool run(const Task& task);
  bool finish(const Task& task, McpAnswer answer, const Identity* identity);
  static void add_notice(const edge::McpCall& call, const HandOver& hand_over,
                         const McpAnswer& answer, std::vector<std::string>& texts);
  Result<HandOver> take_pending(const Task& task, const Identity& identity);
  void settle(const HandOver& hand_over, std::string_view method);

  const Context& context_;
  const unsigned umask_;
  Connections connections_;
  CodexDeliveries deliveries_;
  Writer writer_;
  Calls calls_;
  std::mutex inbox_mutex_;  // what is taken is written and confirmed before the next is taken
  Client inbox_;
  std::atomic<std::uint64_t> hand_overs_ = 0;  // on their way, so far
  std::atomic<bool> reached_ = false;          // a daemon was there
  // Nobody reads on after the end of stdin, whatever the pipe still takes: from then on nothing
  // counts as read.
  std::atomic<bool> ended_ = false;
};

void McpServer::serve() {
  edge::McpSession session({[this](const std::string& line) { writer_.write(line); },
                            [this](edge::McpCall call) { return take(std::move(call)); },
                            [this](const std::string& id) { calls_.cancel(id); }});
  std::vector<char> chunk(64 * 1024);
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    session.on_bytes({chunk.data(), static_cast<std::size_t>(got)});
  }
  session.on_end();
  ended_ = true;
  deliveries_.ask_to_end();
  if (calls_.wait_for_all(kLastCalls) && deliveries_.await_end(kLastWords)) return;
  calls_.interrupt_all();
  // A call that cannot be interrupted now (a daemon that is just starting) is left behind.
  // So is a delivery on its way: its offer ends with this process.
  if (!calls_.wait_for_all(kLastWords) || !deliveries_.await_end(kLastWords)) ::_exit(0);
}

Result<void> McpServer::take(edge::McpCall call) {
  Task task{std::move(call), connections_.take(), hand_overs_};
  TRY(calls_.add(task.call.id, task.connection));
  try {
    std::thread([this, task] { run_guarded(task); }).detach();
  } catch (const std::system_error&) {
    calls_.begin_answer(task.call.id, task.connection.get());
    calls_.ended();
    return fail(ErrorCode::limit_reached, "No thread can be started now; try again.");
  }
  return {};
}

void McpServer::run_guarded(const Task& task) {
  try {
    // A connection that was interrupted may still owe an answer that nobody else must get.
    if (run(task)) connections_.give_back(task.connection);
  } catch (const std::exception& error) {
    if (calls_.begin_answer(task.call.id, task.connection.get())) {
      const McpAnswer answer =
          mcp_failed(Error{ErrorCode::unavailable, std::string("Cannot go on: ") + error.what()});
      writer_.write(edge::mcp_result_line(task.call, *answer.structured, {answer.text}, true));
    }
  }
  calls_.ended();
}

bool McpServer::run(const Task& task) {
  const edge::McpCall& call = task.call;
  Connection& connection = *task.connection;
  if (!reached_) {  // once there was a daemon, clients wait for the next one
    if (const Result<void> connected = connection.client.connect(); !connected) {
      return finish(task, mcp_failed(connected.error()), nullptr);
    }
    reached_ = true;
  }
  const Result<Identity> identity =
      identify(connection.client, context_, *call.meta, call.client_name);
  if (!identity) return finish(task, mcp_failed(identity.error()), nullptr);
  if (!ended_) deliveries_.saw(*identity);
  std::function<void(std::string_view)> progress;
  if (!call.progress_token.empty()) {
    progress = [this, &call, count = std::uint64_t{0}](std::string_view message) mutable {
      writer_.write(edge::mcp_progress_line(call, ++count, message));
    };
  }
  McpAnswer answer = perform_call({connection.client, context_, *identity, call, umask_, progress});
  return finish(task, std::move(answer), &*identity);
}

// Puts what is pending onto the answer, writes it and confirms what it carried. False: the call was
// given up, and nothing was written.
bool McpServer::finish(const Task& task, McpAnswer answer, const Identity* identity) {
  const edge::McpCall& call = task.call;
  HandOver hand_over;
  std::unique_lock lock(inbox_mutex_, std::defer_lock);
  if (identity != nullptr && answer.daemon_answers && !ended_) {
    lock.lock();
    Result<HandOver> taken = take_pending(task, *identity);
    if (taken) {
      hand_over = std::move(*taken);
    } else if (call.tool == edge::McpToolId::inbox) {
      answer = mcp_failed(taken.error());  // elsewhere it is no business of the call
    }
  }
  std::vector<std::string> texts{answer.text};
  add_notice(call, hand_over, answer, texts);
  if (!hand_over.value.empty()) ++hand_overs_;  // before the client can have seen it
  if (!calls_.begin_answer(call.id, task.connection.get())) {
    settle(hand_over, "delivery.returned");
    return false;
  }
  const bool written =
      writer_.write(edge::mcp_result_line(call, *answer.structured, texts, answer.is_error)) &&
      !ended_;
  settle(hand_over, written ? "delivery.flushed" : "delivery.returned");
  if (lock.owns_lock()) lock.unlock();
  if (!written || answer.reported.empty() || identity == nullptr) return true;
  json::object params = mcp_caller(context_, *identity);
  params["delivery"] = answer.reported;
  (void)task.connection->client.call("delivery.flushed", params);  // else it comes again
  return true;
}

void McpServer::add_notice(const edge::McpCall& call, const HandOver& hand_over,
                           const McpAnswer& answer, std::vector<std::string>& texts) {
  const bool is_inbox = call.tool == edge::McpToolId::inbox && !answer.is_error;
  json::array ids;
  for (const json::value& event : array_of(hand_over.value, "events")) {
    if (event.is_object()) ids.push_back(json::value(text_of(event.get_object(), "id")));
  }
  if (is_inbox) {
    texts[0] += texts[0].empty() ? "" : " ";
    texts[0] +=
        ids.empty() ? "Nothing is pending." : "Pending: " + std::to_string(ids.size()) + ".";
  }
  if (!hand_over.value.empty()) {
    texts.push_back(text_of(hand_over.value, "text"));
    (*answer.structured)["notice"] = texts.back();
  }
  if (is_inbox || !ids.empty()) (*answer.structured)["notices"] = std::move(ids);
}

// Taking acknowledges what was taken before: whoever calls again has seen the answers before. A
// call that came before the last hand-over was written proves no such thing, and takes nothing.
Result<McpServer::HandOver> McpServer::take_pending(const Task& task, const Identity& identity) {
  if (task.hand_overs != hand_overs_) {
    if (task.call.tool != edge::McpToolId::inbox) return HandOver{};
    return fail(ErrorCode::conflict,
                "Pending results were handed over with another call at this moment; call again.");
  }
  // Without a key nothing is handed over; who asks for it is told why.
  if (identity.host_key.empty() && task.call.tool != edge::McpToolId::inbox) return HandOver{};
  HandOver out{{}, mcp_caller(context_, identity)};
  json::object params = out.caller;
  params["path"] = "tool";
  params["text_bytes"] = kNoticeBytesMax;
  TRY_ASSIGN(const json::object answer, inbox_.call("inbox.take", params));
  out.value = object_of(answer, "hand_over");
  return out;
}

void McpServer::settle(const HandOver& hand_over, std::string_view method) {
  if (hand_over.value.empty()) return;
  json::object params = hand_over.caller;
  params["delivery"] = text_of(hand_over.value, "delivery");
  (void)inbox_.call(method, params);  // else its offer ends by itself, and it comes again
}

}  // namespace

Result<int> mcp_command(const Context& context) {
  ::signal(SIGPIPE, SIG_IGN);
  McpServer server(context);
  server.serve();
  return 0;
}

}  // namespace waybill::cli
