#include "engine/handle.h"

#include <algorithm>

#include "core/retry.h"
#include "engine/clients.h"
#include "engine/deliver.h"
#include "engine/jobs.h"
#include "engine/monitors.h"
#include "engine/output_room.h"
#include "engine/owners.h"
#include "engine/reconcile.h"
#include "engine/retention.h"
#include "engine/turns.h"
#include "engine/views.h"
#include "engine/wake.h"
#include "store/node.h"
#include "store/random.h"

namespace waybill::engine {
namespace {

using Outcome = Result<std::optional<Reply>>;

Outcome reply(Reply value) { return std::optional<Reply>(std::move(value)); }
const std::optional<Reply> kNotYet;

Result<void> check_timeout(const Settings& settings, Millis timeout) {
  if (timeout > Millis(0) && timeout <= settings.wait_timeout_max) return {};
  return fail(ErrorCode::bad_request, "timeout must be more than 0 and at most " +
                                          std::to_string(settings.wait_timeout_max.count() / 1000) +
                                          " s.");
}

class Handler {
 public:
  Handler(Work& work, Context& context, Look look) : work_(work), context_(context), look_(look) {}

  Outcome operator()(const RunRequest& request) {
    TRY_ASSIGN(const Host host, recognise(work_, context_.connections, request.caller));
    TRY_ASSIGN(RunReply made, run(work_, host, request, context_.reachable(request.caller.owner)));
    return reply(std::move(made));
  }

  Outcome operator()(const ShowRequest& request) {
    TRY_ASSIGN(const Host host, recognise(work_, context_.connections, request.caller));
    TRY_ASSIGN(const store::JobRow job,
               store::need_job(work_.db(), request.caller.owner, request.job));
    JobReply answer;
    TRY_ASSIGN(answer.job, view_job(work_.db(), job, Detail::full));
    TRY_ASSIGN(answer.reported, report(work_, request.caller, host, {answer.job}));
    return reply(std::move(answer));
  }

  Outcome operator()(const WaitRequest& request) {
    if (look_.first) TRY(check_timeout(work_.settings(), request.timeout));
    TRY_ASSIGN(const Host host, recognise(work_, context_.connections, request.caller));
    return jobs_when(request.caller, host, request.jobs, request.any);
  }

  Outcome operator()(StopRequest& request) {
    if (look_.first && request.wait) TRY(check_timeout(work_.settings(), request.timeout));
    TRY_ASSIGN(const Host host, recognise(work_, context_.connections, request.caller));
    if (look_.first) {
      TRY_ASSIGN(request.jobs, stop_targets(request));
      request.all = false;
      TRY(stop_jobs(request, request.jobs));
    }
    if (request.wait && !look_.last) {
      TRY_ASSIGN(const bool confirmed, leftovers_gone(request.jobs));
      if (!confirmed) return kNotYet;
    }
    if (request.wait) return jobs_when(request.caller, host, request.jobs, false);
    return jobs_now(request.caller, host, request.jobs, false);
  }

  Outcome operator()(const AttachRequest& request) {
    TRY_ASSIGN(AttachReply made, attach(work_, context_.connections, request));
    return reply(std::move(made));
  }

  Outcome operator()(const DetachRequest& request) {
    TRY(detach(work_, context_.connections, request));
    return reply(std::monostate{});
  }

  Outcome operator()(const ReturnedRequest& request) {
    TRY_ASSIGN(const Host host,
               need_host(work_, context_.connections, request.caller, "A delivery"));
    TRY(returned(work_, request.caller, host, request.delivery));
    return reply(std::monostate{});
  }

  Outcome operator()(const WakeRequest& request) {
    if (look_.first) TRY(check_timeout(work_.settings(), request.timeout));
    TRY_ASSIGN(std::optional<WakeReply> made,
               wake(work_, context_.connections, request, look_.last));
    if (!made) return kNotYet;
    return reply(*made);
  }

  Outcome operator()(const CallRequest& request) {
    TRY_ASSIGN(const Host host,
               need_host(work_, context_.connections, request.caller, "Announcing a call"));
    TRY(announce(work_, host, request));
    return reply(std::monostate{});
  }

  Outcome operator()(const HostRequest& request) {
    TRY_ASSIGN(HostReply found, whose(work_, request));
    return reply(std::move(found));
  }

