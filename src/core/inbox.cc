#include "core/inbox.h"

#include <array>

namespace waybill::core {
namespace {

constexpr std::size_t kStates = kWordCount<InboxState>;
constexpr std::size_t kTriggers = kWordCount<InboxTrigger>;

constexpr InboxStep go(InboxState to) { return {InboxAction::go, to}; }
constexpr InboxStep ignore(InboxState to) { return {InboxAction::ignore, to}; }
constexpr InboxStep forbid() { return {}; }

using S = InboxState;

// Columns: offer, accept, confirm, back, drop, park, unpark.
// Confirming a pending row is legal: an expired offer can still be acknowledged (SPEC section 6).
constexpr std::array<std::array<InboxStep, kTriggers>, kStates> kTable{{
    /* pending  */ {{go(S::offered), forbid(), go(S::acked), ignore(S::pending), go(S::dropped),
                     go(S::parked), ignore(S::pending)}},
    /* offered  */
    {{forbid(), go(S::accepted), go(S::acked), go(S::pending), go(S::dropped), go(S::parked),
      forbid()}},
    /* accepted */
    {{forbid(), ignore(S::accepted), go(S::acked), go(S::pending), go(S::dropped), forbid(),
      forbid()}},
    /* acked    */
    {{forbid(), ignore(S::acked), ignore(S::acked), ignore(S::acked), ignore(S::acked), forbid(),
      forbid()}},
    /* dropped  */
    {{forbid(), forbid(), ignore(S::dropped), ignore(S::dropped), ignore(S::dropped), forbid(),
      forbid()}},
    /* parked   */
    {{forbid(), forbid(), go(S::acked), ignore(S::parked), go(S::dropped), ignore(S::parked),
      go(S::pending)}},
}};

constexpr bool endings_stay() {
  for (std::size_t trigger = 0; trigger < kTriggers; ++trigger) {
    for (const S state : {S::acked, S::dropped}) {
      if (kTable[static_cast<std::size_t>(state)][trigger].action == InboxAction::go) return false;
    }
  }
  return true;
}
static_assert(endings_stay(), "acked and dropped rows never change");

}  // namespace

InboxStep inbox_step(InboxState state, InboxTrigger trigger) {
  return kTable[static_cast<std::size_t>(state)][static_cast<std::size_t>(trigger)];
}

}  // namespace waybill::core
