#include "engine/owners.h"

#include <algorithm>
#include <map>

#include "engine/jobs.h"
#include "engine/views.h"
#include "store/node.h"

namespace waybill::engine {
namespace {

constexpr char kElsewhere[] =
    "its jobs belong to another place: the data directory was copied, moved to another disk or "
    "brought to another machine, and they may run there.";
constexpr char kNoGeneration[] = "it was saved without the generation it runs in.";

core::Node known_of(const core::Node& before, core::Node now) {
  if (now.machine.empty()) now.machine = before.machine;
  if (now.inode == 0) now.inode = before.inode;
  if (now.born_ns == 0) now.born_ns = before.born_ns;
  return now;
}

Result<void> mark(Work& work, const store::LivePlace& job, const char* why) {
  // The supervisor has written all that there will ever be: that is an ending like any other.
  if (work.parts().channel.ended_on_record(job.job)) return {};
  return store::mark_unrecoverable(work.db(), {job.job, job.owner, work.now(), why});
}

// What a finished job has left behind is watched, and killed, over there.
Result<void> leave_leftovers(Work& work, const std::vector<store::LivePlace>& live) {
  TRY_ASSIGN(const std::vector<core::Owed> owed,
             store::owed_of_kind(work.db(), core::OwedKind::supervise));
  for (const core::Owed& row : owed) {
    const bool is_live =
        std::ranges::any_of(live, [&](const auto& job) { return job.job.str() == row.key; });
    if (!is_live) TRY(work.settle_owed(core::OwedKind::supervise, row.key));
  }
  return {};
}

Result<bool> is_stuck(Work& work, const store::JobRow& job) {
  if (job.status != core::JobStatus::running) return false;
  return store::has_receipt(work.db(), job.id, core::ReceiptName::stop_stuck);
}

Result<std::vector<store::JobRow>> stuck_jobs(Work& work) {
  std::vector<store::JobRow> stuck;
  TRY_ASSIGN(std::vector<store::JobRow> live, attachable_jobs(work));
  for (store::JobRow& job : live) {
    TRY_ASSIGN(const bool is, is_stuck(work, job));
    if (is) stuck.push_back(std::move(job));
  }
  return stuck;
}

// Those that are marked, whatever became of their rows, and those whose stop is not confirmed.
Result<std::vector<JobId>> retained_jobs(Work& work, const core::Owner& owner) {
  std::vector<JobId> ids;
  TRY_ASSIGN(const std::vector<store::UnrecoverableRow> marked,
             store::unrecoverable_jobs(work.db()));
  for (const store::UnrecoverableRow& row : marked) {
    if (row.owner == owner) ids.push_back(row.job);
  }
  TRY_ASSIGN(const std::vector<store::JobRow> stuck, stuck_jobs(work));
  for (const store::JobRow& job : stuck) {
    if (job.scope.owner == owner) ids.push_back(job.id);
  }
  return ids;
}

RetainedOwner retained(const core::Owner& owner, ErrorCode code, const std::string& why) {
  RetainedOwner one;
  one.owner = owner;
  one.kind = to_word(code);
  one.why = why;
  return one;
}

}  // namespace

Result<void> check_place(Work& work) {
  TRY_ASSIGN(const std::optional<core::Node> before, store::find_node(work.db()));
  const core::Node& now = work.parts().node;
  TRY_ASSIGN(const std::vector<store::LivePlace> live, store::live_places(work.db()));
  for (const store::LivePlace& job : live) {
    if (job.generation.empty()) TRY(mark(work, job, kNoGeneration));
  }
  if (before && !core::same_place(*before, now)) {
    for (const store::LivePlace& job : live) TRY(mark(work, job, kElsewhere));
    TRY(leave_leftovers(work, live));
    work.parts().warn("this data directory was served at another place before; " +
                      std::to_string(live.size()) +
                      " unfinished job(s) are kept as they are (`waybill owners`)");
    return store::put_node(work.db(), now);
  }
  const core::Node known = before ? known_of(*before, now) : now;
  if (before && *before == known) return {};
  return store::put_node(work.db(), known);
}

Result<void> refuse_unrecoverable(Work& work) {
  TRY_ASSIGN(const std::vector<store::UnrecoverableRow> rows, store::unrecoverable_jobs(work.db()));
  for (const store::UnrecoverableRow& row : rows) {
    work.poison(row.owner, row.why, ErrorCode::owner_unrecoverable);
  }
  return {};
}

Result<OwnersReply> owners(Work& work, const PoisonedOwners& refused, const OwnersRequest&) {
  std::map<core::Owner, RetainedOwner> found;
  for (const auto& [owner, refusal] : refused) {
    found.emplace(owner, retained(owner, refusal.code, refusal.why));
  }
  TRY_ASSIGN(const std::vector<store::UnrecoverableRow> marked,
             store::unrecoverable_jobs(work.db()));
  for (const store::UnrecoverableRow& row : marked) {
    RetainedOwner& one =
        found.try_emplace(row.owner, retained(row.owner, ErrorCode::owner_unrecoverable, row.why))
            .first->second;
    one.since = one.since ? std::min(*one.since, row.since) : row.since;
    one.jobs.push_back(row.job);
  }
  TRY_ASSIGN(const std::vector<store::JobRow> stuck, stuck_jobs(work));
  for (const store::JobRow& job : stuck) {
    RetainedOwner& one =
        found
            .try_emplace(
                job.scope.owner,
                RetainedOwner{job.scope.owner, "stop_stuck", "a stop is not confirmed.", {}, {}})
            .first->second;
    one.jobs.push_back(job.id);
  }
  OwnersReply reply;
  for (auto& [owner, one] : found) reply.owners.push_back(std::move(one));
  return reply;
}

Result<JobsReply> release_owner(Work& work, const PoisonedOwners& refused,
                                const ReleaseOwnerRequest& request) {
  const auto refusal = refused.find(request.owner);
  if (refusal != refused.end() && refusal->second.code != ErrorCode::owner_unrecoverable) {
    return fail(
        refusal->second.code,
        "Session " + request.owner.session.str() + " does not parse (" + refusal->second.why +
            "); giving its jobs up does not cure that. Repair the row or restore a backup.");
  }
  TRY_ASSIGN(const std::vector<JobId> ids, retained_jobs(work, request.owner));
  if (ids.empty()) {
    return fail(ErrorCode::not_found, "Nothing of session " + request.owner.session.str() +
                                          " is retained; `waybill owners` lists what is.");
  }
  work.release(request.owner);
  JobsReply reply;
  for (const JobId& id : ids) {
    TRY(store::release_unrecoverable(work.db(), id));
    TRY_ASSIGN(std::optional<store::JobRow> job, store::find_job(work.db(), id));
    if (!job || core::is_terminal(job->status)) continue;
    TRY(give_up(work, *job, request.reason));
    TRY_ASSIGN(JobView view, view_job(work.db(), *job, Detail::full));
    reply.jobs.push_back(std::move(view));
  }
  TRY(fill_slots(work));
  return reply;
}

Result<std::vector<store::JobRow>> attachable_jobs(Work& work) {
  TRY_ASSIGN(std::vector<store::JobRow> live, store::live_jobs(work.db()));
  TRY_ASSIGN(const std::vector<store::UnrecoverableRow> marked,
             store::unrecoverable_jobs(work.db()));
  std::erase_if(live, [&](const store::JobRow& job) {
    return std::ranges::any_of(marked, [&](const auto& row) { return row.job == job.id; });
  });
  return live;
}

}  // namespace waybill::engine
