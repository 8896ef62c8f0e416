// I2, I3, I14 and the delivery rules of SPEC section 6: offers, acceptance, acknowledgement,
// repeats.

#include <algorithm>

#include "world.h"

namespace waybill::test {
namespace {

using core::InboxState;
using core::TurnVerb;
using engine::AckReply;
using engine::AttachReply;
using engine::InboxReply;
using engine::JobReply;
using engine::JobsReply;
using engine::RunReply;
using engine::TurnReply;

JobId ended_job(World& world, const engine::Caller& caller, int code = 0) {
  const auto made = world.ask<RunReply>(command(caller, "true"));
  world.ended(made.job.id, code);
  return made.job.id;
}

engine::EventView event_of(World& world, const JobId& job) {
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), job});
  EXPECT_EQ(shown.job.events.size(), 1U);
  return shown.job.events.empty() ? engine::EventView{} : shown.job.events[0];
}

engine::WaitRequest wait_for(const engine::Caller& caller, std::vector<JobId> jobs,
                             bool any = false) {
  engine::WaitRequest request;
  request.caller = caller;
  request.jobs = std::move(jobs);
  request.any = any;
  request.timeout = Millis(30'000);
  return request;
}

TEST(Delivery, I2_an_event_stays_pending_until_it_is_acknowledged) {
  World world;
  const JobId job = ended_job(world, host());
  EXPECT_EQ(event_of(world, job).state, InboxState::pending);
  const auto first = world.ask<InboxReply>(inbox(host()));
  EXPECT_EQ(event_of(world, job).state, InboxState::offered);
  world.post(engine::FlushedRequest{host(), first.hand_over->delivery});
  EXPECT_EQ(event_of(world, job).state, InboxState::accepted);
  EXPECT_FALSE(world.ask<InboxReply>(inbox(host())).hand_over);
  EXPECT_EQ(event_of(world, job).acked_as, core::AckedAs::processed);
}

TEST(Delivery, I3_an_offer_that_expires_comes_again_as_a_repeat_with_the_same_id) {
  World world;
  ended_job(world, host());
  const auto first = world.ask<InboxReply>(inbox(host()));
  EXPECT_FALSE(first.hand_over->repeat);
  world.pass(Millis(30'001));
  const auto second = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(second.hand_over);
  EXPECT_TRUE(second.hand_over->repeat);
  EXPECT_TRUE(second.hand_over->events[0].repeat);
  EXPECT_EQ(second.hand_over->events[0].id, first.hand_over->events[0].id);
  EXPECT_NE(second.hand_over->delivery, first.hand_over->delivery);
  // The expired one can still be acknowledged, by its own name.
  const auto acked =
      world.ask<AckReply>(engine::AckRequest{host(), {first.hand_over->delivery.str()}});
  EXPECT_EQ(acked.acked.size(), 1U);
  // Twice does nothing.
  const auto again =
      world.ask<AckReply>(engine::AckRequest{host(), {second.hand_over->events[0].id.str()}});
  EXPECT_TRUE(again.acked.empty());
  EXPECT_EQ(again.already.size(), 1U);
}

TEST(Delivery, I2_a_connection_that_closes_returns_what_it_held) {
  World world;
  const JobId job = ended_job(world, host());
  world.ask<InboxReply>(inbox(host("s1", "k1", 5)));
  world.post(engine::ConnectionClosed{5});
  const auto event = event_of(world, job);
  EXPECT_EQ(event.state, InboxState::pending);
  EXPECT_EQ(event.tries, 1U);
  EXPECT_FALSE(event.last_error.empty());
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over->repeat);
}

TEST(Delivery, I2_offers_return_and_accepted_rows_stay_over_a_restart) {
  World world;
  const JobId offered = ended_job(world, host());
  const auto first = world.ask<InboxReply>(inbox(host()));
  world.crash();
  ASSERT_TRUE(world.start());
  EXPECT_EQ(event_of(world, offered).state, InboxState::pending);
  const auto second = world.ask<InboxReply>(inbox(host("s1", "k1", 2)));
  EXPECT_TRUE(second.hand_over->repeat);
  world.post(engine::FlushedRequest{host("s1", "k1", 2), second.hand_over->delivery});
  world.crash();
  ASSERT_TRUE(world.start());
  EXPECT_EQ(event_of(world, offered).state, InboxState::accepted);
  EXPECT_FALSE(world.ask<InboxReply>(inbox(host("s1", "k1", 3))).hand_over);
  EXPECT_EQ(event_of(world, offered).state, InboxState::acked);
}

TEST(Delivery, the_next_call_on_the_same_connection_tells_that_the_answer_was_read) {
  World world;
  const JobId job = ended_job(world, host("s1", "k1", 5));
  world.ask<InboxReply>(inbox(host("s1", "k1", 5)));
  // Another process of the host proves nothing.
  world.ask<InboxReply>(inbox(host("s1", "k1", 6)));
  EXPECT_EQ(event_of(world, job).state, InboxState::offered);
  world.ask<InboxReply>(inbox(host("s1", "k1", 5)));
  EXPECT_EQ(event_of(world, job).acked_as, core::AckedAs::processed);
  world.pass(Millis(31'000));
  EXPECT_FALSE(world.ask<InboxReply>(inbox(host("s1", "k1", 5))).hand_over);
}

TEST(Delivery, no_ack_counts_only_an_explicit_acknowledgement) {
  World world;
  const JobId job = ended_job(world, host());
  auto request = inbox(host("s1", "k1", 7));
  request.no_ack = true;
  const auto held = world.ask<InboxReply>(request);
  world.post(engine::FlushedRequest{host("s1", "k1", 7), held.hand_over->delivery});
  EXPECT_FALSE(world.ask<InboxReply>(inbox(host())).hand_over);
  EXPECT_EQ(event_of(world, job).state, InboxState::accepted);
  world.post(engine::ConnectionClosed{7});
  EXPECT_EQ(event_of(world, job).state, InboxState::pending);
}

TEST(Delivery, follow_is_acknowledged_by_ack_or_turn_end_alone) {
  World world;
  const JobId job = ended_job(world, host());
  auto request = inbox(host("s1", "k1", 7), Millis(1000));
  request.follow = true;
  const auto taken = world.ask<InboxReply>(request);
  world.post(engine::FlushedRequest{host("s1", "k1", 7), taken.hand_over->delivery});
  world.post(request);
  world.ask<InboxReply>(inbox(host()));
  EXPECT_EQ(event_of(world, job).state, InboxState::accepted);
  world.ask<AckReply>(engine::AckRequest{host(), {taken.hand_over->events[0].id.str()}});
  EXPECT_EQ(event_of(world, job).state, InboxState::acked);
}

TEST(Delivery, O05_a_wait_that_was_read_is_the_delivery) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  const auto waiting = world.post(wait_for(host(), {made.job.id}));
  EXPECT_FALSE(waiting->answered);
  world.ended(made.job.id, 0);
  ASSERT_TRUE(waiting->answered);
  const auto reply = std::get<JobsReply>(*waiting->result);
  ASSERT_TRUE(reply.reported);
  EXPECT_EQ(event_of(world, made.job.id).state, InboxState::offered);
  world.post(engine::FlushedRequest{host(), *reply.reported});
  EXPECT_EQ(event_of(world, made.job.id).acked_as, core::AckedAs::reported);
  EXPECT_FALSE(world.ask<InboxReply>(inbox(host())).hand_over);
}

TEST(Delivery, O05_a_wait_whose_client_died_is_delivered_again_as_a_repeat) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  const auto waiting = world.post(wait_for(host("s1", "k1", 5), {made.job.id}));
  world.ended(made.job.id, 0);
  ASSERT_TRUE(waiting->answered);
  // Another process of the same host proves nothing about what that one has read.
  world.post(
      engine::FlushedRequest{host("s1", "k1", 6), *std::get<JobsReply>(*waiting->result).reported});
  EXPECT_EQ(event_of(world, made.job.id).state, InboxState::offered);
  world.post(engine::ConnectionClosed{5});
  const auto again = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(again.hand_over);
  EXPECT_TRUE(again.hand_over->repeat);
}

TEST(Delivery, a_wait_that_times_out_leaves_the_job_and_reports_what_is_terminal) {
  World world;
  const auto one = world.ask<RunReply>(command(host(), "true"));
  const auto two = world.ask<RunReply>(command(host(), "sleep 9"));
  const auto waiting = world.post(wait_for(host(), {one.job.id, two.job.id}));
  world.ended(one.job.id, 0);
  EXPECT_FALSE(waiting->answered);
  world.pass(Millis(30'001));
  ASSERT_TRUE(waiting->answered);
  const auto reply = std::get<JobsReply>(*waiting->result);
  EXPECT_TRUE(reply.timed_out);
  EXPECT_TRUE(reply.reported);
  EXPECT_EQ(reply.jobs[1].status, core::JobStatus::running);
}

TEST(Delivery, a_blocked_inbox_gets_the_offer_in_the_settling_transaction) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  const auto waiting = world.post(inbox(host(), Millis(60'000)));
  EXPECT_FALSE(waiting->answered);
  const auto second = world.ask<RunReply>(command(host(), "true"));
  EXPECT_EQ(made.delivery_path, core::DeliveryPath::next_attach);
  EXPECT_EQ(second.delivery_path, core::DeliveryPath::wake);
  world.ended(made.job.id, 3);
  ASSERT_TRUE(waiting->answered);
  const auto reply = std::get<InboxReply>(*waiting->result);
  ASSERT_TRUE(reply.hand_over);
  EXPECT_EQ(reply.hand_over->events[0].type, core::EventType::job_failed);
}

TEST(Delivery, an_inbox_that_times_out_gives_nothing) {
  World world;
  const auto waiting = world.post(inbox(host(), Millis(1000)));
  world.pass(Millis(999));
  EXPECT_FALSE(waiting->answered);
  world.pass(Millis(1));
  ASSERT_TRUE(waiting->answered);
  EXPECT_FALSE(std::get<InboxReply>(*waiting->result).hand_over);
}

TEST(Delivery, O01_what_ends_together_is_all_handed_over_failed_first) {
  World world;
  std::vector<JobId> jobs;
  for (int i = 0; i < 9; ++i) {
    jobs.push_back(world.ask<RunReply>(command(host(), "true " + std::to_string(i))).job.id);
  }
  for (std::size_t i = 0; i < jobs.size(); ++i) world.ended(jobs[i], i == 6 ? 1 : 0);
  const auto taken = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(taken.hand_over);
  ASSERT_EQ(taken.hand_over->events.size(), jobs.size());
  EXPECT_EQ(taken.hand_over->events[0].job.id, jobs[6]);
  std::vector<JobId> rest;
  for (std::size_t i = 1; i < jobs.size(); ++i) rest.push_back(taken.hand_over->events[i].job.id);
  jobs.erase(jobs.begin() + 6);
  EXPECT_EQ(rest, jobs);  // commit order
}

TEST(Delivery, ack_takes_all_or_none) {
  World world;
  const JobId job = ended_job(world, host());
  const auto refused =
      world.refuse(engine::AckRequest{host(), {job.str() + ".completed.1", "j0.completed.1"}});
  EXPECT_EQ(refused.code, ErrorCode::not_found);
  EXPECT_EQ(event_of(world, job).state, InboxState::pending);
}

TEST(Delivery, the_person_of_session_user_reads_without_a_key) {
  World world;
  const engine::Caller user = person("user");
  const auto made = world.ask<RunReply>(command(user, "true"));
  EXPECT_EQ(made.delivery_path, core::DeliveryPath::next_attach);
  world.ended(made.job.id, 0);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{user, made.job.id});
  ASSERT_TRUE(shown.reported);
  world.post(engine::FlushedRequest{user, *shown.reported});
  EXPECT_FALSE(world.ask<InboxReply>(inbox(user)).hand_over);
  EXPECT_EQ(world.refuse(turn(user, TurnVerb::begin)).code, ErrorCode::bad_request);
  EXPECT_EQ(world.refuse(attach(user)).code, ErrorCode::bad_request);
}

// A client that asks and leaves at once: both lie in one batch.
TEST(Delivery, I3_a_wait_whose_connection_closed_in_its_own_batch_is_offered_nothing) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  std::vector<engine::Ticket> batch;
  const auto nobody = [](const Result<engine::Reply>&) {};
  batch.push_back({wait_for(host("s1", "k1", 5), {made.job.id}), nobody});
  batch.push_back({engine::ConnectionClosed{5}, nobody});
  world.engine().run_batch(std::move(batch));
  world.ended(made.job.id, 0);
  EXPECT_EQ(event_of(world, made.job.id).state, InboxState::pending);
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over);
}

TEST(Delivery, I14_launches_are_refused_while_too_many_results_wait) {
  World world;
  world.settings.undelivered_per_session = 3;
  ASSERT_TRUE(world.start());
  for (int i = 0; i < 3; ++i) ended_job(world, host());
  EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::limit_reached);
  const auto taken = world.ask<InboxReply>(inbox(host()));
  world.ask<AckReply>(engine::AckRequest{host(), {taken.hand_over->delivery.str()}});
  world.ask<RunReply>(command(host(), "true"));
}

TEST(Delivery, I14_waits_are_bounded) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  for (const Millis bad : {Millis(0), Millis(-1), Millis(600'001)}) {
    auto request = wait_for(host(), {made.job.id});
    request.timeout = bad;
    EXPECT_EQ(world.refuse(request).code, ErrorCode::bad_request);
  }
}

}  // namespace
}  // namespace waybill::test
