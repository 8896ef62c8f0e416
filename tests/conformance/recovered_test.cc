// What the simulation has found (docs/guarantees.md), each as a story of its own.

#include "faulty_disk.h"
#include "world.h"

namespace waybill::test {
namespace {

using core::TurnVerb;
using engine::AttachReply;
using engine::InboxReply;
using engine::JobReply;
using engine::RunReply;
using engine::SessionView;

JobId running_job(World& world, const engine::Caller& caller) {
  const auto made = world.ask<RunReply>(command(caller, "true"));
  world.started(made.job.id);
  return made.job.id;
}

SessionView session_of(World& world, const std::string& session) {
  return world.ask<SessionView>(engine::SessionShowRequest{person(session)});
}

// Somebody writes into the store while no daemon is there.
void scribble(World& world, const std::string& sql) {
  world.crash();
  ASSERT_TRUE(world.db().script(sql));
  ASSERT_TRUE(world.start());
}

TEST(Recovered, I2_a_clock_that_is_set_back_holds_no_event_back) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const JobId job = running_job(world, host());
  world.clock.jump(std::chrono::hours(5));
  world.ended(job, 1);
  world.clock.jump(-std::chrono::hours(5));
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over);
}

TEST(Recovered, I16_a_connection_of_a_superseded_host_keeps_no_lease_alive) {
  World world;
  world.ask<AttachReply>(attach(host("s1", "k1", 1)));
  world.ask<AttachReply>(attach(host("s1", "k2", 2)));
  world.post(engine::ConnectionClosed{2});
  world.pass(Millis(30'001));
  EXPECT_FALSE(session_of(world, "s1").lease_live) << "connection 1 is another host's";
}

TEST(Recovered, I2_a_lease_lapses_though_the_end_of_its_connection_was_tried_twice) {
  set_fault(Fault::none);
  World world;
  world.ask<AttachReply>(attach(host("s1", "k1", 1)));
  const auto nothing = [](const Result<engine::Reply>&) {};
  {
    const WithFault fault(Fault::write_full);
    std::vector<engine::Ticket> batch;
    batch.push_back({inbox(host("s1", "k1", 1)), nothing});
    batch.push_back({engine::ConnectionClosed{1}, nothing});
    world.engine().run_batch(std::move(batch));
  }
  world.pass(Millis(1'000));  // what has happened is told again
  world.pass(Millis(60'000));
  EXPECT_FALSE(session_of(world, "s1").lease_live);
}

TEST(Recovered, I17_a_job_whose_files_are_gone_after_a_restart_does_not_run_for_ever) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const JobId job = running_job(world, host());
  world.crash();
  ASSERT_TRUE(world.start());
  ASSERT_FALSE(world.channel.orders.back().launch) << "I10";
  core::JobFacts nothing_there;
  nothing_there.job = job;
  world.ended(nothing_there);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), job});
  EXPECT_EQ(shown.job.status, core::JobStatus::failed);
  EXPECT_EQ(shown.job.cause, core::Cause::supervisor_lost);
  EXPECT_EQ(shown.job.exit->kind, core::ExitKind::unknown);
  EXPECT_EQ(shown.job.proof, core::Proof::unproven);
}

TEST(Recovered, I7_a_stop_of_a_job_whose_files_are_gone_is_not_called_confirmed) {
  World world;
  const JobId job = running_job(world, host());
  engine::StopRequest stop;
  stop.caller = person();
  stop.jobs = {job};
  world.post(stop);
  core::JobFacts nothing_there;
  nothing_there.job = job;
  world.ended(nothing_there);
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), job});
  EXPECT_EQ(shown.job.status, core::JobStatus::failed);
  EXPECT_EQ(shown.job.proof, core::Proof::unproven);
}

TEST(Recovered, I12_numbers_of_connections_begin_again_and_meet_no_unreadable_row) {
  World world;
  const JobId job = running_job(world, host("s1", "k1", 1));
  world.ended(job, 1);
  ASSERT_TRUE(world.ask<InboxReply>(inbox(host("s1", "k1", 1))).hand_over);
  scribble(world, "UPDATE inbox SET lane = 'nowhere'");
  const engine::Caller other = host("s2", "k2", 1);  // the same number, of the next daemon
  world.ask<InboxReply>(inbox(other));
  const auto closed = world.post(engine::ConnectionClosed{1});
  EXPECT_TRUE(closed->result);
  EXPECT_EQ(world.ask<RunReply>(command(host("s2", "k2", 3), "true")).job.status,
            core::JobStatus::running);
}

TEST(Recovered, I12_naming_what_is_another_owners_and_unreadable_refuses_nobody) {
  World world;
  const JobId job = running_job(world, host("s1", "k1", 1));
  scribble(world, "UPDATE job SET wake = 'sideways'");
  const engine::Caller other = host("s2", "k2", 2);
  EXPECT_EQ(world.refuse(engine::ShowRequest{other, job}).code, ErrorCode::not_found);
  EXPECT_EQ(world.refuse(engine::AckRequest{other, {job.str() + ".failed.1"}}).code,
            ErrorCode::not_found);
  EXPECT_EQ(world.ask<RunReply>(command(other, "true")).job.status, core::JobStatus::running);
}

TEST(Recovered, I12_asking_whose_a_call_is_refuses_no_session_but_the_unreadable_one) {
  World world;
  world.ask<AttachReply>(attach(host("s1", "k1", 1)));
  world.ask<engine::TurnReply>(turn(host("s1", "k1", 1), TurnVerb::begin));
  scribble(world, "UPDATE turn SET state = 'ajar'");
  EXPECT_EQ(world.refuse(engine::HostRequest{host("s2", "k1", 2), "c1"}).code,
            ErrorCode::state_corrupt);
  EXPECT_EQ(world.ask<RunReply>(command(host("s2", "k2", 2), "true")).job.status,
            core::JobStatus::running);
}

}  // namespace
}  // namespace waybill::test
