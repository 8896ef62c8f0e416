#pragma once
// Turns: at most one open per session; a turn cannot close while a job of its own is unsettled, and
// hands over what would wake its host before it closes (SPEC section 5).

#include "engine/access.h"
#include "engine/work.h"

namespace waybill::engine {

// One turn verb, in one transaction. `last`: answer now, whatever is still waited for. nullopt: not
// yet (only with request.wait).
Result<std::optional<TurnReply>> turn(Work& work, KeyedConnections& connections,
                                      const TurnRequest& request, bool first, bool last);

// In the transaction that settles a job: a stopped turn whose last job this was closes by itself.
Result<void> turn_job_settled(Work& work, const store::JobRow& job);

// Nobody came back for an open turn: its jobs and its pending events become the session's.
Result<void> abandon_turn(Work& work, const core::Owner& owner, const TurnId& turn,
                          const std::string& why);

}  // namespace waybill::engine
