// SPEC section 4, "at the disk quota or free-space floor": what goes, in which order, and what
// never does.

#include "older_store.h"
#include "world.h"

namespace waybill::test {
namespace {

using engine::InboxReply;
using engine::JobReply;
using engine::RunReply;

constexpr std::uint64_t kMebi = 1024 * 1024;

struct RoomTest : ::testing::Test {
  RoomTest() {
    world.settings.session_disk_quota_bytes = 10 * kMebi;
    EXPECT_TRUE(world.start());
  }

  JobId run(const engine::Caller& caller = host()) {
    return world.ask<RunReply>(command(caller, "true")).job.id;
  }
  // A job that has ended with that much output; its event waits.
  JobId ended(std::uint64_t bytes, const engine::Caller& caller = host()) {
    const JobId job = run(caller);
    end(job, bytes);
    return job;
  }
  void end(const JobId& job, std::uint64_t bytes) {
    core::JobFacts facts = world.finished_facts(job, 0);
    facts.output->bytes = facts.output->kept_bytes = bytes;
    facts.output->digest = "d1ge57";
    world.channel.outputs[job] = bytes;
    world.ended(std::move(facts));
  }
  void acknowledge(const engine::Caller& caller = host()) {
    for (;;) {
      const auto taken = world.ask<InboxReply>(inbox(caller));
      if (!taken.hand_over) return;
      world.post(engine::AckRequest{caller, {taken.hand_over->delivery.str()}});
    }
  }
  engine::JobView show(const JobId& job, const std::string& session = "s1") {
    return world.ask<JobReply>(engine::ShowRequest{person(session), job}).job;
  }
  std::int64_t use() { return *world.db().integer("SELECT sum(bytes) FROM output_use", {}); }

