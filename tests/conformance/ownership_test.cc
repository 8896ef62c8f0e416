// I1, I3, I11, I16: who owns, who may take, what a fence refuses.

#include "world.h"

namespace waybill::test {
namespace {

using core::TurnVerb;
using engine::AttachReply;
using engine::InboxReply;
using engine::JobReply;
using engine::RunReply;
using engine::TurnReply;

TEST(Ownership, I1_result_goes_to_the_turn_that_owns_it_and_to_no_other) {
  World world;
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  const auto made = world.ask<RunReply>(turn_command(host(), "true", "t1"));
  EXPECT_EQ(made.delivery_path, core::DeliveryPath::this_turn);
  world.ended(made.job.id, 0, "done\n");

  // A session of the same user, in the same directory, sees nothing of it.
  EXPECT_FALSE(world.ask<InboxReply>(inbox(host("s2", "k2", 2))).hand_over);
  EXPECT_EQ(world.refuse(engine::ShowRequest{host("s2", "k2", 2), made.job.id}).code,
            ErrorCode::not_found);

  const auto end = world.ask<TurnReply>(turn(host(), TurnVerb::end));
  ASSERT_TRUE(end.messages);
  ASSERT_EQ(end.messages->events.size(), 1U);
  EXPECT_EQ(end.messages->events[0].id.str(), made.job.id.str() + ".completed.1");
  EXPECT_EQ(end.messages->events[0].tail, "done\n");
  EXPECT_FALSE(end.messages->events[0].repeat);
  EXPECT_EQ(end.turn.state, core::TurnState::open);

  world.post(engine::FlushedRequest{host(), end.messages->delivery});
  const auto closed = world.ask<TurnReply>(turn(host(), TurnVerb::end));
  EXPECT_EQ(closed.turn.state, core::TurnState::closed);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{host(), made.job.id});
  ASSERT_EQ(shown.job.events.size(), 1U);
  EXPECT_EQ(shown.job.events[0].state, core::InboxState::acked);
  EXPECT_EQ(shown.job.events[0].acked_as, core::AckedAs::processed);
}

TEST(Ownership, I1_naming_a_session_is_not_being_its_host) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const auto made = world.ask<RunReply>(command(person(), "true"));
  world.ended(made.job.id, 0);
  EXPECT_EQ(world.refuse(inbox(person())).code, ErrorCode::unauthenticated);
  EXPECT_EQ(world.refuse(turn(person(), TurnVerb::begin)).code, ErrorCode::unauthenticated);
  // A person who looks does not eat the notice.
  EXPECT_FALSE(world.ask<JobReply>(engine::ShowRequest{person(), made.job.id}).reported);
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over);
}

TEST(Ownership, I16_attach_raises_the_fence_and_the_older_host_is_fenced) {
  World world;
  const auto first = world.ask<AttachReply>(attach(host()));
  const auto made = world.ask<RunReply>(command(host(), "true"));
  world.ended(made.job.id, 0);
  const auto old = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(old.hand_over);
  world.post(engine::FlushedRequest{host(), old.hand_over->delivery});

  // Another key alone is refused while the lease is live; attaching takes the session over.
  EXPECT_EQ(world.refuse(inbox(host("s1", "other", 2))).code, ErrorCode::fenced);
  const auto second = world.ask<AttachReply>(attach(host("s1", "other", 2)));
  EXPECT_GT(second.session.fence, first.session.fence);
  EXPECT_EQ(second.outstanding.events.size(), 1U);

  EXPECT_EQ(world.refuse(inbox(host())).code, ErrorCode::fenced);
  EXPECT_EQ(world.refuse(engine::AckRequest{host(), {old.hand_over->delivery.str()}}).code,
            ErrorCode::fenced);
  const auto again = world.ask<InboxReply>(inbox(host("s1", "other", 2)));
  ASSERT_TRUE(again.hand_over);
  EXPECT_TRUE(again.hand_over->repeat);
  EXPECT_EQ(again.hand_over->events[0].id, old.hand_over->events[0].id);
  EXPECT_EQ(
      world.refuse(engine::AckRequest{host("s1", "other", 2), {old.hand_over->delivery.str()}})
          .code,
      ErrorCode::fenced);
}

TEST(Ownership, I16_processes_of_one_host_share_its_lease_and_fence) {
  World world;
  const auto first = world.ask<AttachReply>(attach(host("s1", "k1", 1)));
  const auto second = world.ask<AttachReply>(attach(host("s1", "k1", 2)));
  EXPECT_EQ(first.session.fence, second.session.fence);
}

