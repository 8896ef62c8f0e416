#include "engine/work.h"

#include "base/check.h"
#include "engine/retention.h"
#include "store/retention.h"

namespace waybill::engine {

std::string owner_key(const core::Owner& owner) {
  return owner.tenant.str() + " " + owner.session.str();
}

std::string turn_key(const core::Owner& owner, const TurnId& turn) {
  return owner_key(owner) + " " + turn.str();
}

Result<Work::Cached*> Work::load(const core::Owner& owner) {
  const auto found = sessions_.find(owner);
  if (found != sessions_.end()) return &found->second;
  Cached cached;
  TRY_ASSIGN(cached.row, store::find_session(db(), owner));
  return &sessions_.emplace(owner, std::move(cached)).first->second;
}

Result<store::SessionRow*> Work::find_session(const core::Owner& owner) {
  TRY_ASSIGN(Cached * cached, load(owner));
  return cached->row ? &*cached->row : nullptr;
}

Result<store::SessionRow*> Work::session(const core::Owner& owner) {
  TRY_ASSIGN(Cached * cached, load(owner));
  if (!cached->row) {
    cached->row.emplace();
    cached->row->owner = owner;
    cached->row->created_at = wall();
    TRY_ASSIGN(cached->row->fence, store::high_water(db(), "fence"));  // never given twice (I16)
    cached->is_new = true;
  }
  cached->dirty = true;
  return &*cached->row;
}

Result<void> Work::touch(const core::Owner& owner) {
  TRY_ASSIGN(store::SessionRow * row, session(owner));
  ++row->revision;
  after_.touched.insert(owner);
  return {};
}

Result<void> Work::flush() {
  for (auto& [owner, cached] : sessions_) {
    if (!cached.dirty) continue;
    if (cached.is_new) {
      TRY(store::insert_session(db(), *cached.row));
      if (!cached.row->lease_live) TRY(session_is_absent(*this, owner));
    } else {
      TRY(store::update_session(db(), *cached.row));
    }
    cached.is_new = false;
    cached.dirty = false;
  }
  return {};
}

void Work::poison(const core::Owner& owner, const std::string& why, ErrorCode code) {
  if (!poisoned_.emplace(owner, Refusal{code, why}).second) return;
  parts_.warn("session " + owner.session.str() + " of tenant " + owner.tenant.str() +
              " is refused from now on: " + why);
}

void Work::restore(Mark mark) {
  sequences_ = mark.sequences;
  after_ = std::move(mark.after);
  sessions_.clear();  // read again from the store, where the savepoint undid them
}

std::set<core::Owner> Work::take_touched() { return std::exchange(after_.touched, {}); }

core::Receipt Work::receipt_of(const store::JobRow& job, core::ReceiptName name,
                               core::JobStatus to) {
  core::Receipt receipt;
  receipt.job = job.id;
  receipt.seq = job.receipts + 1;
  receipt.node_seq = ++sequences_.node;
  receipt.attempt = job.attempt;
  receipt.activation = job.activation;
  receipt.from = job.status;
  receipt.to = to;
  receipt.name = name;
  receipt.at = wall();
  receipt.scope = job.scope;
  return receipt;
}

Result<void> Work::accept(store::JobRow& job, std::string actor) {
  CHECK(job.receipts == 0 && job.status == core::JobStatus::queued);
  core::Receipt receipt = receipt_of(job, core::ReceiptName::queued, core::JobStatus::queued);
  receipt.from = std::nullopt;
  receipt.actor = std::move(actor);
  job.receipts = receipt.seq;
  TRY(store::insert_job(db(), job));
  job.receipts = 0;
  TRY(store::write_transition(db(), job, receipt, std::nullopt));
  TRY_ASSIGN(store::SessionRow * row, session(job.scope.owner));
  ++row->queued;
  return touch(job.scope.owner);
}

Result<void> Work::apply(store::JobRow& job, const Change& change) {
  TRY_ASSIGN(const core::JobStep step, core::step(job.status, change.trigger));
  if (step.action == core::StepAction::replay) return {};
  const core::JobStatus from = job.status;
  core::Receipt receipt = receipt_of(job, step.receipt, step.to);
  receipt.cause = change.cause;
  receipt.actor = change.actor;
  receipt.reason = change.reason;
  if (change.trigger == core::JobTrigger::claim) {
    // An activation is the node's receipt number of its start: never reused (I16).
    ++receipt.attempt;
    receipt.activation = receipt.node_seq;
  }
  TRY(store::write_transition(db(), job, receipt, change.ending));
  TRY_ASSIGN(store::SessionRow * row, session(job.scope.owner));
  if (from == core::JobStatus::queued) --row->queued;
  if (from == core::JobStatus::running) {
    --row->running;
    --sequences_.running;
  }
  if (step.to == core::JobStatus::queued) ++row->queued;
  if (step.to == core::JobStatus::running) {
    ++row->running;
    ++sequences_.running;
  }
  return touch(job.scope.owner);
}

Result<void> Work::note(store::JobRow& job, core::ReceiptName name,
                        std::optional<core::Cause> cause, std::string actor, std::string reason) {
  core::Receipt receipt = receipt_of(job, name, job.status);
  if (core::is_terminal(job.status)) {
    // The row is closed; the newest number is asked of the receipts themselves.
    TRY_ASSIGN(const std::int64_t newest,
               db().integer("SELECT max(seq) FROM receipt WHERE job = $1", {job.id}));
    receipt.seq = static_cast<std::uint32_t>(newest) + 1;
  }
  receipt.cause = cause;
  receipt.actor = std::move(actor);
  receipt.reason = std::move(reason);
  TRY(store::write_transition(db(), job, receipt, std::nullopt));
  return touch(job.scope.owner);
}

Result<void> Work::owe(core::OwedKind kind, std::string key, const core::Owner& owner,
                       WallTime due_at, std::uint64_t fence) {
  core::Owed owed;
  owed.kind = kind;
  owed.key = std::move(key);
  owed.owner = owner;
  owed.due_at = due_at;
  owed.fence = fence;
  return store::put_owed(db(), owed);
}

Result<void> Work::owe_once(core::OwedKind kind, std::string key, const core::Owner& owner,
                            WallTime due_at) {
  TRY_ASSIGN(const std::optional<core::Owed> there, store::find_owed(db(), kind, key));
  if (there) return {};
  return owe(kind, std::move(key), owner, due_at);
}

Result<void> Work::owe_by(core::OwedKind kind, std::string key, const core::Owner& owner,
                          WallTime due_at) {
  TRY_ASSIGN(const std::optional<core::Owed> there, store::find_owed(db(), kind, key));
  if (there && there->due_at <= due_at) return {};
  return owe(kind, std::move(key), owner, due_at);
}

Result<void> Work::settle_owed(core::OwedKind kind, std::string_view key) {
  return store::remove_owed(db(), kind, key);
}

}  // namespace waybill::engine