  Outcome operator()(const SessionShowRequest& request) {
    TRY(recognise(work_, context_.connections, request.caller));
    TRY_ASSIGN(SessionView view, session_view(request.caller.owner));
    return reply(std::move(view));
  }

  Outcome operator()(const SessionWaitRequest& request) {
    if (look_.first) TRY(check_timeout(work_.settings(), request.timeout));
    TRY_ASSIGN(const store::SessionRow* row, work_.find_session(request.caller.owner));
    const bool moved = row != nullptr && row->revision > request.revision;
    if (!moved && !look_.last) return kNotYet;
    TRY_ASSIGN(SessionView view, session_view(request.caller.owner));
    return reply(std::move(view));
  }

  Outcome operator()(const TurnRequest& request) {
    if (look_.first && request.wait) TRY(check_timeout(work_.settings(), request.timeout));
    const bool last = look_.last || !request.wait;
    TRY_ASSIGN(std::optional<TurnReply> made,
               turn(work_, context_.connections, request, look_.first, last));
    if (!made) return kNotYet;
    return reply(std::move(*made));
  }

  Outcome operator()(const InboxRequest& request) {
    if (look_.first && request.timeout) TRY(check_timeout(work_.settings(), *request.timeout));
    const core::Owner& owner = request.caller.owner;
    TRY_ASSIGN(const Host host,
               need_host(work_, context_.connections, request.caller, "The inbox"));
    if (look_.first && request.tool) {
      TRY(acknowledge_tool_results(work_, owner, host.fence));
    } else if (look_.first) {
      TRY(acknowledge_earlier(work_, request.caller, host.fence));
    }
    TRY_ASSIGN(const std::optional<store::TurnRow> turn, own_turn(owner, host));
    TRY_ASSIGN(std::vector<store::InboxRow> rows, inbox_rows(request, turn));
    InboxReply answer;
    OfferTarget target{owner, host.fence, request.caller.connection, path_of(request), {}};
    if (turn) target.turn = turn->id;
    TRY_ASSIGN(answer.hand_over, offer(work_, target, std::move(rows)));
    if (!answer.hand_over && request.timeout && !look_.last) return kNotYet;
    return reply(std::move(answer));
  }

  Outcome operator()(const FlushedRequest& request) {
    TRY_ASSIGN(const Host host,
               need_host(work_, context_.connections, request.caller, "A delivery"));
    TRY(flushed(work_, request, host));
    return reply(std::monostate{});
  }

  Outcome operator()(const AckRequest& request) {
    TRY_ASSIGN(const Host host,
               need_host(work_, context_.connections, request.caller, "Acknowledging"));
    TRY_ASSIGN(AckReply answer, acknowledge(work_, request.caller, host, request.ids));
    // Only after what was named: that must be told from what this call merely implies.
    TRY(acknowledge_earlier(work_, request.caller, host.fence));
    return reply(std::move(answer));
  }

  Outcome operator()(const StatusRequest&) {
    StatusReply status;
    status.version = work_.parts().version;
    status.data_dir = work_.parts().data_dir;
    status.store = "sqlite";
    status.incarnation = work_.parts().incarnation;
    status.settings = work_.settings();
    const supervise::DiskSpace space = work_.parts().channel.disk_space();
    status.disk = {space.total, space.free, floor_in_force(work_.settings(), space)};
    status.running_jobs = work_.sequences().running;
    status.reachable = context_.all_reachable();
    TRY_ASSIGN(status.queued_jobs, store::count_queued(work_.db()));
    TRY_ASSIGN(status.sessions, store::count_sessions(work_.db()));
    TRY_ASSIGN(status.undelivered, store::count_all_live_inbox(work_.db()));
    TRY_ASSIGN(status.owed_by_kind, store::count_owed(work_.db()));
    for (const auto& [kind, count] : status.owed_by_kind) status.owed += count;
    for (const auto& [owner, refusal] : context_.poisoned) {
      status.poisoned_owners[owner.tenant.str() + "/" + owner.session.str()] = refusal.why;
    }
    return reply(std::move(status));
  }

  Outcome operator()(const OwnersRequest& request) {
    TRY_ASSIGN(OwnersReply found, owners(work_, context_.poisoned, request));
    return reply(std::move(found));
  }

  Outcome operator()(const ReleaseOwnerRequest& request) {
    TRY_ASSIGN(JobsReply released, release_owner(work_, context_.poisoned, request));
    return reply(std::move(released));
  }

