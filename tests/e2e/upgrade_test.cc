// Upgrades (SPEC section 8, case O30): supervisors of an earlier version finish on their own under
// this daemon, jobs run on while the programs are replaced or broken, clients of the first protocol
// are understood, and nothing of ours stands in a control group that a restart ends.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/crc32.h"
#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

// ---- supervisors of an earlier version ---------------------------------------------------------

// The fields that a launch file of protocol 1 may have.
const std::set<std::string> kProtocolOne{"job",
                                         "node_seq",
                                         "program",
                                         "arg",
                                         "cwd",
                                         "umask",
                                         "grace_ms",
                                         "capture",
                                         "cap_bytes",
                                         "leftovers",
                                         "head_bytes",
                                         "deadline_ms",
                                         "leftover_grace_ms",
                                         "drain_grace_ms",
                                         "drain_max_ms",
                                         "env_bytes",
                                         "env_crc"};

// The launch file as the daemon of that time would have written it.
std::string as_protocol_one(const std::string& file) {
  std::string out = std::string("protocol=1") + '\0';
  for (std::size_t at = 0; at < file.size();) {
    const std::size_t end = file.find('\0', at);
    const std::string field = file.substr(at, end - at);
    if (kProtocolOne.contains(field.substr(0, field.find('=')))) out += field + '\0';
    at = end + 1;
  }
  char digits[9] = {};
  crc32_hex(crc32(out.data(), out.size()), digits);
  return out + "crc=" + std::string(digits, 8) + '\0';
}

// Starts a supervisor as daemons do: the locked file as descriptor 3, a session of its own, no
// environment, SIGUSR1 blocked.
pid_t start_supervisor(const std::string& program, const std::string& job_dir) {
  const int lock = ::open((job_dir + "/lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(::flock(lock, LOCK_EX | LOCK_NB), 0);
  std::string name = "waybill-shim";
  std::string path = job_dir;
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    ::sigprocmask(SIG_SETMASK, &blocked, nullptr);
    ::dup2(lock, 3);
    ::close_range(4, ~0U, 0);
    char* argv[] = {name.data(), path.data(), nullptr};
    char* envp[] = {nullptr};
    ::execve(program.c_str(), argv, envp);
    ::_exit(127);
  }
  ::close(lock);
  return pid;
}

// A job that an earlier version's daemon has started and that this version's daemon finds.
class KeptTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { daemon_.act_as_host("s"); }

  // Accepted by a daemon that dies before it has started the supervisor; the kept one is started
  // in its place. No daemon runs afterwards.
  std::string start_under_kept(const std::string& command, std::vector<std::string> flags = {}) {
    daemon_.set_daemon_env({"WAYBILL_CRASH=supervise.after_launch_file"});
    daemon_.start();
    const pid_t pid = daemon_.pid();
    const std::string id = daemon_.accept(command, std::move(flags));
    EXPECT_TRUE(await_end(pid));
    EXPECT_TRUE(daemon_.crashed());
    daemon_.set_daemon_env({});
    const std::string dir = daemon_.data_dir() + "/jobs/" + id;
    const std::string launch = as_protocol_one(read_file(dir + "/launch"));
    std::ofstream(dir + "/launch", std::ios::binary | std::ios::trunc) << launch;
    supervisor_ = start_supervisor(
        std::string(WAYBILL_BINARY_DIR) + "/kept/" + GetParam() + "/bin/waybill-shim", dir);
    return id;
  }
  void reap() {
    int status = 0;
    EXPECT_EQ(::waitpid(supervisor_, &status, 0), supervisor_);
  }
  void expect_heard_once(const std::string& event) {
    const json::value taken = daemon_.json({"inbox", "--timeout", "60s"});
    ASSERT_EQ(items_at(taken, "events").size(), 1U) << json::serialize(taken);
    EXPECT_EQ(text_at(taken, "events.0.id"), event);
    EXPECT_TRUE(daemon_.cli({"inbox"}).out.empty());
  }

  TempDir temp_;
  Daemon daemon_;
  pid_t supervisor_ = -1;
};

