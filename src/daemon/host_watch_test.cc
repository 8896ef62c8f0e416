#include "daemon/host_watch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

namespace waybill::daemon {
namespace {

class HostWatchTest : public testing::Test {
 protected:
  HostWatchTest() {
    child_ = ::fork();
    if (child_ == 0) {
      for (;;) ::pause();
    }
    cap_ = loop_.after(Millis{20000}, [this] { loop_.stop(); });
  }
  ~HostWatchTest() override { end_child(); }

  void end_child() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  engine::HostGone host(const char* session) const {
    std::ifstream file("/proc/" + std::to_string(child_) + "/stat");
    std::string word;
    for (int field = 1; field <= 22; ++field) file >> word;
    engine::HostGone host;
    host.owner.tenant = TenantId("local");
    host.owner.session = SessionId(session);
    host.pid = child_;
    host.start = std::stoull(word);
    return host;
  }
  void run() {
    loop_.run([](const std::string& what) { FAIL() << what; });
  }

  pid_t child_ = -1;
  Loop loop_;
  std::unique_ptr<Timer> cap_;
  std::vector<std::string> gone_;
  HostWatch watch_{loop_,
                   [this](const engine::HostGone& gone) {
                     gone_.push_back(gone.owner.session.str());
                     loop_.stop();
                   },
                   [](const std::string& text) { FAIL() << text; }};
};

TEST_F(HostWatchTest, the_end_of_a_host_is_told_once) {
  watch_.watch(host("s1"));
  loop_.post([this] { end_child(); });
  run();
  EXPECT_EQ(gone_, std::vector<std::string>{"s1"});
  EXPECT_EQ(watch_.size(), 0U);
}

TEST_F(HostWatchTest, a_process_that_ended_before_is_told_at_once) {
  const engine::HostGone ended = host("s1");
  end_child();
  watch_.watch(ended);
  EXPECT_EQ(gone_.size(), 1U);
}

TEST_F(HostWatchTest, a_number_that_was_given_again_is_another_process) {
  engine::HostGone other = host("s1");
  other.start -= 1;
  watch_.watch(other);
  EXPECT_EQ(gone_.size(), 1U);
}

TEST_F(HostWatchTest, the_latest_host_of_a_session_counts) {
  const engine::HostGone first = host("s1");
  watch_.watch(first);
  engine::HostGone self = first;
  self.pid = ::getpid();
  std::ifstream file("/proc/self/stat");
  std::string word;
  for (int field = 1; field <= 22; ++field) file >> word;
  self.start = std::stoull(word);
  watch_.watch(self);
  end_child();
  loop_.post([this] { loop_.post([this] { loop_.stop(); }); });
  run();
  EXPECT_TRUE(gone_.empty());
}

}  // namespace
}  // namespace waybill::daemon
