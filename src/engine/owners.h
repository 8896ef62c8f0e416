#pragma once
// Owners that cannot be recovered (SPEC section 8): what ran at another place, or was saved without
// a generation, can be neither attached nor proven gone. Such an owner is refused as a whole,
// everything of it is retained, and an operator gives it up explicitly.

#include "engine/work.h"

namespace waybill::engine {

// Whether the store is where it was last served. If it is not (a copy of the data directory, or the
// same one on another machine), every live job is marked: what runs, or is about to be started, may
// be so over there. Inside the transaction of the start.
Result<void> check_place(Work& work);

// Refuses the owners of marked jobs.
Result<void> refuse_unrecoverable(Work& work);

Result<OwnersReply> owners(Work& work, const PoisonedOwners& refused, const OwnersRequest& request);

// Ends what is marked of this owner, and what could not be stopped: `failed`, unknown, unproven.
// Errors: not_found (nothing of it is retained), state_corrupt (it does not parse: no release
// helps).
Result<JobsReply> release_owner(Work& work, const PoisonedOwners& refused,
                                const ReleaseOwnerRequest& request);

// Live jobs that something can be done with from here.
Result<std::vector<store::JobRow>> attachable_jobs(Work& work);

}  // namespace waybill::engine
