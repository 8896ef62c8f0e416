// What goes when it was kept long enough, and what never goes (SPEC sections 5, 12 and 13).

#include <algorithm>

#include "client_world.h"
#include "older_store.h"

namespace waybill::test {
namespace {

using core::InboxState;
using core::TurnVerb;
using engine::AttachReply;
using engine::InboxReply;
using engine::JobReply;
using engine::JobView;
using engine::PruneReply;
using engine::RunReply;
using engine::SessionView;
using engine::TurnReply;

constexpr Millis kDay = std::chrono::hours(24);

class RetentionTest : public ::testing::Test {
 protected:
  JobId ended(const engine::Caller& caller) {
    const auto made = world.ask<RunReply>(command(caller, "true"));
    auto facts = world.finished_facts(made.job.id, 0);
    facts.output->bytes = facts.output->kept_bytes = 100;
    facts.tail = "tail\n";
    world.ended(std::move(facts));
    world.channel.outputs[made.job.id] = 4096;
    return made.job.id;
  }
  void take(const engine::Caller& caller = host()) {
    const auto taken = world.ask<InboxReply>(inbox(caller));
    ASSERT_TRUE(taken.hand_over);
    engine::AckRequest ack;
    ack.caller = caller;
    ack.ids = {taken.hand_over->delivery.str()};
    world.post(ack);
  }
  JobId heard() {
    const JobId job = ended(host());
    take();
    return job;
  }
  bool there(const JobId& job, const engine::Caller& caller = person()) {
    const auto outcome = world.post(engine::ShowRequest{caller, job});
    if (!outcome->result) {
      EXPECT_EQ(outcome->result.error().code, ErrorCode::not_found);
    }
    return outcome->result.has_value();
  }
  JobView show(const JobId& job, const engine::Caller& caller = person()) {
    return world.ask<JobReply>(engine::ShowRequest{caller, job}).job;
  }
  // What the CLI does: page after page.
  PruneReply prune(std::optional<Millis> older_than = {}, bool dry_run = false) {
    PruneReply all;
    engine::PruneRequest request{older_than, dry_run};
    for (int pages = 0; pages < 1000; ++pages) {
      auto page = world.ask<PruneReply>(request);
      all.jobs.insert(all.jobs.end(), page.jobs.begin(), page.jobs.end());
      all.bytes += page.bytes;
      all.dropped_events += page.dropped_events;
      if (!page.next) return all;
      request.after = *page.next;
    }
    ADD_FAILURE() << "there is no last page";
    return all;
  }
  std::int64_t count(const std::string& table) {
    return *world.db().integer("SELECT count(*) FROM " + table, {});
  }
  // Time passes as it does for a daemon: it sleeps until something is due.
  void live(Millis time) {
    const WallTime until = world.clock.wall() + time;
    for (int ticks = 0; ticks < 10'000; ++ticks) {
      const auto due = world.engine().next_due();
      const Millis left = until - world.clock.wall();
      if (!due || *due > left) {
        world.clock.advance(left);
        return;
      }
      world.clock.advance(*due);
      world.engine().tick();
    }
    ADD_FAILURE() << "what is due does not come to an end";
  }

