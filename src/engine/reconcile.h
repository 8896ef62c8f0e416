#pragma once
// A store that is behind what this node has seen, brought up to what the job directories say (SPEC
// section 8): a restored backup, lost commits, another store put in its place.

#include <string>

#include "engine/api.h"
#include "engine/work.h"

namespace waybill::engine {

// All of it inside the transaction under way, or nothing. `seen`: the highest receipt number that
// this node has seen; everything that is written here lies above it. The store has a new
// incarnation afterwards, which the reply names.
Result<ReconcileReply> reconcile(Work& work, std::uint64_t seen);

// Directories that say that their command may have run and that have no row. Nothing is changed.
Result<ReconcileReply> name_quarantined(Work& work);

// The store goes on as another one: no host of before is its host any more, every hand-over of
// before is void, and what is pending may have been heard (I3, I16). Gives its new name.
Result<std::string> begin_incarnation(Work& work);

}  // namespace waybill::engine
