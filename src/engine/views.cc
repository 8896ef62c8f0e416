#include "engine/views.h"

#include <algorithm>
#include <set>

#include "store/clients.h"
#include "store/monitors.h"
#include "store/outputs.h"
#include "store/retention.h"

namespace waybill::engine {
namespace {

constexpr std::size_t kOutstandingMax = 100;

void copy_ending(const store::EndingRow& ending, JobView& view) {
  view.verdict = ending.verdict;
  view.exit = ending.exit;
  view.stages = ending.stages;
  view.cause = ending.cause;
  view.actor = ending.actor;
  view.reason = ending.reason;
  view.proof = ending.proof;
  view.finished_at = ending.finished_at;
  view.duration = ending.duration;
  view.output = ending.output;
  view.usage = ending.usage;
  view.ended_by_itself = ending.ended_by_itself;
}

// What became of the output after the end.
void copy_output(const store::OutputRow& now, JobView& view) {
  view.output.kept_bytes = now.kept_bytes;
  if (now.gaps) view.output.gaps = *now.gaps;
  view.output_expired_at = now.expired_at;
  if (now.expired_at) view.output.gaps = {{0, view.output.bytes}};
}

// Wished by somebody, or its deadline has passed and what was killed is not gone.
bool is_stopping(const store::JobRow& job) {
  return job.status == core::JobStatus::running && (job.stop || !job.survivors.empty());
}

std::string why_waiting(const store::JobRow& job) {
  if (job.status == core::JobStatus::queued) return "no free slot";
  if (!is_stopping(job)) return {};
  if (job.survivors.empty()) return "its stop is being confirmed";
  return std::string(job.stop ? "its stop" : "its end at its deadline") +
         " is not confirmed: " + std::to_string(job.survivors.size()) + " process(es) still there";
}

Result<void> add_history(store::Database& db, const store::JobRow& job, JobView& view) {
  TRY_ASSIGN(store::LaunchForm form, store::find_launch_form(db, job.id));
  view.shell = std::move(form.shell);
  view.wrapper = std::move(form.wrapper);
  view.stdin_policy = form.stdin_policy;
  view.pty = form.pty;
  view.deadline = form.deadline;
  if (job.monitors > 0) {
    TRY_ASSIGN(view.monitors, store::monitors_of(db, job.id));
  }
  TRY_ASSIGN(view.receipts, store::receipts_of(db, job.id));
  TRY_ASSIGN(const std::vector<store::InboxRow> rows, store::inbox_of_job(db, job.id));
  for (const store::InboxRow& row : rows) view.events.push_back(view_event(row));
  return {};
}

}  // namespace

EventView view_event(const store::InboxRow& row) {
  EventView view;
  view.id = row.event;
  view.type = row.type;
  view.state = row.state;
  view.withheld = row.withheld;
  view.tries = row.tries;
  view.last_error = row.last_error;
  view.acked_as = row.acked_as;
  view.dropped_as = row.dropped_as;
  view.created_at = row.created_at;
  return view;
}

namespace {

// What the row itself says.
JobView view_row(const store::JobRow& job) {
  JobView view;
  view.id = job.id;
  view.kind = job.kind;
  view.scope = job.scope;
  view.owner = job.owner;
  view.wake = job.wake;
  view.label = job.label;
  view.command_preview = job.command_preview;
  view.cwd = job.cwd;
  view.status = job.status;
  view.stopping = is_stopping(job);
  view.attempt = job.attempt;
  view.created_at = job.created_at;
  view.start_by = job.start_by;
  view.started_at = job.started_at;
  view.waiting_because = why_waiting(job);
  view.survivors = job.survivors;
  if (job.stop) {
    view.cause = job.stop->cause;
    view.actor = job.stop->actor;
    view.reason = job.stop->reason;
  } else if (view.stopping) {
    view.cause = core::Cause::deadline;
  }
  if (job.ending) copy_ending(*job.ending, view);
  return view;
}

}  // namespace

Result<JobView> view_new_job(store::Database& db, const store::JobRow& job, std::uint64_t queued) {
  JobView view = view_row(job);
  if (job.status == core::JobStatus::queued) view.queue_position = queued;
  TRY_ASSIGN(view.receipts, store::receipts_of(db, job.id));
  return view;
}

Result<JobView> view_job(store::Database& db, const store::JobRow& job, Detail detail) {
  JobView view = view_row(job);
  if (job.status == core::JobStatus::queued) {
    TRY_ASSIGN(view.queue_position, store::queue_position(db, job));
  }
  if (core::is_terminal(job.status)) {
    TRY_ASSIGN(const std::optional<store::LeftoverRow> left, store::find_leftover(db, job.id));
    if (left) {
      view.leftovers = left->found;
      if (left->settled) view.survivors = left->survived;
      if (left->stop && left->alive())
        view.waiting_because = "what it left behind is being stopped";
      view.leftovers_settled = left->settled;
      view.leftovers_kept = left->kept;
    }
    if (view.output.kept_bytes > 0) {
      TRY_ASSIGN(const std::optional<store::OutputRow> now, store::find_output(db, job.id));
      if (now) copy_output(*now, view);
    }
  }
  if (detail == Detail::full) TRY(add_history(db, job, view));
  return view;
}

TurnView view_turn(const store::TurnRow& turn) {
  TurnView view;
  view.id = turn.id;
  view.state = turn.state;
  view.stopped = turn.stopped;
  view.begun_at = turn.begun_at;
  view.closed_at = turn.closed_at;
  return view;
}

SessionView view_unknown_session(const core::Owner& owner) {
  SessionView view;
  view.owner = owner;
  return view;
}

namespace {

core::Phase phase_of(const SessionView& view, bool waking) {
  if (!view.lease_live) return core::Phase::absent;
  if (!view.turn) return waking ? core::Phase::waking : core::Phase::idle;
  return view.turn->stopped ? core::Phase::cancelling : core::Phase::running;
}

}  // namespace

Result<SessionView> view_session(store::Database& db, const Settings& settings,
                                 const store::SessionRow& session) {
  SessionView view;
  view.owner = session.owner;
  view.fence = session.fence;
  view.revision = session.revision;
  view.one_shot = session.one_shot;
  view.client = session.client;
  view.host_pid = session.host_pid;
  view.lease_live = session.lease_live;
  view.running_jobs = session.running;
  view.queued_jobs = session.queued;
  view.created_at = session.created_at;
  TRY_ASSIGN(const std::optional<store::TurnRow> turn, store::find_open_turn(db, session.owner));
  if (turn) view.turn = view_turn(*turn);
  if (session.lease_live && !session.host_pid && session.last_call_at) {
    Millis lasts = settings.host_lease;
    if (turn) lasts = std::max(lasts, session.lease.value_or(settings.turn_lease));
    view.lease_until = *session.last_call_at + lasts;
    // That is on the store's clock, and a person looks at the wall clock.
    TRY_ASSIGN(const std::optional<store::DueClockRow> clock, store::find_due_clock(db));
    if (clock) *view.lease_until += clock->wall - clock->due;
  }
  view.phase = phase_of(view, session.wake_until.has_value());
  TRY_ASSIGN(const std::vector<store::InboxRow> inbox, store::live_inbox(db, session.owner));
  view.undelivered = inbox.size();
  if (!session.client.empty()) {
    TRY_ASSIGN(const std::optional<store::ClientRow> client, store::find_client(db, session.owner));
    if (client) view.wakes = client->wakes;
  }
  view.withheld = static_cast<std::uint64_t>(std::ranges::count_if(
      inbox, [](const store::InboxRow& row) { return row.withheld != core::Withheld::no; }));
  return view;
}

Result<Outstanding> view_outstanding(store::Database& db, const core::Owner& owner) {
  Outstanding out;
  TRY_ASSIGN(const std::vector<store::InboxRow> inbox, store::live_inbox(db, owner));
  TRY_ASSIGN(std::vector<store::JobRow> jobs, store::live_jobs_of(db, owner));
  std::set<JobId> seen;
  for (const store::JobRow& job : jobs) seen.insert(job.id);
  for (const store::InboxRow& row : inbox) {
    ++out.events_total;
    if (out.events.size() < kOutstandingMax) out.events.push_back(row.event);
    if (!seen.insert(row.job).second) continue;
    TRY_ASSIGN(std::optional<store::JobRow> job, store::find_job(db, row.job));
    if (job) jobs.push_back(std::move(*job));
  }
  std::ranges::sort(jobs, [](const auto& a, const auto& b) { return a.seq > b.seq; });
  out.jobs_total = jobs.size();
  if (jobs.size() > kOutstandingMax) jobs.resize(kOutstandingMax);
  for (const store::JobRow& job : jobs) {
    TRY_ASSIGN(JobView view, view_job(db, job, Detail::brief));
    out.jobs.push_back(std::move(view));
  }
  return out;
}

}  // namespace waybill::engine
