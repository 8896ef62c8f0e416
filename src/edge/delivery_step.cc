#include "edge/delivery_step.h"

namespace waybill::edge {

PutCall put_call(const Probe& probe) {
  switch (probe.state) {
    case ProbeState::idle:
    case ProbeState::unknown:
      return PutCall::wake;
    case ProbeState::running:
      return PutCall::steer;
    case ProbeState::gone:
      return PutCall::none;
  }
  return PutCall::none;
}

AfterPut after_put(PutOutcome outcome, unsigned tries) {
  switch (outcome) {
    case PutOutcome::accepted:
      return AfterPut::flush;
    case PutOutcome::stale_turn:
    case PutOutcome::not_running:
      return tries < kPutTriesMax ? AfterPut::retry : AfterPut::give_up;
    case PutOutcome::busy:
    case PutOutcome::unreachable:
      return AfterPut::give_up;
  }
  return AfterPut::give_up;
}

}  // namespace waybill::edge
