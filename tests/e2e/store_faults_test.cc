// O24 and what else can be wrong with the store's files: locked, cut, torn, swapped, not to be
// read, something else.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int kStateRefused = 123;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string store_of(const Daemon& daemon) { return daemon.data_dir() + "/waybill.db"; }

std::string quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += " '";
    for (const char c : word) line += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += "'";
  }
  return line;
}

// ---- O24: many clients, and a store or a daemon that is not there ------------------------------

// Clients of O24, until `stop` is called: each starts a job and takes its end, again and again,
// each step until it has an answer. They say a word for every step; their output is what they
// heard.
class Load {
 public:
  Load(Daemon& daemon, int clients) : daemon_(daemon) {
    for (int i = 0; i < clients; ++i) start("s" + std::to_string(i));
  }

  Process& any() { return *clients_[random_() % clients_.size()].second; }
  std::uint32_t chance(std::uint32_t below) {
    return static_cast<std::uint32_t>(random_()) % below;
  }

  void stop() { std::ofstream(stop_file()) << "stop"; }

  // What every client heard and what ran, when all is over (I2, I3, I4, I10).
  void audit() {
    std::size_t rounds = 0;
    for (auto& [name, client] : clients_) {
      SCOPED_TRACE(name);
      const Output output = client->finish(Seconds(300));
      EXPECT_EQ(output.exit_code, 0) << output.describe();
      rounds += audit_one(name, output);
    }
    std::map<std::string, int> ran;
    std::ifstream lines(runs_file());
    for (std::string line; std::getline(lines, line);) ++ran[line];
    EXPECT_EQ(ran.size(), rounds);
    for (const auto& [job, times] : ran) EXPECT_EQ(times, 1) << job;
    std::printf("%zu jobs of %zu clients\n", rounds, clients_.size());
  }

 private:
  std::string stop_file() const { return temp_.path() + "/stop"; }
  std::string runs_file() const { return temp_.path() + "/runs"; }

  void start(const std::string& name) {
    daemon_.act_as_host(name, "key-" + name);
    std::string run = quoted(daemon_
                                 .command({"run", "--json", "--key", "KEY", "--",
                                           "echo $WAYBILL_JOB >> '" + runs_file() + "'; exit 3"})
                                 .argv);
    run.replace(run.find("'KEY'"), 5, "$i");
    const std::string inbox = quoted(daemon_.command({"--json", "inbox", "--timeout", "30s"}).argv);
    // 122: no daemon; 124: not yet. Anything else that is not 0 ends it, and is seen.
    const std::string script =
        "i=0; while [ ! -e '" + stop_file() + "' ]; do i=$((i+1)); until" + run +
        " >/dev/null; do c=$?; [ $c = 122 ] || { echo \"start $c\"; exit 1; }; done; "
        "echo started; until out=$(" +
        inbox +
        ") && [ -n \"$out\" ]; do c=$?; case $c in 0|1|122|124) ;; "
        "*) echo \"inbox $c\"; exit 1;; esac; done; echo \"$out\"; done";
    Launch launch = daemon_.command({});
    launch.argv = {"/bin/bash", "-c", script};
    clients_.emplace_back(name, std::make_unique<Process>(std::move(launch)));
  }

  std::size_t audit_one(const std::string& name, const Output& output) {
    std::size_t rounds = 0;
    std::map<std::string, int> heard;
    std::istringstream answers(output.out);
    for (std::string line; std::getline(answers, line);) {
      if (line == "started") ++rounds;
      if (!line.starts_with("{")) continue;
      for (const json::value& event : items_at(json::parse(line), "events")) {
        const int times = ++heard[text_at(event, "id")];
        EXPECT_TRUE(times == 1 || at(event, "repeat").as_bool()) << line;
      }
    }
    daemon_.act_as_host(name, "key-" + name);
    // What a client that was cut off had not printed comes again.
    for (Output rest = daemon_.cli({"--json", "inbox"}); !rest.out.empty();
         rest = daemon_.cli({"--json", "inbox"})) {
      for (const json::value& event : items_at(rest.json(), "events")) {
        ++heard[text_at(event, "id")];
      }
    }
    EXPECT_EQ(heard.size(), rounds);
    const json::value list = daemon_.json({"list", "--limit", "500"});
    EXPECT_EQ(items_at(list, "jobs").size(), rounds);
    for (const json::value& job : items_at(list, "jobs")) {
      const json::value shown = daemon_.show(text_at(job, "id"));
      EXPECT_EQ(endings_of(shown), std::vector<std::string>{"failed"});
      EXPECT_TRUE(heard.contains(text_at(job, "id") + ".failed.1"));
      EXPECT_EQ(text_at(shown, "events.0.state"), "acked") << json::serialize(shown);
    }
    return rounds;
  }