TEST_P(KeptTest, I10_an_older_supervisor_finishes_its_job_under_this_daemon) {
  Gate gate(temp_.path() + "/gate");
  Bell bell(temp_.path() + "/bell");
  const std::string id =
      start_under_kept("echo once >> '" + temp_.path() + "/runs'; echo out; " + bell.command("up") +
                       "; " + gate.command() + "; echo end; exit 3");
  ASSERT_TRUE(bell.word());
  daemon_.start();
  EXPECT_EQ(text_at(daemon_.show(id), "status"), "running");
  EXPECT_EQ(daemon_.cli({"logs", id, "--raw"}).out, "out\n");
  gate.open();
  expect_heard_once(id + ".failed.1");
  reap();
  const json::value job = daemon_.show(id);
  EXPECT_EQ(number_at(job, "exit.code"), 3) << json::serialize(job);
  EXPECT_EQ(text_at(job, "cause"), "exit");
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
  EXPECT_EQ(daemon_.cli({"logs", id, "--raw"}).out, "out\nend\n");
  EXPECT_EQ(read_file(temp_.path() + "/runs"), "once\n");
}

TEST_P(KeptTest, I2_what_ended_under_an_older_supervisor_while_no_daemon_ran_is_heard) {
  const std::string id = start_under_kept("seq 1 100000; exit 7");
  reap();
  daemon_.start();
  expect_heard_once(id + ".failed.1");
  const json::value job = daemon_.show(id);
  EXPECT_EQ(number_at(job, "exit.code"), 7) << json::serialize(job);
  EXPECT_EQ(number_at(job, "output.bytes"), 588895);
}

TEST_P(KeptTest, I7_this_daemon_stops_a_job_of_an_older_supervisor_with_its_proof) {
  Bell bell(temp_.path() + "/bell");
  const std::string id = start_under_kept(
      "trap '' TERM; setsid sleep 1000 & " + bell.command("up") + "; while :; do sleep 1000; done",
      {"--grace", "200ms"});
  ASSERT_TRUE(bell.word());
  daemon_.start();
  EXPECT_EQ(daemon_.cli({"stop", id, "--wait", "--timeout", "60s"}).exit_code, 0);
  reap();
  const json::value job = daemon_.show(id);
  EXPECT_EQ(text_at(job, "status"), "stopped") << json::serialize(job);
  EXPECT_EQ(text_at(job, "proof"), "subreaper");
}

TEST_P(KeptTest, I9_an_older_supervisor_that_is_killed_leaves_an_unknown_end_and_the_output) {
  Gate gate(temp_.path() + "/gate");
  Bell bell(temp_.path() + "/bell");
  const std::string id = start_under_kept("echo before; " + bell.command("up") + "; " +
                                          gate.command() + "; echo after");
  ASSERT_TRUE(bell.word());
  daemon_.start();
  ::kill(supervisor_, SIGKILL);
  reap();
  gate.open();
  const json::value job = daemon_.finished(id);
  EXPECT_EQ(text_at(job, "status"), "failed") << json::serialize(job);
  EXPECT_EQ(text_at(job, "cause"), "supervisor_lost");
  EXPECT_EQ(daemon_.cli({"logs", id, "--raw"}).out, "before\nafter\n");
}

TEST_P(KeptTest, leftovers_of_an_older_supervisor_are_named_and_gone) {
  const std::string id = start_under_kept("sleep 1000 & exit 0");
  reap();
  daemon_.start();
  const json::value job = daemon_.finished(id);
  EXPECT_EQ(text_at(job, "status"), "succeeded") << json::serialize(job);
  ASSERT_EQ(items_at(job, "leftovers").size(), 1U) << json::serialize(job);
}

INSTANTIATE_TEST_SUITE_P(Versions, KeptTest, ::testing::Values("shim-1"),
                         [](const auto&) { return std::string("launch_1"); });

// ---- the programs are replaced -----------------------------------------------------------------

// The programs in a directory of their own, so that they can be broken and mended.
class Installed {
 public:
  Installed() {
    fs::copy_file(waybill_program(), program());
    fs::copy_file(shim_program(), shim());
  }
  std::string program() const { return temp_.path() + "/waybill"; }
  std::string shim() const { return temp_.path() + "/waybill-shim"; }
  // Replaced by rename, as installers do: what runs keeps the file it was started from.
  void replace(const std::string& path, const std::string& text, mode_t mode) {
    std::ofstream(path + ".new") << text;
    ::chmod((path + ".new").c_str(), mode);
    fs::rename(path + ".new", path);
  }
  void mend(const std::string& path, const std::string& from) {
    fs::copy_file(from, path + ".new", fs::copy_options::overwrite_existing);
    fs::rename(path + ".new", path);
  }