  World world;
};

TEST_F(RetentionTest, a_finished_job_goes_with_everything_of_it_after_its_time) {
  const JobId job = heard();
  world.post(engine::ConnectionClosed{1});
  live(world.settings.retention - Millis(1));
  EXPECT_TRUE(there(job));
  live(Millis(1));
  EXPECT_FALSE(there(job));
  EXPECT_EQ(world.channel.jobs_removed, std::vector<JobId>{job});
  for (const char* table : {"job", "receipt", "launch", "inbox", "hand_over", "output", "ended",
                            "prune", "leftover", "monitor"}) {
    EXPECT_EQ(count(table), 0) << table;
  }
  EXPECT_EQ(*world.db().integer("SELECT sum(bytes) FROM output_use", {}), 0);
}

TEST_F(RetentionTest, the_setting_decides_also_for_what_has_ended_before) {
  const JobId job = heard();
  live(kDay);
  EXPECT_TRUE(there(job));
  world.crash();
  world.settings.retention = kDay;
  ASSERT_TRUE(world.start());
  live(Millis(1));
  EXPECT_FALSE(there(job));
}

TEST_F(RetentionTest, I2_what_is_pending_offered_or_accepted_is_never_removed) {
  const JobId job = ended(host());
  world.ask<AttachReply>(attach(host()));
  prune(Millis(0));
  EXPECT_TRUE(there(job)) << "pending";
  const auto taken = world.ask<InboxReply>(inbox(host()));
  prune(Millis(0));
  EXPECT_TRUE(there(job)) << "offered";
  world.post(engine::FlushedRequest{host(), taken.hand_over->delivery});
  prune(Millis(0));
  EXPECT_TRUE(there(job)) << "accepted";
  live(world.settings.retention * 2);  // the connection is open: the host is there
  EXPECT_EQ(show(job).events.at(0).state, InboxState::accepted);
  world.ask<InboxReply>(inbox(host()));
  EXPECT_EQ(show(job).events.at(0).state, InboxState::acked);
  live(kDay);  // it is looked at once a day
  EXPECT_FALSE(there(job));
}

TEST_F(RetentionTest, I7_a_job_whose_leftovers_run_stays) {
  const auto made = world.ask<RunReply>(command(host(), "sleep 9 &"));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.leftovers.emplace();
  facts.leftovers->found = {{42, "sleep", "sleep 9", "S", false, "", ""}};
  facts.leftovers->survived = facts.leftovers->found;
  facts.leftovers->settled = true;
  facts.leftovers->kept = true;
  world.ended(facts);
  take();
  live(world.settings.retention * 2);
  prune(Millis(0));
  EXPECT_TRUE(there(made.job.id));
  facts.leftovers->survived.clear();
  world.ended(facts);
  prune(Millis(0));
  EXPECT_FALSE(there(made.job.id));
}

TEST_F(RetentionTest, I4_a_running_job_stays) {
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  world.started(made.job.id);
  live(world.settings.retention * 10);
  prune(Millis(0));
  EXPECT_TRUE(there(made.job.id));
}

TEST_F(RetentionTest, I2_unread_events_of_the_session_user_expire_with_a_receipt_one_can_read) {
  const engine::Caller user = person("user");
  const JobId job = ended(user);
  live(world.settings.retention);
  // The person's own look would acknowledge them.
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM inbox WHERE state = 'dropped' AND "
                                "dropped_as = 'expired'",
                                {}),
            1);
  const JobView shown = show(job, user);
  EXPECT_EQ(shown.receipts.back().name, core::ReceiptName::dropped);
  EXPECT_EQ(shown.receipts.back().from, shown.receipts.back().to);
  EXPECT_EQ(shown.events.at(0).state, InboxState::dropped);
  EXPECT_EQ(shown.events.at(0).dropped_as, core::DroppedAs::expired);
  live(kDay);
  EXPECT_FALSE(there(job, user));
}

TEST_F(RetentionTest, files_that_cannot_be_removed_keep_their_job) {
  const JobId job = heard();
  world.channel.removable = false;
  live(world.settings.retention + Millis(1));
  EXPECT_TRUE(there(job));
  world.channel.removable = true;
  live(kDay);
  EXPECT_FALSE(there(job));
}

TEST_F(RetentionTest, I14_many_jobs_go_in_bounded_steps) {
  world.settings.running_per_session = 300;
  world.settings.undelivered_per_session = 1000;
  ASSERT_TRUE(world.start());
  for (int i = 0; i < 100; ++i) ended(host());
  take();
  world.clock.advance(world.settings.retention);
  std::size_t before = 0;
  int steps = 0;
  while (world.channel.jobs_removed.size() < 100 && steps < 100) {
    world.engine().tick();
    EXPECT_LE(world.channel.jobs_removed.size() - before, 16U);
    before = world.channel.jobs_removed.size();
    ++steps;
  }
  EXPECT_EQ(steps, 7);
  EXPECT_EQ(count("job"), 0);
}

TEST_F(RetentionTest, I15_nothing_is_due_when_nothing_is_kept) {
  EXPECT_FALSE(world.engine().next_due());
  heard();
  world.post(engine::ConnectionClosed{1});
  live(world.settings.retention * 20);
  EXPECT_EQ(count("session"), 0);
  EXPECT_EQ(count("turn"), 0);
  EXPECT_EQ(count("owed"), 0);
  EXPECT_FALSE(world.engine().next_due());
}

// ---- idempotency keys --------------------------------------------------------------------------

