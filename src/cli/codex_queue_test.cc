#include "cli/codex_queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <fstream>
#include <iterator>

#include "cli/fake_server.h"

namespace waybill::cli {
namespace {

// A program named codex that runs, and that reads what `queue` does from a file of this name.
class CodexQueueTest : public ::testing::Test {
 protected:
  void SetUp() override {
    before = std::filesystem::current_path();
    std::filesystem::current_path(directory.path());
    std::filesystem::copy_file(std::filesystem::canonical("/bin/sh"), "codex");
    ASSERT_EQ(::pipe2(ready.data(), O_CLOEXEC), 0);
    ASSERT_EQ(::pipe2(life.data(), O_CLOEXEC), 0);
    pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      ::dup2(life[0], STDIN_FILENO);
      ::dup2(ready[1], STDOUT_FILENO);
      ::setenv("CODEX_HOME", "/the/home", 1);
      ::execl("./codex", "codex", "-c", "echo up; read -r nothing", nullptr);
      ::_exit(127);
    }
    ::close(life[0]);
    ::close(ready[1]);
    char up = 0;
    ASSERT_EQ(::read(ready[0], &up, 1), 1);
  }
  void TearDown() override {
    ::close(life[1]);
    ::close(ready[0]);
    ::waitpid(pid, nullptr, 0);
    std::filesystem::current_path(before);
  }
  static void queue_does(const std::string& script) { std::ofstream("queue") << script; }

  TempDir directory;
  std::filesystem::path before;
  std::array<int, 2> ready{};
  std::array<int, 2> life{};
  pid_t pid = -1;
};

TEST_F(CodexQueueTest, the_message_goes_to_the_thread_with_the_program_and_home_of_the_host) {
  queue_does("printf '%s\\n' \"$CODEX_HOME\" \"$@\" > told");
  CodexQueue queue({pid, 1}, "th1");
  EXPECT_EQ(queue.probe().state, edge::ProbeState::unknown);
  EXPECT_EQ(queue.wake("two\nlines"), edge::PutOutcome::accepted);
  std::ifstream told("told");
  const std::string text((std::istreambuf_iterator<char>(told)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, "/the/home\n--thread=th1\n--message=two\nlines\n");
}

TEST_F(CodexQueueTest, a_program_that_fails_or_does_not_end_has_accepted_nothing) {
  queue_does("exit 3");
  EXPECT_EQ(CodexQueue({pid, 1}, "th1").wake("x"), edge::PutOutcome::unreachable);
  queue_does("while :; do :; done");
  EXPECT_EQ(CodexQueue({pid, 1}, "th1", Millis{50}).wake("x"), edge::PutOutcome::unreachable);
}

TEST_F(CodexQueueTest, a_text_that_no_command_line_takes_and_a_steer_are_refused) {
  CodexQueue queue({pid, 1}, "th1");
  EXPECT_EQ(queue.wake(std::string(16 * 1024 + 1, 'x')), edge::PutOutcome::busy);
  EXPECT_EQ(queue.steer("t", "x"), edge::PutOutcome::busy);
  EXPECT_EQ(queue.inject("x"), edge::PutOutcome::busy);
}

TEST(CodexQueueGone, a_host_that_is_gone_is_unreachable) {
  EXPECT_EQ(CodexQueue({0, 1}, "th1").wake("x"), edge::PutOutcome::unreachable);
}

}  // namespace
}  // namespace waybill::cli
