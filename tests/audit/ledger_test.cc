// Each kind of violation is found, and a clean ledger has none.

#include "ledger.h"

#include <gtest/gtest.h>

namespace waybill::audit {
namespace {

Receipt receipt(std::uint64_t seq, std::optional<std::string> from, std::string to,
                std::string name, std::string cause = {}) {
  Receipt made;
  made.seq = seq;
  made.node_seq = seq;
  made.attempt = seq > 1 ? 1 : 0;
  made.activation = seq > 1 ? 2 : 0;
  made.from = std::move(from);
  made.to = std::move(to);
  made.name = std::move(name);
  made.cause = std::move(cause);
  return made;
}

Job failed_job() {
  Job job;
  job.id = "j1";
  job.owner = "s1";
  job.status = "failed";
  job.proof = "subreaper";
  job.receipts = {receipt(1, std::nullopt, "queued", "queued"),
                  receipt(2, "queued", "running", "started"),
                  receipt(3, "running", "failed", "failed", "exit")};
  job.events = {{"j1.failed.1", "job.failed", "acked", "processed", "no"}};
  job.runs = 1;
  return job;
}

Job stopped_job(const std::string& cause) {
  Job job = failed_job();
  job.status = "stopped";
  job.receipts[2] = receipt(3, "running", "running", "stop_requested", cause);
  job.receipts.push_back(receipt(4, "running", "stopped", "cancelled", cause));
  job.events.clear();
  return job;
}

Ledger ledger_of(Job job) {
  Ledger ledger;
  ledger.jobs = {std::move(job)};
  ledger.quiet = true;
  ledger.whole_node = true;
  ledger.hand_overs_known = true;
  ledger.reads_known = true;
  for (const Event& event : ledger.jobs[0].events) {
    ledger.sights.push_back({Sight::What::handed_over, event.id, "s1", false});
  }
  return ledger;
}

// The invariants that the ledger breaks, in the order they were found.
std::string broken(const Ledger& ledger) {
  std::string names;
  for (const Violation& violation : audit(ledger)) {
    if (!names.empty()) names += " ";
    names += violation.invariant;
  }
  return names;
}

TEST(Ledger, a_clean_one_has_no_violation) {
  EXPECT_EQ(describe(audit(ledger_of(failed_job()))), "");
  EXPECT_EQ(describe(audit(ledger_of(stopped_job("user")))), "");
  EXPECT_EQ(describe(audit({})), "");
}

TEST(Ledger, I1_an_event_at_another_owner) {
  Ledger ledger = ledger_of(failed_job());
  ledger.sights.push_back({Sight::What::read, "j1.failed.1", "s2", false});
  EXPECT_EQ(broken(ledger), "I1");
}

TEST(Ledger, I2_what_must_be_heard_and_is_not_there) {
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].events.clear();
  ledger.sights.clear();
  EXPECT_EQ(broken(ledger), "I2");
  EXPECT_EQ(broken(ledger_of(stopped_job("operator"))), "I2");
}

TEST(Ledger, I2_what_was_acknowledged_and_never_seen) {
  Ledger ledger = ledger_of(failed_job());
  ledger.sights.clear();
  EXPECT_EQ(broken(ledger), "I2");
  ledger.hand_overs_known = false;  // nobody has looked
  EXPECT_EQ(broken(ledger), "");
  ledger.jobs[0].events[0].acked_as = "reported";
  ledger.hand_overs_known = true;
  ledger.reads_known = false;
  EXPECT_EQ(broken(ledger), "");
}

TEST(Ledger, I2_what_waits_without_a_reason_when_all_is_quiet) {
  for (const std::string state : {"pending", "offered"}) {
    Ledger ledger = ledger_of(failed_job());
    ledger.jobs[0].events[0].state = state;
    EXPECT_EQ(broken(ledger), "I2") << state;
    ledger.quiet = false;
    EXPECT_EQ(broken(ledger), "") << state;
  }
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].events[0].state = "pending";
  ledger.jobs[0].events[0].reason = "budget";
  EXPECT_EQ(broken(ledger), "");
  ledger.jobs[0].events[0].state = "accepted";
  ledger.sights.clear();
  EXPECT_EQ(broken(ledger), "I2");
}

