#include "daemon/output_watch.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <fstream>

#include "daemon/log_waits.h"

namespace waybill::daemon {
namespace {

class OutputWatchTest : public testing::Test {
 protected:
  OutputWatchTest() {
    char name[] = "/tmp/waybill-watch-XXXXXX";
    jobs_ = ::mkdtemp(name);
    auto opened = OutputWatch::open(loop_, jobs_);
    watch_ = std::move(*opened);
    cap_ = loop_.after(Millis{20000}, [this] {
      timed_out_ = true;
      loop_.stop();
    });
  }
  ~OutputWatchTest() override { std::filesystem::remove_all(jobs_); }

  void append(const std::string& job, const std::string& text) {
    std::ofstream(jobs_ + "/" + job + "/out", std::ios::app) << text;
  }
  void run() {
    loop_.run([](const std::string& what) { FAIL() << what; });
    EXPECT_FALSE(timed_out_);
  }

  std::string jobs_;
  Loop loop_;
  std::unique_ptr<OutputWatch> watch_;
  std::unique_ptr<Timer> cap_;
  bool timed_out_ = false;
};

TEST_F(OutputWatchTest, a_write_is_told) {
  std::filesystem::create_directory(jobs_ + "/j1");
  watch_->add(JobId("j1"), [this] { loop_.stop(); });
  loop_.post([this] { append("j1", "x"); });
  run();
}

TEST_F(OutputWatchTest, a_directory_may_come_later) {
  int told = 0;
  watch_->add(JobId("j1"), [&] {
    if (++told == 2) loop_.stop();
  });
  loop_.post([this] {
    std::filesystem::create_directory(jobs_ + "/j1");
    watch_->job_changed(JobId("j1"));  // the supervisor reported its start
    append("j1", "x");
  });
  run();
  EXPECT_EQ(told, 2);
}

TEST_F(OutputWatchTest, removed_waits_are_not_told_and_leave_nothing) {
  std::filesystem::create_directory(jobs_ + "/j1");
  const auto first = watch_->add(JobId("j1"), [] { FAIL() << "removed, but told"; });
  OutputWatch::Number second = 0;
  second = watch_->add(JobId("j1"), [&] {
    watch_->remove(second);
    loop_.stop();
  });
  watch_->remove(first);
  loop_.post([this] { append("j1", "x"); });
  run();
  EXPECT_EQ(watch_->size(), 0U);
}

class LogWaitsTest : public OutputWatchTest {
 protected:
  static constexpr engine::ConnectionId kConnection = 7;

  // Pages as the reader finds them: the bytes of the file beyond the offset.
  LogsPage page(const edge::LogsRequest& request) {
    std::ifstream file(jobs_ + "/" + request.job.str() + "/out");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    LogsPage page;
    page.reply.data = text.substr(std::min<std::size_t>(request.offset.value_or(0), text.size()));
    page.nothing_new = page.reply.data.empty();
    ++reads_;
    return page;
  }
  edge::LogsRequest request(std::optional<Millis> wait) {
    edge::LogsRequest request;
    request.caller.connection = kConnection;
    request.job = JobId("j1");
    request.wait = wait;
    return request;
  }

  std::atomic<int> reads_{0};
  Worker reader_{100, [](const std::string& what) { FAIL() << what; }};
  LogWaits waits_{
      loop_, reader_, *watch_,
      [this](const edge::LogsRequest& request) -> Result<LogsPage> { return page(request); }};
  std::string data_ = "unanswered";
  LogsDone done_ = [this](Result<edge::LogsReply> reply) {
    data_ = reply ? reply->data : reply.error().message;
    loop_.stop();
  };
};

TEST_F(LogWaitsTest, what_is_there_is_answered_at_once) {
  std::filesystem::create_directory(jobs_ + "/j1");
  append("j1", "ready");
  waits_.start(request(Millis{10000}), done_);
  run();
  EXPECT_EQ(data_, "ready");
  EXPECT_EQ(reads_, 1);
}

TEST_F(LogWaitsTest, a_waiting_reader_gets_the_next_bytes) {
  std::filesystem::create_directory(jobs_ + "/j1");
  waits_.start(request(Millis{10000}), done_);
  const auto write = loop_.after(Millis{30}, [this] { append("j1", "late"); });
  run();
  EXPECT_EQ(data_, "late");
  EXPECT_LE(reads_, 4);
}

TEST_F(LogWaitsTest, a_wait_ends_at_its_time_with_nothing) {
  std::filesystem::create_directory(jobs_ + "/j1");
  waits_.start(request(Millis{20}), done_);
  run();
  EXPECT_EQ(data_, "");
}

TEST_F(LogWaitsTest, without_a_wait_nothing_is_an_answer) {
  waits_.start(request(std::nullopt), done_);
  run();
  EXPECT_EQ(data_, "");
}

TEST_F(LogWaitsTest, a_closed_connection_takes_its_waits_along) {
  std::filesystem::create_directory(jobs_ + "/j1");
  waits_.start(request(Millis{10000}), [](const Result<edge::LogsReply>&) { FAIL(); });
  const auto close = loop_.after(Millis{30}, [this] {
    waits_.connection_closed(kConnection);
    append("j1", "too late");
    EXPECT_EQ(watch_->size(), 0U);
    loop_.post([this] { loop_.stop(); });
  });
  run();
}

}  // namespace
}  // namespace waybill::daemon
