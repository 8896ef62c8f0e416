#pragma once
// From rows to what callers see. Pure reads; used on the engine's thread and on the reader's.

#include "engine/api.h"
#include "store/database.h"
#include "store/inbox.h"
#include "store/jobs.h"
#include "store/sessions.h"

namespace waybill::engine {

enum class Detail { brief, full };  // full: with receipts and events

Result<JobView> view_job(store::Database& db, const store::JobRow& job, Detail detail);
// The same, in full, for a job accepted in this transaction: the last of the `queued` jobs of its
// session, and without events.
Result<JobView> view_new_job(store::Database& db, const store::JobRow& job, std::uint64_t queued);
Result<SessionView> view_session(store::Database& db, const Settings& settings,
                                 const store::SessionRow& session);
Result<Outstanding> view_outstanding(store::Database& db, const core::Owner& owner);
TurnView view_turn(const store::TurnRow& turn);
EventView view_event(const store::InboxRow& row);

// The same for a session that nobody has used yet.
SessionView view_unknown_session(const core::Owner& owner);

}  // namespace waybill::engine
