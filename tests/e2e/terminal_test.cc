// Jobs with a terminal of their own.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// How many descriptors a process has, and how many of them are what `target` begins with.
std::size_t descriptors(pid_t pid, const std::string& target = "") {
  std::size_t count = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    const std::string link = fs::read_symlink(entry.path(), error).string();
    count += link.starts_with(target) ? 1U : 0U;
  }
  return count;
}

class TerminalTest : public ::testing::Test {
 protected:
  std::string run_on(const std::string& command, std::vector<std::string> flags = {"--pty"}) {
    const std::string id = daemon.accept(command, std::move(flags));
    daemon.finished(id);
    return daemon.cli({"logs", "--raw", id}).out;
  }
  Output write(const std::string& job, const std::string& input,
               std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"write", job});
    Launch launch = daemon.command(flags);
    launch.input = input;
    return run(std::move(launch));
  }
  std::string raw(const std::string& job) { return daemon.cli({"logs", "--raw", job}).out; }
  std::string path(const std::string& name) const { return temp.path() + "/" + name; }
  pid_t pid_in(const std::string& job, const char* key) {
    const std::string start = read_file(daemon.data_dir() + "/jobs/" + job + "/start.json");
    return static_cast<pid_t>(json::parse(start).at(key).as_int64());
  }

  Daemon daemon;
  TempDir temp;
};

TEST_F(TerminalTest, the_output_is_a_terminal_of_the_default_size) {
  daemon.start();
  EXPECT_EQ(run_on("[ -t 1 ] && [ -t 2 ] && echo terminal; echo two >&2"), "terminal\r\ntwo\r\n");
  EXPECT_EQ(run_on("stty size < /dev/tty"), "24 80\r\n");
  EXPECT_EQ(run_on("echo a; exit 3"), "a\r\n");
  EXPECT_EQ(run_on("ps -o tty= -p $$ | grep -c pts"), "1\r\n");
}

TEST_F(TerminalTest, O20_nobody_waits_at_a_terminal_without_stdin) {
  daemon.start();
  EXPECT_EQ(run_on("read -r x; echo \"got:$x rc=$?\""), "got: rc=1\r\n");
  EXPECT_TRUE(contains(run_on("python3 -c 'input()'"), "EOFError"));
  EXPECT_EQ(run_on("cat"), "");
  EXPECT_EQ(run_on("[ -t 0 ] && echo tty || echo notty"), "notty\r\n");
  // Those who go to the terminal itself, once and again.
  EXPECT_EQ(run_on("for i in 1 2; do read -r x < /dev/tty; echo \"got:$x rc=$?\"; done"),
            "got: rc=1\r\ngot: rc=1\r\n");
  const std::string password =
      run_on("python3 -c 'import getpass; print(repr(getpass.getpass()))' 2>&1 || true");
  EXPECT_TRUE(contains(password, "EOFError") || contains(password, "''")) << password;
}

TEST_F(TerminalTest, its_name_is_dumb_unless_asked_for) {
  daemon.start();
  daemon.set_env({"TERM=xterm-of-the-caller"});
  EXPECT_EQ(run_on("echo $TERM"), "dumb\r\n");
  EXPECT_EQ(run_on("echo $TERM", {"--pty", "--env", "TERM=vt100"}), "vt100\r\n");
  EXPECT_EQ(run_on("echo $TERM", {}), "xterm-of-the-caller\n");
  RawClient client(daemon.socket());
  const auto by_call = [&](json::object env) {
    const json::value answer = client.call(
        "job.run",
        {{"command", "printf %s \"$TERM\""}, {"cwd", "/"}, {"pty", true}, {"env", std::move(env)}});
    const std::string id = text_at(answer, "result.job.id");
    daemon.finished(id);
    return raw(id);
  };
  EXPECT_EQ(by_call({}), "dumb");
  EXPECT_EQ(by_call({{"TERM", "linux"}}), "linux");
}

