// I4, I5, I7–I10, I17 (command caps): the life of a job, driven by facts.

#include "world.h"

namespace waybill::test {
namespace {

using core::JobStatus;
using engine::InboxReply;
using engine::JobReply;
using engine::JobsReply;
using engine::JobView;
using engine::RunReply;

JobView show(World& world, const JobId& job, const std::string& session = "s1") {
  return world.ask<JobReply>(engine::ShowRequest{person(session), job}).job;
}

engine::StopRequest stop_of(const engine::Caller& caller, std::vector<JobId> jobs) {
  engine::StopRequest request;
  request.caller = caller;
  request.jobs = std::move(jobs);
  request.reason = "because";
  return request;
}

int terminal_receipts(const JobView& job) {
  return static_cast<int>(std::ranges::count_if(job.receipts, [](const core::Receipt& receipt) {
    return core::is_terminal(receipt.to) && receipt.from != receipt.to;
  }));
}

TEST(Jobs, I4_one_ending_and_a_replay_changes_nothing) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  world.ended(made.job.id, 7);
  const JobView first = show(world, made.job.id);
  world.ended(made.job.id, 0);
  world.ended(made.job.id, 7);
  auto lost = world.finished_facts(made.job.id, 0);
  lost.supervision = core::Supervision::lost;
  world.ended(lost);
  const JobView last = show(world, made.job.id);
  EXPECT_EQ(first.status, JobStatus::failed);
  EXPECT_EQ(last.exit->code, 7);
  EXPECT_EQ(first.receipts.size(), last.receipts.size());
  EXPECT_EQ(terminal_receipts(last), 1);
  EXPECT_EQ(last.events.size(), 1U);
}

TEST(Jobs, I9_unknown_is_a_value_and_never_success) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  core::JobFacts facts;
  facts.job = made.job.id;
  facts.supervision = core::Supervision::lost;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.verdict, core::Verdict::unknown);
  EXPECT_EQ(job.exit->kind, core::ExitKind::unknown);
  EXPECT_FALSE(job.exit->code);
  EXPECT_EQ(job.cause, core::Cause::supervisor_lost);
  EXPECT_EQ(job.proof, core::Proof::unproven);
}

TEST(Jobs, I9_an_end_that_nobody_waited_for_is_no_success) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.supervision = core::Supervision::lost;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.verdict, core::Verdict::unknown);
  EXPECT_EQ(job.exit->code, 0);
  EXPECT_EQ(core::exit_code_of(*job.exit, *job.verdict), 125);
}

TEST(Jobs, I9_a_failing_stage_is_not_success) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sh -c 'exit 101' | tail -n 20"));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.captured = true;
  facts.stages = core::StageRecord{0, {101, 0}};
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.verdict, core::Verdict::stage_failed);
  EXPECT_EQ(job.exit->code, 0);
}

TEST(Jobs, I9_an_earlier_pipeline_that_failed_unseen_is_not_success) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "cargo test | tail; echo rc=$?"));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.captured = true;
  facts.stages = core::StageRecord{0, {0}};
  facts.history.pipelines = {{101, 0}};
  facts.history.truncated = true;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.verdict, core::Verdict::stage_failed);
  ASSERT_EQ(job.stages.claimed.size(), 2U);
  EXPECT_EQ(job.stages.claimed[0].command, "cargo test");
  EXPECT_TRUE(job.stages.claims_earlier);
  EXPECT_TRUE(job.stages.history_kept);
  EXPECT_TRUE(job.stages.history_truncated);
  ASSERT_EQ(job.stages.earlier.size(), 1U);
  EXPECT_EQ(job.stages.earlier[0].statuses, (std::vector<int>{101, 0}));
  EXPECT_EQ(job.stages.earlier[0].finding, core::EarlierFinding::failed);
}

