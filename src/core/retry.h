#pragma once
// Back-off arithmetic: doubling from `first`, never above `max`, with a jitter the caller draws.

#include "base/clock.h"

namespace waybill::core {

struct Backoff {
  Millis first{500};
  Millis max{60000};
};

// Delay before try number `tries + 1` after `tries` failures (tries >= 1). `jitter` in [0, 1)
// spreads it over the upper half of the step, so that it is never 0 and never above max.
Millis backoff_delay(const Backoff& backoff, unsigned tries, double jitter);

}  // namespace waybill::core
