#include "engine/reconcile.h"

#include <algorithm>

#include "engine/access.h"
#include "engine/deliver.h"
#include "engine/jobs.h"
#include "store/open.h"
#include "store/random.h"
#include "text/preview.h"

namespace waybill::engine {
namespace {

constexpr char kActor[] = "reconcile";

constexpr char kUntold[] =
    "the store was put back to an earlier state, and nothing here tells whether it has run";

bool by_owner(const supervise::StopWish& wish) {
  return wish.actor == "owner" || wish.actor == "user";
}

core::Cause cause_of(const supervise::StopWish& wish) {
  if (wish.reason == kTurnStopped) return core::Cause::turn_stopped;
  if (wish.actor == "owner") return core::Cause::model;
  return wish.actor == "operator" ? core::Cause::op : core::Cause::user;
}

// Whatever is concluded here from records that an earlier daemon may have read, too, may have been
// heard: same id, marked as a repeat (I3).
class Reconciler {
 public:
  explicit Reconciler(Work& work) : work_(work) {}

  Result<ReconcileReply> run() {
    TRY_ASSIGN(const std::vector<JobId> live, store::live_job_ids(work_.db()));
    for (const JobId& id : live) TRY(known(id));
    TRY_ASSIGN(const std::vector<JobId> directories, work_.parts().channel.directories());
    for (const JobId& id : directories) {
      TRY_ASSIGN(const bool is_known, store::has_job(work_.db(), id));
      if (!is_known) TRY(unknown(id));
    }
    return std::move(reply_);
  }

 private:
  // A job that is live in the store, and perhaps further on by its directory.
  Result<void> known(const JobId& id) {
    auto read = store::find_job(work_.db(), id);
    if (!read && read.error().code == ErrorCode::state_corrupt) return {};  // its owner is refused
    if (!read) return fail(read.error());
    store::JobRow job = std::move(**read);
    if (work_.poisoned(job.scope.owner)) return {};
    TRY_ASSIGN(const supervise::FoundJob found, work_.parts().channel.find(id));
    if (!found.there) {
      // Its directory may have been removed long after it ran: never again (I10).
      work_.repeats(true);
      TRY(end_untold(work_, job, kActor, kUntold));
      work_.repeats(false);
      reply_.ended.push_back({id, job.scope.owner, job.status});
      return {};
    }
    if (job.status == core::JobStatus::queued) {
      if (!found.started && !found.runs) return {};  // provably never executed: its turn will come
      TRY(claim(job));
    }
    return follow(job, found, reply_.settled);
  }

  // A directory without a row.
  Result<void> unknown(const JobId& id) {
    TRY_ASSIGN(const supervise::FoundJob found, work_.parts().channel.find(id));
    if (!found.there) return {};
    std::string why = found.why;
    if (found.launch && work_.poisoned(found.launch->origin.scope.owner)) {
      why = "its session is refused";
    }
    if (!why.empty() || !found.launch) {
      reply_.quarantined.push_back({id, found.path, found.started, found.runs, why});
      return {};
    }
    TRY_ASSIGN(store::JobRow job, rebuild(*found.launch));
    TRY(claim(job));
    if (found.started || found.runs) return follow(job, found, reply_.rebuilt);
    core::JobFacts never;
    never.job = id;
    never.launch_error =
        "The store that had accepted it was lost before it was started; nothing of it ran.";
    work_.repeats(true);
    TRY(observe(work_, never));
    work_.repeats(false);
    return named(id, reply_.rebuilt);
  }

  Result<store::JobRow> rebuild(const supervise::LaunchOrder& launch) {
    const supervise::Origin& origin = launch.origin;
    store::JobRow job;
    job.seq = ++work_.sequences().job;
    job.id = launch.job;
    job.scope = origin.scope;
    job.owner = core::OwnerKind::session;
    if (origin.owner == core::OwnerKind::turn && origin.scope.turn) {
      TRY_ASSIGN(const std::optional<store::TurnRow> turn,
                 store::find_open_turn(work_.db(), origin.scope.owner));
      if (turn && turn->id == *origin.scope.turn) job.owner = core::OwnerKind::turn;
    }
    job.wake = origin.wake;
    job.label = origin.label;
    job.command_preview = text::preview(
        command_text(launch), static_cast<std::size_t>(work_.settings().command_preview_chars));
    job.cwd = launch.cwd;
    job.fingerprint = origin.fingerprint;
    job.created_at = origin.accepted_at;
    TRY(work_.accept(job, kActor));
    store::LaunchRow row;
    row.job = job.id;
    row.shell = launch.shell;
    row.wrapper = launch.wrapper;
    row.deadline = launch.deadline;
    row.grace = launch.grace;
    row.umask = launch.umask;
    row.cap_bytes = launch.cap_bytes;
    row.head_bytes = launch.head_bytes;
    row.leftovers = launch.leftovers;
    row.stdin_policy = launch.stdin_policy;
    row.pty = launch.pty;
    // It is never launched from this row, so its environment, which is gone, is not missed.
    row.sealed = work_.sealer().seal(pack_launch({launch.command, launch.argv, {}}), job.id.str());
    TRY(store::insert_launch(work_.db(), row));
    if (origin.key.empty()) return job;
    // The same key again must find this job (I10).
    const IdempotencyKey key(origin.key);
    TRY_ASSIGN(const auto taken, store::find_key(work_.db(), origin.scope.owner, key));
    if (!taken) {
      TRY(store::insert_key(work_.db(), origin.scope.owner, key, {job.id, origin.fingerprint},
                            origin.accepted_at));
    }
    return job;
  }