  Daemon& daemon_;
  TempDir temp_;
  std::mt19937 random_{20261130};
  std::vector<std::pair<std::string, std::unique_ptr<Process>>> clients_;
};

TEST(StoreFaults, O24_a_store_that_another_process_locks_for_8_s_is_waited_for) {
  Daemon daemon;
  daemon.start();
  Load load(daemon, 16);
  ASSERT_TRUE(load.any().line());
  Launch locker;
  locker.argv = {"/usr/bin/sqlite3", "-bail", store_of(daemon)};
  locker.input =
      ".timeout 60000\nBEGIN IMMEDIATE;\n.shell echo locked\n.shell sleep 8\nCOMMIT;\n"
      ".shell echo let go\n";
  Process lock(std::move(locker));
  EXPECT_EQ(lock.line(), "locked");
  // Reads go on meanwhile, and nothing is said to be done that is not.
  daemon.set_env({});
  EXPECT_EQ(daemon.cli({"list", "--all-sessions"}).exit_code, 0);
  EXPECT_EQ(lock.line(), "let go");
  EXPECT_EQ(lock.finish().exit_code, 0);
  for (int step = 0; step < 32; ++step) ASSERT_TRUE(load.any().line());  // and goes on
  load.stop();
  load.audit();
}

TEST(StoreFaults, O24_50_kills_of_the_daemon_under_load_lose_and_double_nothing) {
  Daemon daemon;
  daemon.start();
  Load load(daemon, 16);
  for (int kill = 0; kill < 50; ++kill) {
    // Some steps of some client further on.
    for (std::uint32_t steps = load.chance(3); steps > 0; --steps) {
      ASSERT_TRUE(load.any().line(Seconds(120))) << "a client does not go on";
    }
    daemon.restart();
    ASSERT_TRUE(daemon.running());
  }
  load.stop();
  load.audit();
}

// ---- files that are not what they were ---------------------------------------------------------

// A job that has ended and was heard, one that runs; the daemon was killed, its log is there.
struct Killed {
  Killed() {
    daemon.start();
    daemon.act_as_host("s");
    told = daemon.accept("exit 4");
    daemon.set_env({"WAYBILL_SESSION=s"});
    daemon.finished(told);
    daemon.act_as_host("s");
    EXPECT_EQ(text_at(daemon.json({"inbox"}), "events.0.id"), told + ".failed.1");
    held = std::make_unique<HeldJob>(daemon);
    daemon.kill_9();
    EXPECT_GT(fs::file_size(store_of(daemon) + "-wal"), 0U);
  }
  std::string files() const {
    return read_file(store_of(daemon)) + "|" + read_file(store_of(daemon) + "-wal");
  }
  Daemon daemon;
  std::string told;
  std::unique_ptr<HeldJob> held;
};

struct LogFault {
  const char* name;
  std::function<void(const std::string& log)> hurt;
};

void PrintTo(const LogFault& fault, std::ostream* out) { *out << fault.name; }

void scribble(const std::string& path, std::uintmax_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(at));
  file << std::string(64, '\xA5');
}

class LogFaultTest : public ::testing::TestWithParam<LogFault> {};

