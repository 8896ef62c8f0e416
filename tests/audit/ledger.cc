#include "ledger.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

namespace waybill::audit {
namespace {

struct Arrow {
  std::string_view from;
  std::string_view to;
  std::string_view receipt;
};

constexpr std::array<Arrow, 12> kTable{{
    {"", "queued", "queued"},
    {"queued", "running", "started"},
    {"queued", "failed", "failed"},
    {"queued", "stopped", "cancelled"},
    {"running", "waiting_on_user", "waiting"},
    {"running", "queued", "requeued"},
    {"running", "succeeded", "completed"},
    {"running", "failed", "failed"},
    {"running", "stopped", "cancelled"},
    {"waiting_on_user", "running", "resumed"},
    {"waiting_on_user", "failed", "failed"},
    {"waiting_on_user", "stopped", "cancelled"},
}};

// Receipts that change no status.
constexpr std::array<std::string_view, 7> kNotes{
    "stop_requested", "stop_stuck", "dropped", "abandoned", "released", "leftovers", "monitor"};

// Which event tells of a receipt.
struct Told {
  std::string_view receipt;
  std::string_view event;
};
constexpr std::array<Told, 6> kTold{{{"completed", "job.completed"},
                                     {"failed", "job.failed"},
                                     {"waiting", "job.waiting"},
                                     {"cancelled", "job.cancelled"},
                                     {"stop_stuck", "job.stop_stuck"},
                                     {"monitor", "job.monitor"}}};

bool terminal(std::string_view status) {
  return status == "succeeded" || status == "failed" || status == "stopped";
}

bool is_note(std::string_view name) {
  return std::find(kNotes.begin(), kNotes.end(), name) != kNotes.end();
}

bool changes(const Receipt& receipt) { return !receipt.from || *receipt.from != receipt.to; }

// The owner's own doing: the session's, a stop of its turn, its disposal.
bool stopped_by_owner(const Receipt& receipt) {
  return receipt.cause == "model" || receipt.cause == "user" || receipt.cause == "turn_stopped" ||
         receipt.cause == "owner_teardown";
}

bool must_be_heard(const Receipt& receipt) {
  if (receipt.name == "cancelled") return changes(receipt) && !stopped_by_owner(receipt);
  return std::any_of(kTold.begin(), kTold.end(),
                     [&](const Told& told) { return told.receipt == receipt.name; });
}

std::string event_type(std::string_view receipt) {
  for (const Told& told : kTold) {
    if (told.receipt == receipt) return std::string(told.event);
  }
  return {};
}

class Auditor {
 public:
  explicit Auditor(const Ledger& ledger) : ledger_(ledger) {}

  std::vector<Violation> run() {
    for (const Job& job : ledger_.jobs) {
      sequences(job);
      table(job);
      ending(job);
      own_stop(job);
      events(job);
      commands(job);
    }
    if (ledger_.whole_node) node_numbers();
    activations();
    consumers();
    for (const Job& job : ledger_.jobs) {
      for (const Event& event : job.events) settled(job, event);
    }
    return std::move(found_);
  }

 private:
  void add(std::string invariant, const std::string& what) {
    found_.push_back({std::move(invariant), what});
  }

  static std::string name(const Job& job, const Receipt& receipt) {
    return "job " + job.id + ", receipt " + std::to_string(receipt.seq) + " (" + receipt.name + ")";
  }

  void sequences(const Job& job) {
    std::uint64_t next = 1;
    std::uint64_t node = 0;
    for (const Receipt& receipt : job.receipts) {
      if (receipt.seq != next) {
        add("ledger", name(job, receipt) + ": number " + std::to_string(next) + " was expected");
      }
      if (receipt.node_seq != 0 && receipt.node_seq <= node) {
        add("ledger", name(job, receipt) + ": the node's number does not grow");
      }
      next = receipt.seq + 1;
      node = std::max(node, receipt.node_seq);
    }
  }

