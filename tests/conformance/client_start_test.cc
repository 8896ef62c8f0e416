// Clients that are started again when they are closed, and the sandbox and rules of a session.

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

// ---- clients that are started again ------------------------------------------------------------

engine::AttachRequest resumable(const engine::Caller& caller) {
  engine::AttachRequest request = client_attach(caller);
  request.resume = engine::ResumeCommand{
      {"/opt/claude", "-p", "--resume", "s1", "a background job has ended"}, "/", {"A=b"}};
  return request;
}

std::vector<supervise::LaunchOrder> launches(World& world) {
  std::vector<supervise::LaunchOrder> found;
  for (const auto& order : world.channel.orders) {
    if (order.launch && !order.launch->argv.empty()) found.push_back(*order.launch);
  }
  return found;
}

TEST(Resume, O34_a_closed_client_is_started_once_and_its_turn_takes_the_notice) {
  World world;
  world.ask<AttachReply>(resumable(of(kMcp)));
  const auto made = world.ask<RunReply>(command(of(kMcp), "true"));
  EXPECT_EQ(made.delivery_path, core::DeliveryPath::wake);
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  world.ended(made.job.id, 0);
  world.pass(Millis(1));
  ASSERT_EQ(launches(world).size(), 1U);
  const supervise::LaunchOrder started = launches(world)[0];
  EXPECT_EQ(started.argv.at(0), "/opt/claude");
  EXPECT_TRUE(std::ranges::count(started.env, "A=b"));
  world.pass(Millis(60'000));
  EXPECT_EQ(launches(world).size(), 1U) << "not while it runs";
  // The started client is a new host; it takes what is pending.
  const engine::Caller fresh = host("s1", "k2", 7);
  world.ask<AttachReply>(resumable(fresh));
  engine::TurnRequest begin = turn(fresh, TurnVerb::begin, "t1");
  begin.adapter = true;
  begin.author = core::Author::job;
  const auto begun = world.ask<TurnReply>(begin);
  ASSERT_TRUE(begun.messages);
  world.post(engine::FlushedRequest{fresh, begun.messages->delivery});
  engine::TurnRequest end = begin;
  end.verb = TurnVerb::end;
  world.ask<TurnReply>(end);
  world.ask<std::monostate>(engine::DetachRequest{fresh});
  world.ended(started.job, 0);
  world.pass(Millis(600'000));
  EXPECT_EQ(launches(world).size(), 1U);
  EXPECT_EQ(event_of(world, made.job.id).state, InboxState::acked);
}

TEST(Resume, I14_what_ends_while_the_client_is_being_started_starts_no_second_one) {
  World world;
  world.ask<AttachReply>(resumable(of(kMcp)));
  const auto one = world.ask<RunReply>(command(of(kMcp), "true"));
  const auto two = world.ask<RunReply>(command(of(kMcp), "false"));
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  world.ended(one.job.id, 0);
  world.pass(Millis(1));
  ASSERT_EQ(launches(world).size(), 1U);
  world.ended(two.job.id, 1);
  world.pass(Millis(3'000));
  EXPECT_EQ(launches(world).size(), 1U);
}

TEST(Resume, without_leave_nothing_is_started) {
  World world;
  world.ask<AttachReply>(resumable(of(kMcp)));
  world.ask<AttachReply>(client_attach(of(kMcp)));  // the person changed their mind
  const auto made = world.ask<RunReply>(command(of(kMcp), "true"));
  EXPECT_EQ(made.delivery_path, core::DeliveryPath::next_attach);
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  world.ended(made.job.id, 0);
  world.pass(Millis(60'000));
  EXPECT_TRUE(launches(world).empty());
}

TEST(Resume, never_while_a_host_is_there) {
  World world;
  world.ask<AttachReply>(resumable(of(kMcp)));
  const auto made = world.ask<RunReply>(command(of(kMcp), "true"));
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  world.ended(made.job.id, 0);
  // The person opens it again before the timer runs.
  world.ask<AttachReply>(resumable(host("s1", "k2", 7)));
  world.pass(Millis(1));
  EXPECT_TRUE(launches(world).empty());
}

TEST(Resume, I14_a_client_that_takes_nothing_is_tried_again_and_not_for_ever) {
  World world;
  world.ask<AttachReply>(resumable(of(kMcp)));
  const auto made = world.ask<RunReply>(command(of(kMcp), "true"));
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  world.ended(made.job.id, 0);
  for (int i = 0; i < 10; ++i) {
    world.pass(Millis(61'000));
    if (!launches(world).empty()) world.ended(launches(world).back().job, 1);
  }
  EXPECT_EQ(launches(world).size(), 3U);
  EXPECT_EQ(event_of(world, made.job.id).withheld, core::Withheld::budget);
  EXPECT_EQ(event_of(world, made.job.id).tries, 3U);
  EXPECT_NE(event_of(world, made.job.id).last_error, "");
}

TEST(Resume, I2_a_start_that_is_owed_survives_a_crash_of_the_daemon) {
  World world;
  world.ask<AttachReply>(resumable(of(kMcp)));
  const auto made = world.ask<RunReply>(command(of(kMcp), "true"));
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  world.ended(made.job.id, 0);
  world.crash();
  ASSERT_TRUE(world.start());
  world.pass(Millis(1));
  ASSERT_EQ(launches(world).size(), 1U);
  world.crash();
  world.channel.orders.clear();
  ASSERT_TRUE(world.start());
  world.pass(Millis(600'000));
  const auto again = launches(world);
  EXPECT_EQ(again.size(), 1U) << "the same start is supervised, no second one is made";
}

TEST(Resume, I12_what_does_not_parse_refuses_its_own_session_and_no_other) {
  World world;
  world.ask<AttachReply>(resumable(of(kMcp)));
  const auto made = world.ask<RunReply>(command(of(kMcp), "true"));
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  world.ended(made.job.id, 0);
  world.pass(Millis(1));
  ASSERT_EQ(launches(world).size(), 1U);
  const JobId started = launches(world)[0].job;
  ASSERT_TRUE(world.db().script("UPDATE session_client SET deny_rules = '{' WHERE session = 's1'"));
  // The job that started it ends all the same, for the person it belongs to.
  world.ended(started, 0);
  const engine::Caller user = host("user", "k9", 9);
  EXPECT_EQ(world.ask<JobReply>(engine::ShowRequest{user, started}).job.status,
            core::JobStatus::succeeded);
  world.ask<RunReply>(command(user, "ls"));
  // The next daemon starts, with an offer of that session on record.
  world.crash();
  ASSERT_TRUE(
      world.db().script("UPDATE inbox SET state = 'offered', offer_connection = 1 "
                        "WHERE session = 's1'"));
  ASSERT_TRUE(world.start());
  EXPECT_EQ(world.refuse(command(of(kMcp), "true")).code, ErrorCode::state_corrupt);
  world.ask<RunReply>(command(user, "ls -l"));
  world.pass(Millis(3'600'000));
  EXPECT_EQ(launches(world).size(), 1U) << "nothing new is started for it";
}

// ---- sandbox and rules -------------------------------------------------------------------------

TEST(Sandbox, the_sessions_wrapper_goes_around_every_command_and_stands_on_its_record) {
  World world;
  engine::AttachRequest request = client_attach(of(kMcp));
  request.wrapper = std::vector<std::string>{"bwrap", "--ro-bind", "/", "/"};
  world.ask<AttachReply>(request);
  engine::RunRequest run = command(of(kMcp), "true | false");
  run.wrapper = {"codex", "sandbox"};
  const auto made = world.ask<RunReply>(run);
  const std::vector<std::string> both{"bwrap", "--ro-bind", "/", "/", "codex", "sandbox"};
  EXPECT_EQ(made.job.wrapper, both);
  EXPECT_EQ(world.channel.orders.at(0).launch->wrapper, both);
  EXPECT_EQ(world.channel.orders.at(0).launch->command, "true | false");
  world.crash();
  ASSERT_TRUE(world.start());
  EXPECT_EQ(world.ask<JobReply>(engine::ShowRequest{person(), made.job.id}).job.wrapper, both);
  // Who names the session is in it, too.
  EXPECT_EQ(world.ask<RunReply>(command(person(), "ls")).job.wrapper.at(0), "bwrap");
  EXPECT_TRUE(world.ask<RunReply>(command(person("s2"), "ls")).job.wrapper.empty());
}

TEST(Sandbox, a_jobs_variables_put_no_code_into_the_wrapper) {
  World world;
  engine::AttachRequest request = client_attach(of(kMcp));
  request.wrapper = std::vector<std::string>{"/usr/bin/bwrap", "--"};
  world.ask<AttachReply>(request);
  engine::RunRequest run = command(of(kMcp), "true");
  run.env = {"PATH=/bin", "LD_PRELOAD=/evil.so", "A=b", "LD_LIBRARY_PATH=/evil"};
  world.ask<RunReply>(run);
  const supervise::LaunchOrder launch = *world.channel.orders.at(0).launch;
  const std::vector<std::string> inside{"/usr/bin/bwrap", "--", "/usr/bin/env",
                                        "LD_PRELOAD=/evil.so", "LD_LIBRARY_PATH=/evil"};
  EXPECT_EQ(launch.wrapper, inside);
  EXPECT_FALSE(std::ranges::count(launch.env, "LD_PRELOAD=/evil.so"));
  EXPECT_TRUE(std::ranges::count(launch.env, "A=b"));
  // Without a wrapper nothing is moved.
  engine::RunRequest plain = command(host("s2", "k2", 8), "true");
  plain.env = {"LD_PRELOAD=/mine.so"};
  world.ask<RunReply>(plain);
  EXPECT_TRUE(std::ranges::count(world.channel.orders.at(1).launch->env, "LD_PRELOAD=/mine.so"));
}

TEST(Sandbox, rules_refuse_with_the_rule_that_did_and_start_nothing) {
  World world;
  engine::AttachRequest request = client_attach(of(kMcp));
  request.rules = core::Rules{{"cargo *", "git *"}, {"*push*"}};
  world.ask<AttachReply>(request);
  EXPECT_EQ(world.refuse(command(of(kMcp), "rm -rf /")).code, ErrorCode::forbidden);
  const Error denied = world.refuse(command(of(kMcp), "git push"));
  EXPECT_EQ(denied.code, ErrorCode::forbidden);
  EXPECT_NE(denied.message.find("*push*"), std::string::npos);
  EXPECT_TRUE(world.channel.orders.empty());
  world.ask<RunReply>(command(of(kMcp), "cargo test"));
  // A later attach that says nothing of it changes nothing.
  world.ask<AttachReply>(client_attach(of(kMcp)));
  EXPECT_EQ(world.refuse(command(of(kMcp), "git push")).code, ErrorCode::forbidden);
}

}  // namespace
}  // namespace waybill::test
