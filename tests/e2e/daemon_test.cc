// The daemon as a process: one per directory, private, refusing what it must not serve, and gone
// without a trace of the jobs it ran.

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// ---- who may serve a directory -----------------------------------------------------------------

TEST(DaemonTest, the_ready_line_names_the_socket) {
  Daemon daemon;
  daemon.start();
  EXPECT_EQ(text_at(daemon.ready(), "socket"), daemon.socket());
  EXPECT_TRUE(at(daemon.ready(), "http").is_null());
  EXPECT_EQ(mode_of(daemon.socket()), 0600U);
}

TEST(DaemonTest, the_second_daemon_is_refused_and_touches_nothing) {
  Daemon first;
  first.start();
  const fs::file_time_type before = fs::last_write_time(first.data_dir());
  const Output second = first.serve_and_finish();
  EXPECT_EQ(second.exit_code, 121) << second.describe();
  EXPECT_TRUE(contains(second.err, "conflict")) << second.err;
  EXPECT_TRUE(contains(second.err, std::to_string(first.pid()))) << second.err;
  EXPECT_EQ(fs::last_write_time(first.data_dir()), before);
  EXPECT_EQ(first.cli({"status"}).exit_code, 0);
}

TEST(DaemonTest, of_many_that_start_at_once_exactly_one_serves) {
  Daemon place;
  std::vector<std::unique_ptr<Process>> daemons;
  for (int i = 0; i < 6; ++i) {
    Launch launch;
    launch.argv = {waybill_program(), "serve", "--data", place.data_dir()};
    daemons.push_back(std::make_unique<Process>(launch));
  }
  int ready = 0;
  for (const auto& daemon : daemons) {
    if (daemon->line()) {
      ++ready;
      continue;
    }
    EXPECT_EQ(daemon->finish().exit_code, 121);
  }
  EXPECT_EQ(ready, 1);
  EXPECT_EQ(place.cli({"status"}).exit_code, 0);
}

TEST(DaemonTest, O29_everything_is_private_whatever_the_umask) {
  Daemon::Options options;
  options.umask = 0;
  Daemon daemon(options);
  daemon.start();
  ASSERT_EQ(daemon.cli({"run", "--wait", "--cwd", "/", "--", "echo", "private"}).exit_code, 0);
  EXPECT_EQ(mode_of(daemon.data_dir()), 0700U);
  for (const auto& entry : fs::recursive_directory_iterator(daemon.data_dir())) {
    EXPECT_EQ(mode_of(entry.path()) & 077U, 0U) << entry.path();
  }
}

TEST(DaemonTest, O29_a_directory_of_somebody_else_is_refused_naming_path_and_owner) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  TempDir temp;
  const std::string path = temp.path() + "/theirs";
  fs::create_directory(path);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  Daemon::Options options;
  options.data_dir = path;
  Daemon daemon(options);
  const Output output = daemon.serve_and_finish();
  EXPECT_EQ(output.exit_code, 121) << output.describe();
  EXPECT_TRUE(contains(output.err, path)) << output.err;
  EXPECT_TRUE(contains(output.err, "uid 12345")) << output.err;
  EXPECT_TRUE(fs::is_empty(path));
}

TEST(DaemonTest, O29_a_directory_open_to_others_is_refused_with_the_cure) {
  TempDir temp;
  const std::string path = temp.path() + "/open";
  fs::create_directory(path);
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  Daemon::Options options;
  options.data_dir = path;
  Daemon daemon(options);
  const Output output = daemon.serve_and_finish();
  EXPECT_EQ(output.exit_code, 121) << output.describe();
  EXPECT_TRUE(contains(output.err, "chmod 700 " + path)) << output.err;
  EXPECT_TRUE(fs::is_empty(path));
}

// ---- settings ----------------------------------------------------------------------------------

TEST(DaemonTest, config_errors_name_file_and_line) {
  Daemon daemon;
  fs::create_directory(daemon.data_dir());
  ::chmod(daemon.data_dir().c_str(), 0700);
  std::ofstream(daemon.data_dir() + "/config.toml") << "stop_grace = \"1s\"\nno_such = 1\n";
  const Output output = daemon.serve_and_finish();
  EXPECT_EQ(output.exit_code, 120) << output.describe();
  EXPECT_TRUE(contains(output.err, "config.toml:2: ")) << output.err;
  EXPECT_TRUE(contains(output.err, "no_such")) << output.err;
}