  Outcome operator()(const ObservedFacts& observed) {
    TRY(observe(work_, observed.facts));
    return reply(std::monostate{});
  }

  Outcome operator()(const MonitorTold& told) {
    TRY(monitor_told(work_, told.found));
    return reply(std::monostate{});
  }

  Outcome operator()(ConnectionClosed& closed) {
    // Also on another try: a call of that connection may have been tried again before it.
    auto last_of = context_.connections.remove(closed.connection);
    if (closed.last_of)
      last_of.insert(last_of.end(), closed.last_of->begin(), closed.last_of->end());
    closed.last_of = std::move(last_of);
    TRY(connection_closed(work_, closed.connection));
    for (const core::Owner& owner : *closed.last_of) {
      TRY(check_lease(work_, context_.connections, owner));
    }
    return reply(std::monostate{});
  }

  Outcome operator()(const HostGone& gone) {
    TRY(host_gone(work_, gone));
    return reply(std::monostate{});
  }

  Outcome operator()(const PruneRequest& request) {
    TRY_ASSIGN(PruneReply pruned, prune_now(work_, request));
    return reply(std::move(pruned));
  }

  Outcome operator()(const StoreDamaged&) { return reply(std::monostate{}); }

  // Nothing is behind: it names what is quarantined.
  Outcome operator()(const ReconcileRequest&) {
    TRY_ASSIGN(ReconcileReply named, name_quarantined(work_));
    return reply(std::move(named));
  }

  Outcome operator()(const StopAllRequest& request) {
    TRY_ASSIGN(std::vector<store::JobRow> live, attachable_jobs(work_));
    if (look_.first) {
      for (store::JobRow& job : live) {
        TRY(stop(work_, job, {core::Cause::op, "operator", request.reason, false}));
      }
      TRY_ASSIGN(live, attachable_jobs(work_));
    }
    if (!live.empty() && !look_.last) return kNotYet;
    JobsReply answer;
    answer.timed_out = !live.empty();
    return reply(std::move(answer));
  }

 private:
  Result<SessionView> session_view(const core::Owner& owner) {
    TRY_ASSIGN(const store::SessionRow* row, work_.find_session(owner));
    if (row == nullptr) return view_unknown_session(owner);
    TRY_ASSIGN(SessionView view, view_session(work_.db(), work_.settings(), *row));
    view.incarnation = work_.parts().incarnation;
    return view;
  }

  Result<std::vector<JobView>> views(const core::Owner& owner, const std::vector<JobId>& ids) {
    std::vector<JobView> jobs;
    for (const JobId& id : ids) {
      TRY_ASSIGN(const store::JobRow job, store::need_job(work_.db(), owner, id));
      TRY_ASSIGN(JobView view, view_job(work_.db(), job, Detail::full));
      jobs.push_back(std::move(view));
    }
    return jobs;
  }

  Outcome jobs_when(const Caller& caller, const Host& host, const std::vector<JobId>& ids,
                    bool any) {
    std::size_t done = 0;
    for (const JobId& id : ids) {
      TRY_ASSIGN(const store::JobRow job, store::need_job(work_.db(), caller.owner, id));
      if (core::is_terminal(job.status)) ++done;
    }
    const bool ready = any ? done > 0 : done == ids.size();
    if (!ready && !look_.last) return kNotYet;
    return jobs_now(caller, host, ids, !ready);
  }

  // Nothing that a finished job has left behind is still being stopped.
  Result<bool> leftovers_gone(const std::vector<JobId>& ids) {
    for (const JobId& id : ids) {
      TRY_ASSIGN(const std::optional<store::LeftoverRow> left,
                 store::find_leftover(work_.db(), id));
      if (left && left->stop && left->alive()) return false;
    }
    return true;
  }

  Outcome jobs_now(const Caller& caller, const Host& host, const std::vector<JobId>& ids,
                   bool timed_out) {
    JobsReply answer;
    answer.timed_out = timed_out;
    TRY_ASSIGN(answer.jobs, views(caller.owner, ids));
    TRY_ASSIGN(answer.reported, report(work_, caller, host, answer.jobs));
    return reply(std::move(answer));
  }

