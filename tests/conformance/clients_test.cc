// Agent clients: several processes of one host, and wakes of a live host.

#include <algorithm>

#include "client_world.h"

namespace waybill::test {
namespace {

using core::InboxState;
using core::TurnVerb;
using engine::AckReply;
using engine::AttachReply;
using engine::HostReply;
using engine::InboxReply;
using engine::JobReply;
using engine::ListReply;
using engine::RunReply;
using engine::SessionView;
using engine::StatusReply;
using engine::TurnReply;
using engine::WakeReply;

TEST(Wake, O03_an_idle_host_is_woken_by_a_silent_job_and_its_turn_takes_the_notice) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  const auto made = world.ask<RunReply>(command(of(kMcp), "wait-for-a-file", "t1"));
  EXPECT_EQ(world.ask<TurnReply>(hook(TurnVerb::end, "t1")).turn.state, core::TurnState::closed);
  const auto waiter = world.post(wake_call());
  EXPECT_FALSE(waiter->answered);
  world.pass(Millis(3'600'000));
  const auto again = waiter->answered ? world.post(wake_call()) : waiter;
  world.ended(made.job.id, 0);
  EXPECT_TRUE(woken(again));
  EXPECT_EQ(session(world).phase, core::Phase::waking);
  EXPECT_EQ(event_of(world, made.job.id).state, InboxState::pending) << "a wake hands nothing over";
  const auto begun = world.ask<TurnReply>(prompt("t2", core::Author::job));
  ASSERT_TRUE(begun.messages);
  EXPECT_EQ(begun.messages->events.at(0).job.id, made.job.id);
  EXPECT_EQ(session(world).phase, core::Phase::running);
}

TEST(Wake, delivery_path_says_wake_only_while_somebody_waits) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  EXPECT_EQ(world.ask<RunReply>(command(of(kMcp), "true")).delivery_path,
            core::DeliveryPath::next_attach);
  EXPECT_TRUE(world.ask<StatusReply>(engine::StatusRequest{person()}).reachable.empty());
  const auto waiter = world.post(wake_call());
  EXPECT_EQ(world.ask<RunReply>(command(of(kMcp), "false")).delivery_path,
            core::DeliveryPath::wake);
  const auto status = world.ask<StatusReply>(engine::StatusRequest{person()});
  ASSERT_EQ(status.reachable.size(), 1U);
  EXPECT_EQ(status.reachable[0], SessionId("s1"));
  world.post(engine::ConnectionClosed{kWaiter});
  EXPECT_EQ(world.ask<RunReply>(command(of(kMcp), "echo")).delivery_path,
            core::DeliveryPath::next_attach);
}

