// SPEC section 8: a store that is behind what its node has seen. Refused, kept, and brought up to
// what the job directories say.

#include "faulty_disk.h"
#include "store/jobs.h"
#include "world.h"

namespace waybill::test {
namespace {

using engine::InboxReply;
using engine::JobReply;
using engine::ReconcileReply;
using engine::RunReply;
using engine::StatusReply;

// What the channel would find in the directory of a job that it was ordered to launch.
supervise::FoundJob directory_of(World& world, const JobId& job) {
  supervise::FoundJob found{job, "/jobs/" + job.str()};
  found.there = true;
  found.facts.job = job;
  for (const auto& order : world.channel.orders) {
    if (order.job == job && order.launch) found.launch = order.launch;
  }
  if (!found.launch) found.why = "its launch file does not check";
  return found;
}

supervise::FoundJob running_directory(World& world, const JobId& job) {
  supervise::FoundJob found = directory_of(world, job);
  found.started = found.runs = true;
  found.facts.supervision = core::Supervision::running;
  found.facts.started_at = world.clock.wall();
  return found;
}

supervise::FoundJob ended_directory(World& world, const JobId& job, int code) {
  supervise::FoundJob found = directory_of(world, job);
  found.started = found.told = true;
  found.facts = world.finished_facts(job, code);
  found.facts.tail = "the last line\n";
  return found;
}

JobId launched(World& world, const std::string& text, const char* key = nullptr) {
  auto request = command(host(), text);
  if (key != nullptr) request.key = IdempotencyKey(key);
  return world.ask<RunReply>(request).job.id;
}

core::JobStatus status_of(World& world, const JobId& job) {
  return world.ask<JobReply>(engine::ShowRequest{person(), job}).job.status;
}

// A backup is taken, job `late` is launched, ends and is heard; then the backup is put back.
struct Restored {
  Restored() {
    early = launched(world, "early");
    world.started(early);
    world.save("backup");
    late = launched(world, "late", "k1");
    world.ended(late, 3);
    const auto taken = world.ask<InboxReply>(inbox(host()));
    EXPECT_TRUE(taken.hand_over);
    world.ask<engine::AckReply>(engine::AckRequest{host(), {taken.hand_over->delivery.str()}});
    newest = world.mark->newest;
    world.channel.found[early] = running_directory(world, early);
    world.channel.found[late] = ended_directory(world, late, 3);
    world.restore("backup");
    EXPECT_TRUE(world.start());
    world.channel.orders.clear();
  }
  World world;
  JobId early;
  JobId late;
  std::uint64_t newest = 0;
};

TEST(Reconcile, I12_a_store_behind_its_node_is_read_and_not_changed) {
  Restored restored;
  World& world = restored.world;
  EXPECT_FALSE(world.engine().regressed().empty());
  const Error refused = world.refuse(command(host(), "true"));
  EXPECT_EQ(refused.code, ErrorCode::store_regressed);
  EXPECT_NE(refused.message.find("are kept as they are"), std::string::npos) << refused.message;
  EXPECT_EQ(world.refuse(attach(host())).code, ErrorCode::store_regressed);
  EXPECT_EQ(world.refuse(inbox(host())).code, ErrorCode::store_regressed);
  EXPECT_EQ(world.refuse(turn(host(), core::TurnVerb::begin)).code, ErrorCode::store_regressed);
  EXPECT_EQ(status_of(world, restored.early), core::JobStatus::running);
  const auto status = world.ask<StatusReply>(engine::StatusRequest{person()});
  EXPECT_NE(status.poisoned.find("reconcile"), std::string::npos) << status.poisoned;
  // Facts, timers and lost connections change nothing either.
  world.ended(restored.early, 0);
  world.post(engine::ConnectionClosed{1});
  EXPECT_FALSE(world.engine().next_due());
  world.pass(std::chrono::hours(1));
  EXPECT_EQ(status_of(world, restored.early), core::JobStatus::running);
  EXPECT_TRUE(world.channel.orders.empty());
  // So it is after the next start.
  ASSERT_TRUE(world.start());
  EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::store_regressed);
}

TEST(Reconcile, I2_a_lost_row_is_made_again_and_its_owner_hears_of_it_as_a_repeat) {
  Restored restored;
  World& world = restored.world;
  const auto made = world.ask<ReconcileReply>(engine::ReconcileRequest{});
  EXPECT_TRUE(made.regressed);
  ASSERT_EQ(made.rebuilt.size(), 1U);
  EXPECT_EQ(made.rebuilt[0].job, restored.late);
  EXPECT_EQ(made.rebuilt[0].status, core::JobStatus::failed);
  EXPECT_TRUE(made.settled.empty() && made.ended.empty() && made.quarantined.empty());
  EXPECT_TRUE(world.engine().regressed().empty());

  const auto job = world.ask<JobReply>(engine::ShowRequest{person(), restored.late}).job;
  EXPECT_EQ(job.exit->code, 3);
  EXPECT_EQ(job.command_preview, "late");
  ASSERT_EQ(job.receipts.size(), 3U);
  for (const core::Receipt& receipt : job.receipts) EXPECT_GT(receipt.node_seq, restored.newest);
  EXPECT_EQ(job.receipts[0].actor, "reconcile");
  EXPECT_EQ(job.receipts[1].actor, "reconcile");
  EXPECT_EQ(job.receipts[1].name, core::ReceiptName::started);

  const auto taken = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(taken.hand_over);
  ASSERT_EQ(taken.hand_over->events.size(), 1U);
  EXPECT_EQ(taken.hand_over->events[0].id.str(), restored.late.str() + ".failed.1");
  EXPECT_TRUE(taken.hand_over->events[0].repeat);
  EXPECT_EQ(taken.hand_over->events[0].tail, "the last line\n");
}

TEST(Reconcile, I10_the_key_of_a_rebuilt_job_finds_it) {
  Restored restored;
  World& world = restored.world;
  world.ask<ReconcileReply>(engine::ReconcileRequest{});
  world.channel.orders.clear();
  auto again = command(host(), "late");
  again.key = IdempotencyKey("k1");
  const auto reply = world.ask<RunReply>(again);
  EXPECT_TRUE(reply.replayed);
  EXPECT_EQ(reply.job.id, restored.late);
  EXPECT_TRUE(world.channel.orders.empty());
}

TEST(Reconcile, what_runs_is_watched_on_and_its_end_is_no_repeat) {
  Restored restored;
  World& world = restored.world;
  world.ask<ReconcileReply>(engine::ReconcileRequest{});
  ASSERT_EQ(world.channel.orders.size(), 1U);
  EXPECT_EQ(world.channel.orders[0].job, restored.early);
  EXPECT_FALSE(world.channel.orders[0].launch);
  world.ended(restored.early, 0);
  const auto taken = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(taken.hand_over);
  for (const auto& event : taken.hand_over->events) {
    EXPECT_EQ(event.repeat, event.job.id == restored.late) << event.id.str();
  }
}

TEST(Reconcile, I16_the_store_goes_on_as_another_one_and_no_host_of_before_is_its_host) {
  Restored restored;
  World& world = restored.world;
  const auto before = world.ask<StatusReply>(engine::StatusRequest{person()}).incarnation;
  world.ask<ReconcileReply>(engine::ReconcileRequest{});
  EXPECT_NE(world.ask<StatusReply>(engine::StatusRequest{person()}).incarnation, before);
  const auto session = world.ask<engine::SessionView>(engine::SessionShowRequest{person()});
  EXPECT_FALSE(session.lease_live);
  const auto attached = world.ask<engine::AttachReply>(attach(host("s1", "k1", 5)));
  EXPECT_GT(attached.session.fence, session.fence);
  // The backup once more: it is of another incarnation now.
  world.restore("backup");
  ASSERT_TRUE(world.start());
  EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::store_regressed);
}

