#pragma once
// What can be asked of the engine and what it answers: plain values, no bytes, no JSON. The edge
// translates protocols to these and back; the daemon hands them to the engine's thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/result.h"
#include "core/exit.h"
#include "core/facts.h"
#include "core/inbox.h"
#include "core/job.h"
#include "core/monitor.h"
#include "core/receipt.h"
#include "core/rules.h"
#include "core/scope.h"

namespace waybill::engine {

using ConnectionId = std::uint64_t;

// Who calls: the named session, the capability if there is one, and the connection that will carry
// the answer (an offer is held by it until it is accepted).
struct Caller {
  core::Owner owner;
  std::optional<HostKey> host_key;
  ConnectionId connection = 0;
};

// ---- views -------------------------------------------------------------------------------------

struct EventView {
  EventId id;
  core::EventType type = core::EventType::job_completed;
  core::InboxState state = core::InboxState::pending;
  core::Withheld withheld = core::Withheld::no;
  unsigned tries = 0;  // hand-overs that came back
  std::string last_error;
  std::optional<core::AckedAs> acked_as;
  std::optional<core::DroppedAs> dropped_as;
  WallTime created_at{};
};

// Everything of SPEC section 15's job object.
struct JobView {
  JobId id;
  core::JobKind kind = core::JobKind::command;
  core::Scope scope;
  core::OwnerKind owner = core::OwnerKind::session;
  core::WakePolicy wake = core::WakePolicy::always;
  std::string label;  // "" none
  std::string command_preview;
  std::string cwd;
  std::string shell;                 // "" for argv form
  std::vector<std::string> wrapper;  // what the command is run through
  core::StdinPolicy stdin_policy = core::StdinPolicy::null;
  bool pty = false;
  std::optional<Millis> deadline;    // from the start
  std::optional<WallTime> start_by;  // not started any more after it
  core::JobStatus status = core::JobStatus::queued;
  bool stopping = false;
  std::optional<core::Verdict> verdict;
  std::optional<core::Exit> exit;
  core::Stages stages;
  std::optional<core::Cause> cause;
  std::string actor;
  std::string reason;
  std::optional<core::Proof> proof;
  std::uint32_t attempt = 0;
  std::optional<std::uint64_t> queue_position;  // 1 = next
  std::string waiting_because;
  WallTime created_at{};
  std::optional<WallTime> started_at;
  std::optional<WallTime> finished_at;
  std::optional<Millis> duration;
  core::OutputFacts output;
  std::optional<WallTime> output_expired_at;
  std::vector<core::ProcessNote> survivors;  // while stopping
  std::vector<core::ProcessNote> leftovers;
  bool leftovers_settled = false;
  bool leftovers_kept = false;
  std::optional<core::UsageFacts> usage;
  bool ended_by_itself = false;
  std::vector<core::Monitor> monitors;  // empty in lists
  std::vector<core::Receipt> receipts;  // empty in lists
  std::vector<EventView> events;        // empty in lists
};

// One event inside a hand-over.
struct EventData {
  EventId id;
  core::EventType type = core::EventType::job_completed;
  bool repeat = false;
  JobView job;
  std::string tail;  // raw bytes, at most the notice tail
  // job.monitor: which one, and what its event tells of; its lines are the tail.
  std::optional<core::Monitor> monitor;
};

// One hand-over: rows of one inbox that travel together, failed first, otherwise in commit order.
struct HandOver {
  DeliveryId delivery;
  bool repeat = false;  // at least one event is a repeat
  core::Mode mode = core::Mode::steer;
  std::vector<EventData> events;
};

struct TurnView {
  TurnId id;
  core::TurnState state = core::TurnState::open;
  bool stopped = false;
  WallTime begun_at{};
  std::optional<WallTime> closed_at;
};

struct SessionView {
  core::Owner owner;
  core::Phase phase = core::Phase::absent;
  std::string incarnation;  // of the store; with `fence` the full fence (I16)
  std::uint64_t fence = 0;
  std::uint64_t revision = 0;
  std::optional<TurnView> turn;  // the open or held one
  bool one_shot = false;
  std::string client;  // "claude", "codex" …; "" asks for its inbox by itself
  std::optional<int> host_pid;
  std::optional<WallTime> lease_until;  // null: held by a process or a connection, or no lease
  bool lease_live = false;
  std::uint64_t running_jobs = 0;
  std::uint64_t queued_jobs = 0;
  std::uint64_t undelivered = 0;
  std::uint64_t withheld = 0;
  std::uint64_t wakes = 0;  // continuations since a user last spoke; counted for clients
  WallTime created_at{};
};

struct Outstanding {
  std::vector<JobView> jobs;    // queued, running, or with undelivered events; newest first, ≤ 100
  std::vector<EventId> events;  // undelivered, commit order, ≤ 100
  std::uint64_t jobs_total = 0;
  std::uint64_t events_total = 0;
};

// ---- commands ----------------------------------------------------------------------------------

struct RunRequest {
  Caller caller;
  std::optional<TurnId> turn;
  std::string label;
  std::string cwd;
  std::vector<std::string> env;      // "NAME=value"
  std::string shell;                 // absolute path; empty: argv
  std::vector<std::string> wrapper;  // of this call, inside the session's; empty: none
  core::WakePolicy wake = core::WakePolicy::always;
  std::string command;            // shell form
  std::vector<std::string> argv;  // argv form
  std::optional<Millis> deadline;
  std::optional<Millis> start_within;  // of being accepted
  std::optional<Millis> grace;
  core::LeftoverPolicy leftovers = core::LeftoverPolicy::kill;
  core::StdinPolicy stdin_policy = core::StdinPolicy::null;
  bool pty = false;
  std::vector<core::Monitor> monitors;
  unsigned umask = 022;  // the caller's
  std::optional<std::uint64_t> cap_bytes;
  core::OwnerKind owner = core::OwnerKind::session;
  std::optional<IdempotencyKey> key;
  // Read by the edge before the engine's thread is asked, so that no file is touched there:
  Result<void> launchable{};  // cwd and shell checks
  Result<void> room{};        // on the disk; seen by the engine before the transaction
};

struct RunReply {
  JobView job;
  core::DeliveryPath delivery_path = core::DeliveryPath::next_attach;
  std::optional<JobId> twin;
  bool replayed = false;  // same idempotency key: the original job
};

struct JobReply {
  JobView job;
  std::optional<DeliveryId> reported;  // confirm with `flushed` once the answer is out
};

struct ListRequest {
  Caller caller;
  std::vector<core::JobStatus> statuses;  // empty: all
  bool all_sessions = false;
  std::uint32_t limit = 50;  // 1..500
  std::string cursor;
};

struct ListReply {
  std::vector<JobView> jobs;
  std::optional<std::string> next_cursor;
};

struct WaitRequest {
  Caller caller;
  std::vector<JobId> jobs;
  bool any = false;
  Millis timeout{30000};
};

struct JobsReply {
  std::vector<JobView> jobs;
  bool timed_out = false;
  std::optional<DeliveryId> reported;
};

struct StopRequest {
  Caller caller;
  std::vector<JobId> jobs;  // empty with all
  bool all = false;
  std::string reason;
  bool wait = false;      // answer when every one is terminal
  Millis timeout{30000};  // for wait
};

// How to start the client of a session again once it is closed.
struct ResumeCommand {
  std::vector<std::string> argv;
  std::string cwd;
  std::vector<std::string> env;  // "NAME=value"
};

struct AttachRequest {
  Caller caller;
  std::optional<int> host_pid;
  std::optional<std::uint64_t> host_pid_start;  // field 22 of its stat; the edge reads it
  std::optional<Millis> lease;
  bool one_shot = false;
  bool join = false;   // only if no other host is there: `fenced` instead of taking over
  std::string client;  // which program the host is; "" leaves what is known
  // What follows is replaced where it is given; `resume` goes with `client`: absent, it is
  // forgotten.
  std::optional<std::vector<std::string>> wrapper;
  std::optional<core::Rules> rules;
  std::optional<ResumeCommand> resume;
};

// The host says that it has left the session: nothing of it is waited for.
struct DetachRequest {
  Caller caller;
};

struct AttachReply {
  SessionView session;
  Outstanding outstanding;
};

struct SessionListReply {
  std::vector<SessionView> sessions;
};

struct SessionWaitRequest {
  Caller caller;
  std::uint64_t revision = 0;
  Millis timeout{30000};
};

struct TurnRequest {
  Caller caller;
  core::TurnVerb verb = core::TurnVerb::begin;
  TurnId turn;
  bool wait = false;       // end, stop: answer when closed or when there is something to hand over
  bool adapter = false;    // a client's hook asks: only the turn's end acknowledges
  bool over = false;       // end: the host does not go on, whatever is pending; it closes
  bool supersede = false;  // begin: whatever turn this host had open is over
  core::Author author = core::Author::user;  // begin: who caused it
  Millis timeout{30000};
};

struct TurnReply {
  TurnView turn;
  std::optional<HandOver> messages;
  std::uint64_t revision = 0;
  std::vector<JobView> waiting_for;
  bool timed_out = false;
};

struct InboxRequest {
  Caller caller;
  bool follow = false;  // this connection keeps asking; acknowledged by ack or turn end only
  bool no_ack = false;  // pending again when the connection closes
  bool tool = false;    // rides on a tool result; the next one acknowledges
  std::optional<Millis> timeout;  // null: do not wait
};

struct InboxReply {
  std::optional<HandOver> hand_over;  // null: nothing there within the time
};

// The client has flushed the answer that carried this delivery: inbox and turn rows become
// accepted, rows read by the owner's host become acknowledged as reported.
struct FlushedRequest {
  Caller caller;
  DeliveryId delivery;
  bool durable = false;  // it is in a queue of the host's that survives the host: acknowledged
};

// The hand-over will not be printed: pending again at once.
struct ReturnedRequest {
  Caller caller;
  DeliveryId delivery;
};

// Answered when the session's host should begin a turn: something that wakes is pending and no
// turn is open, or the open one has taken nothing for a while (a client may have been interrupted
// without a word). Nothing is handed over by it; the turn that begins takes what is pending.
struct WakeRequest {
  Caller caller;
  Millis timeout{30000};
};

struct WakeReply {
  bool wake = false;
  bool replaced = false;  // a newer call waits for this session now, or its host has left
};

// A client's hook tells whose tool call this is, before the call itself arrives elsewhere.
struct CallRequest {
  Caller caller;
  std::string call;
  std::optional<TurnId> turn;
  bool subagent = false;  // made inside a subagent, whose context is not the session's
  bool by_user = false;   // in a turn that a user caused
};

// Which session and turn a host's tool call belongs to: as announced, else the session that the
// host attached last and its open turn.
struct HostRequest {
  Caller caller;  // tenant and key count
  std::string call;
};

struct HostReply {
  std::optional<SessionId> session;
  std::optional<TurnId> turn;
  bool announced = false;
  bool subagent = false;
};

struct AckRequest {
  Caller caller;
  std::vector<std::string> ids;  // events or deliveries; all or none
};

struct AckReply {
  std::vector<std::string> acked;
  std::vector<std::string> already;
};

// What retention allows to go, removed now: one page of jobs in the order of acceptance.
struct PruneRequest {
  std::optional<Millis> older_than;  // instead of the setting
  bool dry_run = false;
  std::uint64_t after = 0;  // where the page before ended
};

struct PrunedJob {
  JobId job;
  SessionId session;
  std::string label;
  core::JobStatus status = core::JobStatus::succeeded;
  std::optional<WallTime> finished_at;
  std::uint64_t bytes = 0;  // of its files
};

struct PruneReply {
  std::vector<PrunedJob> jobs;
  std::uint64_t bytes = 0;
  std::uint64_t dropped_events = 0;   // of the session `user`, which nobody took
  std::optional<std::uint64_t> next;  // there may be more after it
};

// A job whose row was made, or brought up to date, from its directory.
struct ReconciledJob {
  JobId job;
  core::Owner owner;
  core::JobStatus status = core::JobStatus::running;
};

// A directory without a row that cannot be made again: kept, and never run.
struct QuarantinedJob {
  JobId job;
  std::string path;
  bool started = false;  // its command may have run
  bool runs = false;     // and it, or its supervisor, still does
  std::string why;
};

struct ReconcileReply {
  bool regressed = false;              // it was; otherwise there was nothing to do
  std::string incarnation;             // of the store from now on
  std::vector<ReconciledJob> rebuilt;  // there was no row
  std::vector<ReconciledJob> settled;  // the row was behind
  std::vector<ReconciledJob> ended;    // ended since nothing tells whether they have run
  std::vector<QuarantinedJob> quarantined;
};

// Where the data directory is; a total of 0: not known.
struct DiskView {
  std::uint64_t total_bytes = 0;
  std::uint64_t free_bytes = 0;
  std::uint64_t floor_bytes = 0;  // free_space_floor_bytes in force
};

struct StatusReply {
  std::string version;
  std::string data_dir;
  std::string store;  // "sqlite"
  std::string incarnation;
  int pid = 0;
  WallTime started_at{};
  std::uint64_t running_jobs = 0;
  std::uint64_t queued_jobs = 0;
  std::uint64_t sessions = 0;
  std::uint64_t undelivered = 0;
  std::uint64_t owed = 0;
  std::map<std::string, std::uint64_t> owed_by_kind;
  std::string poisoned;  // "" or why mutations are refused
  std::map<std::string, std::string> poisoned_owners;
  std::vector<SessionId> reachable;  // an idle host of these can be woken right now
  DiskView disk;
  Settings settings;
};

// An owner that is refused, or whose stop cannot be confirmed, and what of it is retained.
struct RetainedOwner {
  core::Owner owner;
  std::string kind;  // "owner_unrecoverable", "state_corrupt" or "stop_stuck"
  std::string why;
  std::optional<WallTime> since;
  std::vector<JobId> jobs;
};
struct OwnersReply {
  std::vector<RetainedOwner> owners;
};

}  // namespace waybill::engine