TEST(Jobs, I7_a_stop_is_terminal_only_with_its_proof) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  world.started(made.job.id);
  const auto answer = world.ask<JobsReply>(stop_of(host(), {made.job.id}));
  EXPECT_TRUE(answer.jobs[0].stopping);
  EXPECT_EQ(answer.jobs[0].status, JobStatus::running);
  core::JobFacts facts;
  facts.job = made.job.id;
  facts.supervision = core::Supervision::running;
  facts.survivors = {{42, "sleep", "sleep 9", "D", false}};
  world.post(engine::ObservedFacts{facts});
  const JobView during = show(world, made.job.id);
  EXPECT_EQ(during.status, JobStatus::running);
  ASSERT_EQ(during.survivors.size(), 1U);
  EXPECT_EQ(during.survivors[0].pid, 42);

  world.pass(Millis(10'001));  // said once
  world.pass(Millis(10'001));
  const JobView stuck = show(world, made.job.id);
  ASSERT_EQ(stuck.events.size(), 1U);
  EXPECT_EQ(stuck.events[0].id.str(), made.job.id.str() + ".stop_stuck.1");

  auto end = world.finished_facts(made.job.id, 0);
  end.ended_by = core::EndedBy::stop;
  world.ended(end);
  const JobView stopped = show(world, made.job.id);
  EXPECT_EQ(stopped.status, JobStatus::stopped);
  EXPECT_EQ(stopped.cause, core::Cause::model);
  EXPECT_EQ(stopped.reason, "because");
  EXPECT_TRUE(stopped.survivors.empty());
}

TEST(Jobs, I7_a_deadline_kill_needs_the_same_proof_and_says_who_survives) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  world.started(made.job.id);
  core::JobFacts facts;
  facts.job = made.job.id;
  facts.supervision = core::Supervision::running;
  facts.survivors = {{42, "sleep", "sleep 9", "D", false, "do_freezer_trap", "D_state"}};
  world.post(engine::ObservedFacts{facts});
  const JobView during = show(world, made.job.id);
  EXPECT_EQ(during.status, JobStatus::running);
  EXPECT_TRUE(during.stopping);
  EXPECT_EQ(during.cause, core::Cause::deadline);
  ASSERT_EQ(during.survivors.size(), 1U);
  EXPECT_EQ(during.survivors[0].reason, "D_state");
  EXPECT_EQ(during.survivors[0].wchan, "do_freezer_trap");

  world.pass(Millis(10'001));
  facts.survivors.push_back({43, "sleep", "sleep 9", "D", false, "", ""});
  world.post(engine::ObservedFacts{facts});
  facts.survivors.clear();
  world.post(engine::ObservedFacts{facts});
  facts.survivors.push_back({43, "sleep", "sleep 9", "D", false, "", ""});
  world.post(engine::ObservedFacts{facts});
  world.pass(Millis(10'001));
  const JobView stuck = show(world, made.job.id);
  ASSERT_EQ(stuck.events.size(), 1U) << "said once";
  EXPECT_EQ(stuck.events[0].id.str(), made.job.id.str() + ".stop_stuck.1");

  auto end = world.finished_facts(made.job.id, 0);
  end.exit = core::Exit::signaled(9, false);
  end.ended_by = core::EndedBy::deadline;
  world.ended(end);
  const JobView ended = show(world, made.job.id);
  EXPECT_EQ(ended.status, JobStatus::failed);
  EXPECT_EQ(ended.cause, core::Cause::deadline);
  EXPECT_TRUE(ended.survivors.empty());
}

TEST(Jobs, I7_a_lost_supervisor_with_an_empty_cgroup_is_a_confirmed_stop) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  world.started(made.job.id);
  world.ask<JobsReply>(stop_of(host(), {made.job.id}));
  core::JobFacts facts;
  facts.job = made.job.id;
  facts.supervision = core::Supervision::lost;
  facts.proof = core::Proof::cgroup;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::stopped);
  EXPECT_EQ(job.proof, core::Proof::cgroup);
  EXPECT_EQ(job.exit->kind, core::ExitKind::unknown);
}

TEST(Jobs, I7_a_lost_supervisors_deadline_is_the_cause_only_with_a_proof) {
  World world;
  for (const auto& [proof, cause] :
       {std::pair(core::Proof::cgroup, core::Cause::deadline),
        std::pair(core::Proof::unproven, core::Cause::supervisor_lost)}) {
    const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
    core::JobFacts facts;
    facts.job = made.job.id;
    facts.supervision = core::Supervision::lost;
    facts.ended_by = core::EndedBy::deadline;
    facts.proof = proof;
    world.ended(facts);
    const JobView job = show(world, made.job.id);
    EXPECT_EQ(job.status, JobStatus::failed);
    EXPECT_EQ(job.cause, cause);
  }
}

TEST(Jobs, I9_out_of_memory_is_the_cause_only_when_it_ended_the_main_process) {
  World world;
  const auto killed = world.ask<RunReply>(command(host(), "eat"));
  auto facts = world.finished_facts(killed.job.id, 0);
  facts.exit = core::Exit::signaled(9, false);
  facts.oom = true;
  world.ended(facts);
  EXPECT_EQ(show(world, killed.job.id).cause, core::Cause::out_of_memory);
  const auto shell = world.ask<RunReply>(command(host(), "eat; exit $?"));
  facts = world.finished_facts(shell.job.id, 137);
  facts.oom = true;
  world.ended(facts);
  const JobView job = show(world, shell.job.id);
  EXPECT_EQ(job.cause, core::Cause::exit);
  EXPECT_NE(job.reason.find("want of memory"), std::string::npos);
}

TEST(Jobs, I7_without_a_proof_a_stop_ends_failed_and_unproven) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  world.started(made.job.id);
  world.ask<JobsReply>(stop_of(host(), {made.job.id}));
  core::JobFacts facts;
  facts.job = made.job.id;
  facts.supervision = core::Supervision::lost;
  facts.proof = core::Proof::unproven;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.cause, core::Cause::supervisor_lost);
  EXPECT_EQ(job.proof, core::Proof::unproven);
  ASSERT_EQ(job.events.size(), 1U);  // an ordinary failure: processes may have survived
  EXPECT_EQ(job.events[0].type, core::EventType::job_failed);
}

TEST(Jobs, I8_the_wish_that_was_first_decides_whatever_the_exit) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  world.started(made.job.id);
  world.ask<JobsReply>(stop_of(host(), {made.job.id}));
  world.ended(made.job.id, 0);  // it ended by itself, just then
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::stopped);
  EXPECT_EQ(job.exit->code, 0);
  EXPECT_TRUE(job.ended_by_itself);
  EXPECT_TRUE(job.events.empty());
  EXPECT_EQ(terminal_receipts(job), 1);
}