TEST_F(TerminalTest, colours_are_kept_raw_and_rendered_away) {
  daemon.start();
  const std::string id = daemon.accept("printf '\\033[31mred\\033[0m\\n'", {"--pty"});
  daemon.finished(id);
  EXPECT_EQ(raw(id), "\033[31mred\033[0m\r\n");
  EXPECT_EQ(daemon.cli({"logs", id}).out, "red\n");
}

TEST_F(TerminalTest, O20_a_prompt_is_answered_by_a_write) {
  daemon.start();
  const std::string id =
      daemon.accept("tty; read -rp 'name? ' x; echo \"got:$x\"", {"--pty", "--stdin"});
  EXPECT_EQ(write(id, "abc\n").exit_code, 0);
  EXPECT_EQ(text_at(daemon.finished(id), "status"), "succeeded");
  const std::string out = raw(id);
  EXPECT_TRUE(contains(out, "/dev/pts/")) << out;
  EXPECT_TRUE(contains(out, "name? ")) << out;
  EXPECT_TRUE(contains(out, "got:abc\r\n")) << out;
}

TEST_F(TerminalTest, a_close_is_the_end_of_the_file_in_mid_line_too) {
  daemon.start();
  for (const char* text : {"", "whole line\n", "no newline"}) {
    const std::string id = daemon.accept("stty -echo; cat; echo done", {"--pty", "--stdin"});
    EXPECT_EQ(write(id, text, {"--close"}).exit_code, 0);
    daemon.finished(id);
    EXPECT_TRUE(contains(raw(id), "done\r\n")) << raw(id);
    EXPECT_NE(write(id, "more").exit_code, 0);
  }
}

TEST_F(TerminalTest, O20_control_c_interrupts_what_runs_in_front) {
  daemon.start();
  Bell bell(path("bell"));
  const std::string id =
      daemon.accept("trap 'echo caught; exit 7' INT; " + bell.command("up") + "; sleep 300",
                    {"--pty", "--stdin"});
  ASSERT_TRUE(bell.word());
  EXPECT_EQ(write(id, "\003").exit_code, 0);
  EXPECT_EQ(number_at(daemon.finished(id), "exit.code"), 7);
  EXPECT_TRUE(contains(raw(id), "caught")) << raw(id);
}

TEST_F(TerminalTest, a_shell_at_the_terminal_has_job_control) {
  daemon.start();
  const Output accepted = daemon.cli(
      {"run", "--json", "--pty", "--stdin", "--argv", "--", "bash", "--norc", "--noprofile", "-i"});
  const std::string id = text_at(accepted.json(), "job.id");
  EXPECT_EQ(write(id, "sleep 300 &\nkill %1; wait %1\necho rc=$?\nsleep 300\n").exit_code, 0);
  // The second sleep runs in front, in a process group of its own; only it is interrupted.
  Launch logs = daemon.command({"logs", "--follow", "--raw", id});
  Process follow(std::move(logs));
  for (auto line = follow.line(); line && !contains(*line, "rc=143"); line = follow.line()) {
  }
  const auto late = std::chrono::steady_clock::now() + kCap;
  while (processes_with("WAYBILL_JOB=" + id).size() < 2) {
    ASSERT_LT(std::chrono::steady_clock::now(), late) << "the command in front was not started";
  }
  EXPECT_EQ(write(id, "\003exit 5\n").exit_code, 0);
  const json::value job = daemon.finished(id);
  EXPECT_EQ(number_at(job, "exit.code"), 5) << raw(id);
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
}

