#include "core/retry.h"

#include <algorithm>

namespace waybill::core {

Millis backoff_delay(const Backoff& backoff, unsigned tries, double jitter) {
  Millis step = std::min(backoff.first, backoff.max);
  for (unsigned i = 1; i < tries && step < backoff.max; ++i) step = std::min(step * 2, backoff.max);
  const double spread = std::clamp(jitter, 0.0, 1.0) / 2.0;
  const double ms = static_cast<double>(step.count()) * (0.5 + spread);
  return std::max(Millis(1), Millis(static_cast<Millis::rep>(ms)));
}

}  // namespace waybill::core
