// Writing to a job's standard input: what arrives, what is refused, and how a write that waits
// ends.

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <memory>

#include "e2e/harness.h"

namespace waybill::e2e {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr int kRefused = 121;
constexpr int kTimedOut = 124;
constexpr int kNoDaemon = 122;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::string some_bytes(std::size_t count) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(static_cast<char>((i * 7 + i / 251) % 256));
  return out;
}

class InputTest : public ::testing::Test {
 protected:
  Launch write_of(const std::string& job, const std::string& input,
                  std::vector<std::string> flags = {}) {
    flags.insert(flags.begin(), {"write", job});
    Launch launch = daemon.command(flags);
    launch.input = input;
    return launch;
  }
  Output write(const std::string& job, const std::string& input,
               std::vector<std::string> flags = {}) {
    return run(write_of(job, input, std::move(flags)));
  }
  std::string raw(const std::string& job) { return daemon.cli({"logs", "--raw", job}).out; }
  std::string path(const std::string& name) const { return temp.path() + "/" + name; }

  // Fills the job's FIFO; how many bytes that took.
  std::uint64_t fill(RawClient& client, const std::string& job) {
    std::uint64_t taken = 0;
    while (true) {
      const json::value reply = client.call(
          "job.write", {{"job", job}, {"data", std::string(65536, 'x')}, {"timeout_ms", 50}});
      taken += static_cast<std::uint64_t>(number_at(reply, "result.written"));
      const bool full = at(reply, "result.timed_out").as_bool();
      if (full && taken > 0) return taken;  // otherwise it has not started yet
    }
  }

  // A writer whose input is there at once.
  std::unique_ptr<Process> writer_of(const std::string& job, const std::string& input,
                                     std::vector<std::string> flags = {}) {
    Launch launch = write_of(job, "", std::move(flags));
    launch.talks = true;
    auto writer = std::make_unique<Process>(std::move(launch));
    writer->say(input);
    return writer;
  }

  // Even nothing at all waits behind a call that waits.
  static bool is_waiting(RawClient& client, const std::string& job, Process& writer) {
    const auto late = std::chrono::steady_clock::now() + kCap;
    while (writer.running() && std::chrono::steady_clock::now() < late) {
      const json::value reply =
          client.call("job.write", {{"job", job}, {"data", ""}, {"timeout_ms", 100}});
      if (at(reply, "result.timed_out").as_bool()) return true;
    }
    return false;
  }

  Daemon daemon;
  TempDir temp;
};

TEST_F(InputTest, any_bytes_arrive_in_order_and_the_end_after_them) {
  daemon.start();
  const std::string id = daemon.accept("cat", {"--stdin"});
  const std::string bytes = std::string("a\0b\xff\r\n", 6) + some_bytes(1000);
  EXPECT_EQ(write(id, bytes).exit_code, 0);
  const Output last = write(id, "end", {"--close", "--json"});
  EXPECT_EQ(last.exit_code, 0) << last.describe();
  EXPECT_EQ(number_at(last.json(), "written"), 3);
  EXPECT_TRUE(at(last.json(), "closed").as_bool());
  EXPECT_EQ(text_at(last.json(), "jobs.0.id"), id);
  EXPECT_EQ(text_at(daemon.finished(id), "status"), "succeeded");
  EXPECT_EQ(raw(id), bytes + "end");
}

TEST_F(InputTest, the_command_meets_no_end_while_nobody_writes) {
  daemon.start();
  Bell bell(path("bell"));
  const std::string id = daemon.accept(
      "while read -r line; do " + bell.command("$line") + "; done; exit 4", {"--stdin"});
  for (const char* word : {"one", "two", "three"}) {
    EXPECT_EQ(write(id, std::string(word) + "\n").exit_code, 0);
    EXPECT_EQ(bell.word(), word);
  }
  EXPECT_EQ(text_at(daemon.show(id), "status"), "running");
  EXPECT_EQ(write(id, "", {"--close"}).exit_code, 0);
  EXPECT_EQ(number_at(daemon.finished(id), "exit.code"), 4);
}

