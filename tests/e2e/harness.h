#pragma once
// Runs the real programs: a daemon on a data directory of its own, the command line against it.
// Nothing sleeps: every wait is for a line, an exit or a readable descriptor, with a generous cap
// after which the test fails and says what it was waiting for.

#include <sys/types.h>

#include <boost/json.hpp>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unique_fd.h"

namespace waybill::e2e {

using Seconds = std::chrono::seconds;
inline constexpr Seconds kCap{60};

// Under a sanitizer memory is its own, and everything takes its time.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif
#else
inline constexpr bool kSanitized = false;
#endif

// The programs under test.
std::string waybill_program();
std::string shim_program();

// What a finished program left.
struct Output {
  int exit_code = -1;  // 128 + n for a signal
  std::string out;
  std::string err;

  // The only JSON value on stdout; a failed expectation and null when there is none.
  boost::json::value json() const;
  // Each line of stdout as JSON.
  std::vector<boost::json::value> json_lines() const;
  // For messages of failed expectations.
  std::string describe() const;
};

// How to start a program. The environment is the test's own, less WAYBILL_*, plus `env`.
struct Launch {
  std::vector<std::string> argv;
  std::vector<std::string> env = {};    // "NAME=value"
  std::vector<std::string> unset = {};  // names to leave out
  std::string cwd = {};                 // "": the test's
  std::string input = {};               // its stdin; "": /dev/null
  std::optional<mode_t> umask = std::nullopt;
  std::optional<uid_t> uid = std::nullopt;  // with the group of the same number; needs root
  bool terminal = false;  // stdin is a terminal, its controlling one; `input` is typed there
  bool talks = false;     // stdin stays open after `input`, for `say`
};

// A program that runs. Killed by the destructor if it still does.
class Process {
 public:
  explicit Process(Launch launch);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;

  // To its stdin, now or while something is awaited of it; `talks` only.
  void say(std::string_view text);
  // Ends its stdin, after everything that was said.
  void hang_up();

  // The next line of stdout, without its newline; nullopt at its end or after the cap.
  std::optional<std::string> line(Seconds cap = kCap);
  // The same, parsed; null when there is none.
  boost::json::value json_line(Seconds cap = kCap);

  // Waits for the end of the program and of its output. After the cap it is killed and the test
  // fails.
  Output finish(Seconds cap = kCap);

  // Whether it has not ended yet.
  bool running();

  // Returns when one of the two has ended, or after the cap.
  static void wait_for_either(Process& one, Process& other, Seconds cap = kCap);

  // What was typed at its terminal and nobody has read yet.
  std::string typed_ahead() const;

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  bool pump(Deadline deadline);
  bool reap(Deadline deadline);

  std::vector<std::string> argv_;
  pid_t pid_ = -1;
  UniqueFd pidfd_;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd err_;
  UniqueFd keyboard_;  // the other end of its terminal
  std::string input_;
  bool talks_ = false;  // the end of `input_` is not the end of stdin
  std::string out_text_;
  std::string err_text_;
  std::size_t lines_given_ = 0;  // bytes of out_text_ that `line` has returned
  std::optional<int> exit_code_;
};

Output run(Launch launch, Seconds cap = kCap);

// A directory below /tmp, removed with all it holds.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A data directory and the daemon that serves it. The command line is called with --data and
// --no-autostart; jobs that still run at the end of the test are stopped, and a process that is
// left over then is a failed expectation. Whatever it starts carries the directory's path in its
// environment or on its command line, which is how it is found.
class Daemon {
 public:
  struct Options {
    std::string data_dir = {};                // "": DIR/data of a TempDir
    std::vector<std::string> arguments = {};  // of serve, e.g. {"--set", "stop_grace=1s"}
    std::vector<std::string> env = {};
    std::string cwd = {};
    std::optional<mode_t> umask = std::nullopt;
    std::optional<uid_t> uid = std::nullopt;  // of the daemon and of every call
    std::string program = {};                 // "": the one under test
    std::string typed = {};                   // not empty: at the terminal it is started from
  };

