// What a job is started with: program, directory, environment, standard input, and whose it is.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr uid_t kNobody = 65534;
constexpr uid_t kSomebody = 54321;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

bool is_root() { return ::geteuid() == 0; }

void write_script(const std::string& path, const std::string& text, mode_t mode) {
  std::ofstream(path) << text;
  ASSERT_EQ(::chmod(path.c_str(), mode), 0);
}

// A copy of the programs that every user may execute.
std::string public_programs(const std::string& dir) {
  fs::create_directory(dir);
  fs::copy_file(waybill_program(), dir + "/waybill");
  fs::copy_file(shim_program(), dir + "/waybill-shim");
  for (const char* name : {"", "/waybill", "/waybill-shim"}) {
    ::chmod((dir + name).c_str(), 0755);
  }
  return dir + "/waybill";
}

// ---- what cannot be started --------------------------------------------------------------------

// What bash itself says of this command.
int exit_of_bash(const std::string& command) {
  Launch launch;
  launch.argv = {"/bin/bash", "-c", command};
  return run(std::move(launch)).exit_code;
}

void expect_shell_says(const std::string& command, int code, const std::string& message) {
  ASSERT_EQ(exit_of_bash(command), code) << command;
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"run", "--wait", "--", command});
  EXPECT_EQ(output.exit_code, code) << output.describe();
  EXPECT_TRUE(contains(output.out, message)) << output.describe();
  const json::value job = daemon.show(text_at(daemon.json({"list"}), "jobs.0.id"));
  EXPECT_EQ(text_at(job, "exit.kind"), "exited");
  EXPECT_EQ(number_at(job, "exit.code"), code);
  EXPECT_EQ(text_at(job, "status"), "failed");
}

TEST(LaunchTest, O15_a_command_that_does_not_exist) {
  expect_shell_says("no-such-cmd-xyz", 127, "no-such-cmd-xyz: command not found");
}

TEST(LaunchTest, O15_a_file_that_may_not_be_executed) {
  TempDir temp;
  const std::string script = temp.path() + "/script";
  write_script(script, "echo no\n", 0644);
  expect_shell_says(script, 126, "Permission denied");
}

TEST(LaunchTest, O15_a_script_whose_interpreter_is_missing) {
  TempDir temp;
  const std::string script = temp.path() + "/script";
  write_script(script, "#!/no/such/interpreter\n", 0755);
  const int code = exit_of_bash(script);
  EXPECT_TRUE(code == 126 || code == 127) << code;
  expect_shell_says(script, code, script + ": ");
}

TEST(LaunchTest, O15_a_program_without_a_shell_that_does_not_exist) {
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"run", "--wait", "--argv", "--", "no-such-cmd-xyz", "a b"});
  EXPECT_EQ(output.exit_code, 126) << output.describe();
  const json::value job = daemon.show(text_at(daemon.json({"list"}), "jobs.0.id"));
  SCOPED_TRACE(json::serialize(job));
  EXPECT_EQ(text_at(job, "status"), "failed");
  EXPECT_EQ(text_at(job, "verdict"), "not_started");
  EXPECT_EQ(text_at(job, "cause"), "not_started");
  EXPECT_EQ(text_at(job, "exit.kind"), "not_started");
  EXPECT_EQ(text_at(job, "exit.step"), "exec");
  EXPECT_EQ(number_at(job, "exit.errno"), ENOENT);
  EXPECT_TRUE(at(job, "exit.code").is_null());
  EXPECT_EQ(endings_of(job), std::vector<std::string>{"failed"});
}

TEST(LaunchTest, O15_a_shell_that_does_not_exist_is_refused) {
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"run", "--shell", "/no/such/shell", "--", "true"});
  EXPECT_NE(output.exit_code, 0);
  EXPECT_TRUE(contains(output.err, "/no/such/shell")) << output.describe();
  EXPECT_TRUE(at(daemon.json({"list"}), "jobs").get_array().empty());
}

