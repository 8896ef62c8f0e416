// `waybill host CLIENT -- COMMAND…`: starts a client and stands between it and whoever started
// this program. Everything passes through byte for byte; between two lines of its input, notices
// of ended jobs go in.
//
// Threads: the caller's moves the bytes and never waits for the daemon; a delivery loop for the
// session; one that acknowledges.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "cli/answer.h"
#include "cli/ask.h"
#include "cli/claude_stream.h"
#include "cli/commands.h"
#include "cli/delivery_loop.h"
#include "cli/host_process.h"
#include "edge/hook.h"

namespace waybill::cli {
namespace {

// What is written at once where writing may block: a pipe that polls as writable takes this much.
constexpr std::size_t kPipeTakes = 4096;
constexpr std::size_t kChunk = 64 * 1024;
constexpr std::size_t kSessionsMax = 8;
constexpr Millis kLastWords{1000};

// Says to the daemon what nobody waits for, on a thread of its own.
class Acknowledger {
 public:
  explicit Acknowledger(const Context& context)
      : context_(context), state_(std::make_shared<State>(client_options(context))) {}
  ~Acknowledger() {
    if (thread_.joinable()) thread_.detach();  // see `finish`
  }

  void add(const DeliveryTarget& target, const std::string& delivery) {
    const std::lock_guard lock(state_->mutex);
    json::object params{{"session", target.session},
                        {"host_key", target.host_key},
                        {"ids", json::array{json::value(delivery)}}};
    push("ack", std::move(params));
  }

  // A user has spoken: the session's continuations are counted from here.
  void user_spoke(const DeliveryTarget& target) {
    if (target.session.empty()) return;  // it has none yet
    const std::lock_guard lock(state_->mutex);
    push("host.call", json::object{{"session", target.session},
                                   {"host_key", target.host_key},
                                   {"call", "user-" + std::to_string(++spoken_)},
                                   {"by_user", true}});
  }

  // Whether everything is said, within this time.
  bool finish(Millis most) {
    std::unique_lock lock(state_->mutex);
    state_->ending = true;
    state_->changed.notify_all();
    return !thread_.joinable() ||
           state_->changed.wait_for(lock, most, [this] { return state_->ended; });
  }

 private:
  struct Call {
    std::string method;
    json::object params;
  };
  struct State {
    explicit State(ClientOptions options) : daemon(std::move(options)) {}
    Client daemon;
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Call> calls;
    bool ending = false;
    bool ended = false;
  };

  void push(std::string method, json::object params) {
    if (!context_.tenant.empty()) params["tenant"] = context_.tenant;
    state_->calls.push_back({std::move(method), std::move(params)});
    state_->changed.notify_all();
    if (!thread_.joinable()) thread_ = std::thread([state = state_] { run(*state); });
  }

  static void run(State& state) {
    std::unique_lock lock(state.mutex);
    while (true) {
      state.changed.wait(lock, [&] { return state.ending || !state.calls.empty(); });
      if (state.calls.empty()) break;
      const Call call = std::move(state.calls.front());
      state.calls.pop_front();
      lock.unlock();
      // What is not acknowledged stays accepted, and comes again after the client has gone.
      (void)state.daemon.call(call.method, call.params);
      lock.lock();
    }
    state.ended = true;
    state.changed.notify_all();
  }

  const Context& context_;
  std::shared_ptr<State> state_;
  std::thread thread_;
  std::uint64_t spoken_ = 0;
};

class Host {
 public:
  explicit Host(const Context& context)
      : context_(context),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        acknowledger_(context),
        stream_(std::make_shared<ClaudeStream>(
            ClaudeStream::Told{[this] { ::eventfd_write(wake_.get(), 1); },
                               [this](const std::string& session) { has_session(session); },
                               [this](const std::string& delivery) { was_read(delivery); },
                               [this] { user_spoke(); }})) {}

  Result<void> start(std::vector<std::string> command);
  int serve();
  void finish(int code);

 private:
  Result<void> spawn(std::vector<std::string>& command, int in, int out);
  bool step();
  void from_caller();
  void to_client();
  void from_client();
  void to_caller();
  void pass_signal();
  void close_input();
  void drain();
  void has_session(const std::string& session);
  void was_read(const std::string& delivery);
  void user_spoke();