TEST(Reconcile, doing_it_twice_does_nothing_more) {
  Restored restored;
  World& world = restored.world;
  world.ask<ReconcileReply>(engine::ReconcileRequest{});
  const auto receipts = *world.db().integer("SELECT count(*) FROM receipt", {});
  const auto again = world.ask<ReconcileReply>(engine::ReconcileRequest{});
  EXPECT_FALSE(again.regressed);
  EXPECT_TRUE(again.rebuilt.empty() && again.quarantined.empty());
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM receipt", {}), receipts);
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(world.engine().regressed().empty());
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM receipt", {}), receipts);
}

TEST(Reconcile, a_row_that_is_behind_is_settled_from_the_records_as_a_repeat) {
  Restored restored;
  World& world = restored.world;
  world.channel.found[restored.early] = ended_directory(world, restored.early, 4);
  const auto made = world.ask<ReconcileReply>(engine::ReconcileRequest{});
  ASSERT_EQ(made.settled.size(), 1U);
  EXPECT_EQ(made.settled[0].status, core::JobStatus::failed);
  const auto taken = world.ask<InboxReply>(inbox(host()));
  ASSERT_TRUE(taken.hand_over);
  EXPECT_EQ(taken.hand_over->events.size(), 2U);
  for (const auto& event : taken.hand_over->events) EXPECT_TRUE(event.repeat) << event.id.str();
}