TEST(LaunchTest, O15_a_directory_that_the_user_cannot_enter_is_refused) {
  if (!is_root()) GTEST_SKIP() << "only root can become another user";
  TempDir temp;
  ::chmod(temp.path().c_str(), 0755);
  const std::string closed = temp.path() + "/closed";
  fs::create_directory(closed);
  ASSERT_EQ(::chmod(closed.c_str(), 0700), 0);
  Daemon::Options options;
  options.uid = kNobody;
  options.program = public_programs(temp.path() + "/bin");
  options.cwd = "/";
  Daemon daemon(options);
  daemon.start();
  const Output output = daemon.cli({"run", "--cwd", closed, "--", "true"});
  EXPECT_EQ(output.exit_code, 121) << output.describe();
  EXPECT_TRUE(contains(output.err, "[cwd_missing]")) << output.err;
  EXPECT_TRUE(contains(output.err, closed)) << output.err;
  EXPECT_EQ(daemon.cli({"run", "--cwd", "/", "--wait", "--", "exit 6"}).exit_code, 6);
}

// One slot; the job waits in the queue while `meanwhile` happens.
json::value after_queueing(const std::vector<std::string>& flags,
                           const std::function<void()>& meanwhile) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=1"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  daemon.accept(gate.command());
  const std::string id = daemon.accept("echo ran", flags);
  EXPECT_EQ(text_at(daemon.show(id), "status"), "queued");
  EXPECT_EQ(number_at(daemon.show(id), "queue_position"), 1);
  meanwhile();
  gate.open();
  const json::value job = daemon.finished(id);
  EXPECT_EQ(text_at(job, "status"), "failed") << json::serialize(job);
  EXPECT_EQ(text_at(job, "cause"), "not_started");
  EXPECT_EQ(text_at(job, "verdict"), "not_started");
  EXPECT_EQ(daemon.cli({"wait", id}).exit_code, 126);
  EXPECT_EQ(daemon.cli({"logs", "--raw", id}).out.find("ran"), std::string::npos);
  return job;
}

TEST(LaunchTest, O15_O27_a_directory_that_goes_while_the_job_is_queued) {
  TempDir temp;
  const std::string cwd = temp.path() + "/cwd";
  fs::create_directory(cwd);
  const json::value job = after_queueing({"--cwd", cwd}, [&] { fs::remove(cwd); });
  EXPECT_EQ(text_at(job, "exit.step"), "chdir") << json::serialize(job);
  EXPECT_EQ(number_at(job, "exit.errno"), ENOENT);
}

TEST(LaunchTest, O15_a_shell_that_goes_while_the_job_is_queued) {
  TempDir temp;
  const std::string shell = temp.path() + "/bash";
  fs::copy_file("/bin/bash", shell);
  const json::value job = after_queueing({"--shell", shell}, [&] { fs::remove(shell); });
  EXPECT_EQ(text_at(job, "exit.step"), "exec") << json::serialize(job);
  EXPECT_EQ(number_at(job, "exit.errno"), ENOENT);
}

// ---- standard input ----------------------------------------------------------------------------

void nothing_to_read(Daemon& daemon) {
  const auto out = [&](const std::string& command) {
    const std::string id = daemon.accept(command);
    daemon.finished(id);
    return daemon.cli({"logs", "--raw", id}).out;
  };
  EXPECT_EQ(out("read -r x; echo \"got:$x rc=$?\""), "got: rc=1\n");
  EXPECT_TRUE(contains(out("python3 -c 'input()'"), "EOFError"));
  EXPECT_EQ(out("cat"), "");
  EXPECT_EQ(out("[ -t 0 ] && echo tty || echo notty"), "notty\n");
  EXPECT_EQ(out("(: < /dev/tty) 2>/dev/null && echo terminal || echo none"), "none\n");
}

TEST(LaunchTest, O20_a_prompt_meets_the_end_of_its_input) {
  Daemon daemon;
  daemon.start();
  nothing_to_read(daemon);
}

TEST(LaunchTest, O20_nobody_reads_the_terminal_that_the_daemon_was_started_from) {
  const std::string typed = "an operator typed this\n";
  Daemon::Options options;
  options.typed = typed;
  Daemon daemon(options);
  daemon.start();
  nothing_to_read(daemon);
  EXPECT_EQ(daemon.typed_ahead(), typed);
}