TEST(Wake, a_newer_waiter_replaces_the_one_before_and_one_wake_is_open_at_a_time) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const auto first = world.post(wake_call(3));
  const auto second = world.post(wake_call(4));
  ASSERT_TRUE(first->answered);
  EXPECT_TRUE(std::get<WakeReply>(*first->result).replaced);
  ended_job(world);
  EXPECT_TRUE(woken(second));
  const auto third = world.post(wake_call(5));
  ended_job(world);
  EXPECT_FALSE(third->answered) << "a wake is open";
  // Nothing came of the first: another is tried.
  world.pass(Millis(30'001));
  EXPECT_TRUE(woken(third));
}

TEST(Wake, while_a_turn_runs_its_steps_take_what_comes_and_nobody_is_woken) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  const auto waiter = world.post(wake_call());
  const JobId job = ended_job(world);
  EXPECT_FALSE(waiter->answered);
  const auto step = world.ask<TurnReply>(hook(TurnVerb::step, "t1"));
  ASSERT_TRUE(step.messages);
  world.post(engine::FlushedRequest{of(kHook), step.messages->delivery});
  world.pass(Millis(20'000));
  EXPECT_FALSE(waiter->answered);
  EXPECT_EQ(event_of(world, job).state, InboxState::accepted);
}

TEST(Wake, a_turn_that_was_interrupted_without_a_word_does_not_swallow_a_completion) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  const auto waiter = world.post(wake_call());
  ended_job(world);
  world.pass(Millis(9'000));
  EXPECT_FALSE(waiter->answered);
  world.pass(Millis(1'001));
  EXPECT_TRUE(woken(waiter));
  // The client began another turn; the old one is over.
  const auto begun = world.ask<TurnReply>(prompt("t2", core::Author::job));
  EXPECT_TRUE(begun.messages);
  EXPECT_EQ(world.refuse(hook(TurnVerb::step, "t1")).code, ErrorCode::conflict);
}

TEST(Wake, a_client_that_has_gone_idle_ends_its_turn_without_going_on) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  const auto waiter = world.post(wake_call());
  ended_job(world);
  engine::TurnRequest idle = hook(TurnVerb::end, "t1");
  idle.over = true;
  const auto over = world.ask<TurnReply>(idle);
  EXPECT_EQ(over.turn.state, core::TurnState::closed);
  EXPECT_FALSE(over.messages);
  EXPECT_TRUE(woken(waiter)) << "in the same transaction";
}

TEST(Wake, I18_a_session_that_goes_on_by_itself_stops_at_the_budget_until_a_user_speaks) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t0"));
  world.ask<TurnReply>(hook(TurnVerb::end, "t0"));
  for (int i = 1; i <= 3; ++i) {
    const auto waiter = world.post(wake_call());
    ended_job(world);
    ASSERT_TRUE(woken(waiter)) << i;
    const std::string id = "t" + std::to_string(i);
    const auto begun = world.ask<TurnReply>(prompt(id, core::Author::job));
    ASSERT_TRUE(begun.messages);
    world.post(engine::FlushedRequest{of(kHook), begun.messages->delivery});
    world.ask<TurnReply>(hook(TurnVerb::end, id));
  }
  EXPECT_EQ(session(world).wakes, 3U);
  const auto waiter = world.post(wake_call());
  const JobId job = ended_job(world);
  world.pass(Millis(600'000 - 1));
  EXPECT_FALSE(woken(waiter));
  EXPECT_EQ(event_of(world, job).withheld, core::Withheld::budget);
  EXPECT_EQ(session(world).withheld, 1U) << "visible";
  const auto user = world.ask<TurnReply>(prompt("t9"));
  ASSERT_TRUE(user.messages) << "it rides along with the user's turn";
  EXPECT_EQ(session(world).wakes, 0U);
}

TEST(Wake, I18_the_last_wake_of_the_budget_still_has_what_it_is_for) {
  World world;
  world.settings.max_consecutive_wakes = 1;
  ASSERT_TRUE(world.start());
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const auto waiter = world.post(wake_call());
  const JobId job = ended_job(world);
  ASSERT_TRUE(woken(waiter));
  EXPECT_EQ(event_of(world, job).withheld, core::Withheld::no);
  // Nothing came of it: then it is held back, visibly.
  world.pass(Millis(30'001));
  EXPECT_EQ(event_of(world, job).withheld, core::Withheld::budget);
  EXPECT_NE(session(world).phase, core::Phase::waking);
}

TEST(Wake, I18_an_open_turn_is_not_woken_beyond_the_bound_either) {
  World world;
  world.settings.max_consecutive_wakes = 1;
  ASSERT_TRUE(world.start());
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  const auto first = world.post(wake_call(3));
  ended_job(world);
  world.pass(Millis(10'001));
  EXPECT_TRUE(woken(first)) << "perhaps that turn was interrupted";
  const auto second = world.post(wake_call(4));
  world.pass(Millis(120'000));
  EXPECT_FALSE(woken(second));
  EXPECT_EQ(session(world).wakes, 1U);
}

TEST(Wake, a_wake_whose_hand_over_was_given_back_costs_nothing_and_is_not_tried_at_once) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const JobId job = ended_job(world);
  for (int i = 0; i < 5; ++i) {
    const auto waiter = world.post(wake_call());
    if (i > 0) world.pass(Millis(30'001));
    ASSERT_TRUE(woken(waiter)) << i;
    engine::InboxRequest take = inbox(of(kWaiter));
    take.follow = true;
    const auto taken = world.ask<InboxReply>(take);
    ASSERT_TRUE(taken.hand_over) << i;
    world.ask<std::monostate>(engine::ReturnedRequest{of(kWaiter), taken.hand_over->delivery});
    EXPECT_FALSE(woken(world.post(wake_call(30)))) << "no hot loop";
  }
  EXPECT_EQ(session(world).wakes, 0U);
  EXPECT_EQ(event_of(world, job).withheld, core::Withheld::no);
}

TEST(Wake, I18_going_on_at_a_turns_end_spends_too) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  for (int i = 0; i < 3; ++i) {
    ended_job(world);
    const auto end = world.ask<TurnReply>(hook(TurnVerb::end, "t1"));
    ASSERT_TRUE(end.messages) << i;
    world.post(engine::FlushedRequest{of(kHook), end.messages->delivery});
  }
  const JobId job = ended_job(world);
  const auto end = world.ask<TurnReply>(hook(TurnVerb::end, "t1"));
  EXPECT_FALSE(end.messages);
  EXPECT_EQ(end.turn.state, core::TurnState::closed);
  EXPECT_EQ(event_of(world, job).withheld, core::Withheld::budget);
}

TEST(Wake, I18_a_user_who_speaks_in_the_middle_of_a_turn_lifts_the_bound) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  ended_job(world);
  world.ask<TurnReply>(hook(TurnVerb::end, "t1"));
  EXPECT_EQ(session(world).wakes, 1U);
  world.ask<TurnReply>(prompt("t1"));
  EXPECT_EQ(session(world).wakes, 0U);
}

TEST(Wake, a_person_who_looks_eats_no_wake) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const auto waiter = world.post(wake_call());
  const auto made = world.ask<RunReply>(command(of(kMcp), "true"));
  world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  world.ended(made.job.id, 0);
  world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_TRUE(woken(waiter));
  world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_TRUE(world.ask<TurnReply>(prompt("t1", core::Author::job)).messages);
}

TEST(Wake, only_the_host_waits_for_wakes) {
  World world;
  EXPECT_EQ(world.refuse(engine::WakeRequest{person(), Millis(1000)}).code,
            ErrorCode::unauthenticated);
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const auto waiter = world.post(wake_call());
  world.ask<AttachReply>(attach(host("s1", "other", 7)));
  ASSERT_TRUE(waiter->answered);
  ASSERT_FALSE(waiter->result);
  EXPECT_EQ(waiter->result.error().code, ErrorCode::fenced);
}

// ---- several processes of one host -------------------------------------------------------------

TEST(Clients, I2_a_hook_that_printed_proves_nothing_until_its_turn_ends) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  const JobId job = ended_job(world);
  const auto step = world.ask<TurnReply>(hook(TurnVerb::step, "t1", 20));
  world.post(engine::FlushedRequest{of(20), step.messages->delivery});
  world.post(engine::ConnectionClosed{20});
  // Neither another hook nor the MCP process speaks for it.
  world.ask<TurnReply>(hook(TurnVerb::step, "t1", 21));
  world.ask<InboxReply>(tool_result());
  EXPECT_EQ(event_of(world, job).state, InboxState::accepted);
  world.ask<TurnReply>(hook(TurnVerb::end, "t1", 22));
  EXPECT_EQ(event_of(world, job).state, InboxState::acked);
  EXPECT_EQ(event_of(world, job).acked_as, core::AckedAs::processed);
}

TEST(Clients, I2_a_hook_that_is_confirmed_after_its_turns_end_was_read_in_that_turn) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  const JobId job = ended_job(world);
  const auto step = world.ask<TurnReply>(hook(TurnVerb::step, "t1", 20));
  EXPECT_EQ(world.ask<TurnReply>(hook(TurnVerb::end, "t1", 21)).turn.state,
            core::TurnState::closed);
  EXPECT_EQ(event_of(world, job).state, InboxState::offered);
  world.post(engine::FlushedRequest{of(20), step.messages->delivery});
  EXPECT_EQ(event_of(world, job).state, InboxState::acked);
}

TEST(Clients, I18_what_the_budget_holds_back_rides_on_a_tool_result) {
  World world;
  world.settings.max_consecutive_wakes = 0;
  ASSERT_TRUE(world.start());
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const JobId job = ended_job(world);
  EXPECT_EQ(event_of(world, job).withheld, core::Withheld::budget);
  EXPECT_TRUE(world.ask<InboxReply>(tool_result()).hand_over) << "the model runs anyway";
}

TEST(Clients, I18_a_call_in_a_turn_of_the_users_lifts_the_bound_where_no_hook_tells) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  for (int i = 0; i < 3; ++i) {
    const auto waiter = world.post(wake_call());
    ended_job(world);
    ASSERT_TRUE(woken(waiter));
    const auto taken = world.ask<InboxReply>(inbox(of(kWaiter)));
    ASSERT_TRUE(taken.hand_over);
    engine::FlushedRequest out{of(kWaiter), taken.hand_over->delivery, true};
    world.ask<std::monostate>(out);
  }
  EXPECT_EQ(session(world).wakes, 3U);
  const auto waiter = world.post(wake_call());
  const JobId held = ended_job(world);
  EXPECT_EQ(event_of(world, held).withheld, core::Withheld::budget);
  engine::CallRequest call{of(kMcp), "call_1", TurnId("t9")};
  call.by_user = true;
  world.ask<std::monostate>(call);
  EXPECT_EQ(event_of(world, held).withheld, core::Withheld::no);
  EXPECT_TRUE(woken(waiter)) << "in the same transaction";
  EXPECT_EQ(session(world).wakes, 1U);
}

TEST(Clients, I2_a_hooks_call_proves_nothing_of_what_another_process_was_handed) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const JobId job = ended_job(world);
  const auto taken = world.ask<InboxReply>(inbox(of(40)));
  ASSERT_TRUE(taken.hand_over);
  world.post(engine::FlushedRequest{of(40), taken.hand_over->delivery});
  world.ask<TurnReply>(prompt("t1"));
  EXPECT_EQ(event_of(world, job).state, InboxState::accepted);
}

TEST(Clients, I2_what_a_tool_result_carried_is_acknowledged_by_the_next_one) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const JobId job = ended_job(world);
  const auto first = world.ask<InboxReply>(tool_result());
  ASSERT_TRUE(first.hand_over);
  world.post(engine::FlushedRequest{of(kMcp), first.hand_over->delivery});
  world.ask<TurnReply>(prompt("t1"));
  EXPECT_EQ(event_of(world, job).state, InboxState::accepted);
  EXPECT_FALSE(world.ask<InboxReply>(tool_result()).hand_over);
  EXPECT_EQ(event_of(world, job).state, InboxState::acked);
}

TEST(Clients, I3_a_hand_over_that_is_given_back_is_pending_at_once_and_a_repeat) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const JobId job = ended_job(world);
  const auto first = world.ask<InboxReply>(tool_result());
  world.ask<std::monostate>(engine::ReturnedRequest{of(kMcp), first.hand_over->delivery});
  EXPECT_EQ(event_of(world, job).state, InboxState::pending);
  const auto second = world.ask<InboxReply>(tool_result());
  ASSERT_TRUE(second.hand_over);
  EXPECT_TRUE(second.hand_over->repeat);
  EXPECT_EQ(world.refuse(engine::ReturnedRequest{host("s2"), first.hand_over->delivery}).code,
            ErrorCode::not_found);
}

TEST(Clients, a_durable_queue_of_the_client_counts_as_accepted_for_good) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const JobId job = ended_job(world);
  const auto taken = world.ask<InboxReply>(tool_result());
  world.ask<std::monostate>(engine::FlushedRequest{of(kMcp), taken.hand_over->delivery, true});
  EXPECT_EQ(event_of(world, job).state, InboxState::acked);
  EXPECT_EQ(event_of(world, job).acked_as, core::AckedAs::accepted);
}

TEST(Clients, O03_a_wake_that_a_delivery_came_of_is_over_without_a_turn_of_ours) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  const auto first = world.post(wake_call());
  ended_job(world);
  ASSERT_TRUE(woken(first));
  engine::InboxRequest taking = inbox(of(kWaiter));
  taking.follow = true;
  const auto taken = world.ask<InboxReply>(taking);
  world.ask<std::monostate>(engine::FlushedRequest{of(kWaiter), taken.hand_over->delivery, true});
  const auto second = world.post(wake_call());
  ended_job(world);
  EXPECT_TRUE(woken(second)) << "at once, not when the first wake's time is over";
}

TEST(Clients, I1_a_call_belongs_to_the_session_that_its_hook_announced) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp, "a")));
  world.ask<AttachReply>(client_attach(of(kMcp, "b")));
  world.ask<std::monostate>(engine::CallRequest{of(kHook, "a"), "toolu_1", TurnId("t1")});
  const auto announced = world.ask<HostReply>(engine::HostRequest{of(kMcp), "toolu_1"});
  EXPECT_EQ(announced.session, SessionId("a"));
  EXPECT_EQ(announced.turn, TurnId("t1"));
  EXPECT_TRUE(announced.announced);
  EXPECT_FALSE(announced.subagent);
  engine::CallRequest inner{of(kHook, "a"), "toolu_3", TurnId("t1"), true};
  world.ask<std::monostate>(inner);
  EXPECT_TRUE(world.ask<HostReply>(engine::HostRequest{of(kMcp), "toolu_3"}).subagent);
  world.clock.advance(Millis(1));
  world.ask<AttachReply>(client_attach(of(kMcp, "b")));
  const auto other = world.ask<HostReply>(engine::HostRequest{of(kMcp), "toolu_2"});
  EXPECT_EQ(other.session, SessionId("b")) << "the session this host attached last";
  EXPECT_FALSE(other.announced);
  // Another host's announcement is nobody else's.
  const auto foreign = world.ask<HostReply>(engine::HostRequest{host("a", "other", 9), "toolu_1"});
  EXPECT_FALSE(foreign.session);
}