  World world;
};

TEST_F(RoomTest, O19_at_the_quota_heard_outputs_expire_oldest_first) {
  const JobId first = ended(4 * kMebi);
  const JobId second = ended(4 * kMebi);
  acknowledge();
  EXPECT_EQ(use(), static_cast<std::int64_t>(8 * kMebi));
  const JobId third = ended(4 * kMebi);
  world.pass(Millis(1000));
  EXPECT_EQ(world.channel.removed, std::vector<JobId>{first});
  const engine::JobView job = show(first);
  EXPECT_TRUE(job.output_expired_at);
  EXPECT_EQ(job.output.kept_bytes, 0U);
  EXPECT_EQ(job.output.bytes, 4 * kMebi);
  EXPECT_EQ(job.output.digest, "d1ge57");
  EXPECT_EQ(job.output.gaps, (std::vector<core::Gap>{{0, 4 * kMebi}}));
  EXPECT_FALSE(show(second).output_expired_at);
  EXPECT_FALSE(show(third).output_expired_at);
  EXPECT_EQ(use(), static_cast<std::int64_t>(8 * kMebi));
  // What the row says survives.
  world.crash();
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(show(first).output_expired_at);
  EXPECT_EQ(use(), static_cast<std::int64_t>(8 * kMebi));
}

TEST_F(RoomTest, I2_an_output_whose_event_nobody_took_is_shortened_and_never_expires) {
  const JobId first = ended(4 * kMebi);
  const JobId second = ended(7 * kMebi);
  world.pass(Millis(1000));
  EXPECT_TRUE(world.channel.removed.empty());
  const engine::JobView job = show(second);  // the largest first
  EXPECT_FALSE(job.output_expired_at);
  EXPECT_EQ(job.output.kept_bytes, 7 * kMebi / 2);
  EXPECT_EQ(job.output.gaps.size(), 1U);
  EXPECT_EQ(show(first).output.kept_bytes, 4 * kMebi);
  const auto taken = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(taken.hand_over);
  EXPECT_EQ(taken.hand_over->events.size(), 2U);
}

TEST_F(RoomTest, I14_launches_are_refused_when_nothing_can_go) {
  world.channel.removable = false;
  const JobId job = ended(11 * kMebi);
  const Error refused = world.refuse(command(host(), "true"));
  EXPECT_EQ(refused.code, ErrorCode::store_full);
  EXPECT_NE(refused.message.find("session_disk_quota_bytes"), std::string::npos) << refused.message;
  EXPECT_NE(refused.message.find("11.0 MiB"), std::string::npos) << refused.message;
  // Another session has its own quota.
  run(host("s2", "k2", 2));
  // Heard, and removable: the launch itself makes the room.
  world.channel.removable = true;
  acknowledge();
  run();
  EXPECT_TRUE(show(job).output_expired_at);
}

TEST_F(RoomTest, I14_the_persons_own_session_has_the_quota_too) {
  world.channel.removable = false;
  const engine::Caller user = person("user");
  const JobId job = world.ask<RunReply>(command(user, "true")).job.id;
  end(job, 11 * kMebi);
  EXPECT_EQ(world.refuse(command(user, "true")).code, ErrorCode::store_full);
}

TEST_F(RoomTest, I14_running_jobs_count_and_are_asked_and_never_ended) {
  const JobId small = run();
  const JobId large = run();
  world.started(small);
  world.started(large);
  world.channel.outputs[small] = 1 * kMebi;
  world.channel.outputs[large] = 12 * kMebi;
  world.pass(world.settings.disk_check_interval);
  ASSERT_FALSE(world.channel.lowered.empty());
  EXPECT_EQ(world.channel.lowered[0], (std::pair<JobId, std::uint64_t>(large, 6 * kMebi)));
  EXPECT_EQ(world.channel.lowered.size(), 1U);
  EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::store_full);
  world.channel.outputs[large] = 6 * kMebi;
  run();
  EXPECT_EQ(show(large).status, core::JobStatus::running);
  EXPECT_FALSE(show(large).stopping);
}

TEST_F(RoomTest, O19_below_the_floor_every_session_gives_and_then_nobody_may_launch) {
  world.channel.disk = 1000 * kMebi;
  world.channel.others = 900 * kMebi;
  const JobId first = ended(4 * kMebi);
  const JobId other = ended(4 * kMebi, host("s2", "k2", 2));
  acknowledge();
  const JobId unheard = ended(4 * kMebi);
  world.channel.others = 971 * kMebi;  // 2 % are 20 MiB; 17 are free
  run(host("s3", "k3", 3));
  EXPECT_EQ(world.channel.removed, std::vector<JobId>{first});
  EXPECT_FALSE(show(other, "s2").output_expired_at);
  world.channel.others = 995 * kMebi;
  const Error refused = world.refuse(command(host("s3", "k3", 3), "true"));
  EXPECT_EQ(refused.code, ErrorCode::store_full);
  EXPECT_NE(refused.message.find("free_space_floor_bytes"), std::string::npos) << refused.message;
  EXPECT_FALSE(show(other, "s2").output_expired_at);  // its event was not taken
  EXPECT_LT(show(unheard).output.kept_bytes, 4 * kMebi);
  const auto status = world.ask<engine::StatusReply>(engine::StatusRequest{person()});
  EXPECT_EQ(status.disk.floor_bytes, 20 * kMebi);
  world.channel.others = 900 * kMebi;
  run(host("s3", "k3", 3));
}

TEST_F(RoomTest, I2_files_that_went_before_a_crash_are_put_right) {
  const JobId first = ended(6 * kMebi);
  acknowledge();
  world.channel.outputs.erase(first);  // removed, and the row never said so
  ended(6 * kMebi);
  world.pass(Millis(1000));
  EXPECT_TRUE(show(first).output_expired_at);
  EXPECT_EQ(use(), static_cast<std::int64_t>(6 * kMebi));
}

TEST_F(RoomTest, I15_nothing_is_due_when_nothing_runs) {
  ended(4 * kMebi);
  acknowledge();
  world.pass(Millis(1000));
  const auto due = world.engine().next_due();
  EXPECT_TRUE(!due || *due > world.settings.disk_check_interval) << due->count();
}

TEST_F(RoomTest, many_small_outputs_expire_in_bounded_steps) {
  world.settings.running_per_session = 300;
  ASSERT_TRUE(world.start());
  std::vector<JobId> jobs;
  for (int i = 0; i < 200; ++i) jobs.push_back(ended(kMebi / 32));  // 6.25 MiB
  acknowledge();
  ended(10 * kMebi - 1);
  for (int i = 0; i < 20; ++i) world.pass(Millis(1000));
  EXPECT_EQ(world.channel.removed, jobs);
}

TEST_F(RoomTest, I2_outputs_of_an_older_store_are_counted) {
  const JobId job = ended(3 * kMebi);
  world.crash();
  ASSERT_TRUE(world.db().script(kUndoNode));
  ASSERT_TRUE(world.db().script(kUndoRetention));
  ASSERT_TRUE(
      world.db().script("DROP TABLE output; DROP TABLE output_use; DROP INDEX idempotency_job; "
                        "DROP TRIGGER receipt_numbers_are_not_given_again; "
                        "UPDATE meta SET value = '3' WHERE key = 'schema_version'"));
  ASSERT_TRUE(world.start());
  EXPECT_EQ(use(), static_cast<std::int64_t>(3 * kMebi));
  EXPECT_EQ(show(job).output.kept_bytes, 3 * kMebi);
}

}  // namespace
}  // namespace waybill::test