  Result<std::vector<JobId>> stop_targets(const StopRequest& request) {
    if (!request.all) return request.jobs;
    TRY_ASSIGN(const std::vector<store::JobRow> live,
               store::live_jobs_of(work_.db(), request.caller.owner));
    std::vector<JobId> ids;
    for (const store::JobRow& job : live) ids.push_back(job.id);
    return ids;
  }

  Result<void> stop_jobs(const StopRequest& request, const std::vector<JobId>& ids) {
    const bool host = request.caller.host_key && !core::is_user_session(request.caller.owner);
    const StopOrder order{host ? core::Cause::model : core::Cause::user, host ? "owner" : "user",
                          request.reason, true};
    for (const JobId& id : ids) {
      TRY_ASSIGN(store::JobRow job, store::need_job(work_.db(), request.caller.owner, id));
      TRY(core::is_terminal(job.status) ? stop_leftovers(work_, job, order)
                                        : stop(work_, job, order));
    }
    return {};
  }

  static core::OfferPath path_of(const InboxRequest& request) {
    if (request.tool) return core::OfferPath::tool;
    if (request.no_ack) return core::OfferPath::hold;
    return request.follow ? core::OfferPath::follow : core::OfferPath::inbox;
  }

  // The open turn, if it is this host's: what an earlier host began is first resumed or abandoned.
  Result<std::optional<store::TurnRow>> own_turn(const core::Owner& owner, const Host& host) {
    auto turn = store::find_open_turn(work_.db(), owner);
    if (turn && *turn && (*turn)->fence != host.fence) return std::optional<store::TurnRow>();
    return turn;
  }

  // An idle session is woken only by rows that may wake it; an explicit look, a person, and a turn
  // that runs anyway take everything that is theirs.
  Result<std::vector<store::InboxRow>> inbox_rows(const InboxRequest& request,
                                                  const std::optional<store::TurnRow>& turn) {
    const core::Owner& owner = request.caller.owner;
    if (turn && turn->stopped) return std::vector<store::InboxRow>{};
    if (turn) return deliverable(work_, owner, turn->id, Which::all);
    // A tool result goes to a model that runs anyway, whether its turn is known here or not.
    if (request.tool) return deliverable(work_, owner, {}, Which::all);
    TRY_ASSIGN(std::vector<store::InboxRow> rows, deliverable(work_, owner, {}, Which::unheld));
    const bool looks = look_.first && !request.follow;
    if (looks || core::is_user_session(owner)) return rows;
    if (std::ranges::none_of(rows, [](const store::InboxRow& row) { return row.wakes; }))
      rows.clear();
    return rows;
  }

