#pragma once
// An independent checker of what Waybill has put on record. It knows nothing of the engine: it has
// its own copy of the contract's transition table and reads only receipts, events, what the
// consumers saw and what the commands did. The crash matrix fills a ledger from `waybill show`, the
// simulation from rows. Standard library only.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace waybill::audit {

struct Receipt {
  std::uint64_t seq = 0;       // in its job, from 1
  std::uint64_t node_seq = 0;  // in its node, from 1; 0: not known
  std::uint64_t attempt = 0;
  std::uint64_t activation = 0;
  std::optional<std::string> from;  // none for the first
  std::string to;
  std::string name;
  std::string cause;  // "" none
  std::int64_t at_ms = 0;
};

struct Event {
  std::string id;
  std::string type;      // "" not known
  std::string state;     // pending, offered, accepted, acked, dropped, parked
  std::string acked_as;  // "" none
  // Why nobody was told of it yet, why it was dropped or parked: any word but "" and "no".
  std::string reason;
};

struct Job {
  std::string id;
  std::string owner;  // as consumers are named in Sight
  std::string status;
  std::string proof;              // "" none
  std::vector<Receipt> receipts;  // in sequence
  std::vector<Event> events;
  std::optional<int> runs;         // how often its command really began; none: nobody counted
  std::vector<std::string> alive;  // processes of it seen after its terminal receipt, but leftovers
};

// What happened at the consumers, in order.
struct Sight {
  enum class What {
    handed_over,   // in a hand-over
    read,          // in the answer to a question about its job
    acknowledged,  // the consumer was told that this event is acknowledged
  };
  What what = What::handed_over;
  std::string event;
  std::string owner;  // of the consumer
  bool repeat = false;
};

struct Ledger {
  std::vector<Job> jobs;
  std::vector<Sight> sights;
  bool quiet = false;       // nothing is under way any more: what is not settled now is lost
  bool whole_node = false;  // every job of the node is here: its receipt numbers have no gap
  // Everything that consumers were handed over, and also what they read, is in `sights`.
  bool hand_overs_known = false;
  bool reads_known = false;
};

struct Violation {
  std::string invariant;  // "I2" …; "ledger" for sequences that do not add up
  std::string what;
};

// The contract's table of transitions (section 3), written down a second time. `from` none: the
// first receipt. True also for receipts that change nothing.
bool in_table(const std::optional<std::string>& from, const std::string& to,
              const std::string& name);

std::vector<Violation> audit(const Ledger& ledger);

// One line each; "" for none.
std::string describe(const std::vector<Violation>& violations);

}  // namespace waybill::audit