  void table(const Job& job) {
    std::string status;
    std::uint64_t attempt = 0;
    for (const Receipt& receipt : job.receipts) {
      if (!in_table(receipt.from, receipt.to, receipt.name)) {
        add("I5", name(job, receipt) + ": " + receipt.from.value_or("nothing") + " to " +
                      receipt.to + " is not in the table");
      }
      if (receipt.from.value_or("") != status) {
        add("I5", name(job, receipt) + ": begins at " + receipt.from.value_or("nothing") +
                      ", and the job was " + (status.empty() ? "not there" : status));
      }
      if (receipt.name == "started" ? receipt.attempt != attempt + 1 : receipt.attempt != attempt) {
        add("I5", name(job, receipt) + ": attempt " + std::to_string(receipt.attempt) + " after " +
                      std::to_string(attempt));
      }
      attempt = receipt.attempt;
      status = receipt.to;
    }
    if (job.receipts.empty() || job.status != status) {
      add("I5", "job " + job.id + " is " + job.status + ", its receipts say \"" + status + "\"");
    }
  }

  void ending(const Job& job) {
    const auto endings =
        std::count_if(job.receipts.begin(), job.receipts.end(),
                      [](const Receipt& r) { return changes(r) && terminal(r.to); });
    if (endings > 1 || (endings == 0 && (ledger_.quiet || terminal(job.status)))) {
      add("I4", "job " + job.id + " (" + job.status + ") has " + std::to_string(endings) +
                    " terminal receipts");
    }
    if (!job.alive.empty()) {
      add("I7", "job " + job.id + " is " + job.status + " and has left " + job.alive.front());
    }
    if (job.status == "stopped" && job.proof == "unproven") {
      add("I7", "job " + job.id + " is called stopped without a proof");
    }
  }

  // The wish decides, whatever the exit; without a proof it cannot be called a stop (I7).
  void own_stop(const Job& job) {
    bool wished = false;
    for (const Receipt& receipt : job.receipts) {
      if (receipt.name == "stop_requested" && !terminal(receipt.to)) wished = true;
      if (!changes(receipt) || !terminal(receipt.to)) continue;
      const bool unproven = receipt.to == "failed" && job.proof == "unproven";
      if (wished && receipt.to != "stopped" && !unproven) {
        add("I8", name(job, receipt) + " after a stop was asked for");
      }
      if (!wished && receipt.to == "stopped") {
        add("I8", name(job, receipt) + ": nobody has asked for it");
      }
    }
  }

  // Every event has its receipt; every receipt that must be heard its event.
  void events(const Job& job) {
    std::map<std::string, const Event*> wanted;
    std::map<std::string, std::uint64_t> count;
    for (const Receipt& receipt : job.receipts) {
      const std::uint64_t n = ++count[receipt.name];
      const std::string id = job.id + "." + receipt.name + "." + std::to_string(n);
      if (must_be_heard(receipt)) wanted.emplace(id, nullptr);
      if (receipt.name == "cancelled" && stopped_by_owner(receipt)) silent_.insert(id);
    }
    for (const Event& event : job.events) {
      if (!known_.emplace(event.id, &job).second) add("I3", "two events are called " + event.id);
      if (silent_.contains(event.id)) {
        add("I8", "event " + event.id + " tells the owner of its own stop");
        continue;
      }
      const auto found = wanted.find(event.id);
      if (found == wanted.end()) {
        add("ledger", "event " + event.id + " has no receipt");
        continue;
      }
      found->second = &event;
      const std::size_t from = job.id.size() + 1;
      const std::string receipt = event.id.substr(from, event.id.rfind('.') - from);
      if (!event.type.empty() && event.type != event_type(receipt)) {
        add("ledger", "event " + event.id + " is a " + event.type);
      }
    }
    for (const auto& [id, event] : wanted) {
      if (event == nullptr) add("I2", "event " + id + " is not there, though it must be heard");
    }
  }

  void commands(const Job& job) {
    if (job.runs.value_or(0) > 1) {
      add("I10", "the command of job " + job.id + " began " + std::to_string(*job.runs) + " times");
    }
    const bool claimed =
        std::any_of(job.receipts.begin(), job.receipts.end(),
                    [](const Receipt& receipt) { return receipt.name == "started"; });
    if (job.runs.value_or(0) > 0 && !claimed) {
      add("I11", "the command of job " + job.id + " ran and no receipt says so");
    }
    if (job.runs && *job.runs == 0 && job.status == "succeeded") {
      add("I9", "job " + job.id + " succeeded and its command never ran");
    }
  }