TEST(Reconcile, I8_a_stop_on_record_is_a_stop_and_wakes_nobody) {
  Restored restored;
  World& world = restored.world;
  supervise::FoundJob& found = world.channel.found[restored.late];
  found.stop = supervise::StopWish{world.clock.wall(), "owner", "enough"};
  found.facts.exit = core::Exit::signaled(15, false);
  found.facts.ended_by = core::EndedBy::stop;
  const auto made = world.ask<ReconcileReply>(engine::ReconcileRequest{});
  EXPECT_EQ(made.rebuilt[0].status, core::JobStatus::stopped);
  EXPECT_EQ(world.ask<JobReply>(engine::ShowRequest{person(), restored.late}).job.reason, "enough");
  EXPECT_FALSE(world.ask<InboxReply>(inbox(host())).hand_over);
}

TEST(Reconcile, a_job_that_was_never_started_is_told_as_such_and_not_run) {
  Restored restored;
  World& world = restored.world;
  supervise::FoundJob& found = world.channel.found[restored.late];
  found.started = found.told = false;
  found.facts = {};
  found.facts.job = restored.late;
  world.ask<ReconcileReply>(engine::ReconcileRequest{});
  const auto job = world.ask<JobReply>(engine::ShowRequest{person(), restored.late}).job;
  EXPECT_EQ(job.status, core::JobStatus::failed);
  EXPECT_EQ(job.exit->kind, core::ExitKind::not_started);
  for (const auto& order : world.channel.orders) EXPECT_NE(order.job, restored.late);
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over);
}

TEST(Reconcile, I12_what_names_no_owner_is_quarantined_and_never_run) {
  Restored restored;
  World& world = restored.world;
  supervise::FoundJob& found = world.channel.found[restored.late];
  found.launch.reset();
  found.why = "its launch file does not check";
  for (int round = 0; round < 2; ++round) {
    const auto made = world.ask<ReconcileReply>(engine::ReconcileRequest{});
    EXPECT_EQ(made.regressed, round == 0);
    ASSERT_EQ(made.quarantined.size(), 1U);
    EXPECT_EQ(made.quarantined[0].job, restored.late);
    EXPECT_TRUE(made.quarantined[0].started);
    EXPECT_EQ(made.quarantined[0].path, "/jobs/" + restored.late.str());
  }
  EXPECT_EQ(world.refuse(engine::ShowRequest{person(), restored.late}).code, ErrorCode::not_found);
  for (const auto& order : world.channel.orders) EXPECT_NE(order.job, restored.late);
}

// In an ordinary store nothing is made from directories: a job whose row was removed stays so.
TEST(Reconcile, an_ordinary_store_only_names_what_has_no_row) {
  World world;
  const JobId job("j1");
  supervise::FoundJob found{job, "/jobs/j1"};
  found.there = found.started = true;
  world.channel.found[job] = found;
  ASSERT_TRUE(world.start());
  EXPECT_EQ(world.ask<RunReply>(command(host(), "true")).job.status, core::JobStatus::running);
  const auto named = world.ask<ReconcileReply>(engine::ReconcileRequest{});
  EXPECT_FALSE(named.regressed);
  ASSERT_EQ(named.quarantined.size(), 1U);
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM job", {}), 1);
}

