#include "engine/retention.h"

#include <algorithm>

#include "base/crash_point.h"
#include "engine/deliver.h"
#include "engine/wake.h"
#include "store/clients.h"
#include "store/retention.h"

namespace waybill::engine {
namespace {

// One look: removing a job's files takes the disk some milliseconds.
constexpr int kJobsAtOnce = 16;
constexpr int kRowsAtOnce = 256;
// What is still wanted is looked at again after this; so is a job whose unread events were dropped,
// so that the receipt of that can be read.
constexpr Millis kLookAgain = std::chrono::hours(24);
constexpr char kKey[] = "node";

enum class Wanted {
  no,      // it can go
  unread,  // of the session `user`: events that nobody took expire with it
  yes,     // or it cannot be told now
};

Result<Wanted> still_wanted(Work& work, const store::JobRow& job) {
  if (!core::is_terminal(job.status) || work.poisoned(job.scope.owner)) return Wanted::yes;
  // Its supervisor, or what it left behind, is watched.
  TRY_ASSIGN(const std::optional<core::Owed> owed,
             store::find_owed(work.db(), core::OwedKind::supervise, job.id.str()));
  if (owed) return Wanted::yes;
  TRY_ASSIGN(const std::optional<store::LeftoverRow> left, store::find_leftover(work.db(), job.id));
  if (left && left->alive()) return Wanted::yes;
  TRY_ASSIGN(const std::optional<core::Owner> woken, store::find_wake(work.db(), job.id));
  if (woken) return Wanted::yes;
  Wanted wanted = Wanted::no;
  TRY_ASSIGN(const std::vector<store::InboxRow> events, store::inbox_of_job(work.db(), job.id));
  for (const store::InboxRow& row : events) {
    if (row.acked_at) continue;
    // What is being handed over at this moment is not taken away.
    if (!core::is_user_session(row.owner) || row.state == core::InboxState::offered) {
      return Wanted::yes;
    }
    wanted = Wanted::unread;
  }
  return wanted;
}

Result<std::size_t> expire_events(Work& work, const store::JobRow& job) {
  std::size_t dropped = 0;
  TRY_ASSIGN(const std::vector<store::InboxRow> events, store::inbox_of_job(work.db(), job.id));
  for (const store::InboxRow& row : events) {
    if (row.acked_at) continue;
    TRY(drop_row(work, row, core::DroppedAs::expired));
    ++dropped;
  }
  return dropped;
}

// Bytes that went; nullopt when the files cannot be removed now.
Result<std::optional<std::uint64_t>> remove(Work& work, const store::JobRow& job) {
  const std::optional<std::uint64_t> bytes = work.parts().channel.remove_job(job.id);
  if (!bytes) return bytes;
  crash_point("prune.after_files");
  TRY(store::raise_high_water(work.db(), "job", work.sequences().job));
  TRY(store::raise_high_water(work.db(), "node", work.sequences().node));
  TRY(store::raise_high_water(work.db(), "inbox", work.sequences().inbox));
  TRY(store::delete_job(work.db(), job, work.now()));
  TRY(work.touch(job.scope.owner));
  return bytes;
}

// nullopt: there is no such job, or it does not parse and is kept.
Result<std::optional<store::JobRow>> job_of(Work& work, const store::EndedRow& row) {
  TRY_ASSIGN(const std::optional<JobId> id, store::job_of_seq(work.db(), row.seq));
  if (!id) return std::optional<store::JobRow>();
  auto job = store::find_job(work.db(), *id);
  if (!job && job.error().code == ErrorCode::state_corrupt) return std::optional<store::JobRow>();
  return job;
}

Result<void> prune_jobs(Work& work) {
  const WallTime until = work.now() - work.settings().retention;
  TRY_ASSIGN(const std::vector<store::EndedRow> rows,
             store::ended_until(work.db(), until, kJobsAtOnce));
  for (const store::EndedRow& row : rows) {
    TRY_ASSIGN(const std::optional<store::JobRow> job, job_of(work, row));
    if (job) {
      TRY_ASSIGN(const Wanted wanted, still_wanted(work, *job));
      if (wanted == Wanted::unread) TRY(expire_events(work, *job));
      if (wanted == Wanted::no) {
        TRY_ASSIGN(const std::optional<std::uint64_t> gone, remove(work, *job));
        if (gone) continue;
      }
    }
    TRY(store::keep_from(work.db(), row.seq,
                         until + std::min(kLookAgain, work.settings().retention)));
  }
  return {};
}

// Its host has not come back: what it did not hear is given up, and when nothing speaks of the
// session any more, so is the session.
Result<void> give_up_session(Work& work, const core::Owner& owner) {
  TRY(store::put_absent(work.db(), owner, work.now() + kLookAgain));
  TRY_ASSIGN(const store::SessionRow* session, work.find_session(owner));
  if (session == nullptr || session->lease_live) return store::remove_absent(work.db(), owner);
  if (work.poisoned(owner)) return {};
  TRY_ASSIGN(const std::vector<store::InboxRow> rows, store::live_inbox(work.db(), owner));
  for (const store::InboxRow& row : rows) TRY(drop_row(work, row, core::DroppedAs::owner_gone));
  if (!rows.empty()) return plan_wake(work, owner);
  TRY_ASSIGN(const bool nothing, store::nothing_of_session(work.db(), owner));
  if (!nothing) return {};
  TRY(store::delete_session(work.db(), owner, session->fence));
  TRY(work.settle_owed(core::OwedKind::wake, owner_key(owner)));
  TRY(work.settle_owed(core::OwedKind::host_lease, owner_key(owner)));
  work.forget_session(owner);
  return {};
}

Result<void> prune_the_rest(Work& work) {
  TRY_ASSIGN(const std::vector<core::Owner> absent,
             store::absent_until(work.db(), work.now(), kJobsAtOnce));
  for (const core::Owner& owner : absent) TRY(give_up_session(work, owner));
  TRY(store::delete_turns(work.db(), work.now() - work.settings().retention, kRowsAtOnce));
  TRY(store::delete_tombstones(work.db(), work.now() - store::kKeyOutlives, kRowsAtOnce));
  return store::forget_calls(work.db(), work.now() - kLookAgain);
}

}  // namespace

Result<void> keep_finished_job(Work& work, const store::JobRow& job) {
  TRY(store::insert_ended(work.db(), job.seq, work.now()));
  return work.owe_by(core::OwedKind::prune, kKey, {}, work.now() + work.settings().retention);
}

Result<void> keep_closed_turn(Work& work, const store::TurnRow& turn) {
  TRY(store::keep_turn_from(work.db(), turn.owner, turn.id, work.now()));
  return work.owe_by(core::OwedKind::prune, kKey, {}, work.now() + work.settings().retention);
}

Result<void> session_is_absent(Work& work, const core::Owner& owner) {
  if (core::is_user_session(owner)) return {};  // a person is never gone
  TRY(store::put_absent(work.db(), owner, work.now() + store::kAbsentFor));
  return work.owe_by(core::OwedKind::prune, kKey, {}, work.now() + store::kAbsentFor);
}

Result<void> prune_due(Work& work) {
  TRY(prune_jobs(work));
  TRY(prune_the_rest(work));
  return plan_prune(work);
}

Result<void> plan_prune(Work& work) {
  TRY_ASSIGN(const std::optional<WallTime> next,
             store::next_removal(work.db(), work.settings().retention));
  if (!next) return work.settle_owed(core::OwedKind::prune, kKey);
  return work.owe(core::OwedKind::prune, kKey, {}, std::max(*next, work.now()));
}

Result<PruneReply> prune_now(Work& work, const PruneRequest& request) {
  const Millis age = request.older_than.value_or(work.settings().retention);
  const WallTime until = work.now() - age;
  PruneReply reply;
  TRY_ASSIGN(const std::vector<store::EndedRow> rows,
             store::ended_after(work.db(), request.after, kRowsAtOnce));
  std::optional<std::uint64_t> again;  // after this job, when events of the next were dropped
  std::uint64_t last = request.after;
  for (const store::EndedRow& row : rows) {
    if (reply.jobs.size() + reply.dropped_events >= kJobsAtOnce) break;
    const std::uint64_t before = std::exchange(last, row.seq);
    if (row.ended_at > until) continue;
    TRY_ASSIGN(const std::optional<store::JobRow> job, job_of(work, row));
    if (!job) continue;
    TRY_ASSIGN(const Wanted wanted, still_wanted(work, *job));
    if (wanted == Wanted::yes) continue;
    if (wanted == Wanted::unread && !request.dry_run) {
      // Its receipt is committed before the job goes, with the next page.
      TRY_ASSIGN(const std::size_t dropped, expire_events(work, *job));
      reply.dropped_events += dropped;
      again = again.value_or(before);
      continue;
    }
    std::optional<std::uint64_t> bytes = work.parts().channel.job_allocated(job->id);
    if (!request.dry_run) {
      TRY_ASSIGN(bytes, remove(work, *job));
    }
    if (!bytes) continue;
    reply.jobs.push_back({job->id, job->scope.owner.session, job->label, job->status,
                          job->ending->finished_at, *bytes});
    reply.bytes += *bytes;
  }
  if (again || last != request.after) reply.next = again.value_or(last);
  if (rows.size() < kRowsAtOnce && !again && (rows.empty() || last == rows.back().seq)) {
    reply.next.reset();
  }
  if (request.dry_run) return reply;
  if (!reply.next) TRY(prune_the_rest(work));
  TRY(plan_prune(work));
  return reply;
}

}  // namespace waybill::engine