  Daemon() : Daemon(Options{}) {}
  explicit Daemon(Options options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Starts the daemon and waits for its ready line. A failed expectation when it does not come.
  void start();
  // SIGKILL, and waits for its end.
  void kill_9();
  // SIGTERM, and its output and exit code.
  Output terminate();
  // Whether it has ended without being asked, for instance at a crash point. Then it is not
  // `running` any more.
  bool crashed();
  // How many of them were killed, by themselves or by `kill_9`.
  int deaths() const { return deaths_; }
  // Starts another one when none runs: with each of these environments in turn, as long as they
  // die before they are ready, then with none. True when it did.
  void set_successors(std::vector<std::vector<std::string>> envs) { successors_ = std::move(envs); }
  bool revive();
  // Returns when the one that runs has ended.
  void wait_for_end() { Process::wait_for_either(*process_, *process_); }
  // Called whenever one was found dead, before the next is started.
  void on_death(std::function<void()> then) { on_death_ = std::move(then); }
  void restart() {
    kill_9();
    start();
  }

  // serve as it is, without waiting for anything: for daemons that are expected to refuse.
  Output serve_and_finish(std::vector<std::string> more = {});

  // One command line call, e.g. cli({"run", "--", "true"}); json adds --json and parses.
  Output cli(std::vector<std::string> arguments);
  boost::json::value json(std::vector<std::string> arguments);
  // A call that goes on while the test does other things.
  std::unique_ptr<Process> spawn(std::vector<std::string> arguments);
  Launch command(std::vector<std::string> arguments) const;
  // One call during which the daemon may crash: it is started again, unarmed, and the call goes on
  // by itself or, when it found nobody, is made again.
  Output cli_through_crashes(const std::vector<std::string>& arguments);

  // Accepts a command and gives its id.
  std::string accept(const std::string& command, std::vector<std::string> flags = {});
  // The job object; `finished` waits for the end of the job first.
  boost::json::value show(const std::string& job);
  boost::json::value finished(const std::string& job);

  pid_t pid() const;
  std::string typed_ahead() const { return process_->typed_ahead(); }
  bool running() const { return process_ != nullptr; }
  const std::string& data_dir() const { return data_dir_; }
  std::string socket() const { return data_dir_ + "/waybill.sock"; }
  std::string log() const;
  const boost::json::value& ready() const { return ready_; }

  // Environment of every later call, and of every later daemon.
  void set_env(std::vector<std::string> env) { client_env_ = std::move(env); }
  void set_daemon_env(std::vector<std::string> env) { options_.env = std::move(env); }
  // Later calls are made by the host of this session.
  void act_as_host(const std::string& session, const std::string& key = "key");

 private:
  bool has_unfinished_jobs() const;
  bool try_start();

  TempDir temp_;
  Options options_;
  std::string data_dir_;
  std::vector<std::string> client_env_;
  std::string mark_;  // "NAME=data directory"
  std::unique_ptr<Process> process_;
  boost::json::value ready_;
  int deaths_ = 0;
  std::vector<std::vector<std::string>> successors_;
  std::function<void()> on_death_;
};

// What a job waits on until the test says so: `command()` is a piece of shell that returns when
// `open` was called, however early or late either of them comes.
class Gate {
 public:
  explicit Gate(const std::string& path);
  std::string command() const { return "read -r gate < '" + path_ + "'"; }
  void open();

 private:
  std::string path_;
  UniqueFd fd_;  // both ends, so that nothing blocks
};

// What many jobs wait for together: `command()` is a piece of shell that returns when `open` was
// called.
class StartLine {
 public:
  explicit StartLine(const std::string& path);
  std::string command() const { return "flock -s '" + path_ + "' true"; }
  void open() { fd_.reset(); }

 private:
  std::string path_;
  UniqueFd fd_;  // locked
};

// What a job tells the test: `command(word)` is a piece of shell that says a word.
class Bell {
 public:
  explicit Bell(const std::string& path);
  std::string command(const std::string& word) const {
    return "echo " + word + " > '" + path_ + "'";
  }
  // The next word; nullopt after the cap.
  std::optional<std::string> word(Seconds cap = kCap);

 private:
  std::string path_;
  UniqueFd fd_;
  std::string buffer_;
};

// A job that runs, whose supervisor is known, and that ends with 3 once it is let go.
class HeldJob {
 public:
  explicit HeldJob(Daemon& daemon);
  const std::string& id() const { return id_; }
  // Returns when its supervisor has ended: its end is on record then.
  void end();

 private:
  TempDir temp_;
  Gate gate_;
  std::string id_;
  pid_t supervisor_ = -1;
};

// A raw connection to a daemon's socket.
class RawClient {
 public:
  explicit RawClient(const std::string& socket_path);
  bool connected() const { return connected_; }
  void send(std::string_view bytes);
  // The next line without its newline; nullopt at the end of the connection or after the cap.
  std::optional<std::string> line(Seconds cap = kCap);
  // What every conversation begins with; `call` says it by itself when it has not been said.
  boost::json::value hello();
  // One JSON-RPC call and its answer.
  boost::json::value call(std::string_view method, boost::json::object params = {});
  void close() { fd_.reset(); }

 private:
  UniqueFd fd_;
  bool connected_ = false;
  std::string buffer_;
  int next_id_ = 1;
  bool greeted_ = false;
};

// Looking into answers: at(value, "job.exit.code"), with array indices as numbers. A failed
// expectation and null when there is nothing at that place.
boost::json::value at(const boost::json::value& value, std::string_view path);
// The items of the list at that place; none, and a failed expectation, when there is no list.
std::vector<boost::json::value> items_at(const boost::json::value& value, std::string_view path);
std::string text_at(const boost::json::value& value, std::string_view path);
std::int64_t number_at(const boost::json::value& value, std::string_view path);

// "" when there is null at that place.
std::string text_or_empty_at(const boost::json::value& value, std::string_view path);
// The receipts that end a job.
std::vector<std::string> endings_of(const boost::json::value& job);

// ---- processes ---------------------------------------------------------------------------------

// Those that have this text in their environment or on their command line.
std::vector<pid_t> processes_with(const std::string& marker);
// Returns when it has ended (also when it is not ours); false after the cap.
bool await_end(pid_t pid, Seconds cap = kCap);
// Waits for those that are just ending; what remains is a failed expectation, and is killed.
void expect_none_left(const std::string& marker);

std::string read_file(const std::string& path);
unsigned mode_of(const std::string& path);

}  // namespace waybill::e2e
