// O24, last part: what a call costs goes by what is live, never by how much was ever recorded.
// Counted are the steps of the store's machine, which are the same on every computer.

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "client_world.h"

namespace waybill::test {
namespace {

using core::TurnVerb;
using engine::AttachReply;
using engine::InboxReply;
using engine::ListReply;
using engine::PruneReply;
using engine::RunReply;
using engine::TurnReply;

// Half as much again would be a cost that grows; what is counted here varies by a few steps only.
constexpr double kAlike = 1.1;

class CostsTest : public ::testing::Test {
 protected:
  CostsTest() {
    world.settings.running_per_session = 10;
    world.settings.queued_per_session = 100'000;
    world.settings.undelivered_per_session = 100'000;
    EXPECT_TRUE(world.start());
  }

  store::SqliteDatabase& sqlite() { return dynamic_cast<store::SqliteDatabase&>(world.db()); }

  using Steps = std::map<std::string, std::uint64_t>;

  // Statements whose steps are counted: not the reading of the whole file at the start, which is
  // done for a small one only.
  Steps counted() {
    Steps steps = sqlite().steps();
    std::erase_if(steps, [](const auto& entry) { return entry.first.starts_with("PRAGMA"); });
    return steps;
  }

  Steps cost(const std::function<void()>& what) {
    const Steps before = counted();
    what();
    Steps after = counted();
    for (auto& [sql, steps] : after) {
      if (const auto known = before.find(sql); known != before.end()) steps -= known->second;
    }
    return after;
  }

  static std::uint64_t sum(const Steps& steps) {
    std::uint64_t all = 0;
    for (const auto& [sql, count] : steps) all += count;
    return all;
  }

  // Within a tenth, and what has grown.
  static void expect_alike(const Steps& first, const Steps& later) {
    std::string grown;
    for (const auto& [sql, count] : later) {
      const auto known = first.find(sql);
      const std::uint64_t before = known == first.end() ? 0 : known->second;
      if (count > before + 20) {
        grown += "\n" + std::to_string(before) + " -> " + std::to_string(count) + ": " + sql;
      }
    }
    EXPECT_LT(static_cast<double>(sum(later)), static_cast<double>(sum(first)) * kAlike) << grown;
  }

  JobId accept() { return world.ask<RunReply>(command(host(), "true")).job.id; }

  ListReply list(bool all = false, std::vector<core::JobStatus> statuses = {}) {
    engine::Queries queries(world.db(), world.settings);
    engine::ListRequest request;
    request.caller = person();
    request.all_sessions = all;
    request.statuses = std::move(statuses);
    auto listed = queries.list(request);
    EXPECT_TRUE(listed);
    return listed ? std::move(*listed) : ListReply{};
  }

  void take() {
    const auto taken = world.ask<InboxReply>(inbox(host()));
    ASSERT_TRUE(taken.hand_over);
    engine::AckRequest ack;
    ack.caller = host();
    ack.ids = {taken.hand_over->delivery.str()};
    world.post(ack);
  }

  // Jobs that have ended and were heard.
  void record(int jobs) {
    for (int i = 0; i < jobs; ++i) {
      world.ended(accept(), 0);
      if (i % 50 == 49) take();
    }
  }

  // A job's whole way, and what people look at beside it.
  void day() {
    world.ask<TurnReply>(turn(host(), TurnVerb::begin, "t" + std::to_string(++turns_)));
    const JobId job = accept();
    world.started(job);
    world.ended(job, 1);
    take();
    world.ask<TurnReply>(turn(host(), TurnVerb::end, "t" + std::to_string(turns_)));
    list();
    list(true);
    list(false, {core::JobStatus::running, core::JobStatus::queued});
    world.ask<engine::JobReply>(engine::ShowRequest{person(), job});
    world.pass(Millis(1));
  }