TEST_F(InputTest, I14_a_mebibyte_waits_for_a_slow_reader_and_arrives_whole) {
  daemon.start();
  Gate gate(path("gate"));
  const std::string id = daemon.accept(gate.command() + "; exec cat", {"--stdin"});
  RawClient other(daemon.socket());
  const std::uint64_t before = fill(other, id);
  EXPECT_GE(before, 4096U);
  EXPECT_LE(before, 1U << 20) << "the queue is not bounded";
  const std::string bytes = some_bytes(1 << 20);
  Process writer(write_of(id, bytes, {"--close", "--json"}));
  gate.open();
  const Output output = writer.finish();
  EXPECT_EQ(output.exit_code, 0) << output.describe();
  EXPECT_EQ(number_at(output.json(), "written"), 1 << 20);
  daemon.finished(id);
  EXPECT_TRUE(raw(id) == std::string(before, 'x') + bytes) << "the bytes differ";
}

TEST_F(InputTest, a_write_that_finds_no_room_says_how_much_was_taken) {
  daemon.start();
  const std::string id = daemon.accept("sleep 300", {"--stdin"});
  const std::string bytes = some_bytes(100'000);
  const Output output = write(id, bytes, {"--timeout", "300ms", "--json"});
  EXPECT_EQ(output.exit_code, kTimedOut) << output.describe();
  const std::int64_t written = number_at(output.json(), "written");
  EXPECT_GT(written, 0);
  EXPECT_LT(written, 100'000);
  EXPECT_TRUE(at(output.json(), "timed_out").as_bool());
  EXPECT_TRUE(contains(output.err, std::to_string(written) + " bytes")) << output.err;
  daemon.cli({"stop", id, "--wait"});
}

TEST_F(InputTest, who_writes_to_a_closed_input_is_told_so) {
  daemon.start();
  Bell bell(path("bell"));
  Gate gate(path("gate"));
  const std::string id =
      daemon.accept("exec 0<&-; " + bell.command("up") + "; " + gate.command(), {"--stdin"});
  ASSERT_TRUE(bell.word());
  const Output output = write(id, "hello\n");
  EXPECT_EQ(output.exit_code, kRefused) << output.describe();
  EXPECT_TRUE(contains(output.err, "has closed its standard input")) << output.err;
  EXPECT_TRUE(contains(output.err, "conflict")) << output.err;
  gate.open();
  daemon.finished(id);
}

TEST_F(InputTest, closing_twice_is_harmless_and_writing_afterwards_is_refused) {
  daemon.start();
  Gate gate(path("gate"));
  const std::string id = daemon.accept(gate.command() + "; cat", {"--stdin"});
  EXPECT_EQ(write(id, "text\n", {"--close"}).exit_code, 0);
  EXPECT_EQ(write(id, "", {"--close"}).exit_code, 0);
  const Output output = write(id, "more\n");
  EXPECT_EQ(output.exit_code, kRefused) << output.describe();
  EXPECT_TRUE(contains(output.err, "closed by an earlier write")) << output.err;
  daemon.restart();  // and it stays so
  EXPECT_EQ(write(id, "more\n").exit_code, kRefused);
  gate.open();
  daemon.finished(id);
  EXPECT_EQ(raw(id), "text\n");
}

TEST_F(InputTest, a_write_to_a_queued_job_waits_for_its_start) {
  Daemon::Options options;
  options.arguments = {"--set", "running_per_session=1"};
  Daemon small(options);
  small.start();
  Gate gate(path("gate"));
  const std::string first = small.accept(gate.command());
  const std::string second = small.accept("cat", {"--stdin"});
  RawClient client(small.socket());
  const json::value early =
      client.call("job.write", {{"job", second}, {"data", "lost?"}, {"timeout_ms", 50}});
  EXPECT_EQ(number_at(early, "result.written"), 0) << json::serialize(early);
  EXPECT_TRUE(at(early, "result.timed_out").as_bool());
  Launch launch = small.command({"write", second, "--close"});
  launch.input = "kept\n";
  Process writer(std::move(launch));
  gate.open();
  EXPECT_EQ(writer.finish().exit_code, 0);
  small.finished(second);
  EXPECT_EQ(small.cli({"logs", "--raw", second}).out, "kept\n");
}

TEST_F(InputTest, I1_only_a_running_job_of_the_session_with_an_input_takes_any) {
  daemon.start();
  Gate gate(path("gate"));
  const std::string without = daemon.accept(gate.command());
  const std::string done = daemon.accept("true", {"--stdin"});
  const std::string open = daemon.accept("cat", {"--stdin"});
  daemon.finished(done);
  const auto refused = [&](const std::string& job, std::vector<std::string> flags,
                           const std::string& code) {
    const Output output = write(job, "x", std::move(flags));
    EXPECT_NE(output.exit_code, 0);
    EXPECT_TRUE(contains(output.err, "[" + code + "]")) << output.describe();
  };
  refused(without, {}, "bad_request");
  refused(done, {}, "already_terminal");
  refused(open, {"--session", "another"}, "not_found");
  refused("j-none", {}, "not_found");
  EXPECT_EQ(write(open, "", {"--close"}).exit_code, 0);
  daemon.finished(open);
  gate.open();
}

TEST_F(InputTest, I16_a_fenced_host_writes_nothing) {
  daemon.start();
  daemon.act_as_host("s", "old");
  daemon.cli({"session", "attach"});
  const std::string id = daemon.accept("cat", {"--stdin"});
  daemon.act_as_host("s", "new");
  daemon.cli({"session", "attach", "--host-pid", std::to_string(::getpid())});
  daemon.act_as_host("s", "old");
  const Output output = write(id, "late\n");
  EXPECT_TRUE(contains(output.err, "[fenced]")) << output.describe();
  daemon.act_as_host("s", "new");
  EXPECT_EQ(write(id, "mine\n", {"--close"}).exit_code, 0);
  daemon.finished(id);
  EXPECT_EQ(raw(id), "mine\n");
}

TEST_F(InputTest, O20_an_open_input_has_a_deadline_by_default) {
  Daemon::Options options;
  options.arguments = {"--set", "open_stdin_deadline=1s"};
  Daemon small(options);
  small.start();
  EXPECT_EQ(
      number_at(small.show(small.accept("true", {"--stdin", "--deadline", "50s"})), "deadline_ms"),
      50000);
  EXPECT_TRUE(at(small.show(small.accept("true")), "deadline_ms").is_null());
  const std::string id = small.accept("read -r answer", {"--stdin"});
  EXPECT_EQ(number_at(small.show(id), "deadline_ms"), 1000);
  const json::value job = small.finished(id);
  EXPECT_EQ(text_at(job, "cause"), "deadline") << json::serialize(job);
}

// ---- how a write that waits ends ---------------------------------------------------------------

TEST_F(InputTest, a_write_that_waits_ends_with_the_job) {
  daemon.start();
  Gate gate(path("gate"));
  const std::string stopped = daemon.accept("sleep 300", {"--stdin"});
  const std::string ended = daemon.accept(gate.command(), {"--stdin"});
  RawClient client(daemon.socket());
  const std::uint64_t first = fill(client, stopped);
  fill(client, ended);
  const auto one = writer_of(stopped, "x");
  const auto other = writer_of(ended, "x");
  EXPECT_GE(first, 4096U);
  EXPECT_TRUE(is_waiting(client, stopped, *one));
  EXPECT_TRUE(is_waiting(client, ended, *other));
  daemon.cli({"stop", stopped, "--wait"});
  gate.open();
  for (Process* writer : {one.get(), other.get()}) {
    writer->hang_up();
    const Output output = writer->finish();
    EXPECT_EQ(output.exit_code, kRefused) << output.describe();
    EXPECT_TRUE(contains(output.err, "has closed its standard input") ||
                contains(output.err, "has ended"))
        << output.err;
  }
  EXPECT_EQ(text_at(daemon.show(stopped), "status"), "stopped");
}

TEST_F(InputTest, a_leftover_that_reads_keeps_no_writer) {
  daemon.start();
  Gate gate(path("gate"));
  // In the background of a shell only what is asked for keeps the input.
  const std::string id = daemon.accept("exec 3<&0; sleep 300 <&3 & " + gate.command(),
                                       {"--stdin", "--leftovers", "keep"});
  RawClient client(daemon.socket());
  fill(client, id);
  const auto writer = writer_of(id, "x");
  EXPECT_TRUE(is_waiting(client, id, *writer));
  gate.open();
  writer->hang_up();
  const Output output = writer->finish();
  EXPECT_EQ(output.exit_code, kRefused) << output.describe();
  EXPECT_TRUE(contains(output.err, "already_terminal")) << output.err;
  daemon.cli({"stop", id, "--wait"});
}

TEST_F(InputTest, a_daemon_that_ends_hands_the_rest_to_the_next_one) {
  daemon.start();
  Gate gate(path("gate"));
  const std::string id = daemon.accept(gate.command() + "; exec cat", {"--stdin"});
  const std::string before(32768, 'x');
  EXPECT_EQ(write(id, before).exit_code, 0);
  const std::string bytes = some_bytes(60'000);  // a part finds room
  const auto writer = writer_of(id, bytes, {"--close"});
  RawClient client(daemon.socket());
  EXPECT_TRUE(is_waiting(client, id, *writer));
  daemon.terminate();
  daemon.start();
  gate.open();
  writer->hang_up();
  const Output output = writer->finish();
  EXPECT_EQ(output.exit_code, 0) << output.describe();
  daemon.finished(id);
  EXPECT_TRUE(raw(id) == before + bytes) << "the bytes differ";
}

TEST_F(InputTest, nothing_is_written_twice_when_the_daemon_is_killed) {
  daemon.start();
  Gate gate(path("gate"));
  const std::string id = daemon.accept(gate.command() + "; exec cat", {"--stdin"});
  RawClient client(daemon.socket());
  const std::uint64_t taken = fill(client, id);
  const auto writer = writer_of(id, "never");
  EXPECT_TRUE(is_waiting(client, id, *writer));
  daemon.restart();
  writer->hang_up();
  const Output output = writer->finish();
  EXPECT_EQ(output.exit_code, kNoDaemon) << output.describe();
  EXPECT_TRUE(contains(output.err, "nothing is written twice (0 bytes were taken)")) << output.err;
  gate.open();
  EXPECT_EQ(write(id, "", {"--close"}).exit_code, 0);
  daemon.finished(id);
  EXPECT_EQ(raw(id).substr(taken), "");
}

TEST_F(InputTest, a_writer_whose_own_input_is_slow_outlives_the_daemon) {
  daemon.start();
  Bell bell(path("bell"));
  const std::string id =
      daemon.accept("while read -r line; do " + bell.command("$line") + "; done", {"--stdin"});
  const auto writer = writer_of(id, "one\n", {"--close"});
  EXPECT_EQ(bell.word(), "one");
  RawClient client(daemon.socket());
  client.call("job.write", {{"job", id}, {"data", ""}});  // its call has been answered
  daemon.restart();
  writer->say("two\n");
  EXPECT_EQ(bell.word(), "two");
  writer->hang_up();
  EXPECT_EQ(writer->finish().exit_code, 0);
  daemon.finished(id);
}

// ---- what stays behind -------------------------------------------------------------------------

TEST_F(InputTest, I13_what_was_written_is_nowhere_but_with_the_job) {
  daemon.start();
  const std::string word = "in-put-never-stored-4711";
  const std::string id = daemon.accept("cat > /dev/null", {"--stdin"});
  EXPECT_EQ(write(id, word + "\n", {"--close"}).exit_code, 0);
  EXPECT_TRUE(contains(write("j-none", word).err, "not_found"));
  daemon.finished(id);
  daemon.terminate();
  std::size_t looked = 0;
  for (const auto& entry : fs::recursive_directory_iterator(daemon.data_dir())) {
    if (!entry.is_regular_file()) continue;
    ++looked;
    EXPECT_FALSE(contains(read_file(entry.path()), word)) << entry.path();
  }
  EXPECT_GT(looked, 3U);
}

TEST_F(InputTest, the_command_holds_its_reading_end_and_nothing_else) {
  daemon.start();
  const std::string id = daemon.accept("ls -l /proc/self/fd | grep -c ' -> '; cat", {"--stdin"});
  EXPECT_EQ(write(id, "", {"--close"}).exit_code, 0);
  daemon.finished(id);
  EXPECT_EQ(raw(id), "4\n");  // 0, 1, 2 and the directory itself
  EXPECT_EQ(mode_of(daemon.data_dir() + "/jobs/" + id + "/in.fifo"), 0600U);
}

TEST_F(InputTest, a_lost_supervisor_takes_the_input_with_it) {
  daemon.start();
  Bell bell(path("bell"));
  const std::string id =
      daemon.accept(bell.command("up") + "; cat; " + bell.command("eof"), {"--stdin"});
  ASSERT_TRUE(bell.word());
  const std::string start = read_file(daemon.data_dir() + "/jobs/" + id + "/start.json");
  const std::int64_t shim = json::parse(start).at("shim_pid").as_int64();
  ASSERT_EQ(::kill(static_cast<pid_t>(shim), SIGKILL), 0);
  EXPECT_EQ(bell.word(), "eof");
  const Output output = write(id, "late\n");
  EXPECT_EQ(output.exit_code, kRefused) << output.describe();
  daemon.finished(id);
}

}  // namespace
}  // namespace waybill::e2e