// Commits that were answered are gone: it is said, nothing is started again, and what the job
// directories know is put right.
TEST_P(LogFaultTest, O24_I12_a_log_that_lost_commits_is_noticed_and_put_right) {
  Killed killed;
  Daemon& daemon = killed.daemon;
  GetParam().hurt(store_of(daemon) + "-wal");
  daemon.start();
  const Output refused = daemon.cli({"run", "--", "true"});
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "[store_regressed]")) << refused.err;
  EXPECT_TRUE(contains(daemon.log(), "store_regressed")) << daemon.log();
  const json::value made = daemon.json({"reconcile"});
  EXPECT_TRUE(at(made, "regressed").as_bool());
  const json::value told = daemon.show(killed.told);
  EXPECT_EQ(number_at(told, "exit.code"), 4) << json::serialize(made);
  EXPECT_EQ(endings_of(told), std::vector<std::string>{"failed"});
  EXPECT_EQ(text_at(daemon.show(killed.held->id()), "status"), "running");
  killed.held->end();
  std::set<std::string> heard;
  while (!heard.contains(killed.held->id() + ".failed.1")) {
    const Output taken = daemon.cli({"--json", "inbox", "--timeout", "60s"});
    ASSERT_EQ(taken.exit_code, 0) << taken.describe();
    for (const json::value& event : items_at(taken.json(), "events")) {
      heard.insert(text_at(event, "id"));
    }
  }
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 5"}).exit_code, 5);
}

INSTANTIATE_TEST_SUITE_P(
    Store, LogFaultTest,
    ::testing::Values(
        LogFault{"removed", [](const std::string& log) { fs::remove(log); }},
        LogFault{"halved",
                 [](const std::string& log) { fs::resize_file(log, fs::file_size(log) / 2); }},
        LogFault{"torn_in_the_middle",
                 [](const std::string& log) { scribble(log, fs::file_size(log) / 2); }},
        LogFault{"torn_at_its_head", [](const std::string& log) { scribble(log, 0); }}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(StoreFaults, I12_the_log_of_another_store_is_refused_and_nothing_is_changed) {
  Killed one;
  Killed other;
  fs::copy_file(store_of(other.daemon) + "-wal", store_of(one.daemon) + "-wal",
                fs::copy_options::overwrite_existing);
  const std::string before = one.files();
  const Output refused = one.daemon.serve_and_finish();
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "state_corrupt")) << refused.err;
  EXPECT_TRUE(one.files() == before);
  one.held->end();
  other.held->end();
}

TEST(StoreFaults, I12_another_store_in_its_place_is_refused_and_nothing_is_changed) {
  Killed one;
  Killed other;
  for (const char* suffix : {"", "-wal", "-shm"}) {
    fs::copy_file(store_of(other.daemon) + suffix, store_of(one.daemon) + suffix,
                  fs::copy_options::overwrite_existing);
  }
  const std::string before = one.files();
  EXPECT_EQ(one.daemon.serve_and_finish().exit_code, kStateRefused);
  // Its key as well: then it can be read, and it is seen that it knows nothing of this node.
  fs::copy_file(other.daemon.data_dir() + "/seal.key", one.daemon.data_dir() + "/seal.key",
                fs::copy_options::overwrite_existing);
  EXPECT_TRUE(one.files() == before);
  one.daemon.start();
  const Output refused = one.daemon.cli({"run", "--", "true"});
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "another store")) << refused.err;
  one.held->end();
  other.held->end();
}

TEST(StoreFaults, without_its_index_file_the_store_is_what_it_was) {
  Killed killed;
  fs::remove(store_of(killed.daemon) + "-shm");
  killed.daemon.start();
  EXPECT_EQ(text_at(killed.daemon.show(killed.told), "status"), "failed");
  EXPECT_EQ(text_at(killed.daemon.show(killed.held->id()), "status"), "running");
  killed.held->end();
  EXPECT_EQ(killed.daemon.cli({"wait", killed.held->id()}).exit_code, 3);
}

TEST(StoreFaults, I12_a_mark_that_is_gone_is_noticed) {
  Killed killed;
  fs::remove(killed.daemon.data_dir() + "/receipt.mark");
  killed.daemon.start();
  const Output refused = killed.daemon.cli({"run", "--", "true"});
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "[store_regressed]")) << refused.err;
  EXPECT_EQ(killed.daemon.cli({"reconcile"}).exit_code, 0);
  EXPECT_EQ(text_at(killed.daemon.show(killed.held->id()), "status"), "running");
  killed.held->end();
  EXPECT_EQ(killed.daemon.cli({"wait", killed.held->id()}).exit_code, 3);
}

