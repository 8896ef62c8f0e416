// Turns: held, handed over, stopped, resumed, abandoned (SPEC sections 5 and 7).

#include "world.h"

namespace waybill::test {
namespace {

using core::TurnState;
using core::TurnVerb;
using engine::AttachReply;
using engine::InboxReply;
using engine::JobReply;
using engine::RunReply;
using engine::SessionView;
using engine::TurnReply;

TEST(Turns, a_turn_is_held_while_a_job_of_its_own_is_unsettled) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(turn_command(host(), "sleep 9", "t1"));
  const auto held = world.ask<TurnReply>(turn(host(), TurnVerb::end));
  EXPECT_EQ(held.turn.state, TurnState::held);
  ASSERT_EQ(held.waiting_for.size(), 1U);
  EXPECT_EQ(held.waiting_for[0].id, made.job.id);

  // The revision moves when something can be done.
  const auto waiting =
      world.post(engine::SessionWaitRequest{person(), held.revision, Millis(60'000)});
  EXPECT_FALSE(waiting->answered);
  world.ended(made.job.id, 0);
  ASSERT_TRUE(waiting->answered);
  EXPECT_GT(std::get<SessionView>(*waiting->result).revision, held.revision);

  const auto handed = world.ask<TurnReply>(turn(host(), TurnVerb::end));
  EXPECT_EQ(handed.turn.state, TurnState::open);
  ASSERT_TRUE(handed.messages);
  EXPECT_EQ(handed.messages->mode, core::Mode::steer);
  world.post(engine::FlushedRequest{host(), handed.messages->delivery});
  EXPECT_EQ(world.ask<TurnReply>(turn(host(), TurnVerb::end)).turn.state, TurnState::closed);
}

TEST(Turns, end_with_wait_answers_when_there_is_something_to_do) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(turn_command(host(), "sleep 9", "t1"));
  auto request = turn(host(), TurnVerb::end);
  request.wait = true;
  const auto waiting = world.post(request);
  EXPECT_FALSE(waiting->answered);
  world.started(made.job.id);
  EXPECT_FALSE(waiting->answered);
  world.ended(made.job.id, 1);
  ASSERT_TRUE(waiting->answered);
  const auto reply = std::get<TurnReply>(*waiting->result);
  ASSERT_TRUE(reply.messages);
  EXPECT_EQ(reply.messages->events[0].type, core::EventType::job_failed);
  EXPECT_EQ(world.refuse(turn(host(), TurnVerb::begin, "t2")).code, ErrorCode::conflict);
}

TEST(Turns, ids_are_used_once_and_one_is_open_at_a_time) {
  World world;
  const auto first = world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto again = world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  EXPECT_EQ(first.turn.id, again.turn.id);
  EXPECT_EQ(world.refuse(turn(host(), TurnVerb::begin, "t2")).code, ErrorCode::conflict);
  world.ask<TurnReply>(turn(host(), TurnVerb::end));
  EXPECT_EQ(world.refuse(turn(host(), TurnVerb::begin)).code, ErrorCode::conflict);
  EXPECT_EQ(world.refuse(turn(host(), TurnVerb::step)).code, ErrorCode::conflict);
  EXPECT_EQ(world.refuse(turn(host(), TurnVerb::step, "t9")).code, ErrorCode::not_found);
  // Ending a closed turn again says so and does nothing.
  EXPECT_EQ(world.ask<TurnReply>(turn(host(), TurnVerb::end)).turn.state, TurnState::closed);
}

TEST(Turns, I1_events_of_a_turn_are_refused_to_the_inbox_of_another) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(turn_command(host(), "true", "t1"));
  world.ended(made.job.id, 0);
  world.ask<TurnReply>(turn(host(), TurnVerb::abandon));
  // Abandoned: its events are the session's, with a receipt.
  const auto begun = world.ask<TurnReply>(turn(host(), TurnVerb::begin, "t2"));
  ASSERT_TRUE(begun.messages);
  EXPECT_EQ(begun.messages->events[0].job.id, made.job.id);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_EQ(shown.job.receipts.back().name, core::ReceiptName::released);
  EXPECT_EQ(shown.job.receipts.back().from, shown.job.receipts.back().to);
}

TEST(Turns, I8_stopping_a_turn_stops_its_jobs_and_wakes_nobody) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(turn_command(host(), "sleep 9", "t1"));
  const auto kept = world.ask<RunReply>(command(host(), "sleep 8", "t1"));
  world.started(made.job.id);
  auto request = turn(host(), TurnVerb::stop);
  request.wait = true;
  const auto stopping = world.post(request);
  EXPECT_FALSE(stopping->answered);
  const auto during = world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_TRUE(during.job.stopping);
  EXPECT_EQ(during.job.status, core::JobStatus::running);
  auto facts = world.finished_facts(made.job.id, 0);
  facts.exit = core::Exit::signaled(15, false);
  facts.ended_by = core::EndedBy::stop;
  world.ended(facts);
  ASSERT_TRUE(stopping->answered);
  EXPECT_EQ(std::get<TurnReply>(*stopping->result).turn.state, TurnState::closed);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_EQ(shown.job.status, core::JobStatus::stopped);
  EXPECT_EQ(shown.job.cause, core::Cause::turn_stopped);
  EXPECT_EQ(shown.job.proof, core::Proof::subreaper);
  EXPECT_TRUE(shown.job.events.empty());
  // A job of the session outlives the turn.
  EXPECT_EQ(world.ask<JobReply>(engine::ShowRequest{person(), kept.job.id}).job.status,
            core::JobStatus::running);
}

TEST(Turns, a_stop_withholds_what_nobody_has_seen) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(command(host(), "true", "t1"));
  world.ended(made.job.id, 0);
  EXPECT_EQ(world.ask<TurnReply>(turn(host(), TurnVerb::stop)).turn.state, TurnState::closed);
  const auto waiting = world.post(inbox(host(), Millis(1000)));
  EXPECT_FALSE(waiting->answered);
  world.pass(Millis(1000));
  // It rides along with the next turn.
  const auto begun = world.ask<TurnReply>(turn(host(), TurnVerb::begin, "t2"));
  ASSERT_TRUE(begun.messages);
}

