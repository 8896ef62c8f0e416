#include "e2e/harness.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

extern char** environ;

namespace waybill::e2e {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kReadBytes = 64 * 1024;

int milliseconds_left(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<long>(left, 0, 1'000'000));
}

std::string name_of(const std::string& assignment) {
  return assignment.substr(0, assignment.find('='));
}

std::vector<std::string> environment_of(const Launch& launch) {
  std::vector<std::string> result = launch.env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name = name_of(*entry);
    const bool replaced = std::any_of(launch.env.begin(), launch.env.end(),
                                      [&](const std::string& own) { return name_of(own) == name; });
    const bool left_out =
        std::find(launch.unset.begin(), launch.unset.end(), name) != launch.unset.end();
    if (!replaced && !left_out && name.rfind("WAYBILL_", 0) != 0) result.emplace_back(*entry);
  }
  return result;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Pipe make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) ADD_FAILURE() << "pipe: " << std::strerror(errno);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// In the child, between fork and exec.
[[noreturn]] void become(const Launch& launch, int in, int out, int err, char* const* argv,
                         char* const* envp) {
  ::signal(SIGPIPE, SIG_DFL);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (launch.umask) ::umask(*launch.umask);
  if (launch.terminal && (::setsid() < 0 || ::ioctl(STDIN_FILENO, TIOCSCTTY, 0) != 0)) ::_exit(126);
  if (launch.uid &&
      (::setgroups(0, nullptr) != 0 || ::setgid(*launch.uid) != 0 || ::setuid(*launch.uid) != 0)) {
    ::_exit(126);
  }
  if (!launch.cwd.empty() && ::chdir(launch.cwd.c_str()) != 0) ::_exit(126);
  ::execve(argv[0], argv, envp);
  ::_exit(127);
}

struct Terminal {
  UniqueFd keyboard;
  UniqueFd line;
};

// The text is typed before anybody could read it.
Terminal make_terminal(const std::string& typed) {
  int keyboard = -1;
  int line = -1;
  if (::openpty(&keyboard, &line, nullptr, nullptr, nullptr) != 0) {
    ADD_FAILURE() << "openpty: " << std::strerror(errno);
    return {};
  }
  Terminal terminal{UniqueFd(keyboard), UniqueFd(line)};
  ::fcntl(keyboard, F_SETFD, FD_CLOEXEC);
  ::fcntl(line, F_SETFD, FD_CLOEXEC);
  if (::write(keyboard, typed.data(), typed.size()) < 0) ADD_FAILURE() << std::strerror(errno);
  return terminal;
}

}  // namespace

std::string waybill_program() { return std::string(WAYBILL_BINARY_DIR) + "/waybill"; }
std::string shim_program() { return std::string(WAYBILL_BINARY_DIR) + "/waybill-shim"; }

// ---- Output ------------------------------------------------------------------------------------

std::string Output::describe() const {
  return "exit " + std::to_string(exit_code) + "\nstdout: " + out + "\nstderr: " + err;
}

json::value Output::json() const {
  boost::system::error_code error;
  json::value value = json::parse(out, error);
  if (!error) return value;
  ADD_FAILURE() << "no JSON on stdout; " << describe();
  return nullptr;
}

std::vector<json::value> Output::json_lines() const {
  std::vector<json::value> values;
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t end = std::min(out.find('\n', at), out.size());
    boost::system::error_code error;
    values.push_back(json::parse(out.substr(at, end - at), error));
    if (error) ADD_FAILURE() << "a line that is not JSON; " << describe();
    at = end + 1;
  }
  return values;
}

// ---- Process -----------------------------------------------------------------------------------

Process::Process(Launch launch) : argv_(launch.argv), input_(launch.input), talks_(launch.talks) {
  Pipe in = make_pipe();
  Pipe out = make_pipe();
  Pipe err = make_pipe();
  if (launch.terminal) {
    Terminal terminal = make_terminal(input_);
    in.read = std::move(terminal.line);
    keyboard_ = std::move(terminal.keyboard);
    input_.clear();
  } else if (input_.empty() && !talks_) {
    in.read.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  }
  const std::vector<std::string> environment = environment_of(launch);
  const std::vector<char*> argv = pointers(argv_);
  const std::vector<char*> envp = pointers(environment);
  ::signal(SIGPIPE, SIG_IGN);  // a program may end before it has read its input
  pid_ = ::fork();
  if (pid_ == 0) {
    become(launch, in.read.get(), out.write.get(), err.write.get(), argv.data(), envp.data());
  }
  pidfd_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!input_.empty() || talks_) {
    ::fcntl(in.write.get(), F_SETFL, O_NONBLOCK);
    in_ = std::move(in.write);
  }
  out_ = std::move(out.read);
  err_ = std::move(err.read);
}