TEST(Jobs, I8_an_ending_that_was_first_stays_and_a_stop_says_so) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  world.ended(made.job.id, 0);
  const auto answer = world.ask<JobsReply>(stop_of(host(), {made.job.id}));
  EXPECT_EQ(answer.jobs[0].status, JobStatus::succeeded);
  EXPECT_FALSE(answer.jobs[0].stopping);
  EXPECT_EQ(terminal_receipts(show(world, made.job.id)), 1);
}

TEST(Jobs, I8_a_stop_by_somebody_else_is_told_and_wakes_nobody) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  world.started(made.job.id);
  const auto waiting = world.post(inbox(host("s1", "k1", 2), Millis(60'000)));
  world.post(engine::StopAllRequest{"maintenance", Millis(1000)});
  world.ended(made.job.id, 0);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.cause, core::Cause::op);
  ASSERT_EQ(job.events.size(), 1U);
  EXPECT_EQ(job.events[0].type, core::EventType::job_cancelled);
  EXPECT_FALSE(waiting->answered);  // injected, no wake
  world.pass(Millis(60'001));
  EXPECT_TRUE(world.ask<InboxReply>(inbox(host())).hand_over);  // an explicit look takes it
}

TEST(Jobs, a_queued_job_stops_at_once) {
  World world;
  world.settings.running_per_session = 1;
  ASSERT_TRUE(world.start());
  world.ask<RunReply>(command(host(), "sleep 1"));
  const auto queued = world.ask<RunReply>(command(host(), "sleep 2"));
  EXPECT_EQ(queued.job.status, JobStatus::queued);
  EXPECT_EQ(queued.job.queue_position, 1U);
  const auto answer = world.ask<JobsReply>(stop_of(person(), {queued.job.id}));
  EXPECT_EQ(answer.jobs[0].status, JobStatus::stopped);
  EXPECT_FALSE(answer.jobs[0].exit);
  EXPECT_EQ(answer.jobs[0].cause, core::Cause::user);
}

TEST(Jobs, I17_caps_are_kept_and_slots_go_to_the_oldest) {
  World world;
  world.settings.running_per_session = 2;
  world.settings.running_per_node = 3;
  world.settings.queued_per_session = 2;
  ASSERT_TRUE(world.start());
  std::vector<JobId> first;
  for (int i = 0; i < 4; ++i) {
    first.push_back(world.ask<RunReply>(command(host(), "sleep " + std::to_string(i))).job.id);
  }
  EXPECT_EQ(world.refuse(command(host(), "sleep 9")).code, ErrorCode::limit_reached);
  const auto other = world.ask<RunReply>(command(host("s2", "k2", 2), "sleep 5"));
  EXPECT_EQ(other.job.status, JobStatus::running);
  EXPECT_EQ(show(world, first[1]).status, JobStatus::running);
  EXPECT_EQ(show(world, first[2]).status, JobStatus::queued);
  // The node is full now, whatever the session.
  const auto third = world.ask<RunReply>(command(host("s3", "k3", 3), "sleep 6"));
  EXPECT_EQ(third.job.status, JobStatus::queued);
  world.ask<JobsReply>(stop_of(host("s3", "k3", 3), {third.job.id}));
  EXPECT_EQ(show(world, first[3]).queue_position, 2U);
  world.ended(first[1], 0);
  EXPECT_EQ(show(world, first[2]).status, JobStatus::running);
  EXPECT_EQ(show(world, first[3]).status, JobStatus::queued);
  world.ended(other.job.id, 0);
  EXPECT_EQ(show(world, first[3]).status, JobStatus::queued);  // its session is at its cap
  world.ended(first[0], 0);
  EXPECT_EQ(show(world, first[3]).status, JobStatus::running);
}

TEST(Jobs, I10_recovery_orders_the_same_attempt_again_and_no_new_one) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  for (int i = 0; i < 3; ++i) {
    world.crash();
    ASSERT_TRUE(world.start());
  }
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.attempt, 1U);
  EXPECT_EQ(job.receipts.size(), 2U);  // queued, started
  EXPECT_EQ(world.channel.orders.size(), 4U);
  for (const auto& order : world.channel.orders) EXPECT_EQ(order.job, made.job.id);
}

TEST(Jobs, I10_what_is_known_to_have_started_is_never_ordered_to_launch_again) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  world.started(made.job.id);
  world.crash();
  ASSERT_TRUE(world.start());
  EXPECT_TRUE(world.channel.orders.at(0).launch);
  EXPECT_FALSE(world.channel.orders.at(1).launch);
}

