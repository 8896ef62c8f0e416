// I10, I12, O09: a machine that was restarted, and a store that is served at another place than the
// one its jobs run at.

#include "store/node.h"
#include "world.h"

namespace waybill::test {
namespace {

using engine::AttachReply;
using engine::InboxReply;
using engine::JobReply;
using engine::JobsReply;
using engine::OwnersReply;
using engine::OwnersRequest;
using engine::ReleaseOwnerRequest;
using engine::RunReply;

const core::Node kElsewhere{"m1", 8, 2000};

ReleaseOwnerRequest release(const std::string& session = "s1") {
  return {{TenantId("local"), SessionId(session)}, "the old disk is gone"};
}

engine::StopRequest stop(const engine::Caller& caller, const JobId& job) {
  engine::StopRequest request;
  request.caller = caller;
  request.jobs = {job};
  return request;
}

std::vector<std::string> receipts_of(const engine::JobView& job) {
  std::vector<std::string> names;
  for (const auto& receipt : job.receipts) names.emplace_back(core::to_word(receipt.name));
  return names;
}

engine::JobView shown(World& world, const JobId& job, const std::string& session = "s1") {
  return world.ask<JobReply>(engine::ShowRequest{person(session), job}).job;
}

TEST(Owners, I12_a_copy_keeps_the_jobs_and_refuses_their_owner) {
  World world;
  world.settings.running_per_session = 1;
  world.crash();
  ASSERT_TRUE(world.start());
  world.ask<AttachReply>(attach(host()));
  const JobId runs = world.ask<RunReply>(command(host(), "sleep 9")).job.id;
  const JobId waits = world.ask<RunReply>(command(host(), "sleep 8")).job.id;
  world.started(runs);
  const JobId others = world.ask<RunReply>(command(host("s2", "k2", 2), "true")).job.id;
  world.ended(others, 0);
  world.crash();
  world.channel.orders.clear();
  world.node = kElsewhere;
  ASSERT_TRUE(world.start());
  // Nothing is attached, signalled or started (I10): all of it may be so over there.
  EXPECT_TRUE(world.channel.orders.empty());
  const Error refused = world.refuse(command(host(), "true"));
  EXPECT_EQ(refused.code, ErrorCode::owner_unrecoverable);
  EXPECT_NE(refused.message.find("The outstanding owner is retained"), std::string::npos);
  EXPECT_EQ(world.refuse(attach(host())).code, ErrorCode::owner_unrecoverable);
  EXPECT_EQ(world.refuse(stop(person(), runs)).code, ErrorCode::owner_unrecoverable);
  EXPECT_EQ(shown(world, runs).status, core::JobStatus::running);
  EXPECT_EQ(shown(world, waits).status, core::JobStatus::queued);
  // Other owners go on.
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host("s2", "k2", 2))).hand_over);
  EXPECT_EQ(world.ask<RunReply>(command(host("s2", "k2", 2), "true")).job.status,
            core::JobStatus::running);

  const auto listed = world.ask<OwnersReply>(OwnersRequest{});
  ASSERT_EQ(listed.owners.size(), 1U);
  EXPECT_EQ(listed.owners[0].kind, "owner_unrecoverable");
  EXPECT_EQ(listed.owners[0].jobs.size(), 2U);

  // It stays so when the daemon is started there again, and nothing passes by itself.
  world.crash();
  world.channel.orders.clear();
  ASSERT_TRUE(world.start());
  world.pass(std::chrono::hours(24 * 20));
  EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::owner_unrecoverable);
  for (const auto& order : world.channel.orders) EXPECT_NE(order.job, runs);
  EXPECT_EQ(shown(world, runs).status, core::JobStatus::running);
}

