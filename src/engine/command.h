#pragma once
// Everything that goes through the engine's single transaction path, as one variant. Facts from
// supervisors, connections that close and timers are commands like any other.

#include <functional>
#include <variant>

#include "engine/api.h"

namespace waybill::engine {

struct ShowRequest {
  Caller caller;
  JobId job;
};
struct SessionShowRequest {
  Caller caller;
};
struct StatusRequest {
  Caller caller;
};
struct ObservedFacts {
  core::JobFacts facts;
};
struct ConnectionClosed {
  ConnectionId connection = 0;
  // Owners whose last connection this was; found once, so that a second try knows them too.
  std::optional<std::vector<core::Owner>> last_of = std::nullopt;
};
// A monitor of a running job has found something.
struct MonitorTold {
  core::MonitorFound found;
};
// The process that a host named at attach has ended.
struct HostGone {
  core::Owner owner;
  int pid = 0;
  std::uint64_t start = 0;  // field 22 of its stat
};
// Somebody else has read the store and found damage.
struct StoreDamaged {
  std::string what;
};
// Of an operator: the store is behind what this node has seen, and is to be brought up to it.
struct ReconcileRequest {};
// shutdown --stop-jobs: a durable stop wish for every running job of the node, cause operator.
struct StopAllRequest {
  std::string reason;
  Millis timeout{30000};
};

// Which owners are refused, and what of theirs is retained.
struct OwnersRequest {};
// An operator gives up what cannot be recovered of this owner.
struct ReleaseOwnerRequest {
  core::Owner owner;
  std::string reason;
};

using Command =
    std::variant<RunRequest, ShowRequest, WaitRequest, StopRequest, AttachRequest, DetachRequest,
                 SessionShowRequest, SessionWaitRequest, TurnRequest, InboxRequest, FlushedRequest,
                 ReturnedRequest, WakeRequest, CallRequest, HostRequest, AckRequest, StatusRequest,
                 ObservedFacts, MonitorTold, ConnectionClosed, HostGone, StopAllRequest,
                 PruneRequest, StoreDamaged, OwnersRequest, ReleaseOwnerRequest, ReconcileRequest>;

using Reply = std::variant<std::monostate, RunReply, JobReply, JobsReply, AttachReply, SessionView,
                           TurnReply, InboxReply, WakeReply, HostReply, AckReply, StatusReply,
                           PruneReply, OwnersReply, ReconcileReply>;

// Called exactly once, on the engine's thread, after the commit that the answer depends on.
using Done = std::function<void(Result<Reply>)>;

struct Ticket {
  Command command;
  Done done;
};

}  // namespace waybill::engine