TEST(DaemonTest, settings_come_from_file_and_command_line_and_are_shown) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=7"};
  Daemon daemon(options);
  fs::create_directory(daemon.data_dir());
  ::chmod(daemon.data_dir().c_str(), 0700);
  std::ofstream(daemon.data_dir() + "/config.toml")
      << "stop_grace = \"1s\"\nrunning_per_session = 3\n";
  daemon.start();
  const auto status = daemon.json({"status"});
  EXPECT_EQ(number_at(status, "settings.stop_grace"), 1000);
  EXPECT_EQ(number_at(status, "settings.running_per_session"), 7);
}

TEST(DaemonTest, wrong_settings_on_the_command_line_are_a_usage_error) {
  Daemon daemon;
  for (const char* setting : {"no_such=1", "stop_grace=soon", "running_per_session=0"}) {
    const Output output = daemon.serve_and_finish({"--set", setting});
    EXPECT_EQ(output.exit_code, 120) << setting << "\n" << output.describe();
  }
}

TEST(DaemonTest, another_kind_of_store_is_refused) {
  Daemon daemon;
  const Output output = daemon.serve_and_finish({"--store", "postgresql://localhost/x"});
  EXPECT_EQ(output.exit_code, 120) << output.describe();
}

// ---- states that must not be served ------------------------------------------------------------

TEST(DaemonTest, I12_a_newer_store_is_refused_and_left_as_it_is) {
  Daemon daemon;
  daemon.start();
  EXPECT_EQ(daemon.terminate().exit_code, 0);
  const std::string store = daemon.data_dir() + "/waybill.db";
  Launch bump;
  bump.argv = {"/usr/bin/sqlite3", store,
               "UPDATE meta SET value = '99' WHERE key = 'schema_version'; "
               "PRAGMA wal_checkpoint(TRUNCATE);"};
  ASSERT_EQ(run(bump).exit_code, 0);
  const std::string before = read_file(store);
  const Output output = daemon.serve_and_finish();
  EXPECT_EQ(output.exit_code, 123) << output.describe();
  EXPECT_TRUE(contains(output.err, "store_newer")) << output.err;
  EXPECT_TRUE(read_file(store) == before);
  EXPECT_FALSE(fs::exists(daemon.socket()));
}

TEST(DaemonTest, I12_a_store_that_is_none_is_refused_and_left_as_it_is) {
  Daemon daemon;
  daemon.start();
  EXPECT_EQ(daemon.terminate().exit_code, 0);
  const std::string store = daemon.data_dir() + "/waybill.db";
  const std::string scribble(8192, 'x');
  std::ofstream(store, std::ios::trunc) << scribble;
  const Output output = daemon.serve_and_finish();
  EXPECT_EQ(output.exit_code, 123) << output.describe();
  EXPECT_TRUE(contains(output.err, "state_corrupt")) << output.err;
  EXPECT_EQ(read_file(store), scribble);
}

// ---- paths -------------------------------------------------------------------------------------

TEST(DaemonTest, a_path_longer_than_a_socket_address_works) {
  TempDir temp;
  Daemon::Options options;
  options.data_dir = temp.path() + "/" + std::string(200, 'd');
  Daemon daemon(options);
  daemon.start();
  EXPECT_GT(daemon.socket().size(), 200U);
  const Output output = daemon.cli({"run", "--wait", "--cwd", "/", "--", "exit 7"});
  EXPECT_EQ(output.exit_code, 7) << output.describe();
}

TEST(DaemonTest, O27_the_directory_it_was_started_from_may_go) {
  TempDir temp;
  Daemon::Options options;
  options.cwd = temp.path() + "/gone";
  fs::create_directory(options.cwd);
  Daemon daemon(options);
  daemon.start();
  fs::remove(options.cwd);
  EXPECT_EQ(daemon.cli({"run", "--wait", "--cwd", "/", "--", "exit 5"}).exit_code, 5);
}

// ---- ends --------------------------------------------------------------------------------------

TEST(DaemonTest, SIGTERM_ends_it_and_jobs_run_on) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/go");
  const auto job = daemon.json({"run", "--cwd", "/", "--", gate.command() + "; exit 9"});
  const std::string id = text_at(job, "job.id");
  const Output ended = daemon.terminate();
  EXPECT_EQ(ended.exit_code, 0) << ended.describe();
  EXPECT_FALSE(fs::exists(daemon.socket()));
  gate.open();
  daemon.start();
  EXPECT_EQ(daemon.cli({"wait", id}).exit_code, 9);
  EXPECT_EQ(number_at(daemon.json({"show", id}), "job.exit.code"), 9);
}