TEST(Clients, O04_sessions_of_one_host_never_get_each_others_notices) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp, "a")));
  world.ask<AttachReply>(client_attach(of(kMcp, "b")));
  const auto waiter = world.post(engine::WakeRequest{of(kWaiter, "b"), Millis(60'000)});
  ended_job(world, of(kMcp, "a"));
  EXPECT_FALSE(waiter->answered);
  engine::InboxRequest b = inbox(of(kMcp, "b"));
  b.tool = true;
  EXPECT_FALSE(world.ask<InboxReply>(b).hand_over);
  engine::InboxRequest a = inbox(of(kMcp, "a"));
  a.tool = true;
  EXPECT_TRUE(world.ask<InboxReply>(a).hand_over);
}

TEST(Clients, joining_never_takes_a_session_over_from_a_live_host) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  engine::AttachRequest joining = client_attach(host("s1", "other", 7));
  joining.join = true;
  EXPECT_EQ(world.refuse(joining).code, ErrorCode::fenced);
  joining.caller = of(8);
  EXPECT_EQ(world.ask<AttachReply>(joining).session.fence, 1U);
}

TEST(Clients, a_host_that_leaves_gives_its_turn_and_its_lease_up_at_once) {
  World world;
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  const JobId job = ended_job(world);
  const auto step = world.ask<TurnReply>(hook(TurnVerb::step, "t1"));
  world.post(engine::FlushedRequest{of(kHook), step.messages->delivery});
  const auto waiter = world.post(wake_call());
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  EXPECT_TRUE(waiter->answered) << "nothing is left to wait for";
  EXPECT_FALSE(woken(waiter));
  EXPECT_EQ(session(world).phase, core::Phase::absent);
  EXPECT_FALSE(session(world).turn);
  EXPECT_EQ(event_of(world, job).state, InboxState::pending) << "nobody saw the turn end";
  // The next one is not refused.
  engine::AttachRequest next = client_attach(host("s1", "k2", 7));
  next.join = true;
  EXPECT_EQ(world.ask<AttachReply>(next).outstanding.events_total, 1U);
}

}  // namespace
}  // namespace waybill::test
