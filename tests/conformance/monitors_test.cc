// Monitors: what they find becomes events, bounded, durable, and inside the wake rules.

#include "world.h"

namespace waybill::test {
namespace {

using engine::InboxReply;
using engine::JobReply;
using engine::JobView;
using engine::RunReply;

core::Monitor monitor(std::uint32_t number, const std::string& pattern, bool wakes = false) {
  core::Monitor out;
  out.number = number;
  out.pattern = pattern;
  out.wakes = wakes;
  return out;
}

RunReply run_monitored(World& world, std::vector<core::Monitor> monitors) {
  auto request = command(host(), "make");
  request.monitors = std::move(monitors);
  return world.ask<RunReply>(request);
}

void tell(World& world, const JobId& job, std::uint32_t number, std::uint64_t read_to,
          const std::string& text, std::uint64_t lines = 1) {
  core::MonitorFound found;
  found.job = job;
  found.number = number;
  found.read_to = read_to;
  found.lines = lines;
  found.text = text;
  world.post(engine::MonitorTold{found});
}

JobView show(World& world, const JobId& job) {
  return world.ask<JobReply>(engine::ShowRequest{person(), job}).job;
}

TEST(Monitors, I2_what_is_found_is_an_event_with_its_lines) {
  World world;
  world.ask<engine::AttachReply>(attach(host()));
  const auto made = run_monitored(world, {monitor(1, "error"), monitor(2, "")});
  ASSERT_EQ(world.monitored[made.job.id].size(), 2U);
  EXPECT_EQ(world.monitored[made.job.id][0].events_max, world.settings.monitor_events_max);
  tell(world, made.job.id, 1, 100, "an error\n");
  const auto taken = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(taken.hand_over);
  ASSERT_EQ(taken.hand_over->events.size(), 1U);
  const engine::EventData& event = taken.hand_over->events[0];
  EXPECT_EQ(event.id, EventId(made.job.id.str() + ".monitor.1"));
  EXPECT_EQ(event.type, core::EventType::job_monitor);
  EXPECT_EQ(event.tail, "an error\n");
  ASSERT_TRUE(event.monitor);
  EXPECT_EQ(event.monitor->pattern, "error");
  EXPECT_EQ(event.monitor->lines, 1U);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, core::JobStatus::running);
  EXPECT_EQ(job.receipts.back().name, core::ReceiptName::monitor);
  EXPECT_EQ(job.monitors[0].events, 1U);
  EXPECT_EQ(job.monitors[0].read_to, 100U);
  EXPECT_EQ(job.monitors[1].events, 0U);
}

TEST(Monitors, I3_a_replay_makes_no_second_event) {
  World world;
  const auto made = run_monitored(world, {monitor(1, "x")});
  tell(world, made.job.id, 1, 100, "x\n");
  tell(world, made.job.id, 1, 100, "x\n");
  tell(world, made.job.id, 1, 90, "x\n");
  tell(world, made.job.id, 7, 900, "of no monitor\n");
  EXPECT_EQ(show(world, made.job.id).events.size(), 1U);
}

TEST(Monitors, I2_a_restart_goes_on_where_the_store_is) {
  World world;
  const auto made = run_monitored(world, {monitor(1, "x")});
  tell(world, made.job.id, 1, 100, "x\n", 3);
  world.crash();
  world.monitored.clear();
  ASSERT_TRUE(world.start());
  ASSERT_EQ(world.monitored[made.job.id].size(), 1U);
  EXPECT_EQ(world.monitored[made.job.id][0].read_to, 100U);
  EXPECT_EQ(world.monitored[made.job.id][0].events, 1U);
  EXPECT_EQ(world.monitored[made.job.id][0].lines, 3U);
}

TEST(Monitors, I14_events_are_bounded_and_end_with_the_job) {
  World world;
  core::Monitor two = monitor(1, "x");
  two.events_max = 2;
  const auto made = run_monitored(world, {two});
  for (std::uint64_t i = 1; i <= 5; ++i) tell(world, made.job.id, 1, i * 10, "x\n");
  EXPECT_EQ(show(world, made.job.id).events.size(), 2U);

  const auto other = run_monitored(world, {monitor(1, "x")});
  world.ended(other.job.id, 0);
  EXPECT_TRUE(world.monitored[other.job.id].empty()) << "nothing is looked at any more";
  tell(world, other.job.id, 1, 10, "x\n");
  EXPECT_EQ(show(world, other.job.id).events.size(), 1U) << "only its end";
}

TEST(Monitors, I18_they_wake_an_idle_host_only_if_asked) {
  for (const bool wakes : {false, true}) {
    World world;
    world.ask<engine::AttachReply>(attach(host()));
    const auto made = run_monitored(world, {monitor(1, "x", wakes)});
    const auto waiting = world.post(inbox(host(), Millis(30'000)));
    tell(world, made.job.id, 1, 10, "x\n");
    EXPECT_EQ(waiting->answered, wakes);
    if (wakes) continue;
    // It joins the next turn.
    const auto begun =
        world.ask<engine::TurnReply>(turn(host("s1", "k1", 2), core::TurnVerb::begin));
    ASSERT_TRUE(begun.messages);
    EXPECT_EQ(begun.messages->events[0].type, core::EventType::job_monitor);
  }
}

TEST(Monitors, I8_a_job_that_is_being_stopped_wakes_nobody) {
  World world;
  world.ask<engine::AttachReply>(attach(host()));
  const auto made = run_monitored(world, {monitor(1, "x", true)});
  engine::StopRequest stop;
  stop.caller = host("s1", "k1", 2);
  stop.jobs = {made.job.id};
  world.ask<engine::JobsReply>(stop);
  const auto waiting = world.post(inbox(host(), Millis(30'000)));
  tell(world, made.job.id, 1, 10, "shutting down\n");
  EXPECT_FALSE(waiting->answered);
}

}  // namespace
}  // namespace waybill::test