  void node_numbers() {
    std::set<std::uint64_t> numbers;
    for (const Job& job : ledger_.jobs) {
      for (const Receipt& receipt : job.receipts) {
        if (!numbers.insert(receipt.node_seq).second) {
          add("ledger", name(job, receipt) + ": the node's number was used before");
        }
      }
    }
    if (!numbers.empty() && (*numbers.begin() != 1 || *numbers.rbegin() != numbers.size())) {
      add("ledger", "the node's receipt numbers have a gap");
    }
  }

  void activations() {
    std::set<std::uint64_t> used;
    for (const Job& job : ledger_.jobs) {
      for (const Receipt& receipt : job.receipts) {
        if (receipt.name == "started" && !used.insert(receipt.activation).second) {
          add("I16", name(job, receipt) + ": its activation was used before");
        }
      }
    }
  }

  void consumers() {
    for (const Sight& sight : ledger_.sights) {
      const auto job = known_.find(sight.event);
      if (job == known_.end()) {
        add("I3", sight.owner + " saw " + sight.event + ", an event that is nowhere");
        continue;
      }
      if (job->second->owner != sight.owner) {
        add("I1", sight.owner + " got " + sight.event + ", which is " + job->second->owner + "'s");
      }
      if (sight.what == Sight::What::acknowledged) {
        acknowledged_.insert(sight.event);
        continue;
      }
      seen_.insert(sight.event);
      if (sight.what == Sight::What::read) continue;  // a question may be asked at any time
      if (handed_.contains(sight.event) && !sight.repeat) {
        add("I3", sight.event + " came a second time and was not marked as a repeat");
      }
      if (acknowledged_.contains(sight.event)) {
        add("I3", sight.event + " came again after it was acknowledged");
      }
      handed_.insert(sight.event);
    }
  }

  // Heard, or there is a word for why not.
  void settled(const Job& job, const Event& event) {
    const bool known =
        ledger_.hand_overs_known && (event.acked_as != "reported" || ledger_.reads_known);
    if (event.state == "acked") {
      if (event.acked_as.empty()) add("I2", event.id + " is acknowledged and nothing says as what");
      if (known && !seen_.contains(event.id)) {
        add("I2", event.id + " is acknowledged and nobody saw it");
      }
      return;
    }
    if (acknowledged_.contains(event.id)) {
      add("I3", event.id + " was acknowledged and is " + event.state);
    }
    const bool why = !event.reason.empty() && event.reason != "no";
    if (event.state == "dropped" || event.state == "parked") {
      if (!why) add("I2", event.id + " is " + event.state + " and nothing says why");
      const bool noted = std::any_of(job.receipts.begin(), job.receipts.end(),
                                     [](const Receipt& r) { return r.name == "dropped"; });
      if (event.state == "dropped" && !noted) add("I2", event.id + " was dropped off the record");
      return;
    }
    if (!ledger_.quiet) return;
    if (event.state == "accepted" && (!known || seen_.contains(event.id))) return;
    if (event.state != "pending" || !why) {
      add("I2", event.id + " is " + event.state + " at the end and nothing says why");
    }
  }

  const Ledger& ledger_;
  std::vector<Violation> found_;
  std::map<std::string, const Job*> known_;
  std::set<std::string> silent_;
  std::set<std::string> seen_;
  std::set<std::string> handed_;
  std::set<std::string> acknowledged_;
};

}  // namespace

bool in_table(const std::optional<std::string>& from, const std::string& to,
              const std::string& name) {
  if (from && *from == to) return is_note(name);
  return std::any_of(kTable.begin(), kTable.end(), [&](const Arrow& arrow) {
    return arrow.from == from.value_or("") && arrow.to == to && arrow.receipt == name;
  });
}

std::vector<Violation> audit(const Ledger& ledger) { return Auditor(ledger).run(); }

std::string describe(const std::vector<Violation>& violations) {
  std::string text;
  for (const Violation& violation : violations) {
    text += violation.invariant + ": " + violation.what + "\n";
  }
  return text;
}

}  // namespace waybill::audit
