#pragma once
// The way to a place where commands run. `local` (this machine, through waybill-shim) is the first;
// the interface is what SPEC section 9 asks of every channel. Nothing here decides what follows
// from a fact.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"
#include "core/facts.h"
#include "core/job.h"
#include "core/scope.h"
#include "supervise/output_keep.h"

namespace waybill::supervise {

// Whose job it is and how it was asked for. No supervisor needs it: it stands in the launch file so
// that a row which the store has lost can be made again.
struct Origin {
  core::Scope scope;
  core::OwnerKind owner = core::OwnerKind::session;
  core::WakePolicy wake = core::WakePolicy::always;
  std::string label;
  std::string key;  // idempotency; "" none
  std::string fingerprint;
  std::string incarnation;  // of the store that launched it
  WallTime accepted_at{};
};

// All a supervisor needs to run one command job: a projection of the launch row.
struct LaunchOrder {
  JobId job;
  Origin origin;
  std::uint64_t node_seq = 0;     // this node's newest receipt number, carried by the launch file
  std::string shell;              // absolute path; empty when `argv` is run unshelled
  std::string command;            // shell form: passed as `shell -c command`
  std::vector<std::string> argv;  // argv form
  std::vector<std::string> wrapper;  // program and arguments put before shell or argv
  std::string cwd;                   // absolute
  std::vector<std::string> env;      // "NAME=value", any bytes but NUL
  Millis grace{5000};
  std::optional<Millis>
      deadline;  // from start, monotonic, suspend excluded, kept by the supervisor
  std::uint64_t cap_bytes = 0;
  std::uint64_t head_bytes = 0;
  core::LeftoverPolicy leftovers = core::LeftoverPolicy::kill;
  core::StdinPolicy stdin_policy = core::StdinPolicy::null;
  bool pty = false;
  Millis leftover_grace{1000};
  Millis drain_grace{500};
  Millis drain_max{2000};
  unsigned umask = 022;
  std::uint64_t files_max = 0;  // soft limit of open files; 0: the supervisor's
  std::string cgroup;           // absolute path of the cgroup to make and enter; "" none
  std::string crash_point;  // tests only, see shim/crash_points.h; ignored by an ordinary daemon
};

struct StopWish {
  WallTime at{};
  std::string actor;
  std::string reason;
};

// One `supervise` effect. Idempotent: the same order twice does nothing more.
struct SuperviseOrder {
  JobId job;
  std::optional<LaunchOrder> launch;  // set: may be launched if it provably never executed
  std::optional<StopWish> stop;       // set: the durable stop wish is there; confirm it
  bool started = false;               // its start was on record, whatever lies there now
};

// What a job's directory says, for a store that may not know the job. Nothing is changed by looking
// but that a lock file is made where there is none.
struct FoundJob {
  JobId job;
  std::string path;
  bool there = false;                 // there is such a directory
  bool started = false;               // a start record, whole or torn: the command may have run
  bool runs = false;                  // its supervisor or its command is alive
  bool told = false;                  // its end is on record: an earlier daemon may have told it
  core::JobFacts facts = {};          // as they would be reported
  std::optional<StopWish> stop = {};  // the wish on record
  // What it was launched with, without its environment; nothing when the launch file does not say
  // (older, damaged), and then `why`.
  std::optional<LaunchOrder> launch = {};
  std::string why = {};
};

// Called on the channel's own thread whenever something new is known about a job.
using Report = std::function<void(core::JobFacts)>;

class Channel {
 public:
  virtual ~Channel() = default;

  // Queues the effect and returns at once; what comes of it arrives as reports.
  virtual void supervise(SuperviseOrder order) = 0;

  // The job is terminal and its leftovers are settled: stop watching it. Its files stay.
  virtual void forget(const JobId& job) = 0;

  // Room for output; a channel without a disk of its own says nothing and does nothing. Any thread.
  virtual DiskSpace disk_space() { return {}; }
  // What the output of a job takes now.
  virtual std::uint64_t output_allocated(const JobId&) { return 0; }
  // Of a job that has ended: true when its output is gone.
  virtual bool remove_output(const JobId&) { return false; }
  // Of a job that has ended: what is kept once it was shortened to about `cap` bytes.
  virtual std::optional<core::OutputFacts> shorten_output(const JobId&, std::uint64_t) {
    return std::nullopt;
  }
  // Of a running job: a wish that may be lost; what comes of it shows in output_allocated.
  virtual void lower_output_cap(const JobId&, std::uint64_t) {}

  // Of a job that has ended and is watched no more: removes its files, the records last. Bytes that
  // went; nullopt: it cannot be done now, and some may be gone. Again is no error.
  virtual std::optional<std::uint64_t> remove_job(const JobId&) { return 0; }
  // What all files of a job take now.
  virtual std::uint64_t job_allocated(const JobId&) { return 0; }
  // The supervisor's last record is there, and whole: the job has ended, wherever it ran.
  virtual bool ended_on_record(const JobId&) { return false; }
  // The output of a job as its files show it; nullopt: there is none.
  virtual std::optional<core::OutputFacts> output_of(const JobId&) { return std::nullopt; }
  // The job directories that there are, oldest first, and what one of them says. Only while the
  // channel has no order for that job.
  virtual Result<std::vector<JobId>> directories() { return std::vector<JobId>{}; }
  virtual Result<FoundJob> find(const JobId& job) { return FoundJob{job, {}}; }

  // The machine generation that commands started now belong to.
  virtual GenerationId generation() const = 0;
};

}  // namespace waybill::supervise
