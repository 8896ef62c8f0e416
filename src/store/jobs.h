#pragma once
// Rows of `job`, `launch`, `receipt`, `leftover` and `idempotency`. `write_transition` is the only
// function that writes a status, together with its receipt (I5, I6).

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/exit.h"
#include "core/facts.h"
#include "core/job.h"
#include "core/receipt.h"
#include "core/scope.h"
#include "store/database.h"

namespace waybill::store {

struct StopRow {
  WallTime at{};
  core::Cause cause = core::Cause::user;
  std::string actor;
  std::string reason;
  bool by_owner =
      true;  // the owner session, a stop of its turn or its disposal: nobody is told (I8)
};

// All that is known of an ending; written once, with the terminal receipt.
struct EndingRow {
  std::optional<WallTime> finished_at;
  std::optional<Millis> duration;
  core::Verdict verdict = core::Verdict::unknown;
  core::Cause cause = core::Cause::exit;
  std::string actor;
  std::string reason;
  std::optional<core::Proof> proof;
  bool ended_by_itself = false;
  std::optional<core::Exit> exit;
  core::Stages stages;
  core::OutputFacts output;
  std::optional<core::UsageFacts> usage;
};

struct JobRow {
  std::uint64_t seq = 0;
  JobId id;
  core::JobKind kind = core::JobKind::command;
  core::Scope scope;
  core::OwnerKind owner = core::OwnerKind::session;
  core::WakePolicy wake = core::WakePolicy::always;
  std::string label;
  std::string command_preview;
  std::string cwd;
  std::string fingerprint;
  core::JobStatus status = core::JobStatus::queued;
  std::uint32_t attempt = 0;
  std::uint64_t activation = 0;
  std::uint32_t receipts = 0;  // sequence of the newest one
  WallTime created_at{};
  std::optional<WallTime> start_by;  // queued longer than that it is not started
  std::optional<WallTime> started_at;
  std::uint32_t monitors = 0;  // how many look at its output
  std::optional<StopRow> stop;
  std::vector<core::ProcessNote> survivors;
  std::optional<EndingRow> ending;  // set exactly when the status is terminal
};

struct LaunchRow {
  JobId job;
  std::string shell;  // "" argv form
  std::optional<Millis> deadline;
  Millis grace{};
  unsigned umask = 022;  // the caller's, like its environment
  std::uint64_t cap_bytes = 0;
  std::uint64_t head_bytes = 0;
  core::LeftoverPolicy leftovers = core::LeftoverPolicy::kill;
  core::StdinPolicy stdin_policy = core::StdinPolicy::null;
  bool pty = false;
  std::vector<std::string> wrapper;  // program and arguments that the command is run through
  std::string sealed;
};

struct LeftoverRow {
  std::vector<core::ProcessNote> found;
  std::vector<core::ProcessNote> survived;
  bool settled = false;
  bool kept = false;
  std::optional<StopRow> stop;  // a wish to stop what was kept; cause and by_owner are not stored

  // Something of it is still there.
  bool alive() const { return !found.empty() && (!settled || !survived.empty()); }
};

struct IdempotencyRow {
  JobId job;
  std::string fingerprint;
  bool gone = false;  // the job was removed: what is left is that it was there
};

Result<void> insert_job(Database& db, const JobRow& job);
Result<void> insert_launch(Database& db, const LaunchRow& launch);
Result<std::optional<LaunchRow>> find_launch(Database& db, const JobId& job);
// What of the launch can be told without the key.
struct LaunchForm {
  std::string shell;  // "" argv form
  std::vector<std::string> wrapper;
  core::StdinPolicy stdin_policy = core::StdinPolicy::null;
  bool pty = false;
  std::optional<Millis> deadline;
};
Result<LaunchForm> find_launch_form(Database& db, const JobId& job);

Result<std::optional<JobRow>> find_job(Database& db, const JobId& job);
// The same, but another owner's job is as good as none.
Result<JobRow> need_job(Database& db, const core::Owner& owner, const JobId& job);

// Writes the receipt and, when it is a transition, the status with it. `ending` goes with a
// terminal one. job.receipts, status, attempt, activation and ending are brought up to date.
Result<void> write_transition(Database& db, JobRow& job, const core::Receipt& receipt,
                              const std::optional<EndingRow>& ending);

Result<void> set_started_at(Database& db, const JobId& job, WallTime at);
Result<void> set_stop(Database& db, const JobId& job, const StopRow& stop);
Result<void> set_survivors(Database& db, const JobId& job,
                           const std::vector<core::ProcessNote>& survivors);
Result<void> clear_turn(Database& db, const JobId& job);  // the job becomes the session's

Result<std::vector<core::Receipt>> receipts_of(Database& db, const JobId& job);
Result<std::uint32_t> count_receipts(Database& db, const JobId& job, core::ReceiptName name);

struct ListFilter {
  TenantId tenant;
  std::optional<SessionId> session;
  std::vector<core::JobStatus> statuses;
  std::uint64_t before_seq = 0;  // 0: from the newest
  std::uint32_t limit = 50;
};
Result<std::vector<JobRow>> list_jobs(Database& db, const ListFilter& filter);
Result<std::vector<JobRow>> live_jobs_of(Database& db, const core::Owner& owner);
Result<std::vector<JobRow>> live_jobs(Database& db);
Result<bool> has_receipt(Database& db, const JobId& job, core::ReceiptName name);
// The generation that its command runs in, when that is not the one it was accepted in.
Result<void> set_generation(Database& db, const JobId& job, const GenerationId& generation);
Result<std::vector<JobRow>> live_jobs_of_turn(Database& db, const core::Owner& owner,
                                              const TurnId& turn);
Result<std::optional<JobId>> find_twin(Database& db, const std::string& fingerprint);
Result<std::uint64_t> queue_position(Database& db, const JobRow& job);

// The head of the queue of every session that runs less than the cap, oldest first. The cost is the
// number of sessions with a queue, not the length of the queues.
struct QueueHead {
  core::Owner owner;
  JobId job;
};
Result<std::vector<QueueHead>> queue_heads(Database& db, std::uint64_t session_cap);
Result<std::uint64_t> count_running(Database& db);
Result<std::uint64_t> count_queued(Database& db);

Result<std::optional<LeftoverRow>> find_leftover(Database& db, const JobId& job);
// Leaves a wish to stop them as it is.
Result<void> put_leftover(Database& db, const JobId& job, const LeftoverRow& row);
Result<void> set_leftover_stop(Database& db, const JobId& job, const StopRow& stop);

Result<std::optional<IdempotencyRow>> find_key(Database& db, const core::Owner& owner,
                                               const IdempotencyKey& key);
Result<void> insert_key(Database& db, const core::Owner& owner, const IdempotencyKey& key,
                        const IdempotencyRow& row, WallTime at);

// The key that made the job, if one did.
Result<std::optional<IdempotencyKey>> key_of_job(Database& db, const JobId& job);

Result<bool> has_job(Database& db, const JobId& job);
// Also of rows that do not parse.
Result<std::vector<JobId>> live_job_ids(Database& db);

// The greatest that was ever given, also when its row is gone.
Result<std::uint64_t> max_job_seq(Database& db);
// The highest receipt number that was ever given: of the receipts that are there, and of those that
// were removed.
Result<std::uint64_t> max_node_seq(Database& db);
// From now on it is at least that.
Result<void> raise_newest_receipt(Database& db, std::uint64_t newest);

}  // namespace waybill::store