// ---- jobs that the old store has queued --------------------------------------------------------

struct Queue {
  Queue() {
    world.settings.running_per_session = 1;
    EXPECT_TRUE(world.start());
    running = launched(world, "running");
    ran = launched(world, "ran");
    untouched = launched(world, "untouched");
    gone = launched(world, "gone");
    world.save("backup");
    world.ended(running, 0);
    world.ended(ran, 0);
    world.channel.found[running] = ended_directory(world, running, 0);
    world.channel.found[ran] = ended_directory(world, ran, 0);
    world.channel.found[untouched] = directory_of(world, untouched);
    world.restore("backup");
    EXPECT_TRUE(world.start());
    world.channel.orders.clear();
  }
  World world;
  JobId running;
  JobId ran;
  JobId untouched;
  JobId gone;
};

TEST(Reconcile, I10_a_queued_job_runs_only_if_its_directory_shows_that_it_has_not) {
  Queue queue;
  World& world = queue.world;
  const auto made = world.ask<ReconcileReply>(engine::ReconcileRequest{});
  EXPECT_EQ(made.settled.size(), 2U);
  ASSERT_EQ(made.ended.size(), 1U);
  EXPECT_EQ(made.ended[0].job, queue.gone);
  EXPECT_EQ(status_of(world, queue.ran), core::JobStatus::succeeded);
  const auto gone = world.ask<JobReply>(engine::ShowRequest{person(), queue.gone}).job;
  EXPECT_EQ(gone.status, core::JobStatus::failed);
  EXPECT_EQ(gone.exit->kind, core::ExitKind::unknown);
  EXPECT_EQ(gone.proof, core::Proof::unproven);
  ASSERT_EQ(world.channel.orders.size(), 1U);
  EXPECT_EQ(world.channel.orders[0].job, queue.untouched);
  EXPECT_TRUE(world.channel.orders[0].launch);
}

TEST(Reconcile, I9_a_started_job_without_its_directory_has_ended_unseen) {
  Queue queue;
  World& world = queue.world;
  world.channel.found.erase(queue.running);
  const auto made = world.ask<ReconcileReply>(engine::ReconcileRequest{});
  EXPECT_EQ(made.ended.size(), 2U);
  EXPECT_EQ(status_of(world, queue.running), core::JobStatus::failed);
}

// The same without a store that is behind: its directory was removed while no daemon ran.
TEST(Jobs, I9_a_started_job_without_its_directory_is_lost_and_never_launched_again) {
  World world;
  const JobId job = launched(world, "true");
  world.started(job);
  world.crash();
  ASSERT_TRUE(world.start());
  core::JobFacts nothing;
  nothing.job = job;
  world.post(engine::ObservedFacts{nothing});
  const auto shown = world.ask<JobReply>(engine::ShowRequest{person(), job}).job;
  EXPECT_EQ(shown.status, core::JobStatus::failed);
  EXPECT_EQ(shown.exit->kind, core::ExitKind::unknown);
  EXPECT_EQ(shown.cause, core::Cause::supervisor_lost);
  EXPECT_FALSE(world.channel.orders.back().launch);
}

// ---- the mark ----------------------------------------------------------------------------------

TEST(Mark, I12_a_missing_mark_is_noticed_once_there_was_one) {
  World world;
  launched(world, "true");
  world.mark.reset();
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(world.engine().regressed().empty());  // it was never promised
  ASSERT_TRUE(store::expect_mark(world.db()));
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(world.engine().regressed().empty());
  world.mark.reset();
  ASSERT_TRUE(world.start());
  EXPECT_FALSE(world.engine().regressed().empty());
}

