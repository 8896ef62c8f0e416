#pragma once
// What a delivery into a live client does next. Pure: a probe or an outcome in, a step out.

#include "edge/adapter.h"

namespace waybill::edge {

enum class PutCall {
  none,   // nobody there: take nothing, wait for the next wake
  steer,  // into the turn that runs
  wake,   // begin one
};

PutCall put_call(const Probe& probe);

enum class AfterPut {
  flush,    // confirm the delivery
  retry,    // give it back, probe and take again at once
  give_up,  // give it back and wait for the next wake
};

// The client changed under the call this often before the next wake is waited for.
inline constexpr unsigned kPutTriesMax = 3;

// `tries`: calls made for this wake so far, this one included.
AfterPut after_put(PutOutcome outcome, unsigned tries);

}  // namespace waybill::edge

namespace waybill::core {

WAYBILL_WORDS(edge::PutCall, 3, "none", "steer", "wake");
WAYBILL_WORDS(edge::AfterPut, 3, "flush", "retry", "give_up");

}  // namespace waybill::core