 private:
  TempDir temp_;
};

TEST(Upgrade, O30_jobs_run_on_while_the_new_program_cannot_be_started) {
  constexpr int kJobs = 20;
  Installed installed;
  TempDir temp;
  Daemon::Options options;
  options.program = installed.program();
  options.arguments = {"--set", "running_per_session=30"};
  Daemon daemon(options);
  daemon.act_as_host("s");
  daemon.start();
  StartLine line(temp.path() + "/line");
  std::vector<std::string> ids;
  for (int i = 0; i < kJobs; ++i) {
    ids.push_back(daemon.accept("echo " + std::to_string(i) + " >> '" + temp.path() + "/runs'; " +
                                line.command() + "; echo ok; exit " + std::to_string(i)));
  }
  std::vector<pid_t> supervisors;
  for (const std::string& id : ids) {
    json::value job = daemon.show(id);
    while (at(job, "started_at").is_null()) job = daemon.show(id);
    const json::value start =
        json::parse(read_file(daemon.data_dir() + "/jobs/" + id + "/start.json"));
    supervisors.push_back(static_cast<pid_t>(number_at(start, "shim_pid")));
  }
  installed.replace(installed.program(), "not a program\n", 0644);
  daemon.kill_9();
  // Whoever calls now is told plainly that nothing can be started, and nothing is lost by it.
  const Output refused = run({{waybill_program(), "--data", daemon.data_dir(), "--session", "s",
                               "--no-autostart", "show", ids[0]}});
  EXPECT_EQ(refused.exit_code, 122) << refused.describe();
  line.open();
  for (const pid_t supervisor : supervisors) EXPECT_TRUE(await_end(supervisor));
  installed.mend(installed.program(), waybill_program());
  daemon.start();
  std::map<std::string, int> heard;
  while (heard.size() < ids.size()) {
    const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
    ASSERT_EQ(taken.exit_code, 0) << taken.describe() << heard.size();
    for (const json::value& event : items_at(taken.json(), "events")) ++heard[text_at(event, "id")];
  }
  for (int i = 0; i < kJobs; ++i) {
    const std::string& id = ids[static_cast<std::size_t>(i)];
    const json::value job = daemon.show(id);
    EXPECT_EQ(number_at(job, "exit.code"), i);
    EXPECT_EQ(daemon.cli({"logs", id, "--raw"}).out, "ok\n");
    EXPECT_EQ(heard[id + (i == 0 ? ".completed.1" : ".failed.1")], 1);
    EXPECT_EQ(endings_of(job).size(), 1U);
  }
  std::multiset<std::string> runs;
  std::istringstream lines(read_file(temp.path() + "/runs"));
  for (std::string one; lines >> one;) runs.insert(one);
  EXPECT_EQ(runs.size(), static_cast<std::size_t>(kJobs)) << "each command ran once";
}

TEST(Upgrade, O30_a_supervisor_that_cannot_be_started_is_said_and_hurts_nobody_else) {
  Installed installed;
  Daemon::Options options;
  options.program = installed.program();
  Daemon daemon(options);
  daemon.act_as_host("s");
  daemon.start();
  HeldJob held(daemon);
  installed.replace(installed.shim(), "not a program\n", 0755);
  const json::value job = daemon.finished(daemon.accept("true"));
  EXPECT_EQ(text_at(job, "status"), "failed") << json::serialize(job);
  EXPECT_EQ(text_at(job, "exit.kind"), "not_started");
  EXPECT_EQ(text_at(job, "cause"), "not_started");
  EXPECT_FALSE(text_at(job, "exit.reason").empty());
  EXPECT_EQ(daemon.cli({"doctor"}).exit_code, 1);
  EXPECT_EQ(text_at(daemon.show(held.id()), "status"), "running");
  installed.mend(installed.shim(), shim_program());
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 4"}).exit_code, 4);
  held.end();
  EXPECT_EQ(number_at(daemon.finished(held.id()), "exit.code"), 3);
}

