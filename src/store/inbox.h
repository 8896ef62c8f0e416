#pragma once
// Rows of `inbox` and `hand_over`. `write_inbox` is the only function that writes a state.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/inbox.h"
#include "core/scope.h"
#include "store/database.h"

namespace waybill::store {

struct InboxRow {
  std::uint64_t seq = 0;  // commit order
  EventId event;
  core::Owner owner;
  std::optional<TurnId> turn;  // set while the row belongs to that turn alone
  JobId job;
  core::EventType type = core::EventType::job_completed;
  core::Lane lane = core::Lane::next_step;
  core::Author author = core::Author::job;
  bool wakes = true;
  core::InboxState state = core::InboxState::pending;
  core::Withheld withheld = core::Withheld::no;
  bool repeat = false;
  unsigned tries = 0;
  std::string last_error;
  WallTime due_at{};  // on the store's clock: not handed over before (back-off)
  std::optional<DeliveryId> delivery;
  std::optional<std::uint64_t> offer_fence;
  std::optional<core::OfferPath> offer_path;
  std::optional<std::uint64_t> offer_connection;  // set: goes back when this connection closes
  std::optional<TurnId> taken_by;                 // the turn that took it
  std::optional<core::AckedAs> acked_as;
  std::optional<core::DroppedAs> dropped_as;
  std::optional<WallTime> acked_at;  // acked or dropped
  std::string data;                  // JSON of its own, for events that are not an ending
  std::string sealed_tail;           // the last bytes of output at settle
  WallTime created_at{};
};

Result<void> insert_inbox(Database& db, const InboxRow& row);
// Writes everything that changes in a row's life, the state included.
Result<void> write_inbox(Database& db, const InboxRow& row);

Result<std::optional<InboxRow>> find_event(Database& db, const EventId& event);
// The same, but another owner's event is as good as none, whether it parses or not.
Result<std::optional<InboxRow>> find_own_event(Database& db, const core::Owner& owner,
                                               const EventId& event);
// Rows not yet acknowledged or dropped, in commit order.
Result<std::vector<InboxRow>> live_inbox(Database& db, const core::Owner& owner);
Result<std::vector<InboxRow>> inbox_in_state(Database& db, const core::Owner& owner,
                                             core::InboxState state);
Result<std::vector<InboxRow>> inbox_of_job(Database& db, const JobId& job);
Result<std::vector<InboxRow>> inbox_of_delivery(Database& db, const DeliveryId& delivery);
// What a connection holds, by owner: rows of an owner whose state does not parse stay as they are
// (I12), and a later daemon's connection may have the same number.
Result<std::vector<core::Owner>> owners_of_connection(Database& db, std::uint64_t connection);
Result<std::vector<InboxRow>> inbox_of_connection(Database& db, const core::Owner& owner,
                                                  std::uint64_t connection);
// Rows whose offer an earlier daemon made: offered, or held by a connection that is no more.
Result<std::vector<InboxRow>> inbox_of_earlier_daemon(Database& db);
Result<std::uint64_t> count_live_inbox(Database& db, const core::Owner& owner);
Result<std::uint64_t> count_all_live_inbox(Database& db);
Result<std::uint64_t> max_inbox_seq(Database& db);
// What is pending may have been heard, as far as this store can tell.
Result<void> mark_pending_as_repeats(Database& db);

struct HandOverRow {
  DeliveryId delivery;
  core::Owner owner;
  std::uint64_t fence = 0;
  std::vector<EventId> events;
  WallTime at{};
};
Result<void> insert_hand_over(Database& db, const HandOverRow& row);
Result<std::optional<HandOverRow>> find_hand_over(Database& db, const DeliveryId& delivery);

}  // namespace waybill::store