TEST(LaunchTest, O20_nobody_reads_the_terminal_of_the_caller) {
  Daemon daemon;
  daemon.start();
  Launch launch = daemon.command({"run", "--wait", "--", "cat; [ -t 0 ] || echo notty"});
  launch.terminal = true;
  launch.input = "typed ahead\n";
  Process client(std::move(launch));
  const Output output = client.finish();
  EXPECT_EQ(output.exit_code, 0) << output.describe();
  EXPECT_EQ(output.out, "notty\n");
  EXPECT_EQ(client.typed_ahead(), "typed ahead\n");
}

// ---- environment -------------------------------------------------------------------------------

// What `env -0` printed, one entry each.
std::vector<std::string> entries_of(const std::string& block) {
  std::vector<std::string> entries;
  for (std::size_t at = 0; at < block.size();) {
    const std::size_t end = std::min(block.find('\0', at), block.size());
    entries.push_back(block.substr(at, end - at));
    at = end + 1;
  }
  return entries;
}

bool has(const std::vector<std::string>& entries, const std::string& entry) {
  return std::find(entries.begin(), entries.end(), entry) != entries.end();
}

bool has_name(const std::vector<std::string>& entries, const std::string& name) {
  return std::any_of(entries.begin(), entries.end(),
                     [&](const std::string& entry) { return entry.rfind(name + "=", 0) == 0; });
}

TEST(LaunchTest, O28_a_job_has_the_environment_of_its_caller) {
  Daemon::Options options;
  options.env = {"LEAK=1", "PATH=/usr/bin"};
  Daemon daemon(options);
  daemon.start();
  const std::vector<std::string> mine = {
      "FOO=two words",  "PATH=/some/bin:/usr/bin:/bin",
      "LANG=C.UTF-8",   "BIG=" + std::string(60000, 'b'),
      "LINES=one\ntwo", "BYTES=\377\376\200",
      "EMPTY=",
  };
  std::vector<std::string> env = mine;
  env.insert(env.end(), {"WAYBILL_SESSION=caller", "WAYBILL_HOST_KEY=hidden-host-key"});
  daemon.set_env(env);
  const std::string id = daemon.accept("env -0", {"--env", "FOO=three words"});
  daemon.finished(id);
  const auto entries = entries_of(daemon.cli({"logs", "--raw", id}).out);
  for (const std::string& entry : mine) {
    EXPECT_TRUE(entry.rfind("FOO=", 0) == 0 || has(entries, entry)) << entry.substr(0, 40);
  }
  EXPECT_TRUE(has(entries, "FOO=three words"));
  EXPECT_TRUE(has(entries, "WAYBILL_SESSION=caller"));
  EXPECT_TRUE(has(entries, "WAYBILL_JOB=" + id));
  EXPECT_FALSE(has_name(entries, "LEAK"));
  EXPECT_FALSE(has_name(entries, "WAYBILL_HOST_KEY"));
  EXPECT_FALSE(has_name(entries, "BASH_ENV"));
  for (const auto& arguments :
       {std::vector<std::string>{"--json", "list"}, {"--json", "show", id}}) {
    const Output output = daemon.cli(arguments);
    EXPECT_FALSE(contains(output.out, "three words")) << output.out;
    EXPECT_FALSE(contains(output.out, "hidden-host-key")) << output.out;
  }
}

TEST(LaunchTest, O28_the_environment_of_a_queued_job_does_not_change) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=1"};
  options.env = {"LEAK=1"};
  Daemon daemon(options);
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/gate");
  daemon.accept(gate.command());
  daemon.set_env({"FOO=when accepted"});
  const std::string id = daemon.accept("env -0");
  EXPECT_EQ(text_at(daemon.show(id), "status"), "queued");
  daemon.kill_9();
  daemon.set_daemon_env({"FOO=of the daemon", "LEAK=2"});
  daemon.set_env({"FOO=later"});
  daemon.start();
  gate.open();
  EXPECT_EQ(text_at(daemon.finished(id), "status"), "succeeded");
  const auto entries = entries_of(daemon.cli({"logs", "--raw", id}).out);
  EXPECT_TRUE(has(entries, "FOO=when accepted"));
  EXPECT_FALSE(has_name(entries, "LEAK"));
}

