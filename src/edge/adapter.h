#pragma once
// How a live agent client is reached from outside: one implementation per client. An adapter says
// how the session stands and puts a text into it; it knows nothing of jobs, and decides nothing
// (edge/delivery_step.h does).
//
// Used by one thread at a time. Every call is bounded in time, and one that cannot tell whether the
// client took the text says `unreachable`: then it comes again, marked as a repeat.

#include <string>
#include <string_view>

#include "core/words.h"

namespace waybill::edge {

enum class ProbeState {
  idle,     // no turn runs; a text begins one
  running,  // a turn runs; a text can still enter it
  gone,     // the session is not there, or nothing answers
  unknown,  // there, but it does not tell
};

struct Probe {
  ProbeState state = ProbeState::unknown;
  std::string turn;  // of `running`: the client's own id of the turn, "" when it is not known
};

enum class PutOutcome {
  accepted,     // the client has it
  stale_turn,   // another turn runs than the one that was named
  not_running,  // no turn runs
  busy,         // the client answered and would not take it now
  unreachable,  // nobody answered, or not in time
};

class Adapter {
 public:
  virtual ~Adapter() = default;
  Adapter() = default;
  Adapter(const Adapter&) = delete;
  Adapter& operator=(const Adapter&) = delete;

  virtual Probe probe() = 0;
  // Into this very turn and no other: stale_turn, not_running.
  virtual PutOutcome steer(const std::string& turn, std::string_view text) = 0;
  // Begins a turn, or enters the one that has begun meanwhile.
  virtual PutOutcome wake(std::string_view text) = 0;
  // Into what the model reads next, without a turn; `busy` from a client that knows no such thing.
  virtual PutOutcome inject(std::string_view text) = 0;
  // Whether it can be given a notice. One that cannot (its messages are seen by others on their
  // way) only makes a turn begin, which takes what is pending.
  virtual bool carries() const { return true; }
  // Whether what it accepted survives the end of the client, so that acceptance settles it.
  virtual bool durable() const = 0;
  // The text accepted last has been recorded under this delivery. An adapter that is not durable
  // acknowledges it when the client has shown that the model read it.
  virtual void recorded(const std::string& /*delivery*/) {}
};

}  // namespace waybill::edge

namespace waybill::core {

WAYBILL_WORDS(edge::ProbeState, 4, "idle", "running", "gone", "unknown");
WAYBILL_WORDS(edge::PutOutcome, 5, "accepted", "stale_turn", "not_running", "busy", "unreachable");

}  // namespace waybill::core
