#include <algorithm>

#include "core/exit.h"
#include "engine/deliver.h"
#include "engine/jobs.h"
#include "engine/retention.h"
#include "engine/turns.h"
#include "engine/wake.h"
#include "store/json_columns.h"
#include "store/node.h"
#include "store/outputs.h"
#include "text/render.h"
#include "text/utf8.h"

namespace waybill::engine {
namespace {

// What the facts amount to, before the table is asked.
struct Ending {
  core::JobTrigger trigger = core::JobTrigger::fail;
  store::EndingRow row;
};

constexpr int kSigkill = 9;  // what the kernel kills with when memory runs out

bool launch_failed(const core::JobFacts& facts) {
  return facts.supervision == core::Supervision::not_launched && !facts.launch_error.empty();
}

// The command has ended by itself and something of it is still there. Under a stop wish that is
// killed, too, and the job is stopped when it is gone (I7, I8).
bool leaves_somebody(const core::JobFacts& facts) {
  return facts.proof == core::Proof::none && facts.leftovers &&
         (!facts.leftovers->settled || !facts.leftovers->survived.empty());
}

// True when the facts are an ending; everything else is on its way.
bool is_ending(const core::JobFacts& facts, bool stop_wished) {
  switch (facts.supervision) {
    case core::Supervision::finished:
      return !stop_wished || !leaves_somebody(facts);
    case core::Supervision::lost:
    case core::Supervision::generation_gone:
      return true;
    case core::Supervision::not_launched:
      return stop_wished || launch_failed(facts);
    case core::Supervision::launching:
    case core::Supervision::running:
    case core::Supervision::draining:
    case core::Supervision::orphaned:
      return false;
  }
  return false;
}

// Null for a job that was stopped before anything was started: there is nothing that could have
// ended.
std::optional<core::Exit> exit_of(const core::JobFacts& facts) {
  if (facts.exit) return facts.exit;
  if (launch_failed(facts)) {
    return core::Exit::not_started("launch", facts.launch_errno, facts.launch_error);
  }
  switch (facts.supervision) {
    case core::Supervision::not_launched:
      return std::nullopt;
    case core::Supervision::generation_gone:
      return core::Exit::unknown("the machine it ran on was restarted or replaced");
    case core::Supervision::lost:
      return core::Exit::unknown("its supervisor was lost, so nobody saw the end");
    case core::Supervision::finished:
      return core::Exit::unknown(facts.exit_torn ? "the record of the end does not check"
                                                 : "the end was not recorded");
    case core::Supervision::launching:
    case core::Supervision::running:
    case core::Supervision::draining:
    case core::Supervision::orphaned:
      break;
  }
  return core::Exit::unknown("the end was not observed");
}

core::Cause cause_of(const core::JobFacts& facts, const core::Exit& exit) {
  // The deadline of a lost supervisor was kept by the daemon: the cause if its end is proven (I7).
  if (facts.supervision == core::Supervision::lost) {
    const bool proven = facts.proof == core::Proof::cgroup;
    return proven && facts.ended_by == core::EndedBy::deadline ? core::Cause::deadline
                                                               : core::Cause::supervisor_lost;
  }
  if (facts.supervision == core::Supervision::generation_gone) return core::Cause::sandbox_replaced;
  if (exit.kind == core::ExitKind::not_started) return core::Cause::not_started;
  // Only when that is what ended the main process: a shell that outlived its child and said 137 has
  // exited (I9); what the kernel did is told beside it.
  if (facts.oom && exit.signal == kSigkill) return core::Cause::out_of_memory;
  switch (facts.ended_by) {
    case core::EndedBy::deadline:
      return core::Cause::deadline;
    case core::EndedBy::output_cap:
      return core::Cause::output_cap;
    case core::EndedBy::itself:
    case core::EndedBy::stop:
      break;
  }
  if (exit.kind == core::ExitKind::unknown) return core::Cause::supervisor_lost;
  return exit.kind == core::ExitKind::signaled ? core::Cause::signal : core::Cause::exit;
}

// The command as launched; what the stages are judged by.
struct Launched {
  std::string command;  // "" for argv form
  core::Shell shell = core::Shell::other;
};

core::Stages no_stages(core::StagesReason reason) {
  core::Stages stages;
  stages.reason = reason;
  return stages;
}

core::Stages stages_of(const core::JobFacts& facts, const Launched& launched,
                       const std::optional<core::Exit>& exit) {
  if (facts.supervision == core::Supervision::lost) return no_stages(core::StagesReason::lost);
  if (!exit) return no_stages(core::StagesReason::single);
  return core::claim_stages(launched.command, *exit,
                            {facts.stages, facts.history, facts.captured, launched.shell});
}

// A living supervisor has seen the last of what the command had left behind.
bool leftovers_proven_gone(const core::JobFacts& facts) {
  return facts.supervision == core::Supervision::finished && facts.proof == core::Proof::none &&
         facts.leftovers && !facts.leftovers->found.empty() && facts.leftovers->settled &&
         facts.leftovers->survived.empty() && !facts.leftovers->by_daemon;
}

// Whether the ending may be called a stop: the wish was there first and its proof is, too (I7, I8).
bool stop_proven(const core::JobFacts& facts) {
  if (facts.supervision == core::Supervision::not_launched) return true;
  if (facts.proof == core::Proof::unproven) return false;
  return facts.proof != core::Proof::none || leftovers_proven_gone(facts);
}

std::optional<core::Proof> proof_of(const core::JobFacts& facts) {
  if (leftovers_proven_gone(facts)) return core::Proof::subreaper;
  if (facts.supervision == core::Supervision::generation_gone) return core::Proof::generation;
  if (facts.proof == core::Proof::none) {
    if (facts.supervision == core::Supervision::lost) return core::Proof::unproven;
    return std::nullopt;
  }
  return facts.proof;
}

Ending judge_facts(const core::JobFacts& facts, const store::JobRow& job,
                   const Launched& launched) {
  Ending ending;
  store::EndingRow& row = ending.row;
  row.exit = exit_of(facts);
  row.stages = stages_of(facts, launched, row.exit);
  // A job that was stopped before it started has no exit, but a verdict: it did not run.
  const core::Exit seen = row.exit.value_or(core::Exit::not_started("queue", 0, "never started"));
  row.verdict = core::judge(seen, row.stages);
  // An end that nobody waited for is no success, whatever the kernel still told of it (I9).
  const bool unwatched = facts.supervision == core::Supervision::lost;
  if (unwatched && row.verdict == core::Verdict::ok) row.verdict = core::Verdict::unknown;
  row.finished_at = facts.finished_at;
  row.duration = facts.duration;
  row.ended_by_itself = facts.ended_by == core::EndedBy::itself && facts.exit.has_value();
  row.output = facts.output.value_or(core::OutputFacts{});
  row.usage = facts.usage;
  row.proof = proof_of(facts);
  row.cause = cause_of(facts, seen);
  row.actor = "supervisor";
  // Cut off is not done, whatever code its handler gave (I9).
  const bool cut = facts.ended_by == core::EndedBy::deadline;
  if (cut && row.verdict == core::Verdict::ok) row.verdict = core::Verdict::failed;
  row.reason = core::describe(seen, row.stages, row.verdict);
  if (cut) row.reason = "its deadline had passed: " + row.reason;
  if (facts.oom) row.reason += "; the kernel killed a process of it for want of memory";
  const bool lost = facts.supervision == core::Supervision::lost;
  if (job.stop && (stop_proven(facts) || row.proof == core::Proof::generation)) {
    ending.trigger = core::JobTrigger::stop_confirm;
    row.cause = job.stop->cause;
    row.actor = job.stop->actor;
    row.reason = job.stop->reason;
    return ending;
  }
  const bool success = row.verdict == core::Verdict::ok && seen.success() && !lost;
  ending.trigger = success ? core::JobTrigger::complete : core::JobTrigger::fail;
  return ending;
}

Result<Launched> launched(Work& work, const store::JobRow& job) {
  TRY_ASSIGN(const std::optional<store::LaunchRow> launch, store::find_launch(work.db(), job.id));
  if (!launch || launch->shell.empty()) return Launched{};
  TRY_ASSIGN(const std::string packed, work.sealer().unseal(launch->sealed, job.id.str()));
  TRY_ASSIGN(LaunchSecret secret, unpack_launch(packed));
  return Launched{std::move(secret.command), core::shell_of(launch->shell)};
}

bool wakes(const store::JobRow& job, core::ReceiptName receipt) {
  if (receipt == core::ReceiptName::cancelled) return false;
  switch (job.wake) {
    case core::WakePolicy::always:
      return true;
    case core::WakePolicy::on_failure:
      return receipt != core::ReceiptName::completed;
    case core::WakePolicy::never:
      return false;
  }
  return true;
}

Result<void> note_leftovers(Work& work, store::JobRow& job, const core::JobFacts& facts) {
  if (!facts.leftovers) return {};
  TRY_ASSIGN(const std::optional<store::LeftoverRow> known,
             store::find_leftover(work.db(), job.id));
  const core::LeftoverFacts& left = *facts.leftovers;
  if (left.found.empty() && left.survived.empty()) return {};
  const bool same =
      known && store::encode_notes(known->survived) == store::encode_notes(left.survived);
  if (known && known->settled && same) return {};
  TRY(store::put_leftover(work.db(), job.id,
                          {left.found, left.survived, left.settled, left.kept, {}}));
  if (!left.settled) return {};
  const std::string reason =
      std::to_string(left.found.size()) + " process(es) outlived the command; " +
      std::to_string(left.survived.size()) + (left.kept ? " kept" : " survived being killed");
  return work.note(job, core::ReceiptName::leftovers, std::nullopt, "supervisor", reason);
}

// The job is terminal: is anything still owed to its supervisor? What was left behind is watched
// until it is gone, also when the daemon is the one that does it because the supervisor was lost.
Result<void> let_go(Work& work, const JobId& job, const core::JobFacts& facts) {
  const bool looked_after = facts.supervision == core::Supervision::finished ||
                            facts.supervision == core::Supervision::lost;
  const bool watched = looked_after && facts.leftovers && !facts.leftovers->found.empty();
  if (watched && (!facts.leftovers->settled || !facts.leftovers->survived.empty())) return {};
  TRY(work.settle_owed(core::OwedKind::supervise, job.str()));
  work.forget(job);
  return {};
}

// The one way of every job into an ending.
Result<void> finish(Work& work, store::JobRow& job, const Ending& ending,
                    const core::JobFacts& facts) {
  const core::JobStep step = core::job_step(job.status, ending.trigger);
  TRY(work.apply(
      job, {ending.trigger, ending.row.cause, ending.row.actor, ending.row.reason, ending.row}));
  TRY(work.settle_owed(core::OwedKind::stop_stuck, job.id.str()));
  TRY(work.settle_owed(core::OwedKind::start_within, job.id.str()));
  if (job.monitors > 0) work.unmonitor(job.id);
  if (ending.row.output.kept_bytes > 0) {
    store::OutputRow output;
    output.job = job.id;
    output.owner = job.scope.owner;
    output.ended_seq = work.sequences().node;
    output.kept_bytes = ending.row.output.kept_bytes;
    TRY(store::insert_output(work.db(), output));
  }
  TRY(keep_finished_job(work, job));
  TRY(note_leftovers(work, job, facts));
  const bool by_owner = job.stop && job.stop->by_owner;
  if (const auto event = core::event_of(step.receipt, by_owner)) {
    TRY(publish(work, job, step.receipt, *event, wakes(job, step.receipt), facts.tail, {}));
  }
  TRY(let_go(work, job.id, facts));
  TRY(turn_job_settled(work, job));
  TRY(wake_job_settled(work, job));
  return fill_slots(work);
}

// What was accepted before the machine was restarted, and had not run, runs in this generation.
Result<void> note_generation(Work& work, store::JobRow& job, const core::JobFacts& facts) {
  const bool alive = facts.supervision == core::Supervision::running ||
                     facts.supervision == core::Supervision::draining;
  const GenerationId now = work.parts().channel.generation();
  if (!alive || job.scope.generation == now) return {};
  job.scope.generation = now;
  return store::set_generation(work.db(), job.id, now);
}

// Nothing is found of a job that is on record as started: its files are gone, and with them all
// that could tell of its end, or prove it (I7, I9).
core::JobFacts files_gone(core::JobFacts facts) {
  facts.supervision = core::Supervision::lost;
  facts.exit = core::Exit::unknown("its files are gone, so nobody can tell how it ended");
  facts.proof = core::Proof::unproven;
  facts.launch_error.clear();
  return facts;
}

Result<void> end(Work& work, store::JobRow& job, const core::JobFacts& facts) {
  TRY_ASSIGN(const Launched how, launched(work, job));
  return finish(work, job, judge_facts(facts, job, how), facts);
}

}  // namespace

Result<void> observe(Work& work, const core::JobFacts& seen) {
  TRY_ASSIGN(std::optional<store::JobRow> job, store::find_job(work.db(), seen.job));
  if (!job) return {};  // files without a row: not ours to act on
  core::JobFacts facts = seen;
  if (job->started_at && facts.supervision == core::Supervision::not_launched) {
    // It did start, whatever has become of the files that said so.
    facts.supervision = core::Supervision::lost;
    facts.exit = core::Exit::unknown("the job's directory is gone, and nobody saw the end");
    facts.proof = core::Proof::unproven;
  }
  if (core::is_terminal(job->status)) {
    TRY(note_leftovers(work, *job, facts));
    return let_go(work, job->id, facts);
  }
  if (job->status != core::JobStatus::running) return {};
  if (job->started_at && facts.supervision == core::Supervision::not_launched) {
    return end(work, *job, files_gone(facts));
  }
  if (!job->started_at && facts.started_at) {
    job->started_at = facts.started_at;
    TRY(store::set_started_at(work.db(), job->id, *facts.started_at));
    TRY(note_generation(work, *job, facts));
    TRY(work.touch(job->scope.owner));
  }
  if (is_ending(facts, job->stop.has_value())) return end(work, *job, facts);
  const bool behind = facts.supervision == core::Supervision::finished && facts.leftovers;
  const std::vector<core::ProcessNote>& alive =
      behind ? facts.leftovers->survived : facts.survivors;
  if (store::encode_notes(job->survivors) == store::encode_notes(alive)) return {};
  TRY(store::set_survivors(work.db(), job->id, alive));
  TRY(work.touch(job->scope.owner));
  // Its deadline has passed, and what was killed is not gone: no better than a stop that is not
  // confirmed.
  if (job->stop || !job->survivors.empty()) return {};
  return work.owe(core::OwedKind::stop_stuck, job->id.str(), job->scope.owner,
                  work.now() + work.settings().stop_stuck_after);
}

Result<void> stop(Work& work, store::JobRow& job, const StopOrder& order) {
  if (core::is_terminal(job.status) || job.stop) return {};
  const store::StopRow wish{work.wall(), order.cause, order.actor, order.reason, order.by_owner};
  TRY(work.note(job, core::ReceiptName::stop_requested, order.cause, order.actor, order.reason));
  TRY(store::set_stop(work.db(), job.id, wish));
  job.stop = wish;
  if (job.status == core::JobStatus::running) {
    TRY(work.owe(core::OwedKind::stop_stuck, job.id.str(), job.scope.owner,
                 work.now() + work.settings().stop_stuck_after));
    work.supervise(job.id);
    return {};
  }
  core::JobFacts never;
  never.job = job.id;
  return end(work, job, never);
}

Result<void> stop_leftovers(Work& work, store::JobRow& job, const StopOrder& order) {
  TRY_ASSIGN(const std::optional<store::LeftoverRow> left, store::find_leftover(work.db(), job.id));
  if (!left || !left->kept || !left->alive() || left->stop) return {};
  TRY(store::set_leftover_stop(work.db(), job.id,
                               {work.wall(), order.cause, order.actor, order.reason, true}));
  TRY(work.note(job, core::ReceiptName::stop_requested, order.cause, order.actor,
                order.reason.empty() ? "what the command left behind" : order.reason));
  TRY(work.owe_once(core::OwedKind::supervise, job.id.str(), job.scope.owner, work.now()));
  work.supervise(job.id);
  return {};
}

Result<void> start_within_passed(Work& work, const JobId& id) {
  TRY(work.settle_owed(core::OwedKind::start_within, id.str()));
  TRY_ASSIGN(std::optional<store::JobRow> job, store::find_job(work.db(), id));
  if (!job || job->status != core::JobStatus::queued || !job->start_by) return {};
  TRY_ASSIGN(const bool elsewhere, store::is_unrecoverable(work.db(), id));
  if (elsewhere) return {};  // it may have been started there
  store::EndingRow ending;
  ending.exit =
      core::Exit::not_started("queue", 0, "It was still queued when its time to start was over.");
  ending.verdict = core::Verdict::not_started;
  ending.cause = core::Cause::deadline;
  ending.actor = "daemon";
  ending.reason = core::describe(*ending.exit, {}, ending.verdict);
  ending.stages.reason = core::StagesReason::single;
  return finish(work, *job, {core::JobTrigger::fail, ending}, {});
}

Result<void> give_up(Work& work, store::JobRow& job, const std::string& reason) {
  TRY(work.note(job, core::ReceiptName::released, core::Cause::op, "operator", reason));
  store::EndingRow ending;
  ending.exit = core::Exit::unknown("An operator gave it up; nobody saw its end.");
  ending.verdict = core::Verdict::unknown;
  ending.cause = core::Cause::op;
  ending.actor = "operator";
  ending.reason = reason;
  ending.proof = core::Proof::unproven;
  ending.stages.reason = core::StagesReason::lost;
  if (auto output = work.parts().channel.output_of(job.id)) ending.output = std::move(*output);
  return finish(work, job, {core::JobTrigger::fail, ending}, {});
}

Result<void> end_untold(Work& work, store::JobRow& job, const std::string& actor,
                        const std::string& why) {
  store::EndingRow ending;
  ending.exit = core::Exit::unknown(why);
  ending.verdict = core::Verdict::unknown;
  ending.cause = core::Cause::supervisor_lost;
  ending.actor = actor;
  ending.reason = core::describe(*ending.exit, {}, ending.verdict);
  ending.stages.reason = core::StagesReason::lost;
  ending.proof = core::Proof::unproven;
  return finish(work, job, {core::JobTrigger::fail, ending}, {});
}

Result<void> stop_stuck(Work& work, const JobId& id) {
  TRY(work.settle_owed(core::OwedKind::stop_stuck, id.str()));
  TRY_ASSIGN(std::optional<store::JobRow> job, store::find_job(work.db(), id));
  if (!job || core::is_terminal(job->status)) return {};
  if (!job->stop && job->survivors.empty()) return {};
  TRY_ASSIGN(const std::vector<core::Receipt> receipts, store::receipts_of(work.db(), id));
  const auto said = [](const core::Receipt& r) { return r.name == core::ReceiptName::stop_stuck; };
  if (std::any_of(receipts.begin(), receipts.end(), said)) return {};  // once
  std::string who;
  for (const core::ProcessNote& note : job->survivors) {
    if (!who.empty()) who += ", ";
    who += note.comm + " (" + std::to_string(note.pid) + ", " + note.state;
    if (!note.reason.empty()) who += ", " + note.reason;
    who += ")";
  }
  const core::Cause cause = job->stop ? job->stop->cause : core::Cause::deadline;
  TRY(work.note(*job, core::ReceiptName::stop_stuck, cause, "daemon",
                who.empty() ? "the stop is not confirmed" : "still there: " + who));
  return publish(work, *job, core::ReceiptName::stop_stuck, core::EventType::job_stop_stuck, true,
                 {}, store::encode_notes(job->survivors));
}

void prepare(core::JobFacts& facts, const Settings& settings) {
  const std::string rendered = text::render(facts.tail);
  const auto most = static_cast<std::size_t>(settings.notice_tail_bytes);
  const std::size_t from = rendered.size() > most ? rendered.size() - most : 0;
  facts.tail = rendered.substr(text::boundary_after(rendered, from));
}

}  // namespace waybill::engine
