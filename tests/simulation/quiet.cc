// The end: no more faults, hosts that do what they should, and then the audit.

#include <algorithm>

#include "simulation.h"
#include "store/json_columns.h"

namespace waybill::sim {

audit::Ledger Simulation::ledger() {
  audit::Ledger ledger;
  ledger.whole_node = true;
  ledger.hand_overs_known = true;
  ledger.reads_known = true;
  ledger.sights = sights_;
  std::map<std::string, std::size_t> at;
  const auto text = [](const store::Row& row, int column) { return row.string(column); };
  const auto number = [](const store::Row& row, int column) {
    return static_cast<std::uint64_t>(row.integer(column));
  };
  store::Database& db = *daemon_->reader;
  auto read = db.each(
      "SELECT job, tenant || '/' || session, status, coalesce(proof, '') FROM job ORDER BY seq", {},
      [&](const store::Row& row) -> Result<void> {
        audit::Job job;
        job.id = text(row, 0);
        job.owner = text(row, 1);
        job.status = text(row, 2);
        job.proof = text(row, 3);
        const Process& process = machine_.process(JobId(job.id));
        job.runs = process.runs;
        at[job.id] = ledger.jobs.size();
        ledger.jobs.push_back(std::move(job));
        return {};
      });
  if (read) {
    read = db.each(
        "SELECT job, seq, node_seq, attempt, activation, from_status, to_status, name, "
        "coalesce(cause, ''), at FROM receipt ORDER BY job, seq",
        {}, [&](const store::Row& row) -> Result<void> {
          audit::Receipt receipt{number(row, 1), number(row, 2),      number(row, 3),
                                 number(row, 4), row.maybe_string(5), text(row, 6),
                                 text(row, 7),   text(row, 8),        row.integer(9)};
          ledger.jobs.at(at.at(text(row, 0))).receipts.push_back(std::move(receipt));
          return {};
        });
  }
  if (read) {
    read = db.each(
        "SELECT job, event, type, state, coalesce(acked_as, ''), withheld FROM inbox ORDER BY seq",
        {}, [&](const store::Row& row) -> Result<void> {
          ledger.jobs.at(at.at(text(row, 0)))
              .events.push_back(
                  {text(row, 1), text(row, 2), text(row, 3), text(row, 4), text(row, 5)});
          return {};
        });
  }
  if (!read) violated("reader", read.error().message);
  return ledger;
}

void Simulation::check_ledger(bool quiet) {
  audit::Ledger now = ledger();
  now.quiet = quiet;
  for (const audit::Violation& violation : audit::audit(now)) {
    violated(violation.invariant, violation.what);
  }
}

// Which rare things have left their trace in rows.
void Simulation::count_rows() {
  const auto reach = [&](const char* sql, Branch branch) {
    if (!rows(sql).empty()) branches_.reach(branch);
  };
  const auto receipt = [](const std::string& name) {
    return "SELECT 1 FROM receipt WHERE " + name + " LIMIT 1";
  };
  const auto inbox = [](const std::string& what) {
    return "SELECT 1 FROM inbox WHERE " + what + " LIMIT 1";
  };
  reach(receipt("name = 'stop_stuck'").c_str(), Branch::stop_stuck);
  reach(receipt("name = 'released'").c_str(), Branch::event_released);
  reach(receipt("name = 'monitor'").c_str(), Branch::monitor_told);
  reach(receipt("reason LIKE '%no host came back%'").c_str(), Branch::turn_left_alone);
  reach(receipt("reason LIKE '%began another turn%'").c_str(), Branch::turn_superseded);
  reach(receipt("from_status = 'queued' AND to_status = 'failed'").c_str(), Branch::started_late);
  reach(receipt("from_status = 'queued' AND to_status = 'stopped'").c_str(),
        Branch::queued_stopped);
  reach("SELECT 1 FROM job WHERE status = 'failed' AND stop_at IS NOT NULL AND proof = 'unproven'",
        Branch::stop_unproven);
  reach(inbox("withheld = 'stopped'").c_str(), Branch::withheld_stopped);
  reach(inbox("withheld = 'budget'").c_str(), Branch::withheld_budget);
  reach(inbox("last_error LIKE '%expired%'").c_str(), Branch::offer_expired);
  reach(inbox("last_error LIKE '%lease lapsed%'").c_str(), Branch::lease_lapsed);
  reach(inbox("acked_as = 'reported'").c_str(), Branch::acked_reported);
  reach(inbox("acked_as = 'accepted'").c_str(), Branch::acked_durable);
  reach(inbox("acked_as = 'processed'").c_str(), Branch::acked_processed);
  reach(inbox("state = 'acked' AND last_error LIKE '%expired%' AND offer_path IS NOT NULL").c_str(),
        Branch::acked_late);
  reach("SELECT 1 FROM session_client WHERE wake_job IS NOT NULL", Branch::client_started);
}

// Everything that runs ends, and the daemon hears of it. True when something happened.
bool Simulation::settle_machine() {
  bool moved = false;
  for (int round = 0; round < 400 && daemon_ && violations_.empty(); ++round) {
    if (!gone_.empty()) {
      const engine::HostGone gone = gone_.back();
      gone_.pop_back();
      post(nullptr, gone, "host gone");
      moved = true;
    } else if (!daemon_->channel->idle()) {
      if (auto facts = daemon_->channel->report(true)) {
        note("report: " + facts->job.str() + " " + std::string(core::to_word(facts->supervision)));
        post(nullptr, engine::ObservedFacts{std::move(*facts)}, "facts");
      } else {
        daemon_->channel->work(true);
      }
      moved = true;
    } else if (const auto job = machine_.step(true)) {
      daemon_->channel->look(*job, true);
      moved = true;
    } else {
      break;
    }
  }
  return moved;
}

void Simulation::take_all(Client& client) {
  for (int round = 0; round < 8 && violations_.empty(); ++round) {
    post(&client, engine::InboxRequest{caller(client), false, false, false, {}}, "inbox");
    if (client.held.empty()) break;
    const DeliveryId delivery = client.held.back();
    client.held.clear();
    post(&client, engine::FlushedRequest{caller(client), delivery, false}, "has printed");
  }
  // Some paths take an explicit word only.
  engine::AckRequest request;
  request.caller = caller(client);
  request.ids =
      rows("SELECT event FROM inbox WHERE state = 'accepted' AND tenant = '" +
           client.owner.tenant.str() + "' AND session = '" + client.owner.session.str() + "'");
  if (!request.ids.empty()) post(&client, request, "ack of what is accepted");
}

// Its open turn comes to an end, unless a job still holds it.
void Simulation::finish_turn(Client& client) {
  const auto verb = [&](core::TurnVerb what, const TurnId& turn) {
    engine::TurnRequest request;
    request.caller = caller(client);
    request.verb = what;
    request.turn = turn;
    post(&client, request, "turn " + std::string(core::to_word(what)) + " " + turn.str());
    for (const DeliveryId& delivery : std::exchange(client.held, {})) {
      post(&client, engine::FlushedRequest{caller(client), delivery, false}, "has printed");
    }
  };
  for (int round = 0; round < 8 && violations_.empty(); ++round) {
    const std::optional<TurnId> open = turn_of(client.owner);
    if (!open) return;
    if (round == 0) verb(core::TurnVerb::resume, *open);
    verb(core::TurnVerb::end, *open);
  }
}

bool Simulation::serve_session(const core::Owner& owner) {
  const std::string of =
      " WHERE tenant = '" + owner.tenant.str() + "' AND session = '" + owner.session.str() + "'";
  const auto pending = [&] {
    return !rows("SELECT 1 FROM inbox" + of + " AND acked_at IS NULL").empty();
  };
  if (core::is_user_session(owner)) {
    if (!pending()) return false;
    take_all(client(owner, std::nullopt));
    return true;
  }
  if (!turn_of(owner) && !pending()) return false;
  Client& last = client(owner, HostKey("last"));
  engine::AttachRequest attach;
  attach.caller = caller(last);
  post(&last, attach, "attach, the last host");
  finish_turn(last);
  if (pending() && !turn_of(owner)) {
    engine::TurnRequest begin;
    begin.caller = caller(last);
    begin.turn = TurnId("last" + std::to_string(next_turn_++));
    post(&last, begin, "turn begin, the last host");
    for (const DeliveryId& delivery : std::exchange(last.held, {})) {
      post(&last, engine::FlushedRequest{caller(last), delivery, false}, "has printed");
    }
    finish_turn(last);
  }
  take_all(last);
  return true;
}

void Simulation::come_to_rest() {
  note("the faults are over");
  // Jobs that start a client belong to the person.
  for (const char* tenant : {"local", "other"}) {
    const core::Owner person{TenantId(tenant), SessionId("user")};
    if (std::find(owners_.begin(), owners_.end(), person) == owners_.end()) {
      owners_.push_back(person);
    }
  }
  calm_ = true;
  crash_in_ = 0;
  disk_.clear_trouble();
  const bool refused = daemon_ && (!daemon_->engine->poisoned().empty() || damage_);
  if (daemon_ && (refused || random_.chance(30))) {
    send();
    dead_ = true;
    disk_.freeze();
    bury();
  }
  if (!daemon_) {
    cure();
    start();
  }
  if (!daemon_) return;
  send();
  troubled_ = false;
  constexpr int kRounds = 60;
  bool quiet = false;
  for (int round = 0; round < kRounds && !quiet && violations_.empty() && daemon_; ++round) {
    bool moved = settle_machine();
    for (const core::Owner& owner : owners_) moved = serve_session(owner) || moved;
    // The last hosts leave; what waits for time gets it.
    while (!clients_.empty()) close(clients_.begin()->first);
    for (const HostProcess& host : std::exchange(hosts_, {})) {
      gone_.push_back({host.owner, host.pid, 7});
      moved = true;
    }
    // Retention is the one thing that is owed at rest; its weeks do not pass here.
    if (const auto due = daemon_->engine->next_due(); due && *due < std::chrono::hours(24)) {
      clock_.pass(*due);
      note("time passes: " + std::to_string(due->count()) + " ms");
      tick();
      moved = true;
    }
    quiet = !moved && rows("SELECT 1 FROM owed WHERE kind <> 'prune'").empty();
  }
  if (violations_.empty()) final_audit();
}

void Simulation::final_audit() {
  check();
  check_endings();
  check_ledger(true);
  count_rows();
  for (const std::string& row : rows("SELECT kind || ' ' || key || ' of ' || session || ' due ' || "
                                     "due_at || ' ' || last_error FROM owed WHERE kind <> "
                                     "'prune'")) {
    violated("owed", "at rest something is owed that nobody does: " + row);
  }
  for (const std::string& row :
       rows("SELECT event || ' ' || state || ' ' || withheld || ' ' || last_error FROM inbox WHERE "
            "acked_at IS NULL")) {
    violated("I2", "a willing host was there and did not hear " + row);
  }
  for (const std::string& row :
       rows("SELECT job || ' ' || status FROM job WHERE status IN ('queued', 'running')")) {
    violated("I17", "everything has ended and a job has not: " + row);
  }
  for (const std::string& row : rows("SELECT turn FROM turn WHERE state <> 'closed'")) {
    violated("I2", "a turn never closed: " + row);
  }
}

}  // namespace waybill::sim
