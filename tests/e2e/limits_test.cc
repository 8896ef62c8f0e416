// What the machine allows: long commands, many files, processes and pipes, and what becomes of a
// launch that the machine is too short of something for.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr uid_t kLimited = 54323;
constexpr std::size_t kMiB = 1024UL * 1024;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

json::object job_of(const std::string& command, const std::string& shell) {
  return {{"command", command},
          {"shell", shell},
          {"cwd", "/tmp"},
          {"env", {{"PATH", "/bin:/usr/bin"}}}};
}

// Comments that make `command` exactly a megabyte long.
std::string padded(const std::string& command) {
  std::string text = command + "\n";
  while (text.size() + 1000 < kMiB) text += "#" + std::string(998, 'x') + "\n";
  return text + "#" + std::string(kMiB - text.size() - 1, 'y');
}

struct LongCommand {
  const char* shell;
  std::string command;
  int code;
  const char* output;
  const char* verdict;
};

TEST(LimitsTest, I9_a_megabyte_of_command_runs_as_it_is) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  const LongCommand rows[] = {
      {"/bin/bash", "echo here; read -r x || echo end; exit 7", 7, "here\nend\n", "failed"},
      {"/bin/bash", "sh -c 'exit 101' | tail -n 20", 0, "", "stage_failed"},
      {"/bin/bash", "cat <<E\nbody $((1+1))\nE\nset -- a b; echo $#", 0, "body 2\n2\n", "ok"},
      {"/bin/sh", "echo here; kill -9 $$", -9, "here\n", "signaled"},
      {"/usr/bin/zsh", "print $((3*4)); exit 3", 3, "12\n", "failed"},
  };
  for (const LongCommand& row : rows) {
    SCOPED_TRACE(row.command);
    ASSERT_TRUE(fs::exists(row.shell)) << row.shell << " is needed for the tests";
    const json::value made = client.call("job.run", job_of(padded(row.command), row.shell));
    const std::string id = text_at(made, "result.job.id");
    const json::value job = daemon.finished(id);
    EXPECT_EQ(text_at(job, "verdict"), row.verdict) << json::serialize(job);
    if (row.code < 0) {
      EXPECT_EQ(number_at(job, "exit.signal"), -row.code);
    } else {
      EXPECT_EQ(number_at(job, "exit.code"), row.code);
    }
    EXPECT_EQ(daemon.cli({"logs", "--raw", id}).out, row.output);
    EXPECT_EQ(mode_of(daemon.data_dir() + "/jobs/" + id + "/command"), 0600U);
  }
  // One byte more is refused by name, and nothing is kept of it.
  const json::value refused = client.call("job.run", job_of(padded("true") + "z", "/bin/bash"));
  EXPECT_EQ(text_at(refused, "error.data.code"), "too_large") << json::serialize(refused);
  EXPECT_TRUE(contains(text_at(refused, "error.message"), std::to_string(kMiB + 1)));
  EXPECT_EQ(items_at(daemon.json({"list"}), "jobs").size(), std::size(rows));
}

TEST(LimitsTest, I9_the_longest_argument_and_the_first_that_is_too_long) {
  Daemon daemon;
  daemon.start();
  RawClient client(daemon.socket());
  constexpr std::size_t kLongest = 32UL * 4096 - 1;
  for (const std::size_t size : {kLongest - 1, kLongest, kLongest + 1}) {
    const std::string text = "echo here #" + std::string(size - 11, 'x');
    const json::value made = client.call("job.run", job_of(text, "/bin/bash"));
    const json::value job = daemon.finished(text_at(made, "result.job.id"));
    EXPECT_EQ(text_at(job, "verdict"), "ok") << size << " " << json::serialize(job);
  }
  const auto code = [&](json::object params) {
    const json::value answer = client.call("job.run", std::move(params));
    return text_at(answer, "error.data.code") + " " + text_at(answer, "error.message");
  };
  const std::string limit = std::to_string(kLongest);
  json::object words{{"argv", json::array{"/bin/echo", std::string(kLongest + 1, 'w')}},
                     {"cwd", "/tmp"}};
  EXPECT_TRUE(contains(code(words), "too_large")) << code(words);
  EXPECT_TRUE(contains(code(words), limit)) << code(words);
  json::object variable = job_of("true", "/bin/bash");
  variable["env"] = json::object{{"BIG", std::string(kLongest, 'v')}};
  EXPECT_TRUE(contains(code(variable), "too_large")) << code(variable);
}