TEST(Ledger, I2_what_was_dropped_without_a_receipt_or_parked_without_a_reason) {
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].events[0].state = "dropped";
  ledger.jobs[0].events[0].reason = "owner_disposed";
  EXPECT_EQ(broken(ledger), "I2");
  ledger.jobs[0].receipts.push_back(receipt(4, "failed", "failed", "dropped"));
  EXPECT_EQ(broken(ledger), "");
  ledger.jobs[0].events[0].state = "parked";
  ledger.jobs[0].events[0].reason = "";
  EXPECT_EQ(broken(ledger), "I2");
}

TEST(Ledger, I3_repeats) {
  Ledger ledger = ledger_of(failed_job());
  ledger.sights.push_back({Sight::What::handed_over, "j1.failed.1", "s1", true});
  EXPECT_EQ(broken(ledger), "");
  ledger.sights.back().repeat = false;
  EXPECT_EQ(broken(ledger), "I3") << "not marked";
  ledger.sights.back() = {Sight::What::acknowledged, "j1.failed.1", "s1", false};
  EXPECT_EQ(broken(ledger), "");
  ledger.jobs[0].events[0].state = "offered";
  ledger.quiet = false;
  EXPECT_EQ(broken(ledger), "I3") << "acknowledged and on its way";
  ledger.jobs[0].events[0].state = "acked";
  ledger.sights.push_back({Sight::What::handed_over, "j1.failed.1", "s1", true});
  EXPECT_EQ(broken(ledger), "I3") << "after its acknowledgement";
  ledger.sights = {{Sight::What::handed_over, "j1.failed.2", "s1", false}};
  ledger.hand_overs_known = false;
  EXPECT_EQ(broken(ledger), "I3") << "another id";
}

TEST(Ledger, I3_two_events_of_one_name) {
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].events.push_back(ledger.jobs[0].events[0]);
  EXPECT_EQ(broken(ledger), "I3");
}

TEST(Ledger, I4_none_or_two_endings) {
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].receipts.pop_back();
  ledger.jobs[0].status = "running";
  ledger.jobs[0].events.clear();
  ledger.sights.clear();
  EXPECT_EQ(broken(ledger), "I4");
  ledger.quiet = false;
  EXPECT_EQ(broken(ledger), "");
  ledger = ledger_of(failed_job());
  ledger.jobs[0].receipts.push_back(receipt(4, "running", "failed", "failed"));
  EXPECT_EQ(broken(ledger), "I5 I4 I2");
}

TEST(Ledger, I5_the_table) {
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].receipts[1] = receipt(2, "queued", "succeeded", "completed");
  EXPECT_NE(broken(ledger).find("I5"), std::string::npos);
  ledger = ledger_of(failed_job());
  ledger.jobs[0].status = "succeeded";
  EXPECT_EQ(broken(ledger), "I5");
  ledger = ledger_of(failed_job());
  ledger.jobs[0].receipts[2].attempt = 2;
  EXPECT_EQ(broken(ledger), "I5");
  EXPECT_TRUE(in_table(std::nullopt, "queued", "queued"));
  EXPECT_FALSE(in_table(std::nullopt, "running", "started"));
  EXPECT_FALSE(in_table("failed", "queued", "requeued"));
  EXPECT_FALSE(in_table("running", "failed", "completed"));
  EXPECT_FALSE(in_table("running", "running", "started"));
  EXPECT_TRUE(in_table("stopped", "stopped", "leftovers"));
}

