// O23: the wall clock is set while something is due. Nothing is due earlier or later for it, with
// the daemon running or not.

#include <stdlib.h>

#include <ctime>

#include "client_world.h"

namespace waybill::test {
namespace {

using core::InboxState;
using core::TurnVerb;
using engine::AttachReply;
using engine::InboxReply;
using engine::JobReply;
using engine::JobView;
using engine::RunReply;
using engine::SessionView;
using engine::TurnReply;

constexpr Millis kHour = std::chrono::hours(1);
constexpr Millis kDay = std::chrono::hours(24);
constexpr Millis kYear = std::chrono::hours(24 * 365);

struct Jump {
  const char* name;
  Millis by;
  bool restarts;  // the daemon is away while it happens
  bool and_back;
};

class ClockTest : public ::testing::TestWithParam<Jump> {
 protected:
  // The clock is set, and whatever is due by now is done.
  void jump() {
    const Jump& how = GetParam();
    if (how.restarts) world.crash();
    world.clock.jump(how.by);
    if (how.restarts) {
      ASSERT_TRUE(world.start());
    }
    world.engine().tick();
    if (!how.and_back) return;
    world.clock.jump(-how.by);
    world.engine().tick();
  }
  JobView show(const JobId& job) {
    return world.ask<JobReply>(engine::ShowRequest{person(), job}).job;
  }
  SessionView session() { return world.ask<SessionView>(engine::SessionShowRequest{person()}); }
  InboxState state_of(const JobId& job) { return show(job).events.at(0).state; }