TEST(Jobs, I12_a_generation_that_is_gone_ends_its_jobs_with_the_exit_unknown) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  core::JobFacts facts;
  facts.job = made.job.id;
  facts.supervision = core::Supervision::generation_gone;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.cause, core::Cause::sandbox_replaced);
  EXPECT_FALSE(job.exit->code);
  EXPECT_EQ(job.events.size(), 1U);
}

TEST(Jobs, a_launch_that_could_not_be_done_is_not_started) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  core::JobFacts facts;
  facts.job = made.job.id;
  facts.supervision = core::Supervision::not_launched;
  facts.launch_error = "mkdir: No space left on device";
  facts.launch_errno = 28;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.cause, core::Cause::not_started);
  EXPECT_EQ(job.verdict, core::Verdict::not_started);
  EXPECT_FALSE(job.started_at);
}

TEST(Jobs, a_deadline_is_a_failure_with_its_cause) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9"));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.exit = core::Exit::signaled(15, false);
  facts.ended_by = core::EndedBy::deadline;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.cause, core::Cause::deadline);
}

TEST(Jobs, leftovers_have_their_own_record_after_the_ending) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9 & exit 0"));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.leftovers = core::LeftoverFacts{{{7, "sleep", "sleep 9", "S", true}}, {}, false, false};
  world.ended(facts);
  EXPECT_TRUE(world.channel.forgotten.empty());
  EXPECT_EQ(show(world, made.job.id).leftovers.size(), 1U);
  facts.leftovers->settled = true;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::succeeded);
  EXPECT_EQ(job.receipts.back().name, core::ReceiptName::leftovers);
  EXPECT_EQ(world.channel.forgotten.size(), 1U);
  EXPECT_EQ(job.events.size(), 1U);
}