TEST_F(RetentionTest, I10_a_key_speaks_for_90_days_after_its_job_is_gone) {
  engine::RunRequest request = command(host(), "true");
  request.key = IdempotencyKey("k");
  const JobId job = world.ask<RunReply>(request).job.id;
  world.ended(job, 0);
  take();
  prune(Millis(0));
  ASSERT_FALSE(there(job));
  const Error refused = world.refuse(request);
  EXPECT_EQ(refused.code, ErrorCode::not_found);
  EXPECT_NE(refused.message.find(job.str()), std::string::npos) << refused.message;
  engine::RunRequest other = command(host(), "false");
  other.key = request.key;
  EXPECT_EQ(world.refuse(other).code, ErrorCode::conflict);
  live(kDay * 90 - Millis(1));
  EXPECT_EQ(world.refuse(request).code, ErrorCode::not_found);
  EXPECT_EQ(count("job"), 0) << "nothing was started";
  live(Millis(1));
  EXPECT_FALSE(world.ask<RunReply>(request).replayed);
}

TEST_F(RetentionTest, I10_a_key_of_an_older_store_gets_its_tombstone_too) {
  engine::RunRequest request = command(host(), "true");
  request.key = IdempotencyKey("k");
  const JobId job = world.ask<RunReply>(request).job.id;
  world.ended(job, 0);
  take();
  world.crash();
  ASSERT_TRUE(world.db().script(kUndoBackup));
  ASSERT_TRUE(world.db().script(kUndoNode));
  ASSERT_TRUE(world.db().script(kUndoRetention));
  ASSERT_TRUE(world.start());
  live(world.settings.retention);
  ASSERT_FALSE(there(job));
  EXPECT_EQ(world.refuse(request).code, ErrorCode::not_found);
}

// ---- numbers -----------------------------------------------------------------------------------

TEST_F(RetentionTest, I16_numbers_are_not_given_twice_when_their_rows_are_gone) {
  const JobId first = heard();
  const std::uint64_t activation = show(first).receipts.back().activation;
  const auto node = *world.db().integer("SELECT max(node_seq) FROM receipt", {});
  prune(Millis(0));
  ASSERT_EQ(count("receipt"), 0);
  world.crash();
  ASSERT_TRUE(world.start());
  const auto next = world.ask<RunReply>(command(host(), "true"));
  const JobView job = show(next.job.id);
  EXPECT_GT(job.receipts.front().node_seq, static_cast<std::uint64_t>(node));
  EXPECT_GT(job.receipts.back().activation, activation);
}

TEST_F(RetentionTest, I16_a_session_that_was_forgotten_gets_no_fence_twice) {
  const std::uint64_t fence = world.ask<AttachReply>(attach(host())).session.fence;
  world.ask<std::monostate>(engine::DetachRequest{host()});
  live(kDay * 31);
  ASSERT_EQ(count("session"), 0);
  EXPECT_GT(world.ask<AttachReply>(attach(host())).session.fence, fence);
}

// ---- sessions without a host -------------------------------------------------------------------

TEST_F(RetentionTest, I2_what_nobody_came_back_for_is_dropped_after_30_days_with_a_receipt) {
  world.ask<AttachReply>(attach(host()));
  const JobId job = ended(host());
  const JobId other = ended(host("s2", "k2", 2));
  world.ask<std::monostate>(engine::DetachRequest{host()});
  live(kDay * 30 - Millis(1));
  EXPECT_EQ(show(job).events.at(0).state, InboxState::pending);
  live(Millis(1));
  const JobView shown = show(job);
  EXPECT_EQ(shown.events.at(0).state, InboxState::dropped);
  EXPECT_EQ(shown.events.at(0).dropped_as, core::DroppedAs::owner_gone);
  EXPECT_EQ(shown.receipts.back().name, core::ReceiptName::dropped);
  EXPECT_EQ(show(other, person("s2")).events.at(0).state, InboxState::pending)
      << "its host's connection is open";
  live(kDay * 2);
  EXPECT_FALSE(there(job));
}

TEST_F(RetentionTest, I2_a_host_that_comes_back_in_time_finds_everything) {
  world.ask<AttachReply>(attach(host()));
  const JobId job = ended(host());
  world.ask<std::monostate>(engine::DetachRequest{host()});
  live(kDay * 29);
  world.ask<AttachReply>(attach(host()));
  live(kDay * 29);
  EXPECT_EQ(show(job).events.at(0).state, InboxState::pending);
  world.ask<std::monostate>(engine::DetachRequest{host()});
  live(kDay * 29);
  EXPECT_EQ(show(job).events.at(0).state, InboxState::pending);
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over);
}