TEST(Ownership, I16_a_lapsed_lease_returns_rows_and_lets_another_key_in) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const auto made = world.ask<RunReply>(command(host(), "true"));
  world.ended(made.job.id, 0);
  const auto taken = world.ask<InboxReply>(inbox(host()));
  world.post(engine::FlushedRequest{host(), taken.hand_over->delivery});
  world.post(engine::ConnectionClosed{1});
  world.pass(Millis(29'000));
  EXPECT_EQ(world.refuse(inbox(host("s1", "other", 2))).code, ErrorCode::fenced);
  world.pass(Millis(2'000));
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_EQ(shown.job.events.at(0).state, core::InboxState::pending);
  const auto again = world.ask<InboxReply>(inbox(host("s1", "other", 2)));
  ASSERT_TRUE(again.hand_over);
  EXPECT_TRUE(again.hand_over->repeat);
}

TEST(Ownership, I11_owner_scope_and_launch_are_durable_before_dispatch) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "echo secret-in-command"));
  ASSERT_EQ(world.channel.orders.size(), 1U);
  world.crash();
  world.channel.orders.clear();
  ASSERT_TRUE(world.start());
  // The same launch is derived again from rows alone.
  ASSERT_EQ(world.channel.orders.size(), 1U);
  ASSERT_TRUE(world.channel.orders[0].launch);
  EXPECT_EQ(world.channel.orders[0].job, made.job.id);
  EXPECT_EQ(world.channel.orders[0].launch->command, "echo secret-in-command");
  EXPECT_EQ(world.channel.orders[0].launch->shell, "/bin/bash");
}

TEST(Ownership, I11_environment_is_the_callers_without_the_capability) {
  World world;
  auto request = command(host(), "env", "t9");
  request.env = {"FOO=two words", "NL=a\nb", "WAYBILL_HOST_KEY=k1", "WAYBILL_JOB=forged"};
  request.umask = 077;
  const auto made = world.ask<RunReply>(request);
  const std::vector<std::string> expected{"FOO=two words", "NL=a\nb", "WAYBILL_SESSION=s1",
                                          "WAYBILL_TURN=t9", "WAYBILL_JOB=" + made.job.id.str()};
  EXPECT_EQ(world.channel.orders.at(0).launch->env, expected);
  EXPECT_EQ(world.channel.orders.at(0).launch->umask, 077U);
}

TEST(Ownership, no_delivery_path_is_refused_and_nothing_is_made) {
  World world;
  EXPECT_EQ(world.refuse(turn_command(host(), "true", "t1")).code, ErrorCode::no_delivery_path);
  world.ask<TurnReply>(turn(host(), TurnVerb::begin, "t2"));
  EXPECT_EQ(world.refuse(turn_command(host(), "true", "t1")).code, ErrorCode::no_delivery_path);
  engine::AttachRequest once = attach(host());
  once.one_shot = true;
  world.ask<AttachReply>(once);
  EXPECT_EQ(world.refuse(command(host(), "true", "t2")).code, ErrorCode::no_delivery_path);
  EXPECT_TRUE(world.channel.orders.empty());
  EXPECT_EQ(world.ask<RunReply>(turn_command(host(), "true", "t2")).delivery_path,
            core::DeliveryPath::this_turn);
}

TEST(Ownership, idempotency_key_gives_the_same_job_or_conflict) {
  World world;
  auto request = command(host(), "true");
  request.key = IdempotencyKey("k");
  const auto first = world.ask<RunReply>(request);
  const auto again = world.ask<RunReply>(request);
  EXPECT_EQ(first.job.id, again.job.id);
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(world.channel.orders.size(), 1U);
  request.command = "false";
  EXPECT_EQ(world.refuse(request).code, ErrorCode::conflict);
}

TEST(Ownership, twin_names_the_same_command_still_running) {
  World world;
  const auto first = world.ask<RunReply>(command(host(), "sleep 9"));
  const auto second = world.ask<RunReply>(command(host(), "sleep 9"));
  EXPECT_FALSE(first.twin);
  ASSERT_TRUE(second.twin);
  EXPECT_EQ(*second.twin, first.job.id);
  world.ended(first.job.id, 0);
  world.ended(second.job.id, 0);
  EXPECT_FALSE(world.ask<RunReply>(command(host(), "sleep 9")).twin);
}

}  // namespace
}  // namespace waybill::test
