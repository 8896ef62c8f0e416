#pragma once
// Where a command's transaction can be cut off by a test (base/crash_point.h): one line per kind of
// command, so that a new one has to say.

#include "base/crash_point.h"
#include "engine/command.h"

namespace waybill::engine {

// The three moments of a transaction at which the daemon may be killed in a test.
enum class Moment { before_commit, after_commit, after_answer };

inline void pass(Moment moment, CrashPoint before, CrashPoint committed, CrashPoint answered) {
  switch (moment) {
    case Moment::before_commit:
      return crash_point(before);
    case Moment::after_commit:
      return crash_point(committed);
    case Moment::after_answer:
      return crash_point(answered);
  }
}

#define WAYBILL_POINTS(name) \
  pass(moment, name ".before_commit", name ".after_commit", name ".after_answer")

struct PassPoints {
  Moment moment;
  void operator()(const AttachRequest&) const { WAYBILL_POINTS("engine.attach"); }
  void operator()(const TurnRequest&) const { WAYBILL_POINTS("engine.turn"); }
  void operator()(const RunRequest&) const { WAYBILL_POINTS("engine.run"); }
  void operator()(const ObservedFacts&) const { WAYBILL_POINTS("engine.facts"); }
  void operator()(const InboxRequest&) const { WAYBILL_POINTS("engine.inbox"); }
  void operator()(const FlushedRequest&) const { WAYBILL_POINTS("engine.flushed"); }
  void operator()(const AckRequest&) const { WAYBILL_POINTS("engine.ack"); }
  void operator()(const StopRequest&) const { WAYBILL_POINTS("engine.stop"); }
  // These write nothing that is not written again, or are only timers and closed connections.
  void operator()(const ShowRequest&) const {}
  void operator()(const WaitRequest&) const {}
  void operator()(const DetachRequest&) const { WAYBILL_POINTS("client.detach"); }
  void operator()(const ReturnedRequest&) const {}
  void operator()(const WakeRequest&) const {}
  void operator()(const CallRequest&) const { WAYBILL_POINTS("client.call"); }
  void operator()(const HostRequest&) const {}
  void operator()(const SessionShowRequest&) const {}
  void operator()(const SessionWaitRequest&) const {}
  void operator()(const StatusRequest&) const {}
  void operator()(const MonitorTold&) const { WAYBILL_POINTS("engine.monitor"); }
  void operator()(const ConnectionClosed&) const {}
  void operator()(const HostGone&) const {}
  void operator()(const StopAllRequest&) const {}
  void operator()(const StoreDamaged&) const {}
  void operator()(const PruneRequest&) const { WAYBILL_POINTS("engine.prune"); }
};
#undef WAYBILL_POINTS

}  // namespace waybill::engine