// ---- clients of the first protocol -------------------------------------------------------------

// What the first version's client sent, word for word, and what it read of the answers. None of it
// may be taken away while the protocol's number stays.
TEST(Upgrade, O30_a_client_of_the_first_version_is_understood) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  const json::value hello =
      client.call("hello", {{"protocol", 1}, {"client", "cli"}, {"version", "0.1.0"}});
  EXPECT_EQ(number_at(hello, "result.protocol"), 1);
  const json::object caller{{"session", "s"}, {"host_key", "k"}};
  const auto with = [&](json::object params) {
    for (const auto& entry : caller) params[entry.key()] = entry.value();
    return params;
  };
  const json::value attached = client.call("session.attach", with({{"one_shot", false}}));
  EXPECT_GE(number_at(attached, "result.session.fence_number"), 1);
  client.call("turn.begin", with({{"turn", "t"}}));
  const json::value made = client.call("job.run", with({{"command", "exit 3"},
                                                        {"shell", "/bin/bash"},
                                                        {"cwd", "/"},
                                                        {"env", json::object{}},
                                                        {"turn", "t"},
                                                        {"owner", "turn"},
                                                        {"wake", "always"},
                                                        {"label", "l"},
                                                        {"key", "once"},
                                                        {"umask", 18},
                                                        {"leftovers", "kill"},
                                                        {"grace_ms", 5000},
                                                        {"cap_bytes", 67108864}}));
  const std::string id = text_at(made, "result.job.id");
  EXPECT_EQ(text_at(made, "result.delivery_path"), "this_turn");
  EXPECT_TRUE(at(made, "result.twin").is_null());
  const json::value ended =
      client.call("turn.end", with({{"turn", "t"}, {"wait", true}, {"timeout_ms", 60000}}));
  EXPECT_EQ(text_at(ended, "result.messages.0.events.0.id"), id + ".failed.1");
  const std::string delivery = text_at(ended, "result.messages.0.delivery");
  client.call("delivery.flushed", with({{"delivery", delivery}}));
  const json::value acked = client.call("ack", with({{"ids", json::array{delivery}}}));
  EXPECT_EQ(items_at(acked, "result.acked").size() + items_at(acked, "result.already").size(), 1U);
  const json::value shown = client.call("job.show", with({{"job", id}}));
  for (const char* key : {"id",
                          "kind",
                          "tenant",
                          "session",
                          "turn",
                          "sandbox",
                          "generation",
                          "label",
                          "command_preview",
                          "cwd",
                          "status",
                          "stopping",
                          "verdict",
                          "exit",
                          "stages",
                          "stages_reason",
                          "cause",
                          "actor",
                          "reason",
                          "proof",
                          "attempt",
                          "queue_position",
                          "waiting_because",
                          "created_at",
                          "started_at",
                          "finished_at",
                          "duration_ms",
                          "output",
                          "leftovers",
                          "usage",
                          "receipts",
                          "events"}) {
    EXPECT_TRUE(at(shown, "result.job").as_object().contains(key)) << key;
  }
  const json::value logs =
      client.call("job.logs", with({{"job", id}, {"offset", 0}, {"raw", true}}));
  for (const char* key : {"offset", "next_offset", "end", "gaps", "data", "encoding"}) {
    EXPECT_TRUE(at(logs, "result").as_object().contains(key)) << key;
  }
  EXPECT_EQ(items_at(client.call("job.list", with({})), "result.jobs").size(), 1U);
  EXPECT_EQ(
      items_at(client.call("job.stop", with({{"jobs", json::array{id}}})), "result.jobs").size(),
      1U);
  EXPECT_FALSE(text_at(client.call("version"), "result.version").empty());
}

TEST(Upgrade, O30_a_client_from_the_future_is_told_what_to_upgrade) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  client.send(R"({"jsonrpc":"2.0","id":1,"method":"hello","params":{"protocol":2}})"
              "\n");
  const json::value answer = json::parse(client.line().value_or("null"));
  EXPECT_EQ(text_at(answer, "error.data.code"), "unsupported_version");
  EXPECT_NE(text_at(answer, "error.message").find("upgrade the daemon"), std::string::npos);
}