TEST(DaemonTest, after_a_SIGKILL_the_next_one_takes_over_socket_and_jobs) {
  Daemon daemon;
  daemon.start();
  TempDir temp;
  Gate gate(temp.path() + "/go");
  const auto job = daemon.json({"run", "--cwd", "/", "--", gate.command() + "; exit 11"});
  const std::string id = text_at(job, "job.id");
  daemon.kill_9();
  EXPECT_TRUE(fs::exists(daemon.socket()));
  EXPECT_EQ(daemon.cli({"status"}).exit_code, 122);
  gate.open();
  daemon.start();
  EXPECT_EQ(daemon.cli({"wait", id}).exit_code, 11);
}

TEST(DaemonTest, shutdown_answers_and_ends_it) {
  Daemon daemon;
  daemon.start();
  EXPECT_EQ(daemon.cli({"shutdown"}).exit_code, 0);
  EXPECT_EQ(daemon.terminate().exit_code, 0);
  EXPECT_FALSE(fs::exists(daemon.socket()));
}

TEST(DaemonTest, shutdown_can_stop_the_jobs) {
  Daemon daemon;
  daemon.start();
  const auto job = daemon.json({"run", "--cwd", "/", "--", "sleep 1000"});
  const Output output = daemon.cli({"shutdown", "--stop-jobs"});
  EXPECT_EQ(output.exit_code, 0) << output.describe();
  EXPECT_EQ(daemon.terminate().exit_code, 0);
  daemon.start();
  EXPECT_EQ(text_at(daemon.json({"show", text_at(job, "job.id")}), "job.status"), "stopped");
}

TEST(DaemonTest, what_waits_is_answered_when_it_ends) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  const auto job = daemon.json({"run", "--cwd", "/", "--", "sleep 1000"});
  client.hello();
  client.send(R"({"jsonrpc":"2.0","id":"w","method":"job.wait","params":{"jobs":[")" +
              text_at(job, "job.id") + "\"],\"timeout_ms\":60000}}\n");
  EXPECT_EQ(client.call("version").is_null(), false);
  EXPECT_EQ(daemon.terminate().exit_code, 0);
  const auto answer = client.line();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(contains(*answer, "unavailable")) << *answer;
}

// ---- clients -----------------------------------------------------------------------------------

TEST(DaemonTest, half_open_clients_are_in_nobodys_way) {
  Daemon daemon;
  daemon.start();
  std::vector<std::unique_ptr<RawClient>> half;
  for (int i = 0; i < 100; ++i) {
    half.push_back(std::make_unique<RawClient>(daemon.socket()));
    ASSERT_TRUE(half.back()->connected());
    half.back()->send(R"({"jsonrpc":"2.0","id":1,"meth)");
  }
  EXPECT_EQ(daemon.cli({"run", "--wait", "--cwd", "/", "--", "exit 3"}).exit_code, 3);
}

TEST(DaemonTest, garbage_is_answered_and_does_no_harm) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  client.send("\x01\xFF{{{\n[]\n" + std::string(200, '[') + "\n");
  for (int i = 0; i < 3; ++i) {
    const auto answer = client.line();
    ASSERT_TRUE(answer);
    EXPECT_TRUE(contains(*answer, "error")) << *answer;
  }
  EXPECT_EQ(daemon.cli({"status"}).exit_code, 0);
}

// ---- what it says ------------------------------------------------------------------------------

TEST(DaemonTest, doctor_finds_the_parts) {
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"doctor"});
  EXPECT_EQ(output.exit_code, 0) << output.describe();
  for (const char* subject : {"store", "shim", "data", "survival", "limits", "cgroup", "sandbox"}) {
    EXPECT_TRUE(contains(output.out, subject)) << subject << "\n" << output.describe();
  }
}

TEST(DaemonTest, I13_the_log_is_json_lines_and_holds_nothing_of_a_job) {
  Daemon daemon;
  daemon.start();
  const Output output = daemon.cli({"run", "--wait", "--cwd", "/", "--env", "TOKEN=hunter2value",
                                    "--", "echo secret-output; exit 4"});
  EXPECT_EQ(output.exit_code, 4);
  EXPECT_EQ(daemon.terminate().exit_code, 0);
  const std::string log = daemon.log();
  for (const char* word : {"hunter2value", "secret-output", "TOKEN"}) {
    EXPECT_FALSE(contains(log, word)) << log;
  }
  EXPECT_FALSE(contains(log, "\"level\":\"error\"")) << log;
  Output lines;
  lines.out = log;
  for (const auto& line : lines.json_lines()) EXPECT_FALSE(text_at(line, "message").empty());
}

}  // namespace
}  // namespace waybill::e2e