// Each word fits, all of them together do not: only the kernel can tell.
TEST(LimitsTest, I9_more_words_than_the_kernel_takes_is_not_started) {
  Daemon daemon;
  Launch launch = daemon.command({"serve"});
  launch.argv.insert(launch.argv.begin(), {"/bin/sh", "-c", "ulimit -s 512; exec \"$0\" \"$@\""});
  Process server(std::move(launch));
  ASSERT_TRUE(server.json_line().is_object());
  RawClient client(daemon.socket());
  json::object params = job_of("true", "/bin/bash");
  json::object env;
  for (int i = 0; i < 10; ++i) env["V" + std::to_string(i)] = std::string(100'000, 'v');
  params["env"] = std::move(env);
  const json::value made = client.call("job.run", params);
  const std::string id = text_at(made, "result.job.id");
  client.call("job.wait", {{"jobs", json::array{json::string(id)}}});
  const json::value job = at(client.call("job.show", {{"job", id}}), "result.job");
  EXPECT_EQ(text_at(job, "status"), "failed") << json::serialize(job);
  EXPECT_EQ(text_at(job, "cause"), "not_started");
  EXPECT_EQ(text_at(job, "exit.step"), "exec");
  EXPECT_EQ(number_at(job, "exit.errno"), E2BIG);
  EXPECT_TRUE(at(job, "exit.code").is_null());
}

// A `waybill` that begins with this line of shell.
std::string limited_program(const std::string& dir, const std::string& line) {
  fs::create_directory(dir);
  fs::copy_file(waybill_program(), dir + "/real");
  fs::copy_file(shim_program(), dir + "/waybill-shim");
  std::ofstream(dir + "/waybill") << "#!/bin/sh\n"
                                  << line << "\nexec '" << dir << "/real' \"$@\"\n";
  for (const char* name : {"", "/real", "/waybill", "/waybill-shim"}) {
    ::chmod((dir + name).c_str(), 0755);
  }
  return dir + "/waybill";
}

TEST(LimitsTest, O28_the_limit_of_open_files_is_the_callers_not_the_daemons) {
  TempDir temp;
  Daemon::Options options;
  options.program = limited_program(temp.path() + "/bin", "ulimit -S -n 333");
  Daemon daemon(options);
  daemon.start();
  const std::string id = daemon.accept("ulimit -S -n; ulimit -H -n");
  daemon.finished(id);
  struct rlimit mine{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &mine), 0);
  EXPECT_EQ(daemon.cli({"logs", "--raw", id}).out, "333\n" + std::to_string(mine.rlim_max) + "\n");
  // Its own is as high as it may be.
  EXPECT_TRUE(contains(read_file("/proc/" + std::to_string(daemon.pid()) + "/limits"),
                       std::to_string(mine.rlim_max)));
}

// A data directory of that user's.
std::string limited_data(const std::string& dir) {
  const std::string path = dir + "/data";
  EXPECT_EQ(::mkdir(path.c_str(), 0700), 0);
  EXPECT_EQ(::chown(path.c_str(), kLimited, kLimited), 0);
  return path;
}

