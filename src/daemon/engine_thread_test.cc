#include "daemon/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <stdexcept>
#include <utility>

namespace waybill::daemon {
namespace {

using engine::Reply;
using engine::Ticket;

// Records what it is given; behaves as the test tells it.
struct Script {
  std::function<void(std::vector<Ticket>&)> on_batch;
  std::function<std::optional<Millis>()> next_due = [] { return std::nullopt; };
  std::function<void()> on_tick = [] {};
  std::atomic<int> ticks{0};
  std::string poisoned;
};

class ScriptedSeat final : public EngineSeat {
 public:
  explicit ScriptedSeat(Script& script) : script_(script) {}
  void run_batch(std::vector<Ticket> batch) override {
    if (script_.on_batch) script_.on_batch(batch);
    for (Ticket& ticket : batch) ticket.done(Reply{});
  }
  void tick() override {
    ++script_.ticks;
    script_.on_tick();
  }
  std::optional<Millis> next_due() const override { return script_.next_due(); }
  void close() override {}
  const std::string& poisoned() const override { return script_.poisoned; }

 private:
  Script& script_;
};

class EngineThreadTest : public testing::Test {
 protected:
  EngineThread::Hooks hooks() {
    return {[this](const std::string& why) { poisoned_.set_value(why); },
            [this](const JobId&) { ++facts_; }, [] {}};
  }
  EngineThread::Open open() {
    return [this]() -> Result<std::unique_ptr<EngineSeat>> {
      return std::unique_ptr<EngineSeat>(std::make_unique<ScriptedSeat>(script_));
    };
  }
  static Result<Reply> ask(EngineThread& thread, engine::Command command) {
    auto promise = std::make_shared<std::promise<Result<Reply>>>();
    auto answer = promise->get_future();
    thread.submit(std::move(command),
                  [promise](Result<Reply> reply) { promise->set_value(std::move(reply)); });
    return answer.get();
  }
  static core::JobFacts facts_of(const char* job, core::Supervision supervision) {
    core::JobFacts facts;
    facts.job = JobId(job);
    facts.supervision = supervision;
    return facts;
  }

  Script script_;
  std::promise<std::string> poisoned_;
  std::atomic<int> facts_{0};
};

TEST_F(EngineThreadTest, an_error_at_open_is_returned_and_nothing_runs) {
  EngineThread thread(hooks());
  const auto started = thread.start([]() -> Result<std::unique_ptr<EngineSeat>> {
    return fail(ErrorCode::store_newer, "newer");
  });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::store_newer);
  thread.stop();
  EXPECT_FALSE(ask(thread, engine::StatusRequest{}));
}

TEST_F(EngineThreadTest, an_exception_at_open_is_an_error) {
  EngineThread thread(hooks());
  const auto started = thread.start(
      []() -> Result<std::unique_ptr<EngineSeat>> { throw std::runtime_error("boom"); });
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find("boom"), std::string::npos);
}

TEST_F(EngineThreadTest, batches_are_bounded_and_reports_leave_room_for_tickets) {
  std::promise<void> entered;
  std::promise<void> go;
  std::atomic<int> batch_number{0};
  std::size_t second_batch = 0;
  std::size_t second_batch_facts = 0;
  script_.on_batch = [&](std::vector<Ticket>& batch) {
    if (++batch_number == 1) {
      entered.set_value();
      go.get_future().wait();
    } else if (batch_number == 2) {
      second_batch = batch.size();
      for (const Ticket& ticket : batch) {
        if (std::holds_alternative<engine::ObservedFacts>(ticket.command)) ++second_batch_facts;
      }
    }
  };
  EngineThread thread(hooks());
  ASSERT_TRUE(thread.start(open()));
  std::atomic<int> answers{0};
  const auto count = [&](const Result<Reply>& reply) { answers += reply ? 1 : 0; };
  thread.submit(engine::StatusRequest{}, count);
  entered.get_future().wait();
  for (int i = 0; i < 100; ++i) thread.submit(engine::StatusRequest{}, count);
  for (int i = 0; i < 100; ++i) {
    thread.report(facts_of(("job" + std::to_string(i)).c_str(), core::Supervision::running));
  }
  go.set_value();
  thread.stop();
  EXPECT_EQ(second_batch, EngineThread::kBatchMax);
  EXPECT_EQ(second_batch_facts, EngineThread::kBatchMax * 3 / 4);
  EXPECT_EQ(answers, 101);
  EXPECT_EQ(facts_, 100);
}