// ---- not a store at all ------------------------------------------------------------------------

struct Instead {
  const char* name;
  std::function<void(const std::string& path)> put;
};

void PrintTo(const Instead& instead, std::ostream* out) { *out << instead.name; }

class InsteadTest : public ::testing::TestWithParam<Instead> {};

TEST_P(InsteadTest, I12_what_is_no_store_is_refused_and_left_as_it_is) {
  Daemon daemon;
  daemon.start();
  EXPECT_EQ(daemon.cli({"run", "--wait", "--", "exit 3"}).exit_code, 3);
  daemon.terminate();
  const std::string path = store_of(daemon);
  // The file alone is the store now.
  ASSERT_TRUE(!fs::exists(path + "-wal") || fs::file_size(path + "-wal") == 0);
  const std::string away = daemon.data_dir() + "/away.db";
  fs::rename(path, away);
  GetParam().put(path);
  const Output refused = daemon.serve_and_finish();
  EXPECT_EQ(refused.exit_code, kStateRefused) << refused.describe();
  EXPECT_TRUE(contains(refused.err, path)) << refused.err;
  EXPECT_FALSE(fs::exists(daemon.socket()));
  fs::remove_all(path);
  fs::rename(away, path);
  daemon.start();
  EXPECT_EQ(items_at(daemon.json({"list"}), "jobs").size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    Store, InsteadTest,
    ::testing::Values(
        Instead{"directory", [](const std::string& path) { fs::create_directory(path); }},
        Instead{"fifo", [](const std::string& path) { ::mkfifo(path.c_str(), 0600); }},
        Instead{"link",
                [](const std::string& path) {
                  fs::create_symlink(fs::path(path).parent_path() / "away.db", path);
                }},
        Instead{"dangling_link",
                [](const std::string& path) { fs::create_symlink("nowhere.db", path); }},
        Instead{"text",
                [](const std::string& path) { std::ofstream(path) << std::string(8192, 'x'); }}),
    [](const auto& row) { return std::string(row.param.name); });

TEST(StoreFaults, I12_a_store_that_may_not_be_read_is_refused_by_name) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root, so no other user to be";
  TempDir temp;
  fs::permissions(temp.path(), fs::perms::all);
  Daemon::Options options;
  options.data_dir = temp.path() + "/data";
  options.uid = 65534;
  Daemon daemon(options);
  daemon.start();
  EXPECT_EQ(daemon.cli({"run", "--wait", "--cwd", "/", "--", "exit 3"}).exit_code, 3);
  daemon.terminate();
  fs::permissions(store_of(daemon), fs::perms::none);
  const Output refused = daemon.serve_and_finish();
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_TRUE(contains(refused.err, store_of(daemon))) << refused.err;
  fs::permissions(store_of(daemon), fs::perms::owner_read | fs::perms::owner_write);
  daemon.start();
  EXPECT_EQ(items_at(daemon.json({"list"}), "jobs").size(), 1U);
}

TEST(StoreFaults, of_two_daemons_one_serves_and_the_other_touches_nothing) {
  Daemon daemon;
  daemon.start();
  const HeldJob held(daemon);
  const std::string mark = read_file(daemon.data_dir() + "/receipt.mark");
  Launch second;
  second.argv = {waybill_program(), "serve", "--data", daemon.data_dir()};
  const Output refused = run(std::move(second));
  EXPECT_EQ(refused.exit_code, 121) << refused.describe();
  EXPECT_TRUE(contains(refused.err, "conflict")) << refused.err;
  EXPECT_TRUE(contains(refused.err, std::to_string(daemon.pid()))) << refused.err;
  EXPECT_EQ(read_file(daemon.data_dir() + "/receipt.mark"), mark);
  EXPECT_EQ(text_at(daemon.show(held.id()), "status"), "running");
}

}  // namespace
}  // namespace waybill::e2e
