#pragma once
// Where a command's transaction can be cut off by a test (base/crash_point.h): one line per kind of
// command, so that a new one has to say.

#include "base/crash_point.h"
#include "core/owed.h"
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
  void operator()(const ShowRequest&) const { WAYBILL_POINTS("engine.show"); }
  void operator()(const WaitRequest&) const { WAYBILL_POINTS("engine.wait"); }
  void operator()(const DetachRequest&) const { WAYBILL_POINTS("client.detach"); }
  void operator()(const ReturnedRequest&) const { WAYBILL_POINTS("engine.returned"); }
  void operator()(const WakeRequest&) const { WAYBILL_POINTS("engine.wake"); }
  void operator()(const CallRequest&) const { WAYBILL_POINTS("client.call"); }
  void operator()(const MonitorTold&) const { WAYBILL_POINTS("engine.monitor"); }
  void operator()(const ConnectionClosed&) const { WAYBILL_POINTS("engine.closed"); }
  void operator()(const HostGone&) const { WAYBILL_POINTS("engine.gone"); }
  void operator()(const StopAllRequest&) const { WAYBILL_POINTS("engine.stop_all"); }
  void operator()(const ReleaseOwnerRequest&) const { WAYBILL_POINTS("engine.release"); }
  // These write nothing.
  void operator()(const HostRequest&) const {}
  void operator()(const SessionShowRequest&) const {}
  void operator()(const SessionWaitRequest&) const {}
  void operator()(const StatusRequest&) const {}
  void operator()(const StoreDamaged&) const {}
  void operator()(const PruneRequest&) const { WAYBILL_POINTS("engine.prune"); }
  void operator()(const OwnersRequest&) const {}
  void operator()(const ReconcileRequest&) const {}  // its own transaction (engine/regressed.cc)
};
#undef WAYBILL_POINTS

// Around the effect of what is owed. A kind without its points does not compile.
enum class OwedMoment { before, after };

#define WAYBILL_OWED(name, stem)                                                     \
  return crash_point(moment == OwedMoment::before ? CrashPoint(name ".before_" stem) \
                                                  : CrashPoint(name ".after_" stem))

inline void pass(core::OwedKind kind, OwedMoment moment) {
  switch (kind) {
    case core::OwedKind::supervise:
      WAYBILL_OWED("owed.supervise", "effect");
    case core::OwedKind::offer_expiry:
      WAYBILL_OWED("owed.offer_expiry", "commit");
    case core::OwedKind::host_lease:
      WAYBILL_OWED("owed.host_lease", "commit");
    case core::OwedKind::turn_abandon:
      WAYBILL_OWED("owed.turn_abandon", "commit");
    case core::OwedKind::stop_stuck:
      WAYBILL_OWED("owed.stop_stuck", "commit");
    case core::OwedKind::start_within:
      WAYBILL_OWED("owed.start_within", "commit");
    case core::OwedKind::prune:
      WAYBILL_OWED("owed.prune", "commit");
    case core::OwedKind::wake:
      WAYBILL_OWED("owed.wake", "commit");
  }
}
#undef WAYBILL_OWED

}  // namespace waybill::engine
