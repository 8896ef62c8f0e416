#include "core/transition.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/exit.h"
#include "core/inbox.h"
#include "core/owed.h"
#include "core/retry.h"

namespace waybill::core {
namespace {

struct Expected {
  JobStatus from;
  JobTrigger trigger;
  JobStatus to;
  ReceiptName receipt;
};

// SPEC section 3, row by row; whatever is not listed here must be refused or be a replay.
const std::vector<Expected> kContract{
    {JobStatus::queued, JobTrigger::claim, JobStatus::running, ReceiptName::started},
    {JobStatus::queued, JobTrigger::fail, JobStatus::failed, ReceiptName::failed},
    {JobStatus::queued, JobTrigger::stop_confirm, JobStatus::stopped, ReceiptName::cancelled},
    {JobStatus::running, JobTrigger::ask, JobStatus::waiting_on_user, ReceiptName::waiting},
    {JobStatus::running, JobTrigger::requeue, JobStatus::queued, ReceiptName::requeued},
    {JobStatus::running, JobTrigger::complete, JobStatus::succeeded, ReceiptName::completed},
    {JobStatus::running, JobTrigger::fail, JobStatus::failed, ReceiptName::failed},
    {JobStatus::running, JobTrigger::stop_confirm, JobStatus::stopped, ReceiptName::cancelled},
    {JobStatus::waiting_on_user, JobTrigger::answer, JobStatus::running, ReceiptName::resumed},
    {JobStatus::waiting_on_user, JobTrigger::fail, JobStatus::failed, ReceiptName::failed},
    {JobStatus::waiting_on_user, JobTrigger::stop_confirm, JobStatus::stopped,
     ReceiptName::cancelled},
};

const Expected* expected(JobStatus from, JobTrigger trigger) {
  for (const Expected& row : kContract) {
    if (row.from == from && row.trigger == trigger) return &row;
  }
  return nullptr;
}

TEST(Transition, I5_table_is_the_contract_and_nothing_else) {
  for (std::size_t s = 0; s < kWordCount<JobStatus>; ++s) {
    for (std::size_t t = 0; t < kWordCount<JobTrigger>; ++t) {
      const auto from = static_cast<JobStatus>(s);
      const auto trigger = static_cast<JobTrigger>(t);
      const JobStep found = job_step(from, trigger);
      const Expected* row = expected(from, trigger);
      SCOPED_TRACE(std::string(to_word(from)) + " x " + std::string(to_word(trigger)));
      if (row != nullptr) {
        EXPECT_EQ(found.action, StepAction::go);
        EXPECT_EQ(found.to, row->to);
        EXPECT_EQ(found.receipt, row->receipt);
      } else if (is_terminal(from) && aim_of(trigger) == from) {
        EXPECT_EQ(found.action, StepAction::replay);
      } else {
        EXPECT_EQ(found.action, StepAction::forbid);
        const auto refused = step(from, trigger);
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code, ErrorCode::illegal_transition);
        EXPECT_NE(refused.error().message.find(to_word(from)), std::string::npos);
        EXPECT_NE(refused.error().message.find(to_word(aim_of(trigger))), std::string::npos);
      }
    }
  }
}

// Any sequence of triggers leads to at most one ending, which then never changes (I4, I5).
TEST(Transition, I4_random_trigger_sequences_end_once) {
  std::mt19937 random(20261130);
  std::uniform_int_distribution<std::size_t> pick(0, kWordCount<JobTrigger> - 1);
  int endings_seen = 0;
  for (int round = 0; round < 20'000; ++round) {
    JobStatus status = JobStatus::queued;
    int terminal_receipts = 0;
    std::optional<JobStatus> ending;
    for (int i = 0; i < 30; ++i) {
      const JobStep next = job_step(status, static_cast<JobTrigger>(pick(random)));
      if (next.action != StepAction::go) continue;
      status = next.to;
      if (is_terminal(status)) {
        ++terminal_receipts;
        ending = status;
      }
    }
    ASSERT_LE(terminal_receipts, 1);
    if (ending) {
      ++endings_seen;
      ASSERT_EQ(status, *ending);
    }
  }
  EXPECT_GT(endings_seen, 10'000);
}

TEST(Transition, I8_an_owner_stop_gives_no_event) {
  EXPECT_FALSE(event_of(ReceiptName::cancelled, true));
  EXPECT_EQ(event_of(ReceiptName::cancelled, false), EventType::job_cancelled);
  EXPECT_EQ(event_of(ReceiptName::completed, true), EventType::job_completed);
  EXPECT_FALSE(event_of(ReceiptName::started, false));
  EXPECT_FALSE(event_of(ReceiptName::queued, false));
}

TEST(Transition, I3_event_ids_are_made_of_job_receipt_and_count) {
  EXPECT_EQ(make_event_id(JobId("j1"), ReceiptName::completed, 1).str(), "j1.completed.1");
}

TEST(Inbox, I2_random_trigger_sequences_never_lose_a_row) {
  std::mt19937 random(7);
  std::uniform_int_distribution<std::size_t> pick(0, kWordCount<InboxTrigger> - 1);
  for (int round = 0; round < 20'000; ++round) {
    InboxState state = InboxState::pending;
    bool confirmed = false;
    bool dropped = false;
    for (int i = 0; i < 20; ++i) {
      const auto trigger = static_cast<InboxTrigger>(pick(random));
      const InboxStep next = inbox_step(state, trigger);
      if (next.action != InboxAction::go) continue;
      state = next.to;
      confirmed = confirmed || trigger == InboxTrigger::confirm;
      dropped = dropped || trigger == InboxTrigger::drop;
    }
    if (!confirmed && !dropped) {
      ASSERT_TRUE(state == InboxState::pending || state == InboxState::offered ||
                  state == InboxState::accepted || state == InboxState::parked);
    } else if (confirmed) {
      ASSERT_EQ(state, dropped ? state : InboxState::acked);
    }
  }
}

TEST(Inbox, I3_acknowledging_twice_does_nothing) {
  EXPECT_EQ(inbox_step(InboxState::acked, InboxTrigger::confirm).action, InboxAction::ignore);
  EXPECT_EQ(inbox_step(InboxState::acked, InboxTrigger::back).action, InboxAction::ignore);
  EXPECT_EQ(inbox_step(InboxState::pending, InboxTrigger::confirm).to, InboxState::acked);
}

TEST(Retry, back_off_doubles_to_its_maximum_and_is_never_zero) {
  const Backoff backoff;
  EXPECT_EQ(backoff_delay(backoff, 1, 1.0), Millis(500));
  EXPECT_EQ(backoff_delay(backoff, 2, 1.0), Millis(1000));
  EXPECT_EQ(backoff_delay(backoff, 1, 0.0), Millis(250));
  for (unsigned tries = 1; tries < 2000; ++tries) {
    const Millis delay = backoff_delay(backoff, tries, 1.0);
    EXPECT_GT(delay, Millis(0));
    EXPECT_LE(delay, Millis(60'000));
  }
}

template <class Enum>
void words_find_their_way_back() {
  for (std::size_t i = 0; i < kWordCount<Enum>; ++i) {
    EXPECT_EQ(from_word<Enum>(to_word(static_cast<Enum>(i))), static_cast<Enum>(i));
  }
  EXPECT_FALSE(from_word<Enum>("no such word"));
}

TEST(Words, every_enumeration_reads_what_it_writes) {
  words_find_their_way_back<JobStatus>();
  words_find_their_way_back<Cause>();
  words_find_their_way_back<ReceiptName>();
  words_find_their_way_back<InboxState>();
  words_find_their_way_back<EventType>();
  words_find_their_way_back<OwedKind>();
  words_find_their_way_back<StagesReason>();
  words_find_their_way_back<EarlierFinding>();
}

}  // namespace
}  // namespace waybill::core