TEST_F(TerminalTest, I14_much_input_waits_for_the_reader) {
  daemon.start();
  Bell bell(path("bell"));
  Gate gate(path("gate"));
  const std::string id = daemon.accept("stty -echo -icanon min 1; " + bell.command("raw") + "; " +
                                           gate.command() + "; head -c 300000 | sha256sum",
                                       {"--pty", "--stdin"});
  ASSERT_TRUE(bell.word());
  std::string lines;
  while (lines.size() < 300000) lines += "0123456789abcdef0123456789abcd\n";
  lines.resize(300000);
  // Nobody reads: the terminal and the queue before it fill up, and the writer is told.
  RawClient client(daemon.socket());
  std::size_t taken = 0;
  for (bool full = false; !full;) {
    ASSERT_LT(taken, lines.size());
    const json::value reply = client.call(
        "job.write", {{"job", id}, {"data", lines.substr(taken, 65536)}, {"timeout_ms", 300}});
    taken += static_cast<std::size_t>(number_at(reply, "result.written"));
    full = at(reply, "result.timed_out").as_bool();
  }
  gate.open();
  EXPECT_EQ(write(id, lines.substr(taken)).exit_code, 0);
  daemon.finished(id);
  Launch sum;
  sum.argv = {"/usr/bin/sha256sum"};
  sum.input = lines;
  EXPECT_EQ(raw(id).substr(0, 64), run(std::move(sum)).out.substr(0, 64)) << raw(id);
}

TEST_F(TerminalTest, much_output_is_complete_at_the_end) {
  daemon.start();
  const std::string id = daemon.accept("seq 1 40000; printf last", {"--pty"});
  const json::value job = daemon.finished(id);
  EXPECT_EQ(text_at(job, "status"), "succeeded");
  const std::string out = raw(id);
  EXPECT_EQ(out.substr(out.size() - 11), "40000\r\nlast");
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 40000);
}

// ---- ends --------------------------------------------------------------------------------------

TEST_F(TerminalTest, I7_leftovers_that_hold_the_terminal_are_named_and_killed) {
  daemon.start();
  // Without setsid the terminal's hang-up at the end of its session would end it.
  const std::string id =
      daemon.accept("trap '' HUP; setsid sleep 300 & echo up; exit 2", {"--pty"});
  const json::value job = daemon.finished(id);
  EXPECT_EQ(number_at(job, "exit.code"), 2);
  EXPECT_EQ(raw(id), "up\r\n");
  EXPECT_EQ(text_at(job, "leftovers.0.comm"), "sleep") << json::serialize(job);
  EXPECT_TRUE(at(job, "leftovers.0.holds_output").as_bool());
  expect_none_left("WAYBILL_JOB=" + id);
}

TEST_F(TerminalTest, I7_a_stop_ends_everything_on_the_terminal) {
  daemon.start();
  Bell bell(path("bell"));
  const std::string id = daemon.accept(
      "trap '' TERM HUP; setsid sleep 300 & sleep 300 & " + bell.command("up") + "; sleep 300",
      {"--pty", "--stdin", "--grace", "200ms"});
  ASSERT_TRUE(bell.word());
  const Output output = daemon.cli({"stop", id, "--wait", "--timeout", "60s"});
  const json::value job = daemon.show(id);
  EXPECT_EQ(text_at(job, "status"), "stopped") << output.describe();
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
  expect_none_left("WAYBILL_JOB=" + id);
}

TEST_F(TerminalTest, a_lost_supervisor_hangs_the_terminal_up) {
  daemon.start();
  Bell bell(path("bell"));
  const std::string id = daemon.accept(bell.command("up") + "; sleep 300", {"--pty", "--stdin"});
  ASSERT_TRUE(bell.word());
  ASSERT_EQ(::kill(pid_in(id, "shim_pid"), SIGKILL), 0);
  const json::value job = daemon.finished(id);
  EXPECT_EQ(text_at(job, "status"), "failed") << json::serialize(job);
  EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
  expect_none_left("WAYBILL_JOB=" + id);
  EXPECT_NE(write(id, "x").exit_code, 0);
}