// Starts more jobs than the machine can hold at once: what does not fit is started later, never
// twice and never lost.
void expect_all_run_in_the_end(Daemon& daemon, const std::string& dir, std::size_t count) {
  const std::string gate_path = dir + "/gate";
  Gate gate(gate_path);
  ::chmod(gate_path.c_str(), 0666);
  std::vector<std::string> jobs;
  for (std::size_t i = 0; i < count; ++i) {
    jobs.push_back(daemon.accept("echo ran; " + gate.command()));
  }
  // Some of them cannot be started now, and the daemon says so.
  bool said = false;
  for (int i = 0; i < 3000 && !said; ++i) {
    said = contains(daemon.log(), "cannot be started now") ||
           contains(daemon.log(), "cannot be looked at");
    if (!said) daemon.cli({"status"});  // goes through the daemon, which works on
  }
  EXPECT_TRUE(said) << daemon.log();
  for (std::size_t i = 0; i < count; ++i) gate.open();
  for (const std::string& id : jobs) {
    const json::value job = daemon.finished(id);
    EXPECT_EQ(text_at(job, "status"), "succeeded") << json::serialize(job);
    EXPECT_EQ(number_at(job, "attempt"), 1);
    EXPECT_EQ(daemon.cli({"logs", "--raw", id}).out, "ran\n");
  }
}

TEST(LimitsTest, I10_short_of_descriptors_a_launch_waits) {
  TempDir temp;
  ::chmod(temp.path().c_str(), 0755);
  Daemon::Options options;
  options.program = limited_program(temp.path() + "/bin", "[ \"$1\" = serve ] && ulimit -n 64");
  options.arguments = {"--set", "running_per_session=100"};
  Daemon daemon(options);
  daemon.start();
  expect_all_run_in_the_end(daemon, temp.path(), 40);
}

TEST(LimitsTest, I10_short_of_processes_a_launch_waits) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  TempDir temp;
  ::chmod(temp.path().c_str(), 0755);
  Daemon::Options options;
  options.program = limited_program(temp.path() + "/bin", "[ \"$1\" = serve ] && ulimit -p 30");
  options.arguments = {"--set", "running_per_session=100"};
  options.uid = kLimited;
  options.data_dir = limited_data(temp.path());
  Daemon daemon(options);
  daemon.start();
  expect_all_run_in_the_end(daemon, temp.path(), 25);
}

// Pipes of an ordinary user share an allowance of 64 MiB; beyond it new ones are tiny. A thousand
// jobs at once still give every byte, and leave room for the user's own pipes.
TEST(LimitsTest, I2_a_thousand_jobs_of_an_ordinary_user) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  TempDir temp;
  ::chmod(temp.path().c_str(), 0755);
  Daemon::Options options;
  options.program = limited_program(temp.path() + "/bin", ":");
  options.arguments = {"--set", "running_per_session=1000", "--set", "running_per_node=1000",
                       "--set", "queued_per_session=2000"};
  options.uid = kLimited;
  options.data_dir = limited_data(temp.path());
  Daemon daemon(options);
  daemon.start();
  const std::string line_path = temp.path() + "/line";
  StartLine line(line_path);
  ::chmod(line_path.c_str(), 0666);
  RawClient client(daemon.socket());
  std::vector<std::string> jobs;
  const std::string command =
      "echo up; " + line.command() + "; head -c 200000 /dev/zero | tr '\\0' x; echo end";
  for (int i = 0; i < 1000; ++i) {
    const json::value made = client.call("job.run", job_of(command, "/bin/sh"));
    ASSERT_TRUE(made.as_object().contains("result")) << json::serialize(made);
    jobs.push_back(text_at(made, "result.job.id"));
  }
  // All of them are running at once.
  for (const std::string& id : jobs) {
    const json::value first =
        client.call("job.logs", {{"job", id}, {"offset", 0}, {"bytes", 16}, {"wait_ms", 60000}});
    ASSERT_EQ(text_at(first, "result.data"), "up\n") << json::serialize(first);
  }
  EXPECT_EQ(number_at(client.call("status"), "result.running_jobs"), 1000);
  line.open();
  for (const std::string& id : jobs) {
    client.call("job.wait", {{"jobs", json::array{json::string(id)}}, {"timeout_ms", 60000}});
    const json::value job = at(client.call("job.show", {{"job", id}}), "result.job");
    ASSERT_EQ(text_at(job, "verdict"), "ok") << json::serialize(job);
    ASSERT_EQ(number_at(job, "output.bytes"), 3 + 200'000 + 4);
  }
}

}  // namespace
}  // namespace waybill::e2e