TEST(Owners, I9_what_is_released_has_failed_unproven_and_its_owner_hears_it) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const JobId job = world.ask<RunReply>(command(host(), "sleep 9")).job.id;
  world.started(job);
  world.crash();
  world.node = kElsewhere;
  ASSERT_TRUE(world.start());
  const auto released = world.ask<JobsReply>(release());
  ASSERT_EQ(released.jobs.size(), 1U);
  const engine::JobView& view = released.jobs[0];
  EXPECT_EQ(view.status, core::JobStatus::failed);
  ASSERT_TRUE(view.exit);
  EXPECT_EQ(view.exit->kind, core::ExitKind::unknown);
  EXPECT_EQ(view.cause, core::Cause::op);
  EXPECT_EQ(view.proof, core::Proof::unproven);
  EXPECT_EQ(view.reason, "the old disk is gone");
  EXPECT_EQ(receipts_of(view),
            (std::vector<std::string>{"queued", "started", "released", "failed"}));
  EXPECT_TRUE(world.ask<OwnersReply>(OwnersRequest{}).owners.empty());
  world.ask<AttachReply>(attach(host()));
  const auto heard = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(heard.hand_over);
  EXPECT_EQ(heard.hand_over->events[0].id.str(), job.str() + ".failed.1");
  EXPECT_EQ(world.ask<RunReply>(command(host(), "true")).job.status, core::JobStatus::running);
  EXPECT_EQ(world.refuse(release()).code, ErrorCode::not_found);
  // Also over a restart.
  world.crash();
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(world.ask<OwnersReply>(OwnersRequest{}).owners.empty());
}

TEST(Owners, I6_a_release_that_cannot_be_committed_releases_nothing) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const JobId job = world.ask<RunReply>(command(host(), "sleep 9")).job.id;
  world.started(job);
  world.crash();
  world.node = kElsewhere;
  ASSERT_TRUE(world.start());
  // A receipt that the schema refuses stands for any error inside the command.
  ASSERT_TRUE(
      world.db().run("CREATE TRIGGER no_release BEFORE INSERT ON receipt "
                     "WHEN NEW.name = 'failed' BEGIN SELECT RAISE(ABORT, 'no'); END",
                     {}));
  world.refuse(release());
  EXPECT_EQ(shown(world, job).status, core::JobStatus::running);
  EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::owner_unrecoverable);
  ASSERT_TRUE(world.db().run("DROP TRIGGER no_release", {}));
  EXPECT_EQ(world.ask<JobsReply>(release()).jobs.size(), 1U);
}

TEST(Owners, I12_what_its_supervisor_has_recorded_as_ended_is_no_riddle) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const JobId job = world.ask<RunReply>(command(host(), "true")).job.id;
  world.started(job);
  world.crash();
  world.channel.orders.clear();
  world.channel.ended.insert(job);
  world.node = kElsewhere;
  ASSERT_TRUE(world.start());
  ASSERT_EQ(world.channel.orders.size(), 1U);
  world.ended(job, 0);
  EXPECT_EQ(shown(world, job).status, core::JobStatus::succeeded);
}

TEST(Owners, I12_a_job_without_a_generation_is_kept) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const JobId job = world.ask<RunReply>(command(host(), "true")).job.id;
  ASSERT_TRUE(world.db().run("UPDATE job SET generation = ''", {}));
  world.crash();
  world.channel.orders.clear();
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(world.channel.orders.empty());
  EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::owner_unrecoverable);
  EXPECT_EQ(shown(world, job).status, core::JobStatus::running);
}