TEST(Ledger, I7_processes_of_a_job_that_is_over) {
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].alive = {"sleep (12)"};
  EXPECT_EQ(broken(ledger), "I7");
  ledger = ledger_of(stopped_job("user"));
  ledger.jobs[0].proof = "unproven";
  EXPECT_EQ(broken(ledger), "I7");
}

TEST(Ledger, I8_the_wish_decides_and_makes_no_echo) {
  Ledger ledger = ledger_of(stopped_job("user"));
  ledger.jobs[0].events = {{"j1.cancelled.1", "job.cancelled", "acked", "processed", "no"}};
  ledger.hand_overs_known = false;
  EXPECT_EQ(broken(ledger), "I8");
  Job job = stopped_job("user");
  job.status = "succeeded";
  job.receipts[3] = receipt(4, "running", "succeeded", "completed", "exit");
  job.events = {{"j1.completed.1", "job.completed", "acked", "processed", "no"}};
  EXPECT_EQ(broken(ledger_of(job)), "I8");
  job = failed_job();
  job.status = "stopped";
  job.receipts[2] = receipt(3, "running", "stopped", "cancelled", "user");
  job.events.clear();
  EXPECT_EQ(broken(ledger_of(job)), "I8") << "nobody has asked";
  job = stopped_job("user");
  job.status = "failed";
  job.proof = "unproven";
  job.receipts[3] = receipt(4, "running", "failed", "failed", "supervisor_lost");
  job.events = {{"j1.failed.1", "job.failed", "acked", "processed", "no"}};
  EXPECT_EQ(broken(ledger_of(job)), "") << "without a proof it is no stop";
}

TEST(Ledger, I9_I10_I11_what_the_command_did) {
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].runs = 2;
  EXPECT_EQ(broken(ledger), "I10");
  Job job = failed_job();
  job.receipts = {receipt(1, std::nullopt, "queued", "queued"),
                  receipt(2, "queued", "failed", "failed", "deadline")};
  for (Receipt& each : job.receipts) each.attempt = 0;
  EXPECT_EQ(broken(ledger_of(job)), "I11");
  job = failed_job();
  job.status = "succeeded";
  job.receipts[2] = receipt(3, "running", "succeeded", "completed", "exit");
  job.events = {{"j1.completed.1", "job.completed", "acked", "processed", "no"}};
  EXPECT_EQ(broken(ledger_of(job)), "");
  job.runs = 0;
  EXPECT_EQ(broken(ledger_of(job)), "I9");
}

TEST(Ledger, I16_an_activation_that_was_used_before) {
  Ledger ledger = ledger_of(failed_job());
  Job other = failed_job();
  other.id = "j2";
  other.events[0].id = "j2.failed.1";
  for (Receipt& each : other.receipts) each.node_seq += 3;
  ledger.jobs.push_back(other);
  ledger.sights.push_back({Sight::What::handed_over, "j2.failed.1", "s1", false});
  EXPECT_EQ(broken(ledger), "I16");
}

TEST(Ledger, numbers_that_do_not_add_up) {
  Ledger ledger = ledger_of(failed_job());
  ledger.jobs[0].receipts[2].seq = 4;
  EXPECT_EQ(broken(ledger), "ledger");
  ledger = ledger_of(failed_job());
  ledger.jobs[0].receipts[2].node_seq = 4;
  EXPECT_EQ(broken(ledger), "ledger");
  ledger.whole_node = false;
  EXPECT_EQ(broken(ledger), "");
  ledger.jobs[0].receipts[2].node_seq = 2;
  EXPECT_EQ(broken(ledger), "ledger");
  ledger = ledger_of(failed_job());
  ledger.jobs[0].events[0].type = "job.completed";
  EXPECT_EQ(broken(ledger), "ledger");
  ledger = ledger_of(failed_job());
  ledger.jobs[0].events.push_back({"j1.completed.1", "", "acked", "processed", ""});
  ledger.hand_overs_known = false;
  EXPECT_EQ(broken(ledger), "ledger") << "an event without a receipt";
}

}  // namespace
}  // namespace waybill::audit