  const Context& context_;
  UniqueFd wake_;
  Acknowledger acknowledger_;
  std::shared_ptr<ClaudeStream> stream_;
  sigset_t before_{};  // the signal mask of this program's start
  pid_t child_ = -1;
  std::string host_key_;
  UniqueFd end_;  // of the client
  UniqueFd signals_;
  UniqueFd in_;   // the client's stdin
  UniqueFd out_;  // the client's stdout
  bool caller_writes_ = true;
  std::string to_client_;  // read and not written yet
  std::string to_caller_;  // read and not written yet
  bool ours_ = false;      // to_client_ is a line of the stream's own
  std::mutex mutex_;       // of what follows
  DeliveryTarget target_;  // the session that the client has now
  std::map<std::string, std::unique_ptr<DeliveryLoop>> loops_;
};

Result<void> Host::start(std::vector<std::string> command) {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t passed;
  ::sigemptyset(&passed);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) {
    ::sigaddset(&passed, number);
  }
  ::pthread_sigmask(SIG_BLOCK, &passed, &before_);
  signals_.reset(::signalfd(-1, &passed, SFD_CLOEXEC | SFD_NONBLOCK));
  std::array<int, 2> in{-1, -1};
  std::array<int, 2> out{-1, -1};
  if (::pipe2(in.data(), O_CLOEXEC) != 0) return fail(ErrorCode::unavailable, "No pipe.");
  const UniqueFd childs_in(in[0]);
  in_.reset(in[1]);
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return fail(ErrorCode::unavailable, "No pipe.");
  const UniqueFd childs_out(out[1]);
  out_.reset(out[0]);
  ::fcntl(in_.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(out_.get(), F_SETFL, O_NONBLOCK);
  TRY(spawn(command, childs_in.get(), childs_out.get()));
  end_.reset(static_cast<int>(::syscall(SYS_pidfd_open, child_, 0)));
  if (!end_.valid()) {
    ::kill(child_, SIGKILL);
    return fail(ErrorCode::unavailable, "The client's process cannot be watched.");
  }
  const std::optional<HostProcess> process = process_of(child_);
  if (process) host_key_ = host_key_of("claude", *process);
  return {};
}

Result<void> Host::spawn(std::vector<std::string>& command, int in, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  sigset_t pipe;
  ::sigemptyset(&pipe);
  ::sigaddset(&pipe, SIGPIPE);
  ::posix_spawnattr_setsigdefault(&attributes, &pipe);
  ::posix_spawnattr_setsigmask(&attributes, &before_);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const int failed =
      ::posix_spawnp(&child_, words[0], &actions, &attributes, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failed == 0) return {};
  return fail(ErrorCode::bad_request, command[0] + ": " + std::strerror(failed) + ".");
}

// The client's exit code, 128 + n for a signal.
int Host::serve() {
  while (step()) {
  }
  drain();
  stream_->closed();
  int status = 0;
  while (::waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// False: the client has ended.
bool Host::step() {
  if (in_.valid() && to_client_.empty()) {
    to_client_ = stream_->next_line();
    ours_ = !to_client_.empty();
    if (!caller_writes_ && !ours_) close_input();
  }
  const auto when = [](bool wanted, int fd) { return wanted ? fd : -1; };
  std::array<pollfd, 7> entries{
      {{end_.get(), POLLIN, 0},
       {signals_.get(), POLLIN, 0},
       {wake_.get(), POLLIN, 0},
       {when(caller_writes_ && to_client_.empty(), STDIN_FILENO), POLLIN, 0},
       {when(!to_client_.empty(), in_.get()), POLLOUT, 0},
       {when(to_caller_.empty(), out_.get()), POLLIN, 0},
       {when(!to_caller_.empty(), STDOUT_FILENO), POLLOUT, 0}}};
  if (::poll(entries.data(), entries.size(), -1) < 0) return true;
  if (entries[1].revents != 0) pass_signal();
  if (entries[2].revents != 0) {
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
  }
  if (entries[3].revents != 0) from_caller();
  if (entries[4].revents != 0) to_client();
  if (entries[5].revents != 0) from_client();
  if (entries[6].revents != 0) to_caller();
  return entries[0].revents == 0;
}

void Host::from_caller() {
  std::array<char, kChunk> chunk{};
  const ssize_t got = ::read(STDIN_FILENO, chunk.data(), chunk.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    caller_writes_ = false;
    return;
  }
  if (!in_.valid()) return;  // nobody reads it
  to_client_.assign(chunk.data(), static_cast<std::size_t>(got));
  stream_->sent(to_client_);
}

void Host::to_client() {
  const ssize_t wrote = ::write(in_.get(), to_client_.data(), to_client_.size());
  if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (wrote <= 0) return close_input();
  to_client_.erase(0, static_cast<std::size_t>(wrote));
  if (!to_client_.empty() || !ours_) return;
  ours_ = false;
  stream_->written();
}

void Host::close_input() {
  in_.reset();
  to_client_.clear();
  stream_->closed();
}

void Host::from_client() {
  std::array<char, kChunk> chunk{};
  const ssize_t got = ::read(out_.get(), chunk.data(), chunk.size());
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) return out_.reset();
  const std::string_view bytes(chunk.data(), static_cast<std::size_t>(got));
  stream_->received(bytes);
  to_caller_ = bytes;
}

void Host::to_caller() {
  const ssize_t wrote =
      ::write(STDOUT_FILENO, to_caller_.data(), std::min(to_caller_.size(), kPipeTakes));
  if (wrote < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (wrote <= 0) {  // nobody reads on: the client is to find out
    to_caller_.clear();
    return out_.reset();
  }
  to_caller_.erase(0, static_cast<std::size_t>(wrote));
}

void Host::pass_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof(info)) != sizeof(info)) return;
  // What a terminal sends, it sends to the client too.
  if (info.ssi_code > 0) return;
  ::kill(child_, static_cast<int>(info.ssi_signo));
}

// What the client said before its end.
void Host::drain() {
  while (true) {
    while (!to_caller_.empty()) {
      pollfd entry{STDOUT_FILENO, POLLOUT, 0};
      ::poll(&entry, 1, -1);
      to_caller();
    }
    if (!out_.valid()) return;
    from_client();
    if (to_caller_.empty()) return;
  }
}

void Host::has_session(const std::string& session) {
  const std::lock_guard lock(mutex_);
  if (host_key_.empty()) return;
  target_ = {context_.tenant, edge::hook_session(edge::HookClient::claude, session), host_key_,
             "claude", child_};
  for (const auto& [name, loop] : loops_) {
    if (name != target_.session) loop->ask_to_end();
  }
  // One that was replaced or refused has ended; what it waited for may be its own again.
  std::erase_if(loops_, [](const auto& one) { return one.second->await_end(Millis{0}); });
  if (loops_.contains(target_.session) || loops_.size() >= kSessionsMax) return;
  loops_[target_.session] =
      std::make_unique<DeliveryLoop>(client_options(context_), target_, stream_);
}

void Host::was_read(const std::string& delivery) {
  const std::lock_guard lock(mutex_);
  acknowledger_.add(target_, delivery);
}

void Host::user_spoke() {
  const std::lock_guard lock(mutex_);
  acknowledger_.user_spoke(target_);
}

// Ends this program. What waits for a daemon that is not there is left behind.
void Host::finish(int code) {
  bool ended = acknowledger_.finish(kLastWords);
  for (const auto& [name, loop] : loops_) {
    loop->ask_to_end();
    ended = loop->await_end(kLastWords) && ended;
  }
  if (!ended) ::_exit(code);
}

}  // namespace

Result<int> host_command(const Context& context) {
  if (context.parsed.operands.at(0) != "claude") {
    return fail(ErrorCode::bad_request, "CLIENT is claude.");
  }
  if (context.parsed.words.empty()) {
    return fail(ErrorCode::bad_request, "The command of the client stands after `--`.");
  }
  Host host(context);
  TRY(host.start(context.parsed.words));
  const int code = host.serve();
  host.finish(code);
  return code;
}

}  // namespace waybill::cli
