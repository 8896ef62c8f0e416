#pragma once
// What goes when it was kept long enough (SPEC sections 5, 12 and 13; docs/retention.md). Files of
// a job go before its rows: whatever is cut off in between is a finished job without files, which
// recovery never looks at, and the next look goes on. Nothing goes that somebody may still need.
// The work of one transaction is bounded; what is left is owed.

#include "engine/work.h"

namespace waybill::engine {

// The job has ended: its age counts from now.
Result<void> keep_finished_job(Work& work, const store::JobRow& job);
Result<void> keep_closed_turn(Work& work, const store::TurnRow& turn);
// Nobody is there: whoever does not come back for 30 days has given its events up.
Result<void> session_is_absent(Work& work, const core::Owner& owner);

// The owed `prune`: some of what is due, and when to look again.
Result<void> prune_due(Work& work);
// Sets that time, also after the setting was changed.
Result<void> plan_prune(Work& work);

// An operator's `prune`: one page of jobs.
Result<PruneReply> prune_now(Work& work, const PruneRequest& request);

}  // namespace waybill::engine