// The daemon itself is then the one that kills or keeps them: it must not be told to forget.
TEST(Jobs, I7_leftovers_of_a_lost_supervisor_are_watched_until_they_are_gone) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9 & exit 0"));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.supervision = core::Supervision::lost;
  facts.proof = core::Proof::unproven;
  const core::ProcessNote sleeper{7, "sleep", "sleep 9", "S", true};
  facts.leftovers = core::LeftoverFacts{{sleeper}, {sleeper}, false, false};
  world.ended(facts);
  EXPECT_EQ(show(world, made.job.id).status, JobStatus::failed);
  EXPECT_TRUE(world.channel.forgotten.empty()) << "not yet killed";
  facts.leftovers->settled = true;
  world.ended(facts);
  EXPECT_TRUE(world.channel.forgotten.empty()) << "killed, and still there";
  facts.leftovers->survived.clear();
  world.ended(facts);
  EXPECT_EQ(world.channel.forgotten.size(), 1U);
}

// A job that keeps one process and has been reported as finished.
JobId keeps_a_process(World& world) {
  const auto made = world.ask<RunReply>(command(host(), "sleep 9 &"));
  auto facts = world.finished_facts(made.job.id, 0);
  const core::ProcessNote sleeper{7, "sleep", "sleep 9", "S", true};
  facts.leftovers = core::LeftoverFacts{{sleeper}, {sleeper}, true, true};
  world.ended(facts);
  return made.job.id;
}

TEST(Jobs, I7_stop_of_a_finished_job_stops_what_it_kept) {
  World world;
  const JobId job = keeps_a_process(world);
  EXPECT_TRUE(world.channel.forgotten.empty()) << "what is kept is watched";
  const auto before = show(world, job);
  EXPECT_EQ(before.status, JobStatus::succeeded);
  EXPECT_TRUE(before.leftovers_kept);
  world.channel.orders.clear();
  for (int i = 0; i < 2; ++i) {
    const auto reply = world.ask<JobsReply>(stop_of(person(), {job}));
    EXPECT_EQ(reply.jobs.at(0).status, JobStatus::succeeded);
  }
  ASSERT_EQ(world.channel.orders.size(), 1U) << "a second stop is harmless";
  ASSERT_TRUE(world.channel.orders[0].stop);
  EXPECT_EQ(world.channel.orders[0].stop->reason, "because");
  EXPECT_FALSE(world.channel.orders[0].launch);

  auto waiting = stop_of(person(), {job});
  waiting.wait = true;
  EXPECT_FALSE(world.post(waiting)->answered) << "not before they are gone";

  world.crash();  // the wish is durable
  world.channel.orders.clear();
  ASSERT_TRUE(world.start());
  ASSERT_EQ(world.channel.orders.size(), 1U);
  EXPECT_TRUE(world.channel.orders[0].stop);

  const auto waited = world.post(waiting);
  EXPECT_FALSE(waited->answered);
  auto facts = world.finished_facts(job, 0);
  facts.leftovers = core::LeftoverFacts{{{7, "sleep", "sleep 9", "S", true}}, {}, true, true};
  world.ended(facts);
  EXPECT_TRUE(waited->answered);
  const auto after = show(world, job);
  EXPECT_EQ(after.status, JobStatus::succeeded);
  EXPECT_TRUE(after.survivors.empty());
  EXPECT_EQ(after.receipts.back().name, core::ReceiptName::leftovers);
  EXPECT_EQ(after.events.size(), before.events.size()) << "they never wake anybody";
  EXPECT_EQ(world.channel.forgotten.size(), 1U);
  world.channel.orders.clear();
  world.ask<JobsReply>(stop_of(person(), {job}));
  EXPECT_TRUE(world.channel.orders.empty()) << "there is nothing left to stop";
}