TEST(Mark, I12_another_store_is_noticed_however_many_receipts_it_has) {
  const auto why = [](std::optional<store::Mark> mark, store::Lineage store) {
    return store::why_regressed(mark, store);
  };
  const store::Lineage store{"s2", "s1", 10, true, false};
  EXPECT_EQ(why(store::Mark{"s2", 10}, store), "");
  EXPECT_EQ(why(store::Mark{"s2", 3}, store), "");  // the mark may lag
  EXPECT_NE(why(store::Mark{"s2", 11}, store), "");
  // The one that this store took the place of, killed before the mark was written.
  EXPECT_EQ(why(store::Mark{"s1", 10}, store), "");
  EXPECT_NE(why(store::Mark{"s3", 1}, store), "");
  EXPECT_EQ(why(store::Mark{"s3", 0}, store), "");  // nothing was ever seen
  EXPECT_NE(why(std::nullopt, store), "");
  EXPECT_EQ(why(std::nullopt, {"s2", "", 10, false, false}), "");
  EXPECT_NE(why(std::nullopt, {"s2", "", 10, false, true}), "");
}

TEST(Mark, I16_receipt_numbers_are_not_given_again_when_receipts_are_removed) {
  World world;
  const JobId job = launched(world, "true");
  world.ended(job, 0);
  ASSERT_TRUE(world.db().script("DROP TRIGGER receipt_is_append_only_delete"));
  ASSERT_TRUE(world.db().script("DELETE FROM receipt"));
  EXPECT_EQ(*store::max_node_seq(world.db()), 3U);
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(world.engine().regressed().empty());
  EXPECT_GT(world.ask<RunReply>(command(host(), "true")).job.receipts[0].node_seq, 3U);
}

TEST(Mark, a_mark_that_was_damaged_or_is_half_there_is_none) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("waybill-mark-" + std::to_string(::getpid())))
          .string();
  std::filesystem::remove(path);
  {
    auto mark = store::MarkFile::open(path);
    ASSERT_TRUE(mark);
    EXPECT_FALSE(mark->found());
    ASSERT_TRUE(mark->write_durably({"s1", 41}));
    ASSERT_TRUE(mark->write({"s1", 42}));
  }
  const auto again = store::MarkFile::open(path);
  ASSERT_TRUE(again && again->found());
  EXPECT_EQ(again->found()->newest, 42U);
  EXPECT_EQ(again->found()->incarnation, "s1");
  for (const std::uintmax_t size : {0U, 5U, 30U}) {
    std::filesystem::resize_file(path, size);
    const auto cut = store::MarkFile::open(path);
    ASSERT_TRUE(cut);
    EXPECT_FALSE(cut->found()) << size;
  }
  std::filesystem::remove(path);
}

// ---- killed in between -------------------------------------------------------------------------

// The power fails at every single write of it: either nothing has happened, and it can be done, or
// everything has, and there is nothing to do.
TEST(Reconcile, I6_power_fails_at_every_write_of_it) {
  for (std::uint64_t n = 1;; ++n) {
    SCOPED_TRACE("operation " + std::to_string(n));
    Restored restored;
    World& world = restored.world;
    world.close();
    CrashDisk disk;
    ASSERT_TRUE(world.start());
    disk.crash_at(n);
    const auto outcome = world.post(engine::ReconcileRequest{});
    const bool crashed = disk.crashed();
    world.close();
    disk.power_on(Unsynced::mixed, n);
    // The mark lies on the same disk; it is written after the commit.
    ASSERT_TRUE(world.start());
    if (!world.engine().regressed().empty()) {
      const auto made = world.ask<ReconcileReply>(engine::ReconcileRequest{});
      EXPECT_EQ(made.rebuilt.size(), 1U);
    }
    EXPECT_EQ(*world.db().integer("SELECT count(*) FROM receipt WHERE job = $1", {restored.late}),
              3);
    EXPECT_EQ(*world.db().integer("SELECT count(*) FROM inbox WHERE job = $1", {restored.late}), 1);
    if (!crashed || ::testing::Test::HasFailure()) {
      EXPECT_GT(n, 10U);
      EXPECT_TRUE(outcome->answered);
      break;
    }
  }
}

}  // namespace
}  // namespace waybill::test