Process::~Process() {
  if (exit_code_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Process::signal(int number) const {
  if (!exit_code_) ::kill(pid_, number);
}

namespace {

// Appends what is there; closes at the end.
void drain(UniqueFd& fd, std::string& text) {
  std::array<char, kReadBytes> buffer;
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  if (got > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(got));
  } else if (got == 0 || errno != EINTR) {
    fd.reset();
  }
}

// Writes what fits; closes when nobody reads.
void feed(UniqueFd& fd, std::string& text) {
  const ssize_t wrote = ::write(fd.get(), text.data(), text.size());
  if (wrote > 0) text.erase(0, static_cast<std::size_t>(wrote));
  if (wrote < 0 && errno != EAGAIN && errno != EINTR) fd.reset();
}

}  // namespace

// Moves bytes once; false when nothing came before the deadline or nothing is left to come.
bool Process::pump(Deadline deadline) {
  if (!out_.valid() && !err_.valid()) return false;
  std::array<pollfd, 3> events{{{out_.get(), POLLIN, 0},
                                {err_.get(), POLLIN, 0},
                                {input_.empty() ? -1 : in_.get(), POLLOUT, 0}}};
  const int ready = ::poll(events.data(), events.size(), milliseconds_left(deadline));
  if (ready < 0 && errno == EINTR) return true;
  if (ready <= 0) return false;
  if (events[0].revents != 0) drain(out_, out_text_);
  if (events[1].revents != 0) drain(err_, err_text_);
  if (events[2].revents != 0) {
    feed(in_, input_);
    if (input_.empty() && !talks_) in_.reset();
  }
  return true;
}

void Process::say(std::string_view text) {
  input_ += text;
  if (in_.valid()) feed(in_, input_);
}

void Process::hang_up() {
  talks_ = false;
  if (input_.empty()) in_.reset();
}

std::optional<std::string> Process::line(Seconds cap) {
  const auto deadline = Clock::now() + cap;
  for (;;) {
    const std::size_t end = out_text_.find('\n', lines_given_);
    if (end != std::string::npos) {
      std::string text = out_text_.substr(lines_given_, end - lines_given_);
      lines_given_ = end + 1;
      return text;
    }
    if (!out_.valid() || !pump(deadline)) return std::nullopt;
  }
}

json::value Process::json_line(Seconds cap) {
  const auto text = line(cap);
  if (!text) return nullptr;
  boost::system::error_code error;
  json::value value = json::parse(*text, error);
  if (error) ADD_FAILURE() << "a line that is not JSON: " << *text;
  return value;
}

bool Process::reap(Deadline deadline) {
  if (exit_code_) return true;
  pollfd event{pidfd_.get(), POLLIN, 0};
  while (::poll(&event, 1, milliseconds_left(deadline)) < 0 && errno == EINTR) {
  }
  if (event.revents == 0) return false;
  int status = 0;
  if (::waitpid(pid_, &status, 0) != pid_) return false;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

bool Process::running() { return !reap(Clock::now()); }

void Process::wait_for_either(Process& one, Process& other, Seconds cap) {
  std::array<pollfd, 2> events{{{one.pidfd_.get(), POLLIN, 0}, {other.pidfd_.get(), POLLIN, 0}}};
  const auto deadline = Clock::now() + cap;
  while (::poll(events.data(), events.size(), milliseconds_left(deadline)) < 0 && errno == EINTR) {
  }
}

std::string Process::typed_ahead() const {
  std::array<char, 256> name{};
  if (::ptsname_r(keyboard_.get(), name.data(), name.size()) != 0) return "";
  const UniqueFd line(::open(name.data(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  std::array<char, 4096> bytes{};
  const ssize_t got = ::read(line.get(), bytes.data(), bytes.size());
  return got > 0 ? std::string(bytes.data(), static_cast<std::size_t>(got)) : "";
}

Output Process::finish(Seconds cap) {
  const auto deadline = Clock::now() + cap;
  while (pump(deadline)) {
  }
  if (!reap(deadline)) {
    ::kill(pid_, SIGKILL);
    reap(Clock::now() + kCap);
    std::string command;
    for (const std::string& argument : argv_) command += argument + " ";
    ADD_FAILURE() << "still running after " << cap.count() << " s: " << command
                  << "\nstdout: " << out_text_ << "\nstderr: " << err_text_;
  }
  return {exit_code_.value_or(-1), out_text_, err_text_};
}

Output run(Launch launch, Seconds cap) { return Process(std::move(launch)).finish(cap); }

// ---- TempDir -----------------------------------------------------------------------------------

TempDir::TempDir() {
  char name[] = "/tmp/waybill-e2e-XXXXXX";
  path_ = ::mkdtemp(name);
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

// ---- Daemon ------------------------------------------------------------------------------------

Daemon::Daemon(Options options) : options_(std::move(options)), data_dir_(options_.data_dir) {
  if (data_dir_.empty()) data_dir_ = temp_.path() + "/data";
  if (options_.program.empty()) options_.program = waybill_program();
  if (options_.uid && ::chown(temp_.path().c_str(), *options_.uid, *options_.uid) != 0) {
    ADD_FAILURE() << temp_.path() << ": " << std::strerror(errno);
  }
  mark_ = "E2E_MARK=" + data_dir_;
}

Daemon::~Daemon() {
  client_env_.clear();
  if (has_unfinished_jobs()) {
    if (!running() || crashed()) start();
    cli({"shutdown", "--stop-jobs"});
  }
  kill_9();
  expect_none_left(data_dir_);
}

bool Daemon::has_unfinished_jobs() const {
  std::error_code error;
  for (const auto& job : std::filesystem::directory_iterator(data_dir_ + "/jobs", error)) {
    if (std::filesystem::exists(job.path() / "lock") &&
        !std::filesystem::exists(job.path() / "final.json")) {
      return true;
    }
  }
  return false;
}

namespace {

Launch serve_launch(const std::string& data_dir, const Daemon::Options& options) {
  Launch launch;
  launch.argv = {options.program, "serve", "--data", data_dir};
  launch.argv.insert(launch.argv.end(), options.arguments.begin(), options.arguments.end());
  launch.env = options.env;
  launch.cwd = options.cwd;
  launch.umask = options.umask;
  launch.uid = options.uid;
  launch.terminal = !options.typed.empty();
  launch.input = options.typed;
  return launch;
}

}  // namespace

bool Daemon::try_start() {
  process_ = std::make_unique<Process>(serve_launch(data_dir_, options_));
  ready_ = process_->json_line();
  const json::object* line = ready_.if_object();
  return line != nullptr && line->contains("ready") && line->at("ready") == true;
}

void Daemon::start() {
  if (try_start()) return;
  ADD_FAILURE() << "the daemon did not become ready; " << process_->finish(Seconds{5}).describe();
  process_.reset();
}

void Daemon::kill_9() {
  if (!running()) return;
  process_->signal(SIGKILL);
  process_->finish();
  process_.reset();
  ++deaths_;
}

Output Daemon::terminate() {
  process_->signal(SIGTERM);
  Output output = process_->finish();
  process_.reset();
  return output;
}

Output Daemon::serve_and_finish(std::vector<std::string> more) {
  Launch launch = serve_launch(data_dir_, options_);
  launch.argv.insert(launch.argv.end(), more.begin(), more.end());
  return run(std::move(launch));
}

Launch Daemon::command(std::vector<std::string> arguments) const {
  Launch launch;
  launch.argv = {options_.program, "--data", data_dir_, "--no-autostart"};
  launch.argv.insert(launch.argv.end(), arguments.begin(), arguments.end());
  launch.env = client_env_;
  launch.env.push_back(mark_);
  launch.uid = options_.uid;
  return launch;
}

Output Daemon::cli(std::vector<std::string> arguments) {
  return run(command(std::move(arguments)));
}

json::value Daemon::json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "--json");
  return cli(std::move(arguments)).json();
}

std::unique_ptr<Process> Daemon::spawn(std::vector<std::string> arguments) {
  return std::make_unique<Process>(command(std::move(arguments)));
}

std::string Daemon::accept(const std::string& command, std::vector<std::string> flags) {
  flags.insert(flags.begin(), "run");
  flags.insert(flags.end(), {"--", command});
  const json::value answer = json(std::move(flags));
  return answer.is_object() ? text_at(answer, "job.id") : "";
}

json::value Daemon::show(const std::string& job) { return at(json({"show", job}), "job"); }

json::value Daemon::finished(const std::string& job) {
  const Output output = cli({"wait", job, "--timeout", "60s"});
  EXPECT_NE(output.exit_code, 124) << "the job does not end; " << output.describe();
  return show(job);
}

void Daemon::act_as_host(const std::string& session, const std::string& key) {
  set_env({"WAYBILL_SESSION=" + session, "WAYBILL_HOST_KEY=" + key});
}

pid_t Daemon::pid() const { return process_ ? process_->pid() : -1; }

std::string Daemon::log() const { return read_file(data_dir_ + "/daemon.log"); }

// ---- Gate --------------------------------------------------------------------------------------

Gate::Gate(const std::string& path) : path_(path) {
  if (::mkfifo(path.c_str(), 0600) != 0) ADD_FAILURE() << path << ": " << std::strerror(errno);
  fd_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

void Gate::open() {
  if (::write(fd_.get(), "go\n", 3) != 3) ADD_FAILURE() << path_ << ": " << std::strerror(errno);
}

StartLine::StartLine(const std::string& path)
    : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  if (::flock(fd_.get(), LOCK_EX) != 0) ADD_FAILURE() << path << ": " << std::strerror(errno);
}

Bell::Bell(const std::string& path) : path_(path) {
  if (::mkfifo(path.c_str(), 0600) != 0) ADD_FAILURE() << path << ": " << std::strerror(errno);
  fd_.reset(::open(path.c_str(), O_RDWR | O_CLOEXEC));
}

std::optional<std::string> Bell::word(Seconds cap) {
  const auto deadline = Clock::now() + cap;
  for (;;) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string text = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return text;
    }
    pollfd event{fd_.get(), POLLIN, 0};
    if (::poll(&event, 1, milliseconds_left(deadline)) <= 0) return std::nullopt;
    std::array<char, 4096> bytes{};
    const ssize_t got = ::read(fd_.get(), bytes.data(), bytes.size());
    if (got > 0) buffer_.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

// ---- RawClient ---------------------------------------------------------------------------------

HeldJob::HeldJob(Daemon& daemon) : gate_(temp_.path() + "/gate") {
  Bell bell(temp_.path() + "/bell");
  id_ = daemon.accept(bell.command("$PPID") + "; " + gate_.command() + "; exit 3");
  const auto word = bell.word();
  if (word) supervisor_ = std::stoi(*word);
  EXPECT_TRUE(word) << "the job was not started";
}

void HeldJob::end() {
  gate_.open();
  EXPECT_TRUE(await_end(supervisor_));
}

RawClient::RawClient(const std::string& socket_path)
    : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const std::size_t slash = socket_path.rfind('/');
  const UniqueFd dir(
      ::open(socket_path.substr(0, slash).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const std::string path = "/proc/self/fd/" + std::to_string(dir.get()) + socket_path.substr(slash);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  connected_ =
      ::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

void RawClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::optional<std::string> RawClient::line(Seconds cap) {
  const auto deadline = Clock::now() + cap;
  for (;;) {
    const std::size_t end = buffer_.find('\n');
    if (end != std::string::npos) {
      std::string text = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return text;
    }
    pollfd event{fd_.get(), POLLIN, 0};
    if (::poll(&event, 1, milliseconds_left(deadline)) <= 0) return std::nullopt;
    std::array<char, kReadBytes> bytes;
    const ssize_t got = ::recv(fd_.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return std::nullopt;
    buffer_.append(bytes.data(), static_cast<std::size_t>(got));
  }
}

json::value RawClient::hello() {
  greeted_ = true;
  return call("hello", {{"protocol", 1}});
}

json::value RawClient::call(std::string_view method, json::object params) {
  if (!greeted_) hello();
  const json::object request{{"jsonrpc", "2.0"},
                             {"id", next_id_++},
                             {"method", json::string_view(method.data(), method.size())},
                             {"params", std::move(params)}};
  send(json::serialize(request) + "\n");
  const auto answer = line();
  if (!answer) {
    ADD_FAILURE() << "no answer to " << method;
    return nullptr;
  }
  return json::parse(*answer);
}

}  // namespace waybill::e2e
