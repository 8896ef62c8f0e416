// I5, I6, I12 and group commit (SPEC section 12): what the store itself refuses, and batches that
// fail.

#include <fstream>

#include "older_store.h"
#include "world.h"

namespace waybill::test {
namespace {

using engine::InboxReply;
using engine::JobReply;
using engine::RunReply;
using engine::TurnReply;

JobId one_job(World& world) { return world.ask<RunReply>(command(host(), "true")).job.id; }

TEST(StoreRules, I5_schema_refuses_a_status_without_its_receipt) {
  World world;
  const JobId job = one_job(world);
  EXPECT_FALSE(world.db().run("UPDATE job SET status = 'succeeded' WHERE job = $1", {job}));
  EXPECT_FALSE(
      world.db().run("UPDATE job SET status = 'stopped', receipts = 99 WHERE job = $1", {job}));
  EXPECT_EQ(world.ask<JobReply>(engine::ShowRequest{person(), job}).job.status,
            core::JobStatus::running);
}

TEST(StoreRules, I5_schema_refuses_a_receipt_outside_the_table) {
  World world;
  const JobId job = one_job(world);
  const std::string insert =
      "INSERT INTO receipt (node_seq, job, seq, attempt, activation, from_status, to_status, name, "
      "at, "
      "actor, reason, tenant, session, sandbox, generation) VALUES "
      "($1, $2, 9, 1, 1, $3, $4, $5, 0, '', '', 'local', 's1', 'local', 'g')";
  EXPECT_FALSE(world.db().run(insert, {1001, job, "running", "running_fast", "started"}));
  EXPECT_FALSE(world.db().run(insert, {1002, job, "running", "succeeded", "failed"}));
  EXPECT_FALSE(world.db().run(insert, {1003, job, "queued", "failed", "failed"}));  // it is running
}

TEST(StoreRules, I4_schema_refuses_to_change_or_delete_receipts_and_terminal_rows) {
  World world;
  const JobId job = one_job(world);
  world.ended(job, 0);
  EXPECT_FALSE(world.db().run("UPDATE receipt SET reason = 'x' WHERE job = $1", {job}));
  EXPECT_FALSE(world.db().run("DELETE FROM receipt WHERE job = $1", {job}));
  EXPECT_FALSE(world.db().run("UPDATE job SET label = 'x' WHERE job = $1", {job}));
}

TEST(StoreRules, I3_schema_keeps_acknowledged_rows) {
  World world;
  const JobId job = one_job(world);
  world.ended(job, 0);
  const auto taken = world.ask<InboxReply>(inbox(host()));
  world.post(engine::AckRequest{host(), {taken.hand_over->delivery.str()}});
  EXPECT_FALSE(world.db().run("UPDATE inbox SET state = 'pending' WHERE job = $1", {job}));
}

TEST(StoreRules, I6_a_batch_with_one_failing_command_keeps_the_others) {
  World world;
  std::vector<engine::Ticket> batch;
  std::vector<bool> done;
  for (int i = 0; i < 5; ++i) {
    auto request = command(host(), "true " + std::to_string(i));
    if (i == 2) request = turn_command(host(), "true", "no-such-turn");
    batch.push_back(
        {request, [&](Result<engine::Reply> result) { done.push_back(result.has_value()); }});
  }
  world.engine().run_batch(std::move(batch));
  EXPECT_EQ(std::ranges::count(done, true), 4);
  EXPECT_EQ(world.channel.orders.size(), 4U);
  // Receipt numbers have no hole where the refused one was undone.
  const auto receipts = world.db().integer("SELECT count(*) FROM receipt", {});
  const auto newest = world.db().integer("SELECT max(node_seq) FROM receipt", {});
  EXPECT_EQ(*receipts, *newest);
}

TEST(StoreRules, I6_a_refused_command_leaves_nothing_behind_in_its_batch) {
  World world;
  std::vector<engine::Ticket> batch;
  const auto ignore = [](const Result<engine::Reply>&) {};
  // Refused after its key had attached the session: that is undone as well.
  batch.push_back({turn_command(host("s9", "k9", 4), "true", "no-such-turn"), ignore});
  batch.push_back({command(host(), "true"), ignore});
  world.engine().run_batch(std::move(batch));
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM session WHERE session = 's9'", {}), 0);
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM job", {}), 1);
}

TEST(StoreRules, I6_a_full_store_inside_a_batch_voids_it_and_answers_nothing_false) {
  World world;
  one_job(world);
  const auto pages = world.db().integer("PRAGMA page_count", {});
  ASSERT_TRUE(world.db().script("PRAGMA max_page_count = " + std::to_string(*pages + 8)));
  // Each needs about 40 pages: none can be done, and none may be half done.
  std::vector<engine::Ticket> batch;
  std::vector<Result<engine::Reply>> results;
  for (int i = 0; i < 4; ++i) {
    auto request = command(host(), "true");
    request.env = {"BIG=" + std::string(160'000, 'x')};
    batch.push_back(
        {request, [&](Result<engine::Reply> result) { results.push_back(std::move(result)); }});
  }
  const std::size_t orders = world.channel.orders.size();
  world.engine().run_batch(std::move(batch));
  ASSERT_EQ(results.size(), 4U);
  for (const auto& result : results) {
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ErrorCode::store_full);
  }
  EXPECT_EQ(world.channel.orders.size(), orders);
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM job", {}), 1);
  EXPECT_TRUE(world.engine().poisoned().empty());
  // Space again: everything works, nothing was lost.
  ASSERT_TRUE(world.db().script("PRAGMA max_page_count = 1000000"));
  EXPECT_EQ(world.ask<RunReply>(command(host(), "false")).job.status, core::JobStatus::running);
}

TEST(StoreRules, I6_a_call_that_waits_in_a_void_batch_is_answered_once) {
  World world;
  const JobId job = one_job(world);
  const auto pages = world.db().integer("PRAGMA page_count", {});
  ASSERT_TRUE(world.db().script("PRAGMA max_page_count = " + std::to_string(*pages + 30)));
  int answers = 0;
  std::vector<engine::Ticket> batch;
  engine::WaitRequest wait;
  wait.caller = host();
  wait.jobs = {job};
  batch.push_back({wait, [&](const Result<engine::Reply>&) { ++answers; }});
  auto large = command(host(), "true");
  large.env = {"BIG=" + std::string(400'000, 'x')};
  batch.push_back({large, [](const Result<engine::Reply>&) {}});
  world.engine().run_batch(std::move(batch));
  EXPECT_EQ(answers, 0);
  ASSERT_TRUE(world.db().script("PRAGMA max_page_count = 1000000"));
  world.ended(job, 0);
  world.pass(Millis(60'000));
  EXPECT_EQ(answers, 1);
}

TEST(StoreRules, I6_a_full_store_takes_only_the_commands_that_do_not_fit) {
  World world;
  one_job(world);
  const auto pages = world.db().integer("PRAGMA page_count", {});
  ASSERT_TRUE(world.db().script("PRAGMA max_page_count = " + std::to_string(*pages + 30)));
  std::vector<engine::Ticket> batch;
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 3; ++i) {
    auto request = command(host(), "true " + std::to_string(i));
    if (i == 1) request.env = {"BIG=" + std::string(400'000, 'x')};
    batch.push_back(
        {request, [&](const Result<engine::Reply>& result) { ++(result ? accepted : refused); }});
  }
  world.engine().run_batch(std::move(batch));
  EXPECT_EQ(accepted, 2);
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM job", {}), 3);
}

void corrupt(World& world, const std::string& sql) {
  // What only a damaged file or a foreign hand could do: the guards are taken away first.
  for (const char* guard : {"job_status_needs_its_receipt", "job_terminal_row_never_changes",
                            "inbox_ending_never_changes"}) {
    ASSERT_TRUE(world.db().script("DROP TRIGGER " + std::string(guard)));
  }
  ASSERT_TRUE(world.db().script(sql));
}

TEST(StoreRules, I12_state_that_does_not_parse_refuses_its_owner_alone) {
  for (const std::string sql :
       {"UPDATE job SET status = 'sprinting' WHERE session = 's1'",
        "UPDATE launch SET sealed = x'00' WHERE job IN (SELECT job FROM job WHERE session = 's1')",
        "UPDATE inbox SET state = 'lost' WHERE session = 's1'"}) {
    SCOPED_TRACE(sql);
    World world;
    const JobId ended = one_job(world);
    one_job(world);
    world.ended(ended, 0);
    const auto other = world.ask<RunReply>(command(host("s2", "k2", 2), "true"));
    world.crash();
    corrupt(world, sql);
    world.channel.orders.clear();
    ASSERT_TRUE(world.start());
    EXPECT_EQ(world.refuse(command(host(), "true")).code, ErrorCode::state_corrupt);
    EXPECT_EQ(world.refuse(turn(host(), core::TurnVerb::begin)).code, ErrorCode::state_corrupt);
    // Nothing new is started for it, nothing is discarded, and others are served.
    for (const auto& order : world.channel.orders) {
      EXPECT_TRUE(order.job == other.job.id || !order.launch);
    }
    EXPECT_EQ(*world.db().integer("SELECT count(*) FROM job WHERE session = 's1'", {}), 2);
    world.ask<RunReply>(command(host("s2", "k2", 2), "false"));
    EXPECT_FALSE(world.warnings.empty());
  }
}

TEST(StoreRules, I12_a_newer_store_is_refused_and_left_alone) {
  World world;
  one_job(world);
  world.crash();
  ASSERT_TRUE(world.db().script("UPDATE meta SET value = '99' WHERE key = 'schema_version'"));
  const auto refused = world.start();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::store_newer);
}

// Back to what version 1 was.
constexpr std::string_view kUndo =
    "DROP TABLE monitor; ALTER TABLE launch DROP COLUMN stdin; ALTER TABLE launch DROP COLUMN pty; "
    "ALTER TABLE job DROP COLUMN start_by; ALTER TABLE job DROP COLUMN monitors; ALTER TABLE "
    "leftover DROP COLUMN stop_at; "
    "ALTER TABLE leftover DROP COLUMN stop_actor; ALTER TABLE leftover DROP COLUMN stop_reason; "
    "DROP INDEX session_host; DROP TABLE host_call; DROP TABLE session_client; "
    "DROP TABLE output; DROP TABLE output_use; "
    "ALTER TABLE launch DROP COLUMN wrapper; ALTER TABLE session DROP COLUMN wake_until; "
    "ALTER TABLE session DROP COLUMN client; "
    "UPDATE meta SET value = '1' WHERE key = 'schema_version'";

TEST(StoreRules, I2_an_older_store_is_brought_forward_with_everything_in_it) {
  World world;
  const auto made = world.ask<engine::RunReply>(command(host(), "true"));
  world.crash();
  ASSERT_TRUE(world.db().script(kUndoBackup));
  ASSERT_TRUE(world.db().script(kUndoNode));
  ASSERT_TRUE(world.db().script(kUndoRetention));
  ASSERT_TRUE(world.db().script(kUndo));
  ASSERT_TRUE(world.start());
  world.ended(made.job.id, 3);
  const auto shown = world.ask<engine::JobReply>(engine::ShowRequest{person(), made.job.id});
  EXPECT_EQ(shown.job.status, core::JobStatus::failed);
  EXPECT_TRUE(shown.job.wrapper.empty());
  EXPECT_TRUE(world.ask<engine::InboxReply>(inbox(host())).hand_over);
  std::string version;
  ASSERT_TRUE(world.db().each("SELECT value FROM meta WHERE key = 'schema_version'", {},
                              [&](const store::Row& row) -> Result<void> {
                                version = row.string(0);
                                return {};
                              }));
  EXPECT_EQ(version, std::to_string(store::kSchemaVersion));
}

TEST(StoreRules, I12_a_damaged_store_is_refused) {
  ManualClock clock;
  const auto dir =
      std::filesystem::temp_directory_path() / ("waybill-damage-" + std::to_string(::getpid()));
  std::filesystem::create_directory(dir);
  const std::string path = (dir / "waybill.db").string();
  const auto refused_as = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const auto opened = store::open_store(path, clock);
    if (opened) opened->writer->accept_store();
    return opened ? std::string("opened") : std::string(to_word(opened.error().code));
  };
  EXPECT_EQ(refused_as("SQLite form"), "state_corrupt");
  EXPECT_EQ(refused_as(std::string(8192, 'x')), "state_corrupt");
  std::filesystem::remove_all(dir);
  std::filesystem::create_directory(dir);
  {
    const auto made = store::open_store(path, clock);
    ASSERT_TRUE(made);
    made->writer->accept_store();
  }
  std::ifstream file(path, std::ios::binary);
  std::string whole((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(refused_as(whole), "opened");
  EXPECT_EQ(refused_as(whole.substr(0, whole.size() - 7)), "state_corrupt");
  std::string scribbled = whole;
  std::fill(scribbled.begin() + 4096, scribbled.begin() + 12'288, '\x5a');
  EXPECT_EQ(refused_as(scribbled), "state_corrupt");

  // Damage in a page that nothing reads at the start: only looking for it finds it.
  std::filesystem::remove_all(dir);
  std::filesystem::create_directory(dir);
  {
    auto opened = store::open_store(path, clock);
    ASSERT_TRUE(opened);
    opened->writer->accept_store();
    for (int i = 0; i < 100; ++i) {
      const std::string key = std::string(500, 'k') + std::to_string(i);
      ASSERT_TRUE(opened->writer->run(
          "INSERT INTO idempotency VALUES ('t', 's', $1, 'j', 'f', 0, NULL)", {key}));
    }
  }
  std::ifstream filled(path, std::ios::binary);
  std::string last_page((std::istreambuf_iterator<char>(filled)), {});
  EXPECT_EQ(refused_as(last_page), "opened");
  std::fill(last_page.end() - 4096, last_page.end(), '\x5a');
  EXPECT_EQ(refused_as(last_page), "state_corrupt");
  std::filesystem::remove_all(dir);
}

TEST(StoreRules, I13_commands_and_environment_do_not_lie_in_the_store_in_the_clear) {
  World world;
  auto request = command(host(), "echo visible-command-is-previewed");
  request.env = {"TOKEN=Zx9-example-Tok3n-77"};
  const JobId job = world.ask<RunReply>(request).job.id;
  world.ended(job, 0, "tail-Zx9-example-Tok3n-78");
  ASSERT_TRUE(world.db().script("PRAGMA wal_checkpoint(TRUNCATE)"));
  std::ifstream file(world.path(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(whole.find("Zx9-example-Tok3n-77"), std::string::npos);
  EXPECT_EQ(whole.find("Zx9-example-Tok3n-78"), std::string::npos);
}

TEST(StoreRules, parameters_are_numbered_by_n_and_not_by_appearance) {
  World world;
  std::string seen;
  ASSERT_TRUE(world.db().each("SELECT $2 || '-' || $1 || '-$1'", {"a", "b"},
                              [&](const store::Row& row) -> Result<void> {
                                seen = row.string(0);
                                return {};
                              }));
  EXPECT_EQ(seen, "b-a-$1");
}

}  // namespace
}  // namespace waybill::test