  static std::string command_text(const supervise::LaunchOrder& launch) {
    if (!launch.shell.empty()) return launch.command;
    std::string text;
    for (const std::string& arg : launch.argv) text += (text.empty() ? "" : " ") + arg;
    return text;
  }

  Result<void> claim(store::JobRow& job) {
    TRY(work_.settle_owed(core::OwedKind::start_within, job.id.str()));
    TRY(work_.apply(job, {core::JobTrigger::claim,
                          std::nullopt,
                          kActor,
                          "its directory shows that it was launched",
                          {}}));
    return work_.owe_once(core::OwedKind::supervise, job.id.str(), job.scope.owner, work_.now());
  }

  // A running row: the wish on record, and the end if it is on record. What still runs, or is yet
  // to be completed, is the channel's to follow afterwards, and nobody has heard of its end.
  Result<void> follow(store::JobRow& job, const supervise::FoundJob& found,
                      std::vector<ReconciledJob>& list) {
    if (found.stop && !job.stop) {
      const supervise::StopWish& wish = *found.stop;
      const store::StopRow row{wish.at, cause_of(wish), wish.actor, wish.reason, by_owner(wish)};
      TRY(work_.note(job, core::ReceiptName::stop_requested, row.cause, kActor, wish.reason));
      TRY(store::set_stop(work_.db(), job.id, row));
    }
    if (!found.told) {
      if (job.activation <= first_) return {};  // as the store says
      return named(job.id, list);
    }
    work_.repeats(true);
    TRY(observe(work_, found.facts));
    work_.repeats(false);
    return named(job.id, list);
  }

  Result<void> named(const JobId& id, std::vector<ReconciledJob>& list) {
    TRY_ASSIGN(const std::optional<store::JobRow> job, store::find_job(work_.db(), id));
    if (job) list.push_back({id, job->scope.owner, job->status});
    return {};
  }

  Work& work_;
  const std::uint64_t first_ = work_.sequences().node;
  ReconcileReply reply_;
};

}  // namespace

Result<std::string> begin_incarnation(Work& work) {
  std::string name = store::random_id("s", work.parts().clock);
  TRY_ASSIGN(const std::vector<core::Owner> owners, store::owners_with_host(work.db()));
  for (const core::Owner& owner : owners) {
    if (!work.poisoned(owner)) TRY(void_host(work, owner));
  }
  TRY(work.flush());
  TRY(store::mark_pending_as_repeats(work.db()));
  TRY(store::renew_incarnation(work.db(), work.sealer(), work.parts().incarnation, name));
  return name;
}

Result<ReconcileReply> reconcile(Work& work, std::uint64_t seen) {
  work.hold_slots();
  work.sequences().node = std::max(work.sequences().node, seen);
  TRY(store::raise_newest_receipt(work.db(), work.sequences().node));
  TRY_ASSIGN(std::string incarnation, begin_incarnation(work));
  TRY_ASSIGN(ReconcileReply reply, Reconciler(work).run());
  reply.regressed = true;
  reply.incarnation = std::move(incarnation);
  return reply;
}

Result<ReconcileReply> name_quarantined(Work& work) {
  ReconcileReply reply;
  reply.incarnation = work.parts().incarnation;
  TRY_ASSIGN(const std::vector<JobId> directories, work.parts().channel.directories());
  for (const JobId& id : directories) {
    TRY_ASSIGN(const bool known, store::has_job(work.db(), id));
    if (known) continue;
    TRY_ASSIGN(const supervise::FoundJob found, work.parts().channel.find(id));
    if (!found.there || !found.started) continue;
    reply.quarantined.push_back({id, found.path, found.started, found.runs,
                                 found.why.empty() ? "it has no row in the store" : found.why});
  }
  return reply;
}

}  // namespace waybill::engine
