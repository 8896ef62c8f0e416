// An engine whose store is behind what its node has seen: reads go on, everything else waits for
// `reconcile`. And the mark that shows it (store/mark.h).

#include "base/crash_point.h"
#include "engine/engine_impl.h"
#include "engine/reconcile.h"
#include "store/jobs.h"

namespace waybill::engine {
namespace {

Error refusal(const std::string& why) {
  return Error{ErrorCode::store_regressed,
               "The store is behind what this node has seen: " + why +
                   ". Nothing is started, changed or discarded; the store, the job directories and "
                   "whatever runs are kept as they are. Run `waybill reconcile` to bring it up to "
                   "what the job directories say, or put the newer store back."};
}

}  // namespace

void Engine::Impl::answer_regressed(const Ticket& ticket) {
  if (std::holds_alternative<ReconcileRequest>(ticket.command)) {
    return ticket.done(reconcile_now());
  }
  Work work = make_work();
  Context shared = context();
  if (auto read = read_only(work, shared, ticket.command)) {
    auto* status = *read ? std::get_if<StatusReply>(&**read) : nullptr;
    if (status != nullptr) status->poisoned = refusal(parts_.regressed).message;
    return ticket.done(std::move(*read));
  }
  ticket.done(fail(refusal(parts_.regressed)));
}

// One transaction: killed anywhere before its commit, nothing has happened; after it, everything.
Result<ReconcileReply> Engine::Impl::commit_reconciled() {
  const Sequences before = sequences_;
  Work work = make_work();
  TRY(parts_.database.begin());
  const auto all = [&]() -> Result<ReconcileReply> {
    TRY_ASSIGN(ReconcileReply made, reconcile(work, parts_.seen));
    TRY(work.flush());
    crash_point("reconcile.before_commit");
    TRY(parts_.database.commit());
    return made;
  };
  auto made = all();
  if (!made) {
    const bool open = !parts_.database.in_transaction() && !parts_.database.wrote_nothing();
    parts_.database.rollback();
    sequences_ = before;
    if (open) poison(made.error());
  }
  return made;
}

Result<Reply> Engine::Impl::reconcile_now() {
  TRY_ASSIGN(ReconcileReply made, commit_reconciled());
  crash_point("reconcile.after_commit");
  parts_.warn("reconciled: " + std::to_string(made.rebuilt.size()) + " job(s) rebuilt, " +
              std::to_string(made.settled.size()) + " brought up to date, " +
              std::to_string(made.ended.size()) + " ended, " +
              std::to_string(made.quarantined.size()) + " quarantined; it was refused since " +
              parts_.regressed);
  parts_.incarnation = made.incarnation;
  parts_.regressed.clear();
  mark();
  crash_point("reconcile.after_mark");
  // From here on as after any start.
  TRY(load());
  if (auto recovered = recover(); !recovered) {
    poison(recovered.error());
    return fail(recovered.error());
  }
  return Reply(std::move(made));
}

// A backup that was put here and that nothing has happened after: the same rows, but another store
// from now on, since its fences may have been given out again (I16).
Result<void> Engine::Impl::take_copy() {
  Work work = make_work();
  TRY(parts_.database.begin());
  const auto all = [&]() -> Result<std::string> {
    TRY_ASSIGN(std::string incarnation, begin_incarnation(work));
    TRY(work.flush());
    TRY(parts_.database.commit());
    return incarnation;
  };
  auto incarnation = all();
  if (!incarnation) {
    parts_.database.rollback();
    return fail(incarnation.error());
  }
  parts_.incarnation = std::move(*incarnation);
  parts_.copy = false;
  return {};
}

void Engine::Impl::mark() const {
  if (parts_.mark) parts_.mark(parts_.incarnation, sequences_.node);
}

const std::string& Engine::regressed() const { return impl_->regressed(); }

}  // namespace waybill::engine