TEST_F(RetentionTest, a_running_job_keeps_its_session) {
  const auto made = world.ask<RunReply>(command(person(), "sleep 9"));
  world.started(made.job.id);
  live(kDay * 100);
  EXPECT_EQ(count("session"), 1);
  world.ended(made.job.id, 0);
  EXPECT_EQ(show(made.job.id).status, core::JobStatus::succeeded);
}

TEST_F(RetentionTest, closed_turns_go_and_open_ones_stay) {
  world.ask<TurnReply>(turn(host(), TurnVerb::begin, "t1"));
  world.ask<TurnReply>(turn(host(), TurnVerb::end, "t1"));
  world.ask<TurnReply>(turn(host(), TurnVerb::begin, "t2"));
  live(world.settings.retention);
  EXPECT_EQ(count("turn"), 1);
  EXPECT_EQ(world.ask<SessionView>(engine::SessionShowRequest{person()}).turn->id, TurnId("t2"));
}

// ---- prune -------------------------------------------------------------------------------------

TEST_F(RetentionTest, prune_says_first_and_then_does_the_same) {
  const JobId old = heard();
  live(kDay * 2);
  const JobId young = heard();
  const PruneReply none = prune();
  EXPECT_TRUE(none.jobs.empty());
  const PruneReply said = prune(kDay, true);
  ASSERT_EQ(said.jobs.size(), 1U);
  EXPECT_EQ(said.jobs[0].job, old);
  EXPECT_EQ(said.bytes, 4096U);
  EXPECT_TRUE(there(old));
  EXPECT_TRUE(world.channel.jobs_removed.empty());
  const PruneReply done = prune(kDay);
  ASSERT_EQ(done.jobs.size(), 1U);
  EXPECT_EQ(done.bytes, 4096U);
  EXPECT_FALSE(there(old));
  EXPECT_TRUE(there(young));
}

TEST_F(RetentionTest, prune_goes_through_many_pages) {
  world.settings.running_per_session = 700;
  ASSERT_TRUE(world.start());
  for (int i = 0; i < 300; ++i) ended(host());
  take();
  const JobId waiting = ended(host());
  for (int i = 0; i < 300; ++i) ended(person("user"));
  EXPECT_EQ(prune(Millis(0), true).jobs.size(), 600U);
  const PruneReply done = prune(Millis(0));
  EXPECT_EQ(done.jobs.size(), 600U);
  EXPECT_EQ(done.dropped_events, 300U);
  EXPECT_EQ(count("job"), 1);
  EXPECT_TRUE(there(waiting));
}

TEST_F(RetentionTest, I12_a_job_that_does_not_parse_is_kept) {
  const JobId job = heard();
  ASSERT_TRUE(world.db().script("DROP TRIGGER job_terminal_row_never_changes"));
  ASSERT_TRUE(world.db().script("UPDATE job SET verdict = 'nonsense'"));
  live(world.settings.retention + kDay);
  prune(Millis(0));
  EXPECT_EQ(count("job"), 1);
  EXPECT_TRUE(world.channel.jobs_removed.empty());
}

// ---- the schema --------------------------------------------------------------------------------

TEST_F(RetentionTest, I4_the_schema_lets_nothing_go_that_is_not_being_pruned) {
  const JobId job = heard();
  const auto running = world.ask<RunReply>(command(host(), "sleep 9"));
  for (const std::string sql :
       {"DELETE FROM receipt", "DELETE FROM job", "DELETE FROM launch", "DELETE FROM inbox",
        "INSERT INTO prune SELECT job FROM job WHERE status = 'running'"}) {
    EXPECT_FALSE(world.db().script(sql)) << sql;
  }
  const JobId unheard = ended(host());
  ASSERT_TRUE(world.db().run("INSERT INTO prune VALUES ($1)", {unheard}));
  EXPECT_FALSE(world.db().run("DELETE FROM inbox WHERE job = $1", {unheard}));
  ASSERT_TRUE(world.db().run("INSERT INTO prune VALUES ($1)", {job}));
  EXPECT_TRUE(world.db().run("DELETE FROM receipt WHERE job = $1", {job}));
  EXPECT_TRUE(there(running.job.id));
}

}  // namespace
}  // namespace waybill::test
