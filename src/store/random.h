#pragma once
// Unpredictable ids, sorted by time.

#include <string>
#include <string_view>

#include "base/clock.h"

namespace waybill::store {

// "<prefix>" + 26 characters: see make_sortable_id.
std::string random_id(std::string_view prefix, const Clock& clock);

// Uniform in [0, 1), for jitter.
double random_unit();

}  // namespace waybill::store