  World world;
};

INSTANTIATE_TEST_SUITE_P(Jumps, ClockTest,
                         ::testing::Values(Jump{"none", Millis(0), false, false},
                                           Jump{"two_hours_on", 2 * kHour, false, false},
                                           Jump{"two_hours_back", -2 * kHour, false, false},
                                           Jump{"a_year_on", kYear, false, false},
                                           Jump{"a_year_back", -kYear, false, false},
                                           Jump{"there_and_back", 2 * kHour, false, true},
                                           Jump{"two_hours_on_while_down", 2 * kHour, true, false},
                                           Jump{"two_hours_back_while_down", -2 * kHour, true,
                                                false},
                                           Jump{"a_year_on_while_down", kYear, true, false}),
                         [](const auto& row) { return row.param.name; });

TEST_P(ClockTest, O23_an_offer_expires_after_its_time_and_not_before) {
  const JobId job = ended_job(world, host());
  if (GetParam().restarts) jump();  // a new daemon takes every offer back at once
  world.ask<InboxReply>(inbox(host()));
  if (!GetParam().restarts) jump();
  EXPECT_EQ(state_of(job), InboxState::offered);
  world.pass(world.settings.offer_deadline - Millis(1));
  EXPECT_EQ(state_of(job), InboxState::offered);
  world.pass(Millis(1));
  EXPECT_EQ(state_of(job), InboxState::pending);
}

TEST_P(ClockTest, O23_a_lease_lapses_after_its_time_and_not_before) {
  world.ask<AttachReply>(attach(host()));
  world.post(engine::ConnectionClosed{1});
  jump();
  EXPECT_TRUE(session().lease_live);
  world.pass(world.settings.host_lease - Millis(1));
  EXPECT_TRUE(session().lease_live);
  EXPECT_EQ(world.refuse(inbox(host("s1", "k2", 2))).code, ErrorCode::fenced);
  world.pass(Millis(1));
  EXPECT_FALSE(session().lease_live);
  world.ask<InboxReply>(inbox(host("s1", "k2", 2)));
}

TEST_P(ClockTest, O23_a_turn_is_abandoned_after_its_time_and_not_before) {
  world.ask<TurnReply>(turn(host(), TurnVerb::begin));
  world.post(engine::ConnectionClosed{1});
  world.pass(world.settings.turn_lease);
  ASSERT_FALSE(session().lease_live);
  jump();
  world.pass(world.settings.turn_abandon_after - Millis(1));
  EXPECT_TRUE(session().turn);
  world.pass(Millis(1));
  EXPECT_FALSE(session().turn);
}

TEST_P(ClockTest, O23_a_stop_is_stuck_after_its_time_and_not_before) {
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  world.started(made.job.id);
  engine::StopRequest stop;
  stop.caller = person();
  stop.jobs = {made.job.id};
  world.post(stop);
  jump();
  world.pass(world.settings.stop_stuck_after - Millis(1));
  EXPECT_TRUE(show(made.job.id).events.empty());
  world.pass(Millis(1));
  EXPECT_EQ(show(made.job.id).events.size(), 1U);
}

TEST_P(ClockTest, O23_start_within_counts_time_that_passed) {
  world.settings.running_per_session = 1;
  ASSERT_TRUE(world.start());
  world.ask<RunReply>(command(host(), "sleep 9"));
  auto request = command(host(), "true");
  request.start_within = Millis(60'000);
  const auto queued = world.ask<RunReply>(request);
  jump();
  world.pass(Millis(59'999));
  EXPECT_EQ(show(queued.job.id).status, core::JobStatus::queued);
  world.pass(Millis(1));
  EXPECT_EQ(show(queued.job.id).status, core::JobStatus::failed);
}

TEST_P(ClockTest, O23_a_client_that_took_nothing_is_started_again_after_its_backoff) {
  engine::AttachRequest request = client_attach(of(kMcp));
  request.resume = engine::ResumeCommand{{"/opt/claude"}, "/", {}};
  world.ask<AttachReply>(request);
  const auto made = world.ask<RunReply>(command(of(kMcp), "true"));
  world.ask<std::monostate>(engine::DetachRequest{of(kHook)});
  world.ended(made.job.id, 0);
  world.pass(Millis(1));
  const auto starts = [&] {
    return *world.db().integer("SELECT count(*) FROM job WHERE label = 'wake s1'", {});
  };
  ASSERT_EQ(starts(), 1);
  world.ended(world.channel.orders.back().job, 1);
  jump();
  world.pass(Millis(29'000));
  EXPECT_EQ(starts(), 1);
  world.pass(Millis(31'001));
  EXPECT_EQ(starts(), 2);
}

TEST_P(ClockTest, O23_what_a_monitor_finds_is_handed_over_at_once) {
  auto request = command(host(), "make");
  request.monitors.resize(1);
  request.monitors[0].number = 1;
  const auto made = world.ask<RunReply>(request);
  jump();
  core::MonitorFound found;
  found.job = made.job.id;
  found.number = 1;
  found.read_to = 10;
  found.lines = 1;
  found.text = "x\n";
  world.post(engine::MonitorTold{found});
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over);
}

TEST_P(ClockTest, O23_an_open_turn_is_left_its_time_to_take_what_is_pending) {
  world.ask<AttachReply>(client_attach(of(kMcp)));
  world.ask<TurnReply>(prompt("t1"));
  ended_job(world);
  jump();
  const auto wake = world.post(wake_call());
  world.pass(world.settings.unheard_grace - Millis(1));
  EXPECT_FALSE(wake->answered);
  world.pass(Millis(1));
  EXPECT_TRUE(wake->answered);
}

TEST_P(ClockTest, O23_retention_counts_time_that_passed) {
  const JobId job = ended_job(world, host());
  world.ask<AttachReply>(attach(host()));
  const auto taken = world.ask<InboxReply>(inbox(host()));
  engine::AckRequest ack;
  ack.caller = host();
  ack.ids = {taken.hand_over->delivery.str()};
  world.post(ack);
  jump();
  world.pass(world.settings.retention - Millis(1));
  EXPECT_EQ(show(job).status, core::JobStatus::succeeded);
  world.pass(Millis(1));
  EXPECT_EQ(world.refuse(engine::ShowRequest{person(), job}).code, ErrorCode::not_found);
}

TEST_P(ClockTest, O23_a_session_is_given_up_after_its_time_and_not_before) {
  const JobId job = ended_job(world, person());
  jump();
  world.pass(std::chrono::hours(24 * 30) - Millis(1));
  EXPECT_EQ(state_of(job), InboxState::pending);
  world.pass(Millis(1));
  EXPECT_EQ(state_of(job), InboxState::dropped);
}

TEST_P(ClockTest, O23_receipts_are_in_the_order_of_their_numbers_and_durations_are_whole) {
  const auto made = world.ask<RunReply>(command(host(), "true"));
  world.started(made.job.id);
  jump();
  world.ended(made.job.id, 0);
  const JobView job = show(made.job.id);
  ASSERT_EQ(job.receipts.size(), 3U);
  for (std::size_t i = 1; i < job.receipts.size(); ++i) {
    EXPECT_LT(job.receipts[i - 1].seq, job.receipts[i].seq);
    EXPECT_LT(job.receipts[i - 1].node_seq, job.receipts[i].node_seq);
  }
  EXPECT_EQ(job.receipts.back().at, world.clock.wall()) << "what is shown is the wall clock";
  EXPECT_EQ(job.duration, Millis(5)) << "as its supervisor measured it";
}

TEST(Clock, O23_many_small_steps_do_not_add_up) {
  World world;
  const JobId job = ended_job(world, host());
  world.ask<InboxReply>(inbox(host()));
  for (int i = 0; i < 1000; ++i) {
    world.clock.jump(Millis(900));
    world.engine().tick();
  }
  EXPECT_EQ(event_of(world, job).state, InboxState::offered);
  world.pass(world.settings.offer_deadline);
  EXPECT_EQ(event_of(world, job).state, InboxState::pending);
}

TEST(Clock, O23_a_clock_that_was_set_is_told_in_the_log) {
  World world;
  ended_job(world, host());
  world.clock.jump(2 * kHour);
  world.pass(Millis(20'000));
  ended_job(world, host());
  ASSERT_EQ(world.warnings.size(), 1U);
  EXPECT_NE(world.warnings[0].find("7200 s"), std::string::npos) << world.warnings[0];
  world.pass(Millis(20'000));
  ended_job(world, host());
  EXPECT_EQ(world.warnings.size(), 1U) << "once";
}

// Time zones are nobody's business here: in the hour that a zone repeats, nothing happens twice.
TEST(Clock, O23_a_change_to_or_from_summer_time_changes_nothing) {
  const char* before = ::getenv("TZ");
  const std::string kept = before == nullptr ? "" : before;
  ::setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
  ::tzset();
  World world;
  // 2026-10-25T00:59:50Z, ten seconds before the end of summer time.
  world.clock.jump(WallTime(Millis(1'792'889'990'000)) - world.clock.wall());
  ASSERT_TRUE(world.start());
  const JobId job = ended_job(world, host());
  world.ask<InboxReply>(inbox(host()));
  EXPECT_EQ(format_rfc3339(world.clock.wall()), "2026-10-25T00:59:50.000Z");
  world.pass(Millis(29'999));
  EXPECT_EQ(format_rfc3339(world.clock.wall()), "2026-10-25T01:00:19.999Z");
  EXPECT_EQ(event_of(world, job).state, InboxState::offered);
  world.pass(Millis(1));
  EXPECT_EQ(event_of(world, job).state, InboxState::pending);
  before == nullptr ? ::unsetenv("TZ") : ::setenv("TZ", kept.c_str(), 1);
  ::tzset();
}

// ---- another boot: only the wall clock tells how long the machine was away ----------------------

class BootTest : public ::testing::Test {
 protected:
  void reboot(Millis away, Millis wall_off = Millis(0)) {
    world.crash();
    world.clock.advance(away);
    world.clock.jump(wall_off);
    world.boot += "x";
    ASSERT_TRUE(world.start());
    world.engine().tick();
  }
  JobId queued_for(Millis start_within) {
    world.settings.running_per_session = 1;
    EXPECT_TRUE(world.start());
    world.ask<RunReply>(command(host(), "sleep 9"));
    auto request = command(host(), "true");
    request.start_within = start_within;
    return world.ask<RunReply>(request).job.id;
  }
  core::JobStatus status(const JobId& job) {
    return world.ask<JobReply>(engine::ShowRequest{person(), job}).job.status;
  }
  World world;
};

TEST_F(BootTest, O23_time_between_two_boots_counts) {
  const JobId job = queued_for(kHour);
  reboot(2 * kHour);
  EXPECT_EQ(status(job), core::JobStatus::failed);
}

TEST_F(BootTest, O23_a_wall_clock_that_went_back_makes_nobody_wait_for_it) {
  const JobId job = queued_for(kHour);
  reboot(Millis(60'000), -kYear);
  EXPECT_EQ(status(job), core::JobStatus::queued);
  world.pass(kHour);
  EXPECT_EQ(status(job), core::JobStatus::failed);
}

TEST_F(BootTest, O23_a_wall_clock_that_is_a_year_ahead_makes_nothing_old) {
  const JobId job = ended_job(world, host());
  const auto taken = world.ask<InboxReply>(inbox(host()));
  engine::AckRequest ack;
  ack.caller = host();
  ack.ids = {taken.hand_over->delivery.str()};
  world.post(ack);
  reboot(Millis(60'000), kYear);
  EXPECT_EQ(status(job), core::JobStatus::succeeded);
  world.pass(world.settings.retention - kDay);
  EXPECT_EQ(world.refuse(engine::ShowRequest{person(), job}).code, ErrorCode::not_found)
      << "a day at most counts for the time between";
}

TEST_F(BootTest, O23_the_same_clock_serves_on_from_boot_to_boot) {
  const JobId job = queued_for(kHour);
  for (int i = 0; i < 50; ++i) {
    reboot(Millis(60'000));
  }
  EXPECT_EQ(status(job), core::JobStatus::queued);
  world.pass(kHour - Millis(50 * 60'000));
  EXPECT_EQ(status(job), core::JobStatus::failed);
}

}  // namespace
}  // namespace waybill::test