TEST(LaunchTest, O28_the_bytes_of_a_command_survive) {
  Daemon daemon;
  daemon.start();
  const std::string text = "\xE4\xBD\xA0\xE5\xA5\xBD";  // two Chinese characters
  const Output octal =
      daemon.cli({"run", "--wait", "--", "printf '%s\\n' " + text + " | od -An -c"});
  EXPECT_TRUE(contains(octal.out, "344 275 240 345 245 275")) << octal.describe();
  const Output raw = daemon.cli({"run", "--wait", "--", "printf '%s\\n' " + text});
  EXPECT_EQ(raw.out, text + "\n");
  const json::value jobs = at(daemon.json({"list"}), "jobs");
  EXPECT_TRUE(contains(text_at(jobs, "0.command_preview"), text)) << json::serialize(jobs);
}

TEST(LaunchTest, O27_a_directory_with_an_unusual_name) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  const std::string cwd = temp.path() + "/\xE9\xA1\xB9\xE7\x9B\xAE \xC3\xA9 \"q\"";
  fs::create_directory(cwd);
  const Output output =
      daemon.cli({"run", "--wait", "--cwd", cwd, "--", "pwd; : > '\xC3\xB1 1'; ls"});
  EXPECT_EQ(output.out, cwd + "\n\xC3\xB1 1\n");
  EXPECT_EQ(text_at(daemon.json({"list"}), "jobs.0.cwd"), cwd);
}

TEST(LaunchTest, O27_a_directory_that_goes_while_the_job_runs) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  const std::string cwd = temp.path() + "/wt";
  fs::create_directory(cwd);
  Gate gate(temp.path() + "/gate");
  const std::string id = daemon.accept(gate.command() + "; exit 5", {"--cwd", cwd});
  fs::remove(cwd);
  gate.open();
  const Output again = daemon.cli({"run", "--cwd", cwd, "--", "true"});
  EXPECT_EQ(again.exit_code, 121);
  EXPECT_TRUE(contains(again.err, "cwd missing: " + cwd)) << again.describe();
  EXPECT_EQ(daemon.cli({"run", "--wait", "--cwd", "/", "--", "exit 3"}).exit_code, 3);
}

TEST(LaunchTest, O27_O28_unicode_and_newlines_survive_everywhere) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  const std::string cwd = temp.path() + "/项目 é \"q\"\nline two \\ $HOME `x`";
  fs::create_directory(cwd);
  const std::string label = "größe \"eins\"\nzwei 👍";
  const std::vector<std::string> words{"/usr/bin/printf", "[%s]",    "a\nb", "",
                                       "é \t'\"",         "\xff\xfe"};
  std::vector<std::string> call{"run",   "--label",         label,   "--cwd", cwd,
                                "--env", "NÄME=wert\nzwei", "--env", "E=",    "--argv",
                                "--"};
  call.insert(call.end(), words.begin(), words.end());
  const std::string id = text_at(daemon.json(call), "job.id");
  const json::value job = daemon.finished(id);
  EXPECT_EQ(text_at(job, "status"), "succeeded") << json::serialize(job);
  EXPECT_EQ(text_at(job, "label"), label);
  EXPECT_EQ(text_at(job, "cwd"), cwd);
  EXPECT_EQ(text_at(daemon.json({"list"}), "jobs.0.cwd"), cwd);
  EXPECT_EQ(daemon.cli({"logs", "--raw", id}).out, "[a\nb][][é \t'\"][\xff\xfe]");
  EXPECT_EQ(daemon.cli({"logs", id}).exit_code, 0);

  const std::string inside = daemon.accept(
      "pwd; printf '%s' \"${!N*}\" >/dev/null; env -0 | tr '\\0' '|'; : > 'ñ 1\n.txt'; ls",
      {"--cwd", cwd, "--env", "NÄME=wert\nzwei"});
  daemon.finished(inside);
  const std::string out = daemon.cli({"logs", "--raw", inside}).out;
  EXPECT_EQ(out.find(cwd + "\n"), 0U) << out;
  EXPECT_TRUE(contains(out, "NÄME=wert\nzwei|")) << out;
  EXPECT_TRUE(fs::exists(cwd + "/ñ 1\n.txt"));
}

// ---- users -------------------------------------------------------------------------------------

// A user with a home of its own and the default data directory below it.
struct User {
  uid_t uid;
  std::string home;
  std::string program;

