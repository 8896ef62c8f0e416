#pragma once
// Waking the client of a session whose job has ended (SPEC section 7). A wake hands nothing over:
// it makes a turn begin, and the turn takes what is pending, so that there is one path of delivery.
// A client that lives has a call of its own waiting here (`wake`); one that is closed and may be
// started is started by a command job, which is supervised, recorded and never run twice.

#include "engine/access.h"
#include "engine/work.h"

namespace waybill::engine {

// The call of a client that waits for a reason to begin a turn. nullopt: not yet. It never
// attaches: for a session that its host has left it is over at once.
Result<std::optional<WakeReply>> wake(Work& work, KeyedConnections& connections,
                                      const WakeRequest& request, bool last);

// What is pending in the session or who is there has changed: when has a wake to be looked at?
Result<void> plan_wake(Work& work, const core::Owner& owner);

// That time has come.
Result<void> wake_due(Work& work, const core::Owner& owner);

// Whether the session may go on once more without a user, and that it does (I18). Sessions whose
// host is no client are not counted here.
Result<bool> may_continue(Work& work, const core::Owner& owner);
Result<void> continued(Work& work, const core::Owner& owner);

// The hand-over that a wake came to was given back: nobody was reached, nothing was spent. The wake
// stays open for its time, so that the next try is not at once.
Result<void> wake_failed(Work& work, const core::Owner& owner);

// A turn has begun: the open wake is over, and a user who spoke lifts the bound.
Result<void> turn_began(Work& work, const core::Owner& owner, core::Author author);

// In the transaction that settles a job: if it had been started to wake a client and the client
// took nothing, another try is due later.
Result<void> wake_job_settled(Work& work, const store::JobRow& job);

}  // namespace waybill::engine