TEST(Owners, O09_after_a_restart_of_the_machine_what_ran_is_lost_and_what_waited_starts_once) {
  World world;
  world.settings.running_per_session = 1;
  world.crash();
  ASSERT_TRUE(world.start());
  world.ask<AttachReply>(attach(host()));
  const JobId ran = world.ask<RunReply>(command(host(), "sleep 9")).job.id;
  const JobId waits = world.ask<RunReply>(command(host(), "sleep 8")).job.id;
  world.started(ran);
  world.crash();
  world.channel.orders.clear();
  world.channel.machine = GenerationId("g2");
  ASSERT_TRUE(world.start());
  ASSERT_EQ(world.channel.orders.size(), 1U);
  EXPECT_FALSE(world.channel.orders[0].launch) << "what has started is never started again";
  core::JobFacts gone;
  gone.job = ran;
  gone.supervision = core::Supervision::generation_gone;
  gone.proof = core::Proof::generation;
  gone.exit = core::Exit::unknown("gone");
  world.ended(gone);
  const engine::JobView lost = shown(world, ran);
  EXPECT_EQ(lost.status, core::JobStatus::failed);
  EXPECT_EQ(lost.cause, core::Cause::sandbox_replaced);
  EXPECT_EQ(lost.events.size(), 1U);
  world.started(waits);
  const engine::JobView now = shown(world, waits);
  EXPECT_EQ(now.status, core::JobStatus::running);
  EXPECT_EQ(now.scope.generation, GenerationId("g2"));
  EXPECT_EQ(std::ranges::count_if(world.channel.orders,
                                  [&](const auto& order) { return order.job == waits; }),
            1);
}

TEST(Owners, I7_a_stop_that_cannot_be_confirmed_is_given_up_by_an_operator) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const JobId job = world.ask<RunReply>(command(host(), "sleep 9")).job.id;
  world.started(job);
  world.post(stop(host(), job));
  EXPECT_EQ(world.refuse(release()).code, ErrorCode::not_found) << "it may still be confirmed";
  world.pass(std::chrono::seconds(11));
  const auto listed = world.ask<OwnersReply>(OwnersRequest{});
  ASSERT_EQ(listed.owners.size(), 1U);
  EXPECT_EQ(listed.owners[0].kind, "stop_stuck");
  const auto released = world.ask<JobsReply>(release());
  ASSERT_EQ(released.jobs.size(), 1U);
  EXPECT_EQ(released.jobs[0].status, core::JobStatus::failed) << "never stopped without a proof";
  EXPECT_EQ(released.jobs[0].proof, core::Proof::unproven);
  EXPECT_EQ(world.channel.forgotten.back(), job);
}

TEST(Owners, I12_an_owner_that_does_not_parse_is_not_released_by_giving_jobs_up) {
  World world;
  world.ask<AttachReply>(attach(host()));
  const JobId job = world.ask<RunReply>(command(host(), "sleep 9")).job.id;
  ASSERT_TRUE(world.db().run("UPDATE launch SET leftovers = 'perhaps'", {}));
  world.crash();
  ASSERT_TRUE(world.start());
  EXPECT_EQ(world.refuse(release()).code, ErrorCode::state_corrupt);
  EXPECT_EQ(world.ask<OwnersReply>(OwnersRequest{}).owners.at(0).kind, "state_corrupt");
  EXPECT_EQ(shown(world, job).status, core::JobStatus::running);
}

TEST(SamePlace, what_is_not_known_says_nothing) {
  const core::Node here{"m1", 7, 1000};
  EXPECT_TRUE(core::same_place(here, here));
  EXPECT_FALSE(core::same_place(here, {"m2", 7, 1000}));
  EXPECT_FALSE(core::same_place(here, {"m1", 7, 1001}));
  EXPECT_FALSE(core::same_place(here, {"", 7, 1001}));
  EXPECT_TRUE(core::same_place(here, {"", 7, 1000}));
  EXPECT_TRUE(core::same_place(here, {"m1", 9, 1000})) << "numbered anew at a mount";
  EXPECT_FALSE(core::same_place({"m1", 7, 0}, {"m1", 9, 1000}));
  EXPECT_TRUE(core::same_place({"m1", 7, 0}, {"m1", 7, 1000}));
  EXPECT_TRUE(core::same_place({"", 0, 0}, here));
}

}  // namespace
}  // namespace waybill::test