  Work& work_;
  Context& context_;
  Look look_;
};

struct OwnerOf {
  std::optional<core::Owner> operator()(const StatusRequest&) { return std::nullopt; }
  // An operator's, who acts on owners that are refused.
  std::optional<core::Owner> operator()(const OwnersRequest&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const ReleaseOwnerRequest&) { return std::nullopt; }
  // It asks whose a call is; the session it finds may be any of the host's.
  std::optional<core::Owner> operator()(const HostRequest&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const ObservedFacts&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const MonitorTold&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const ConnectionClosed&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const StopAllRequest&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const PruneRequest&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const StoreDamaged&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const ReconcileRequest&) { return std::nullopt; }
  std::optional<core::Owner> operator()(const HostGone& gone) { return gone.owner; }
  template <class Request>
  std::optional<core::Owner> operator()(const Request& request) {
    return request.caller.owner;
  }
};

std::string refusal_text(const core::Owner& owner, const Refusal& refusal) {
  const std::string start = "Session " + owner.session.str() + " is refused: " + refusal.why;
  if (refusal.code == ErrorCode::owner_unrecoverable) {
    return start +
           " The outstanding owner is retained, no new work was started. `waybill owners` names "
           "its jobs, `waybill owners release " +
           owner.session.str() + " --reason R` gives them up.";
  }
  return start +
         " Nothing was discarded and nothing new is started for it; `waybill doctor` tells more.";
}

bool changes(const Command& command) {
  return !std::holds_alternative<ShowRequest>(command) &&
         !std::holds_alternative<SessionShowRequest>(command) &&
         !std::holds_alternative<StatusRequest>(command) &&
         !std::holds_alternative<OwnersRequest>(command) &&
         !std::holds_alternative<HostRequest>(command) &&
         !std::holds_alternative<SessionWaitRequest>(command);
}

}  // namespace

std::optional<core::Owner> owner_of(const Command& command) {
  return std::visit(OwnerOf{}, command);
}

Outcome handle(Work& work, Context& context, Command& command, Look look) {
  const std::optional<core::Owner> owner = owner_of(command);
  if (owner && changes(command)) {
    const auto poisoned = context.poisoned.find(*owner);
    if (poisoned != context.poisoned.end()) {
      return fail(poisoned->second.code, refusal_text(*owner, poisoned->second));
    }
  }
  return std::visit(Handler(work, context, look), command);
}

std::optional<Result<Reply>> read_only(Work& work, Context& context, const Command& command) {
  if (const auto* show = std::get_if<ShowRequest>(&command)) {
    const auto read = [&]() -> Result<Reply> {
      TRY_ASSIGN(const store::JobRow job,
                 store::need_job(work.db(), show->caller.owner, show->job));
      JobReply answer;
      TRY_ASSIGN(answer.job, view_job(work.db(), job, Detail::full));
      return Reply(std::move(answer));
    };
    return read();
  }
  if (!std::holds_alternative<StatusRequest>(command) &&
      !std::holds_alternative<OwnersRequest>(command)) {
    return std::nullopt;
  }
  Command status = command;
  auto answered = handle(work, context, status, {});
  if (!answered) return Result<Reply>(fail(answered.error()));
  return Result<Reply>(std::move(**answered));
}

Waits waits_of(const Command& command) {
  if (const auto* wait = std::get_if<WaitRequest>(&command)) {
    return {wait->caller.owner, wait->caller.connection, wait->timeout, 0};
  }
  if (const auto* stop = std::get_if<StopRequest>(&command)) {
    return {stop->caller.owner, stop->caller.connection, stop->timeout, 0};
  }
  if (const auto* turn = std::get_if<TurnRequest>(&command)) {
    return {turn->caller.owner, turn->caller.connection, turn->timeout, 1};
  }
  if (const auto* inbox = std::get_if<InboxRequest>(&command)) {
    return {inbox->caller.owner, inbox->caller.connection, inbox->timeout.value_or(Millis(0)), 2};
  }
  if (const auto* wake = std::get_if<WakeRequest>(&command)) {
    return {wake->caller.owner, wake->caller.connection, wake->timeout, 2};
  }
  if (const auto* session = std::get_if<SessionWaitRequest>(&command)) {
    return {session->caller.owner, session->caller.connection, session->timeout, 3};
  }
  if (const auto* all = std::get_if<StopAllRequest>(&command)) return {{}, 0, all->timeout, 4};
  return {};
}

Result<void> timer(Work& work, Context& context, const core::Owed& owed) {
  switch (owed.kind) {
    case core::OwedKind::offer_expiry:
      return return_expired(work, DeliveryId(owed.key));
    case core::OwedKind::host_lease:
      return check_lease(work, context.connections, owed.owner);
    case core::OwedKind::stop_stuck:
      return stop_stuck(work, JobId(owed.key));
    case core::OwedKind::start_within:
      return start_within_passed(work, JobId(owed.key));
    case core::OwedKind::turn_abandon: {
      const std::string turn = owed.key.substr(owner_key(owed.owner).size() + 1);
      return abandon_turn(work, owed.owner, TurnId(turn), "no host came back for it");
    }
    case core::OwedKind::prune:
      return prune_due(work);
    case core::OwedKind::wake:
      return wake_due(work, owed.owner);
    case core::OwedKind::supervise:
      break;  // waits for facts, not for time
  }
  return {};
}

bool postpone(Work& work, const core::Owed& owed, const std::string& why) {
  core::Owed later = owed;
  ++later.tries;
  later.last_error = why;
  const core::Backoff backoff{work.settings().backoff_first, work.settings().backoff_max};
  later.due_at = work.now() + core::backoff_delay(backoff, later.tries, store::random_unit());
  return store::put_owed(work.db(), later).has_value();
}

Result<void> recover_jobs(Work& work) {
  TRY_ASSIGN(const std::vector<core::Owed> owed,
             store::owed_of_kind(work.db(), core::OwedKind::supervise));
  for (const core::Owed& row : owed) {
    TRY_ASSIGN(const bool elsewhere, store::is_unrecoverable(work.db(), JobId(row.key)));
    if (!elsewhere) work.supervise(JobId(row.key));
  }
  return fill_slots(work);
}

}  // namespace waybill::engine
