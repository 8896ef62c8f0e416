#pragma once
// Delivery: offers, acceptance, acknowledgement, and the way back to pending (SPEC section 6). All
// paths, `inbox`, `turn begin|step|end` and an owner's read, hand rows over here.

#include <optional>
#include <string>
#include <vector>

#include "engine/work.h"

namespace waybill::engine {

// To whom rows are handed, and how.
struct OfferTarget {
  core::Owner owner;
  std::uint64_t fence = 0;
  ConnectionId connection = 0;
  core::OfferPath path = core::OfferPath::inbox;
  std::optional<TurnId> turn;  // the open turn, if there is one: it takes the rows
};

// Commits the rows to one hand-over. They must be pending. nullopt for no rows.
Result<std::optional<HandOver>> offer(Work& work, const OfferTarget& target,
                                      std::vector<store::InboxRow> rows);

// Rows that may be handed over now: pending, due, not another turn's.
enum class Which {
  all,     // withheld ones ride along: a turn that runs anyway takes them
  waking,  // those that may open or hold a turn
  unheld,  // everything but withheld rows
};
Result<std::vector<store::InboxRow>> deliverable(Work& work, const core::Owner& owner,
                                                 const std::optional<TurnId>& turn, Which which);

// A terminal result in an answer to the owner's host counts as a hand-over of its events; it is
// acknowledged as reported once the client says that the answer is out.
Result<std::optional<DeliveryId>> report(Work& work, const Caller& caller, const Host& host,
                                         const std::vector<JobView>& jobs);

// The client has flushed the answer that carried this delivery.
Result<void> flushed(Work& work, const FlushedRequest& request, const Host& host);

// The host's next `inbox`, `turn` or `ack`: what those paths had printed counts as processed. So
// does what the caller's own connection was handed before: it asks again, so it has read the
// answer.
Result<void> acknowledge_earlier(Work& work, const Caller& caller, std::uint64_t fence);

// The next tool result is about to be given: the model has gone on from the ones before.
Result<void> acknowledge_tool_results(Work& work, const core::Owner& owner, std::uint64_t fence);

// The client will not print this hand-over.
Result<void> returned(Work& work, const Caller& caller, const Host& host,
                      const DeliveryId& delivery);

// Everything that this turn took, whatever returned to pending meanwhile.
Result<void> acknowledge_turn(Work& work, const core::Owner& owner, const TurnId& turn,
                              std::uint64_t fence);

Result<AckReply> acknowledge(Work& work, const Caller& caller, const Host& host,
                             const std::vector<std::string>& ids);

// Back to pending, marked as a repeat.
Result<void> return_row(Work& work, store::InboxRow row, const std::string& why);
// Given up for good, with a receipt of its job.
Result<void> drop_row(Work& work, store::InboxRow row, core::DroppedAs as);
// Offered and accepted rows of a session whose host is lost.
Result<void> return_rows(Work& work, const core::Owner& owner, const std::string& why);
Result<void> return_expired(Work& work, const DeliveryId& delivery);
Result<void> connection_closed(Work& work, ConnectionId connection);
Result<void> return_rows_of_earlier_daemon(Work& work);

// A new event of a job, in the transaction of the receipt that it tells of.
Result<void> publish(Work& work, const store::JobRow& job, core::ReceiptName receipt,
                     core::EventType type, bool wakes, const std::string& tail, std::string data);

}  // namespace waybill::engine