TEST(Turns, a_newer_host_resumes_what_an_older_one_had_taken_and_not_ended) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(turn_command(host(), "true", "t1"));
  world.ended(made.job.id, 0);
  const auto taken = world.ask<TurnReply>(turn(host(), TurnVerb::step));
  world.post(engine::FlushedRequest{host(), taken.messages->delivery});
  const auto newer = host("s1", "k2", 2);
  const auto attached = world.ask<AttachReply>(attach(newer));
  ASSERT_TRUE(attached.session.turn);
  EXPECT_EQ(attached.session.turn->id, TurnId("t1"));
  EXPECT_EQ(world.refuse(turn(newer, TurnVerb::step)).code, ErrorCode::conflict);
  const auto resumed = world.ask<TurnReply>(turn(newer, TurnVerb::resume));
  ASSERT_TRUE(resumed.messages);
  EXPECT_TRUE(resumed.messages->repeat);
  EXPECT_EQ(resumed.messages->events[0].id, taken.messages->events[0].id);
}

TEST(Turns, I1_a_newer_host_has_the_events_of_a_turn_only_once_it_has_resumed_it) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(turn_command(host(), "true", "t1"));
  const auto newer = host("s1", "k2", 2);
  world.ask<AttachReply>(attach(newer));
  world.ended(made.job.id, 0);
  EXPECT_FALSE(world.ask<InboxReply>(inbox(newer)).hand_over);
  EXPECT_TRUE(world.ask<TurnReply>(turn(newer, TurnVerb::resume)).messages);
}

TEST(Turns, I2_a_turn_without_a_host_becomes_the_sessions_after_ten_minutes) {
  World world;
  engine::AttachRequest request = attach(host());
  request.host_pid = 4711;
  request.host_pid_start = 99;
  world.ask<AttachReply>(request);
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(turn_command(host(), "sleep 9", "t1"));
  world.post(engine::HostGone{host().owner, 4711, 99});
  EXPECT_EQ(world.ask<SessionView>(engine::SessionShowRequest{person()}).phase,
            core::Phase::absent);
  world.pass(Millis(599'000));
  EXPECT_TRUE(world.ask<SessionView>(engine::SessionShowRequest{person()}).turn);
  world.pass(Millis(2'000));
  EXPECT_FALSE(world.ask<SessionView>(engine::SessionShowRequest{person()}).turn);
  world.ended(made.job.id, 0);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_EQ(shown.job.owner, core::OwnerKind::session);
  EXPECT_TRUE(std::ranges::any_of(shown.job.receipts, [](const core::Receipt& receipt) {
    return receipt.name == core::ReceiptName::abandoned;
  }));
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host("s1", "k2", 2))).hand_over);
}

TEST(Turns, turn_end_acknowledges_what_the_turn_took) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(command(host(), "true", "t1"));
  world.ended(made.job.id, 0);
  auto request = inbox(host("s1", "k1", 7), Millis(1000));
  request.follow = true;
  const auto taken = world.ask<InboxReply>(request);
  world.post(engine::FlushedRequest{host("s1", "k1", 7), taken.hand_over->delivery});
  EXPECT_EQ(world.ask<TurnReply>(turn(host(), TurnVerb::end)).turn.state, TurnState::closed);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_EQ(shown.job.events[0].acked_as, core::AckedAs::processed);
}

TEST(Turns, what_was_offered_and_never_accepted_is_not_acknowledged_by_the_end) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(command(host(), "true", "t1"));
  world.ended(made.job.id, 0);
  world.ask<TurnReply>(turn(host("s1", "k1", 5), TurnVerb::step));
  world.post(engine::ConnectionClosed{5});  // the step's client died before it had read
  const auto end = world.ask<TurnReply>(turn(host(), TurnVerb::end));
  ASSERT_TRUE(end.messages);
  EXPECT_TRUE(end.messages->repeat);
}

TEST(Turns, what_a_stopped_turn_was_only_offered_is_withheld_and_not_acknowledged) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(command(host(), "true", "t1"));
  world.ended(made.job.id, 0);
  world.ask<TurnReply>(turn(host("s1", "k1", 5), TurnVerb::step));
  world.post(engine::ConnectionClosed{5});  // never read
  EXPECT_EQ(world.ask<TurnReply>(turn(host(), TurnVerb::stop)).turn.state, TurnState::closed);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_EQ(shown.job.events.at(0).state, core::InboxState::pending);
  EXPECT_EQ(shown.job.events.at(0).withheld, core::Withheld::stopped);
}

}  // namespace
}  // namespace waybill::test