  Launch launch(std::vector<std::string> argv) const {
    Launch launch;
    launch.argv = std::move(argv);
    launch.env = {"HOME=" + home, "E2E_MARK=" + home};
    launch.unset = {"XDG_STATE_HOME", "XDG_RUNTIME_DIR"};
    launch.cwd = "/";
    launch.umask = 0;
    launch.uid = uid;
    return launch;
  }
  Output cli(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program);
    return run(launch(std::move(arguments)));
  }
  std::string data() const { return home + "/.local/state/waybill"; }
};

User make_user(const std::string& dir, uid_t uid, const std::string& program) {
  User user{uid, dir + "/home-" + std::to_string(uid), program};
  fs::create_directory(user.home);
  ::chmod(user.home.c_str(), 0755);  // the neighbour may look into it
  EXPECT_EQ(::chown(user.home.c_str(), uid, uid), 0);
  return user;
}

// Nothing of one user's state can be read, written or called by the other.
void expect_closed_to(const User& owner, const User& other, const std::string& job) {
  for (const std::string& path :
       {owner.data() + "/waybill.db", owner.data() + "/seal.key",
        owner.data() + "/jobs/" + job + "/out", owner.data() + "/daemon.log"}) {
    ASSERT_TRUE(fs::exists(path)) << path;
    const Output output = run(other.launch({"/bin/cat", path}));
    EXPECT_NE(output.exit_code, 0) << path;
    EXPECT_TRUE(contains(output.err, "Permission denied")) << output.describe();
  }
  for (const char* flag : {"--no-autostart", "--json"}) {  // with and without starting one
    const Output output = other.cli({flag, "--data", owner.data(), "list"});
    EXPECT_NE(output.exit_code, 0) << output.describe();
    EXPECT_TRUE(contains(output.err, owner.data())) << output.describe();
  }
}

TEST(LaunchTest, O29_two_users_and_root_are_in_nobodys_way) {
  if (!is_root()) GTEST_SKIP() << "only root can become other users";
  TempDir temp;
  ::chmod(temp.path().c_str(), 0755);
  const std::string program = public_programs(temp.path() + "/bin");
  const std::vector<User> users = {make_user(temp.path(), 0, program),
                                   make_user(temp.path(), kNobody, program),
                                   make_user(temp.path(), kSomebody, program)};
  std::vector<std::string> jobs;
  for (const User& user : users) {
    const Output output = user.cli({"--json", "run", "--", "id -u"});
    ASSERT_EQ(output.exit_code, 0) << output.describe();
    jobs.push_back(text_at(output.json(), "job.id"));
    EXPECT_EQ(user.cli({"wait", jobs.back(), "--timeout", "60s"}).exit_code, 0);
    EXPECT_EQ(user.cli({"logs", "--raw", jobs.back()}).out, std::to_string(user.uid) + "\n");
    for (const auto& entry : fs::recursive_directory_iterator(user.data())) {
      EXPECT_EQ(mode_of(entry.path()) & 077U, 0U) << entry.path();
    }
  }
  expect_closed_to(users[0], users[1], jobs[0]);
  expect_closed_to(users[1], users[2], jobs[1]);
  expect_closed_to(users[2], users[1], jobs[2]);
  for (const User& user : users) {
    EXPECT_EQ(user.cli({"shutdown", "--stop-jobs"}).exit_code, 0);
    expect_none_left(user.home);
  }
}

TEST(LaunchTest, O29_what_another_user_created_first_is_refused_by_name) {
  if (!is_root()) GTEST_SKIP() << "only root can become other users";
  TempDir temp;
  ::chmod(temp.path().c_str(), 0755);
  const std::string program = public_programs(temp.path() + "/bin");
  const User first = make_user(temp.path(), kNobody, program);
  const User second = make_user(temp.path(), kSomebody, program);
  const std::string shared = first.home + "/shared";
  ASSERT_EQ(run(first.launch({"/bin/mkdir", shared})).exit_code, 0);
  ASSERT_EQ(::chmod(shared.c_str(), 0777), 0);
  const Output output = second.cli({"--data", shared, "run", "--", "true"});
  EXPECT_EQ(output.exit_code, 121) << output.describe();
  EXPECT_TRUE(contains(output.err, shared)) << output.err;
  EXPECT_TRUE(contains(output.err, std::to_string(kNobody)) || contains(output.err, "nobody"))
      << output.err;
  EXPECT_TRUE(fs::is_empty(shared));
}

}  // namespace
}  // namespace waybill::e2e
