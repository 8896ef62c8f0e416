#include "edge/delivery_step.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace waybill::edge {
namespace {

TEST(DeliveryStep, the_call_follows_from_the_probe) {
  const std::vector<std::pair<ProbeState, PutCall>> table{{ProbeState::idle, PutCall::wake},
                                                          {ProbeState::running, PutCall::steer},
                                                          {ProbeState::gone, PutCall::none},
                                                          {ProbeState::unknown, PutCall::wake}};
  ASSERT_EQ(table.size(), core::kWordCount<ProbeState>);
  for (const auto& [state, call] : table) {
    EXPECT_EQ(put_call({state, "t"}), call) << core::to_word(state);
  }
  EXPECT_EQ(put_call({ProbeState::running, ""}), PutCall::steer) << "the adapter may find it out";
}

TEST(DeliveryStep, I3_only_an_accepted_text_is_confirmed_and_tries_are_bounded) {
  constexpr AfterPut kFlush = AfterPut::flush;
  constexpr AfterPut kRetry = AfterPut::retry;
  constexpr AfterPut kGiveUp = AfterPut::give_up;
  const std::vector<std::tuple<PutOutcome, AfterPut, AfterPut, AfterPut, AfterPut>> table{
      {PutOutcome::accepted, kFlush, kFlush, kFlush, kFlush},
      {PutOutcome::stale_turn, kRetry, kRetry, kGiveUp, kGiveUp},
      {PutOutcome::not_running, kRetry, kRetry, kGiveUp, kGiveUp},
      {PutOutcome::busy, kGiveUp, kGiveUp, kGiveUp, kGiveUp},
      {PutOutcome::unreachable, kGiveUp, kGiveUp, kGiveUp, kGiveUp}};
  ASSERT_EQ(table.size(), core::kWordCount<PutOutcome>);
  for (const auto& [outcome, first, second, third, fourth] : table) {
    EXPECT_EQ(after_put(outcome, 1), first) << core::to_word(outcome);
    EXPECT_EQ(after_put(outcome, 2), second) << core::to_word(outcome);
    EXPECT_EQ(after_put(outcome, 3), third) << core::to_word(outcome);
    EXPECT_EQ(after_put(outcome, 4), fourth) << core::to_word(outcome);
  }
}

}  // namespace
}  // namespace waybill::edge
