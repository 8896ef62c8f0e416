// What must hold after every step. Most of it is asked of the rows, over a connection of its own;
// the statements are written against the contract and not against the code.

#include <algorithm>

#include "engine/work.h"
#include "simulation.h"

namespace waybill::sim {
namespace {

// No row may be found. `$damaged` is "tenant/session" of an owner that is refused, if there is one.
struct RowCheck {
  const char* invariant;
  const char* what;
  const char* sql;
};

constexpr RowCheck kRowChecks[] = {
    {"I2", "an event belongs to a turn that is closed",
     "SELECT event FROM inbox i WHERE turn IS NOT NULL AND acked_at IS NULL AND NOT EXISTS ("
     "SELECT 1 FROM turn t WHERE t.tenant = i.tenant AND t.session = i.session AND t.turn = i.turn "
     "AND t.state <> 'closed')"},
    {"I2", "a turn is closed over a job of its own",
     "SELECT job FROM job j WHERE owner = 'turn' AND status IN ('queued', 'running') AND EXISTS ("
     "SELECT 1 FROM turn t WHERE t.tenant = j.tenant AND t.session = j.session AND t.turn = j.turn "
     "AND t.state = 'closed')"},
    {"I2", "a stopped turn without a live job is still open",
     "SELECT turn FROM turn t WHERE stopped = 1 AND state <> 'closed' AND NOT EXISTS ("
     "SELECT 1 FROM job j WHERE j.tenant = t.tenant AND j.session = t.session AND j.turn = t.turn "
     "AND j.owner = 'turn' AND j.status IN ('queued', 'running'))"},
    {"I2", "a turn has no host and nobody waits for one",
     "SELECT turn FROM turn t JOIN session s ON s.tenant = t.tenant AND s.session = t.session "
     "WHERE t.state <> 'closed' AND s.lease_live = 0 AND NOT EXISTS (SELECT 1 FROM owed o "
     "WHERE o.kind = 'turn_abandon' AND o.key = t.tenant || ' ' || t.session || ' ' || t.turn)"},
    {"I2", "a host that is gone holds a row",
     "SELECT event FROM inbox i JOIN session s ON s.tenant = i.tenant AND s.session = i.session "
     "WHERE i.state IN ('offered', 'accepted') AND s.lease_live = 0 AND s.session <> 'user'"},
    {"I3", "a row that came back is no repeat",
     "SELECT event FROM inbox WHERE tries > 0 AND repeat = 0 AND last_error NOT LIKE "
     "'the client was started%'"},
    {"I6", "a running job is supervised by nobody",
     "SELECT job FROM job j WHERE status = 'running' AND NOT EXISTS ("
     "SELECT 1 FROM owed o WHERE o.kind = 'supervise' AND o.key = j.job)"},
    {"I6", "a wished stop is not announced when it is stuck",
     "SELECT job FROM job j WHERE status = 'running' AND stop_at IS NOT NULL AND NOT EXISTS ("
     "SELECT 1 FROM owed o WHERE o.kind = 'stop_stuck' AND o.key = j.job) AND NOT EXISTS ("
     "SELECT 1 FROM receipt r WHERE r.job = j.job AND r.name = 'stop_stuck')"},
    {"I6", "a bounded wait in the queue has no end",
     "SELECT job FROM job j WHERE status = 'queued' AND start_by IS NOT NULL AND NOT EXISTS ("
     "SELECT 1 FROM owed o WHERE o.kind = 'start_within' AND o.key = j.job)"},
    {"I6", "an offer has no deadline",
     "SELECT event FROM inbox i WHERE state = 'offered' AND NOT EXISTS ("
     "SELECT 1 FROM owed o WHERE o.kind = 'offer_expiry' AND o.key = i.delivery)"},
    {"I6", "a job without its launch",
     "SELECT job FROM job j WHERE status IN ('queued', 'running') AND NOT EXISTS ("
     "SELECT 1 FROM launch l WHERE l.job = j.job)"},
    {"I6", "something is owed to a job that is not there",
     "SELECT key FROM owed o WHERE kind IN ('supervise', 'stop_stuck', 'start_within') AND "
     "NOT EXISTS (SELECT 1 FROM job j WHERE j.job = o.key)"},
    {"I9", "a code of an exit that was not observed",
     "SELECT job FROM job WHERE exit LIKE '%unknown%' AND json_extract(exit, '$.kind') = 'unknown' "
     "AND json_extract(exit, '$.code') IS NOT NULL"},
    {"I14", "more queued jobs than a session may have",
     "SELECT session FROM session WHERE queued > $queued"},
    {"I16", "a row is offered under a fence that is not in force",
     "SELECT event FROM inbox i JOIN session s ON s.tenant = i.tenant AND s.session = i.session "
     "WHERE i.state IN ('offered', 'accepted') AND i.offer_fence <> s.fence"},
    {"I17", "a session's counts are not its jobs'",
     "SELECT session FROM session s WHERE running <> (SELECT count(*) FROM job j WHERE j.tenant = "
     "s.tenant AND j.session = s.session AND status = 'running') OR queued <> (SELECT count(*) "
     "FROM job j WHERE j.tenant = s.tenant AND j.session = s.session AND status = 'queued')"},
    {"I17", "a session runs more than its cap",
     "SELECT session FROM session WHERE running > $session_cap"},
    {"I17", "the node runs more than its cap",
     "SELECT 'node' WHERE (SELECT count(*) FROM job WHERE status = 'running') > $node_cap"},
    {"I17", "a slot is free and a job waits",
     "SELECT session FROM session s WHERE queued > 0 AND running < $session_cap AND "
     "tenant || '/' || session <> $damaged AND (SELECT count(*) FROM job WHERE status = 'running') "
     "< $node_cap"},
    {"I17", "a younger job of a session was started first",
     "SELECT a.job FROM job a JOIN job b ON a.tenant = b.tenant AND a.session = b.session AND "
     "a.seq < b.seq JOIN receipt rb ON rb.job = b.job AND rb.name = 'started' "
     "LEFT JOIN receipt ra ON ra.job = a.job AND (ra.name = 'started' OR (ra.from_status = "
     "'queued' "
     "AND ra.to_status IN ('failed', 'stopped'))) WHERE ra.node_seq IS NULL OR "
     "ra.node_seq > rb.node_seq"},
    {"I18", "a session goes on beyond its budget",
     "SELECT session FROM session_client WHERE wakes > $wakes"},
};

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

}  // namespace

std::vector<std::string> Simulation::rows(const std::string& sql) {
  std::vector<std::string> found;
  if (!daemon_ || !daemon_->reader) return found;
  const Disk::Looking looking(disk_);
  auto read = daemon_->reader->each(sql, {}, [&](const store::Row& row) -> Result<void> {
    found.push_back(row.string(0));
    return {};
  });
  if (!read) violated("reader", read.error().message);
  return found;
}

bool Simulation::damaged(const core::Owner& owner) const {
  return damage_ && damage_->owner == owner;
}

void Simulation::check() {
  check_rows();
  check_numbers();
  check_machine();
  constexpr int kEvery = 6;
  if (step_ % kEvery == 0) {
    check_endings();
    check_ledger(false);
    count_rows();
  }
}

void Simulation::check_rows() {
  for (const RowCheck& each : kRowChecks) {
    std::string sql = each.sql;
    replace(sql, "$damaged", "'" + (damage_ ? name_of(damage_->owner) : "") + "'");
    replace(sql, "$session_cap", std::to_string(settings_.running_per_session));
    replace(sql, "$node_cap", std::to_string(settings_.running_per_node));
    replace(sql, "$queued", std::to_string(settings_.queued_per_session));
    replace(sql, "$wakes", std::to_string(settings_.max_consecutive_wakes));
    const auto found = rows(sql);
    if (!found.empty() && !(damage_ && found.front() == damage_->owner.session.str())) {
      violated(each.invariant, std::string(each.what) + ": " + found.front());
    }
  }
}

// Numbers that only grow, also through a crash; and leases that somebody looks after.
void Simulation::check_numbers() {
  for (const core::Owner& owner : owners_) {
    const auto session = store::find_session(*daemon_->reader, owner);
    if (!session || !*session) continue;
    const store::SessionRow& row = **session;
    if (row.fence < fences_[owner]) violated("I16", "the fence of " + name_of(owner) + " fell");
    if (row.revision < revisions_[owner]) {
      violated("I2", "the revision of " + name_of(owner) + " fell");
    }
    fences_[owner] = row.fence;
    revisions_[owner] = row.revision;
    if (continuations_[owner] > settings_.max_consecutive_wakes) {
      violated("I18", name_of(owner) + " went on " + std::to_string(continuations_[owner]) +
                          " times without a user");
    }
    // That a connection has closed may not be told yet, or not fit on the disk.
    const bool told = batch_.empty() && !troubled_;
    if (!row.lease_live || row.host_pid || damaged(owner) || !told) continue;
    const bool connected = std::any_of(clients_.begin(), clients_.end(), [&](const auto& entry) {
      return entry.second.owner == owner && entry.second.key &&
             daemon_->sealer->fingerprint("host key " + entry.second.key->str()) ==
                 row.host_key_hash;
    });
    const std::string key = owner.tenant.str() + " " + owner.session.str();
    if (!connected &&
        rows("SELECT key FROM owed WHERE kind = 'host_lease' AND key = '" + key + "'").empty()) {
      violated("I2", "the lease of " + name_of(owner) + " never lapses");
    }
  }
}

// What the machine knows and the rows say.
void Simulation::check_machine() {
  for (const auto& [job, process] : machine_.processes()) {
    if (process.runs > 1) {
      violated("I10",
               "the command of " + job.str() + " ran " + std::to_string(process.runs) + " times");
    }
    if (!process.alive()) continue;
    const auto found = rows("SELECT status || ' ' || coalesce(proof, '') FROM job WHERE job = '" +
                            job.str() + "'");
    if (found.empty()) {
      violated("I11", "the command of " + job.str() + " runs and there is no such job");
      continue;
    }
    if (found.front().starts_with("running")) continue;
    if (found.front() != "failed unproven") {
      violated("I7", job.str() + " is " + found.front() + " and its command is alive");
    }
  }
}

// Terminal rows never change.
void Simulation::check_endings() {
  const auto now = rows(
      "SELECT job || '|' || status || '|' || coalesce(verdict, '') || '|' || coalesce(cause, '') "
      "|| "
      "'|' || coalesce(exit, '') || '|' || receipts || '|' || coalesce(finished_at, '') || '|' || "
      "coalesce(proof, '') || '|' || reason FROM job WHERE status IN ('succeeded', 'failed', "
      "'stopped')");
  std::set<std::string> there;
  for (const std::string& row : now) {
    const std::string job = row.substr(0, row.find('|'));
    there.insert(job);
    const auto [known, is_new] = endings_.emplace(job, row);
    if (!is_new && known->second != row) violated("I4", known->second + " became " + row);
    const Process& process = machine_.process(JobId(job));
    const bool succeeded = row.find("|succeeded|") != std::string::npos;
    const bool seen = process.exit && process.exit->success();
    if (succeeded && (!seen || process.runs == 0)) {
      violated("I9", job + " is called a success and the machine saw none");
    }
  }
  for (const auto& [job, row] : endings_) {
    if (!there.contains(job)) violated("I4", "the ending of " + job + " is gone");
  }
}

// Before anything is dispatched, owner, scope and launch are there for everybody to read.
void Simulation::check_order(const supervise::SuperviseOrder& order) {
  const Disk::Looking looking(disk_);
  auto reader = store::open_reader("/simulation/waybill.db");
  if (!reader) return violated("I11", reader.error().message);
  std::string status;
  std::string owner;
  bool started = false;
  const auto read =
      (*reader)->each("SELECT status, tenant || '/' || session, started_at FROM job WHERE job = $1",
                      {order.job}, [&](const store::Row& row) -> Result<void> {
                        status = row.string(0);
                        owner = row.string(1);
                        started = !row.null(2);
                        return {};
                      });
  if (!read || status.empty()) {
    return violated("I11", "job " + order.job.str() + " is dispatched and is in no row");
  }
  if (!order.launch) return;
  if (status != "running") violated("I11", "a " + status + " job is launched");
  if (started) violated("I10", "job " + order.job.str() + " has started and is launched again");
  if (damage_ && damage_->found && name_of(damage_->owner) == owner) {
    violated("I12", "job " + order.job.str() + " is launched for an owner that does not parse");
  }
  for (const std::string& entry : order.launch->env) {
    if (entry.starts_with("WAYBILL_HOST_KEY=")) violated("I11", "a job is given the host's key");
  }
}

// One key at a time; a call that counts as the host's is the host's.
void Simulation::check_host(const Call& call, const std::optional<store::SessionRow>& before) {
  if (core::is_user_session(call.owner) || !daemon_) return;
  const std::string hash = daemon_->sealer->fingerprint("host key " + call.key->str());
  const auto* attach = std::get_if<engine::AttachRequest>(&call.command);
  const bool takes_over = attach != nullptr && !attach->join;
  const bool other = before && before->lease_live && before->host_key_hash != hash;
  // By the time that passed, whatever the wall clock says.
  const auto last = last_calls_.find(call.owner);
  const bool recent =
      last != last_calls_.end() && clock_.mono() < last->second + settings_.host_lease;
  const bool held = other && (before->host_pid || recent);
  const bool reads = std::holds_alternative<engine::SessionWaitRequest>(call.command) ||
                     std::holds_alternative<engine::StatusRequest>(call.command) ||
                     std::holds_alternative<engine::HostRequest>(call.command) ||
                     // Who only looks is answered when the disk is full, host or not.
                     (troubled_ && std::holds_alternative<engine::ShowRequest>(call.command));
  if (call.refused || reads) return;
  if (std::holds_alternative<engine::DetachRequest>(call.command)) {
    last_calls_.erase(call.owner);
    return;
  }
  if (takes_over && other) branches_.reach(Branch::taken_over);
  if (held && !takes_over) {
    violated("I16", call.name + " of " + call.key->str() + " passed under another host's lease");
  }
  last_calls_[call.owner] = clock_.mono();
  const auto* wake = std::get_if<engine::WakeRequest>(&call.command);
  const auto now = store::find_session(*daemon_->reader, call.owner);
  if (wake != nullptr || !now || !*now) return;
  if ((*now)->host_key_hash != hash) {
    violated("I16", call.name + " passed, and the host of " + name_of(call.owner) + " is another");
  }
  const bool raised = before && (*now)->fence > before->fence;
  if (raised && !other && before->host_key_hash == hash) {
    violated("I16", call.name + " raised the fence of its own host");
  }
  const auto* flushed = std::get_if<engine::FlushedRequest>(&call.command);
  if (flushed == nullptr) return;
  const auto record = store::find_hand_over(*daemon_->reader, flushed->delivery);
  if (record && *record && (*record)->fence != (*now)->fence) {
    violated("I16", "a delivery of an earlier host was confirmed");
  }
}

// Every wait has its end (I14).
void Simulation::check_calls() {
  std::erase_if(waiting_, [](const auto& call) { return call->answered; });
  if (!daemon_ || troubled_ || disk_.troubled() || !daemon_->engine->poisoned().empty()) return;
  for (const auto& call : waiting_) {
    if (call->deadline && *call->deadline <= clock_.mono()) {
      violated("I14", call->name + " waits beyond its time");
    }
  }
}

}  // namespace waybill::sim