  World world;
  int turns_ = 0;
};

TEST_F(CostsTest, O24_the_fifth_thousand_of_queued_jobs_costs_what_the_first_did) {
  for (int i = 0; i < 20; ++i) accept();
  std::vector<Steps> costs;
  for (int batch = 0; batch < 5; ++batch) {
    costs.push_back(cost([&] {
      for (int i = 0; i < 1000; ++i) accept();
    }));
  }
  expect_alike(costs[0], costs[4]);
  // A slot that becomes free is given to the oldest, however many wait behind it.
  const JobId first = world.channel.orders.front().job;
  EXPECT_LT(sum(cost([&] { world.ended(first, 0); })), sum(costs[0]) / 100);
}

TEST_F(CostsTest, O24_nothing_costs_more_for_what_was_recorded_before) {
  record(100);
  day();
  const Steps young = cost([&] { day(); });
  record(1000);
  expect_alike(young, cost([&] { day(); }));
}

TEST_F(CostsTest, O24_a_start_costs_what_is_live) {
  const auto start = [&] {
    world.crash();
    EXPECT_TRUE(world.start());
    return counted();
  };
  record(50);
  accept();
  const Steps young = start();
  record(200);
  expect_alike(young, start());
}

// Every statement that was run, by what the store says of how it will go about it.
TEST_F(CostsTest, O24_no_statement_reads_a_table_from_end_to_end) {
  // Of these there is one row, or as many as are being looked at, or a person asked for all.
  const std::set<std::string> small{
      "SCAN key_check", "SCAN session USING COVERING INDEX sqlite_autoindex_session_1",
      "SCAN CONSTANT ROW", "SCAN sqlite_master",
      "SCAN unrecoverable USING INDEX sqlite_autoindex_unrecoverable_1"};
  // Indexes of what is live alone.
  const std::vector<std::string> live{"job_live",     "job_twin",       "inbox_live",
                                      "turn_open",    "session_host",   "session_queued",
                                      "owed",         "turn_kept",      "idempotency_gone",
                                      "ended_kept",   "absent_session", "inbox_connection",
                                      "unrecoverable"};
  std::set<std::string> seen;
  const auto look = [&] {
    for (const auto& [sql, steps] : sqlite().steps()) {
      if (sql.starts_with("EXPLAIN") || sql.starts_with("PRAGMA")) continue;
      if (!seen.insert(sql).second) continue;
      const auto plan = [&](const store::Row& row) -> Result<void> {
        const std::string step = row.string(3);
        const bool sorts = step.starts_with("USE TEMP B-TREE");
        const bool orders_live = sorts && sql.find("status NOT IN") != std::string::npos;
        const bool reads_all = step.starts_with("SCAN ") && !small.contains(step) &&
                               std::ranges::none_of(live, [&](const std::string& index) {
                                 return step.find(index) != std::string::npos;
                               });
        EXPECT_FALSE(reads_all || (sorts && !orders_live && sql.find("seq <") != std::string::npos))
            << step << " in: " << sql;
        return {};
      };
      const std::nullopt_t null = std::nullopt;  // as many as the longest list of parameters
      EXPECT_TRUE(
          world.db().each("EXPLAIN QUERY PLAN " + sql,
                          {null, null, null, null, null, null, null, null, null, null, null, null,
                           null, null, null, null, null, null, null, null, null, null, null, null},
                          plan))
          << sql;
    }
  };
  world.ask<AttachReply>(client_attach(of(kMcp)));
  day();
  world.ask<TurnReply>(prompt("p1"));
  auto request = command(host(), "make");
  request.monitors.resize(1);
  request.start_within = Millis(1000);
  request.key = IdempotencyKey("k");
  const auto made = world.ask<RunReply>(request);
  engine::StopRequest stop;
  stop.caller = person();
  stop.jobs = {made.job.id};
  world.post(stop);
  world.pass(world.settings.stop_stuck_after);
  world.post(engine::MonitorTold{{made.job.id, 1, 10, 1, 0, 0, "x\n"}});
  world.post(wake_call());
  world.ask<engine::StatusReply>(engine::StatusRequest{person()});
  world.post(engine::ConnectionClosed{1});
  world.pass(std::chrono::hours(1));
  world.ask<PruneReply>(engine::PruneRequest{Millis(0)});
  look();
  world.crash();
  ASSERT_TRUE(world.start());
  world.ended(made.job.id, 0);
  for (int days = 0; days < 140; ++days) world.pass(std::chrono::hours(24));
  look();
  EXPECT_GT(seen.size(), 80U);
}

}  // namespace
}  // namespace waybill::test