TEST(Jobs, I7_I8_a_stop_wish_takes_what_the_command_left_behind_along) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "sleep 9 & exit 0"));
  world.ask<JobsReply>(stop_of(host(), {made.job.id}));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.proof = core::Proof::none;
  const core::ProcessNote sleeper{7, "sleep", "sleep 9", "S", true};
  facts.leftovers = core::LeftoverFacts{{sleeper}, {sleeper}, false, false};
  world.ended(facts);
  JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::running) << "it is not gone";
  EXPECT_TRUE(job.stopping);
  ASSERT_EQ(job.survivors.size(), 1U);
  EXPECT_EQ(job.survivors[0].pid, 7);
  facts.leftovers->settled = true;
  facts.leftovers->survived.clear();
  world.ended(facts);
  job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::stopped);
  EXPECT_EQ(job.proof, core::Proof::subreaper);
  EXPECT_TRUE(job.ended_by_itself);
  EXPECT_TRUE(job.events.empty()) << "and wakes nobody";
}

TEST(Jobs, I9_memory_is_blamed_for_a_kill_only) {
  for (const int signal : {6, 9}) {
    World world;
    const auto made = world.ask<RunReply>(command(host(), "true"));
    auto facts = world.finished_facts(made.job.id, 0);
    facts.exit = core::Exit::signaled(signal, false);
    facts.oom = true;
    world.ended(facts);
    EXPECT_EQ(show(world, made.job.id).cause,
              signal == 9 ? core::Cause::out_of_memory : core::Cause::signal);
  }
}

TEST(Jobs, I9_what_a_deadline_has_cut_off_is_no_success) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "trap 'exit 0' TERM; wait"));
  auto facts = world.finished_facts(made.job.id, 0);
  facts.ended_by = core::EndedBy::deadline;
  world.ended(facts);
  const JobView job = show(world, made.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.verdict, core::Verdict::failed);
  EXPECT_EQ(job.cause, core::Cause::deadline);
  EXPECT_EQ(job.exit->code, 0) << "what was seen stays";
  EXPECT_NE(job.reason.find("deadline"), std::string::npos);
}

TEST(Jobs, I3_a_job_that_is_named_twice_is_reported_once) {
  World world;
  const auto made = world.ask<RunReply>(command(host(), "true"));
  world.ended(made.job.id, 0);
  engine::WaitRequest wait;
  wait.caller = host();
  wait.jobs = {made.job.id, made.job.id};
  const auto reply = world.ask<JobsReply>(wait);
  EXPECT_EQ(reply.jobs.size(), 2U);
  EXPECT_TRUE(reply.reported);
}

TEST(Jobs, I14_start_within_bounds_the_queue) {
  World world;
  world.settings.running_per_session = 1;
  ASSERT_TRUE(world.start());
  const auto first = world.ask<RunReply>(command(host(), "sleep 9"));
  auto request = command(host(), "true");
  request.start_within = Millis(60'000);
  const auto second = world.ask<RunReply>(request);
  EXPECT_EQ(second.job.start_by, second.job.created_at + Millis(60'000));
  world.pass(Millis(59'999));
  EXPECT_EQ(show(world, second.job.id).status, JobStatus::queued);
  world.crash();
  ASSERT_TRUE(world.start());
  world.pass(Millis(2));
  const JobView job = show(world, second.job.id);
  EXPECT_EQ(job.status, JobStatus::failed);
  EXPECT_EQ(job.verdict, core::Verdict::not_started);
  EXPECT_EQ(job.cause, core::Cause::deadline);
  EXPECT_EQ(job.exit->kind, core::ExitKind::not_started);
  EXPECT_EQ(job.receipts.back().from, JobStatus::queued);
  ASSERT_EQ(job.events.size(), 1U);
  EXPECT_EQ(job.events[0].type, core::EventType::job_failed);
  EXPECT_TRUE(std::ranges::none_of(world.channel.orders,
                                   [&](const auto& order) { return order.job == second.job.id; }));
  world.ended(first.job.id, 0);
  EXPECT_EQ(show(world, second.job.id).receipts.size(), job.receipts.size());
}

TEST(Jobs, I14_start_within_is_over_with_the_start) {
  World world;
  auto request = command(host(), "sleep 9");
  request.start_within = Millis(1000);
  const auto made = world.ask<RunReply>(request);
  world.pass(Millis(5000));
  EXPECT_EQ(show(world, made.job.id).status, JobStatus::running);
  EXPECT_EQ(*world.db().integer("SELECT count(*) FROM owed WHERE kind = 'start_within'", {}), 0);
}

}  // namespace
}  // namespace waybill::test