TEST_F(EngineThreadTest, of_one_job_only_the_newest_facts_wait) {
  std::promise<void> entered;
  std::promise<void> go;
  std::atomic<int> batch_number{0};
  std::vector<core::Supervision> seen;
  script_.on_batch = [&](std::vector<Ticket>& batch) {
    if (++batch_number == 1) {
      entered.set_value();
      go.get_future().wait();
    }
    for (const Ticket& ticket : batch) {
      if (const auto* facts = std::get_if<engine::ObservedFacts>(&ticket.command)) {
        seen.push_back(facts->facts.supervision);
      }
    }
  };
  EngineThread thread(hooks());
  ASSERT_TRUE(thread.start(open()));
  thread.submit(engine::StatusRequest{}, [](const Result<Reply>&) {});
  entered.get_future().wait();
  for (int i = 0; i < 1000; ++i) thread.report(facts_of("j", core::Supervision::running));
  thread.report(facts_of("j", core::Supervision::finished));
  go.set_value();
  thread.stop();
  EXPECT_EQ(seen, std::vector{core::Supervision::finished});
}

TEST_F(EngineThreadTest, I14_a_full_queue_refuses_at_once) {
  std::promise<void> entered;
  std::promise<void> go;
  std::atomic<int> batch_number{0};
  script_.on_batch = [&](std::vector<Ticket>&) {
    if (++batch_number > 1) return;
    entered.set_value();
    go.get_future().wait();
  };
  EngineThread thread(hooks());
  ASSERT_TRUE(thread.start(open()));
  thread.submit(engine::StatusRequest{}, [](const Result<Reply>&) {});
  entered.get_future().wait();
  for (std::size_t i = 0; i < EngineThread::kQueueMax; ++i) {
    thread.submit(engine::StatusRequest{}, [](const Result<Reply>&) {});
  }
  const auto refused = ask(thread, engine::StatusRequest{});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
  go.set_value();
}

TEST_F(EngineThreadTest, an_exception_poisons_and_every_caller_hears_once) {
  std::atomic<int> asked{0};
  script_.on_batch = [&](std::vector<Ticket>&) {
    ++asked;
    throw std::runtime_error("impossible");
  };
  EngineThread thread(hooks());
  ASSERT_TRUE(thread.start(open()));
  const auto first = ask(thread, engine::StatusRequest{});
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::unavailable);
  EXPECT_NE(poisoned_.get_future().get().find("impossible"), std::string::npos);
  const auto second = ask(thread, engine::StatusRequest{});
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("impossible"), std::string::npos);
  EXPECT_EQ(asked, 1);
  EXPECT_FALSE(thread.poisoned().empty());
}

TEST_F(EngineThreadTest, the_engines_own_poison_is_told_once) {
  script_.on_batch = [&](std::vector<Ticket>&) { script_.poisoned = "fsync failed"; };
  EngineThread thread(hooks());
  ASSERT_TRUE(thread.start(open()));
  EXPECT_TRUE(ask(thread, engine::StatusRequest{}));
  EXPECT_TRUE(ask(thread, engine::StatusRequest{}));
  EXPECT_EQ(poisoned_.get_future().get(), "fsync failed");
}

TEST_F(EngineThreadTest, I15_ticks_when_due_and_only_then) {
  std::promise<void> ticked;
  std::atomic<bool> due{true};
  script_.next_due = [&]() -> std::optional<Millis> {
    if (due) return Millis{5};
    return std::nullopt;
  };
  script_.on_tick = [&] {
    if (due.exchange(false)) ticked.set_value();
  };
  EngineThread thread(hooks());
  ASSERT_TRUE(thread.start(open()));
  ticked.get_future().wait();
  EXPECT_TRUE(ask(thread, engine::StatusRequest{}));
  thread.stop();
  EXPECT_EQ(script_.ticks, 1);
}

TEST_F(EngineThreadTest, a_closed_connection_is_told_to_the_engine) {
  std::promise<engine::ConnectionId> told;
  script_.on_batch = [&](std::vector<Ticket>& batch) {
    for (const Ticket& ticket : batch) {
      if (const auto* closed = std::get_if<engine::ConnectionClosed>(&ticket.command)) {
        told.set_value(closed->connection);
      }
    }
  };
  EngineThread thread(hooks());
  ASSERT_TRUE(thread.start(open()));
  thread.tell(engine::ConnectionClosed{42});
  EXPECT_EQ(told.get_future().get(), 42U);
}

}  // namespace
}  // namespace waybill::daemon