TEST_F(TerminalTest, a_command_that_survives_the_hang_up_is_adopted) {
  daemon.start();
  Bell bell(path("bell"));
  Gate gate(path("gate"));
  const std::string id = daemon.accept(
      "trap '' HUP; echo before; " + bell.command("up") + "; " + gate.command() + "; exit 3",
      {"--pty"});
  ASSERT_TRUE(bell.word());
  // What the supervisor has not read yet goes with the terminal.
  Process follow(daemon.command({"logs", "--follow", "--raw", id}));
  EXPECT_EQ(follow.line(), "before\r");
  ASSERT_EQ(::kill(pid_in(id, "shim_pid"), SIGKILL), 0);
  gate.open();
  const json::value job = daemon.finished(id);
  EXPECT_EQ(text_at(job, "cause"), "supervisor_lost") << json::serialize(job);
  EXPECT_EQ(raw(id), "before\r\n");
}

TEST_F(TerminalTest, a_hundred_at_once_leave_no_descriptor_behind) {
  constexpr std::size_t kJobs = 100;
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=" + std::to_string(kJobs)};
  Daemon many(options);
  many.start();
  const std::string warm = many.accept("true", {"--pty", "--stdin"});
  many.finished(warm);
  const std::size_t before = descriptors(many.pid());
  Bell bell(path("bell"));
  StartLine line(path("line"));
  std::vector<std::string> wait{"wait", "--timeout", "60s"};
  for (std::size_t i = 0; i < kJobs; ++i) {
    wait.push_back(
        many.accept("tty; " + bell.command("up") + "; " + line.command(), {"--pty", "--stdin"}));
  }
  for (std::size_t i = 0; i < kJobs; ++i) ASSERT_TRUE(bell.word());
  const auto pid_of = [&](const std::string& job, const char* key) {
    const std::string start = read_file(many.data_dir() + "/jobs/" + job + "/start.json");
    return static_cast<pid_t>(json::parse(start).at(key).as_int64());
  };
  // The supervisor has one terminal, the command its three descriptors of it.
  EXPECT_EQ(descriptors(pid_of(wait[3], "shim_pid"), "/dev/p"), 2U);
  EXPECT_EQ(descriptors(pid_of(wait[3], "main_pid"), "/dev/p"), 3U);
  EXPECT_EQ(descriptors(many.pid(), "/dev/p"), 0U);
  line.open();
  EXPECT_EQ(many.cli(wait).exit_code, 0);
  for (std::size_t i = 3; i < wait.size(); ++i) {
    many.finished(wait[i]);
    EXPECT_EQ(many.cli({"logs", "--raw", wait[i]}).out.rfind("/dev/pts/", 0), 0U);
  }
  // The ends of supervisors and connections are heard of a little later.
  expect_none_left(many.data_dir() + "/jobs");
  many.json({"status"});
  EXPECT_LE(descriptors(many.pid()), before + 2);
}

// ---- no terminal to have -----------------------------------------------------------------------

TEST_F(TerminalTest, O15_without_terminals_it_is_not_started) {
  Launch probe;
  probe.argv = {"/usr/bin/unshare", "-m", "/bin/mount", "--bind", "/dev/null", "/dev/ptmx"};
  if (run(std::move(probe)).exit_code != 0) GTEST_SKIP() << "needs a mount namespace";
  fs::create_symlink(shim_program(), path("waybill-shim"));
  std::ofstream(path("serve")) << "#!/bin/sh\nexec unshare -m sh -c 'mount --bind /dev/null "
                                  "/dev/ptmx && exec \"$@\"' sh '"
                               << waybill_program() << "' \"$@\"\n";
  fs::permissions(path("serve"), fs::perms::owner_all);
  Daemon::Options options;
  options.program = path("serve");
  Daemon bare(options);
  bare.start();
  const std::string id = bare.accept("echo ran", {"--pty"});
  const json::value job = bare.finished(id);
  EXPECT_EQ(text_at(job, "cause"), "not_started") << json::serialize(job);
  EXPECT_EQ(text_at(job, "exit.step"), "pty");
  EXPECT_EQ(number_at(job, "exit.errno"), ENOTTY);
  EXPECT_EQ(bare.cli({"wait", id}).exit_code, 126);
}

}  // namespace
}  // namespace waybill::e2e