// ---- systemd -----------------------------------------------------------------------------------

// The restart of a unit must signal the daemon alone: supervisors live in its control group.
TEST(Systemd, I10_the_unit_leaves_supervisors_alone) {
  const std::string unit = std::string(WAYBILL_SOURCE_DIR) + "/packaging/systemd/waybill.service";
  const std::string text = read_file(unit);
  EXPECT_NE(text.find("\nKillMode=process\n"), std::string::npos);
  EXPECT_NE(text.find("\nDelegate=yes\n"), std::string::npos);
  if (::access("/usr/bin/systemd-analyze", X_OK) != 0) {
    GTEST_SKIP() << "there is no systemd-analyze to read it with";
  }
  TempDir runtime;
  Launch check;
  check.argv = {"/usr/bin/systemd-analyze", "verify", "--user", unit};
  check.env = {"XDG_RUNTIME_DIR=" + runtime.path()};
  const Output output = run(check);
  // It also looks for the program where the unit says it is installed.
  std::string complaints;
  std::istringstream lines(output.err);
  for (std::string line; std::getline(lines, line);) {
    if (line.find("is not executable") == std::string::npos) complaints += line + "\n";
  }
  EXPECT_EQ(complaints, "");
}

// A machine on which a user manager runs, as far as the command line can tell: its socket, and a
// systemd-run that notes what it was asked and does what it says.
class UserManager {
 public:
  explicit UserManager(const std::string& body) {
    fs::create_directories(temp_.path() + "/systemd");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = temp_.path() + "/systemd/private";
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    fd_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    std::ofstream(temp_.path() + "/systemd-run")
        << "#!/bin/sh\necho \"$@\" >> '" << asked() << "'\n"
        << body << "\n";
    ::chmod((temp_.path() + "/systemd-run").c_str(), 0755);
  }
  static bool possible() {
    return ::access("/usr/bin/systemd-run", F_OK) == 0 &&
           run({{"/usr/bin/unshare", "-m", "/bin/true"}}).exit_code == 0;
  }
  std::string asked() const { return temp_.path() + "/asked"; }
  Output call(const std::string& data_dir, const std::string& words) const {
    Launch launch;
    launch.argv = {"/usr/bin/unshare", "-m", "/bin/sh", "-c",
                   "mount --bind '" + temp_.path() +
                       "/systemd-run' /usr/bin/systemd-run && exec '" + waybill_program() +
                       "' --data '" + data_dir + "' " + words};
    launch.env = {"XDG_RUNTIME_DIR=" + temp_.path()};
    return run(launch);
  }

 private:
  TempDir temp_;
  UniqueFd fd_;
};

TEST(Systemd, a_daemon_is_started_in_a_scope_of_its_own) {
  if (!UserManager::possible()) GTEST_SKIP() << "no systemd-run, or no mount namespace";
  UserManager manager("while [ \"$1\" != -- ]; do shift; done; shift; exec \"$@\"");
  Daemon daemon;  // its directory, and its end
  const Output made = manager.call(daemon.data_dir(), "run --wait -- 'exit 5'");
  EXPECT_EQ(made.exit_code, 5) << made.describe();
  const std::string asked = read_file(manager.asked());
  EXPECT_TRUE(asked.starts_with("--user --scope --quiet --collect -- ")) << asked;
  EXPECT_EQ(daemon.cli({"shutdown", "--stop-jobs"}).exit_code, 0);
}

TEST(Systemd, where_no_scope_can_be_had_a_daemon_is_started_all_the_same) {
  if (!UserManager::possible()) GTEST_SKIP() << "no systemd-run, or no mount namespace";
  UserManager manager("echo 'no bus' >&2; exit 1");
  Daemon daemon;
  EXPECT_EQ(manager.call(daemon.data_dir(), "run --wait -- 'exit 5'").exit_code, 5);
  EXPECT_FALSE(read_file(manager.asked()).empty());
  EXPECT_EQ(daemon.cli({"shutdown", "--stop-jobs"}).exit_code, 0);
}

}  // namespace
}  // namespace waybill::e2e
