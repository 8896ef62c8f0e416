#include "store/inbox.h"

#include <algorithm>

#include "store/retention.h"

namespace waybill::store {
namespace {

constexpr std::string_view kColumns =
    "seq, event, tenant, session, turn, job, type, lane, author, wakes, state, withheld, repeat, "
    "tries, last_error, due_at, delivery, offer_fence, offer_path, offer_connection, taken_by, "
    "acked_as, acked_at, data, sealed_tail, created_at, dropped_as";

std::string select_inbox(std::string_view where) {
  return "SELECT " + std::string(kColumns) + " FROM inbox WHERE " + std::string(where);
}

Result<InboxRow> read_inbox(const Row& row) {
  InboxRow inbox;
  inbox.seq = static_cast<std::uint64_t>(row.integer(0));
  inbox.event = EventId(row.string(1));
  inbox.owner = {TenantId(row.string(2)), SessionId(row.string(3))};
  if (!row.null(4)) inbox.turn = TurnId(row.string(4));
  inbox.job = JobId(row.string(5));
  TRY_ASSIGN(inbox.type, read_word<core::EventType>(row.text(6), "inbox.type"));
  TRY_ASSIGN(inbox.lane, read_word<core::Lane>(row.text(7), "inbox.lane"));
  TRY_ASSIGN(inbox.author, read_word<core::Author>(row.text(8), "inbox.author"));
  inbox.wakes = row.integer(9) != 0;
  TRY_ASSIGN(inbox.state, read_word<core::InboxState>(row.text(10), "inbox.state"));
  TRY_ASSIGN(inbox.withheld, read_word<core::Withheld>(row.text(11), "inbox.withheld"));
  inbox.repeat = row.integer(12) != 0;
  inbox.tries = static_cast<unsigned>(row.integer(13));
  inbox.last_error = row.string(14);
  inbox.due_at = row.time(15);
  if (!row.null(16)) inbox.delivery = DeliveryId(row.string(16));
  if (!row.null(17)) inbox.offer_fence = static_cast<std::uint64_t>(row.integer(17));
  TRY_ASSIGN(inbox.offer_path, read_maybe_word<core::OfferPath>(row, 18, "inbox.offer_path"));
  if (!row.null(19)) inbox.offer_connection = static_cast<std::uint64_t>(row.integer(19));
  if (!row.null(20)) inbox.taken_by = TurnId(row.string(20));
  TRY_ASSIGN(inbox.acked_as, read_maybe_word<core::AckedAs>(row, 21, "inbox.acked_as"));
  inbox.acked_at = row.maybe_time(22);
  inbox.data = row.string(23);
  inbox.sealed_tail = row.string(24);
  inbox.created_at = row.time(25);
  TRY_ASSIGN(inbox.dropped_as, read_maybe_word<core::DroppedAs>(row, 26, "inbox.dropped_as"));
  return inbox;
}

Result<std::vector<InboxRow>> read_rows(Database& db, const std::string& sql, Params params) {
  std::vector<InboxRow> rows;
  TRY(db.each(sql, params, [&](const Row& row) -> Result<void> {
    TRY_ASSIGN(InboxRow inbox, read_inbox(row));
    rows.push_back(std::move(inbox));
    return {};
  }));
  return rows;
}

}  // namespace

Result<void> insert_inbox(Database& db, const InboxRow& r) {
  static const std::string sql =
      "INSERT INTO inbox (seq, event, tenant, session, turn, job, type, lane, author, wakes, "
      "state, "
      "withheld, repeat, tries, last_error, due_at, data, sealed_tail, created_at) VALUES "
      "($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";
  TRY(db.run(sql, {r.seq, r.event, r.owner.tenant, r.owner.session, r.turn, r.job, r.type, r.lane,
                   r.author, r.wakes, r.state, r.withheld, r.repeat, r.tries, r.last_error,
                   r.due_at, r.data, Bytes{r.sealed_tail}, r.created_at}));
  return {};
}

Result<void> write_inbox(Database& db, const InboxRow& r) {
  static const std::string sql =
      "UPDATE inbox SET turn = $2, state = $3, withheld = $4, repeat = $5, tries = $6, last_error "
      "= $7, "
      "due_at = $8, delivery = $9, offer_fence = $10, offer_path = $11, offer_connection = $12, "
      "taken_by = $13, acked_as = $14, acked_at = $15, lane = $16, dropped_as = $17 WHERE seq = $1";
  TRY_ASSIGN(const std::int64_t changed,
             db.run(sql, {r.seq, r.turn, r.state, r.withheld, r.repeat, r.tries, r.last_error,
                          r.due_at, r.delivery, r.offer_fence, r.offer_path, r.offer_connection,
                          r.taken_by, r.acked_as, r.acked_at, r.lane, r.dropped_as}));
  if (changed == 1) return {};
  return fail(ErrorCode::state_corrupt, "The inbox row of " + r.event.str() + " is gone.");
}

Result<std::optional<InboxRow>> find_event(Database& db, const EventId& event) {
  static const std::string sql = select_inbox("event = $1");
  return db.first<InboxRow>(sql, {event}, [](const Row& row) { return read_inbox(row); });
}

Result<std::optional<InboxRow>> find_own_event(Database& db, const core::Owner& owner,
                                               const EventId& event) {
  static const std::string sql = select_inbox("event = $1 AND tenant = $2 AND session = $3");
  return db.first<InboxRow>(sql, {event, owner.tenant, owner.session},
                            [](const Row& row) { return read_inbox(row); });
}

Result<std::vector<InboxRow>> live_inbox(Database& db, const core::Owner& owner) {
  static const std::string sql =
      select_inbox("tenant = $1 AND session = $2 AND acked_at IS NULL ORDER BY seq");
  return read_rows(db, sql, {owner.tenant, owner.session});
}

Result<std::vector<InboxRow>> inbox_in_state(Database& db, const core::Owner& owner,
                                             core::InboxState state) {
  static const std::string sql =
      select_inbox("tenant = $1 AND session = $2 AND acked_at IS NULL AND state = $3 ORDER BY seq");
  return read_rows(db, sql, {owner.tenant, owner.session, state});
}

Result<std::vector<InboxRow>> inbox_of_job(Database& db, const JobId& job) {
  static const std::string sql = select_inbox("job = $1 ORDER BY seq");
  return read_rows(db, sql, {job});
}

Result<std::vector<InboxRow>> inbox_of_delivery(Database& db, const DeliveryId& delivery) {
  static const std::string sql = select_inbox("delivery = $1 AND acked_at IS NULL ORDER BY seq");
  return read_rows(db, sql, {delivery});
}

Result<std::vector<core::Owner>> owners_of_connection(Database& db, std::uint64_t connection) {
  std::vector<core::Owner> owners;
  TRY(db.each(
      "SELECT DISTINCT tenant, session FROM inbox WHERE offer_connection = $1 AND acked_at IS NULL",
      {connection}, [&](const Row& row) -> Result<void> {
        owners.push_back({TenantId(row.string(0)), SessionId(row.string(1))});
        return {};
      }));
  return owners;
}

Result<std::vector<InboxRow>> inbox_of_connection(Database& db, const core::Owner& owner,
                                                  std::uint64_t connection) {
  static const std::string sql = select_inbox(
      "offer_connection = $1 AND tenant = $2 AND session = $3 AND acked_at IS NULL ORDER BY seq");
  return read_rows(db, sql, {connection, owner.tenant, owner.session});
}

Result<std::vector<InboxRow>> inbox_of_earlier_daemon(Database& db) {
  // Sorted: by the order of the table, the store would go through everything that was ever heard.
  static const std::string sql = select_inbox(
      "acked_at IS NULL AND (state = 'offered' OR offer_connection IS NOT NULL) ORDER BY seq + 0");
  std::vector<InboxRow> rows;
  TRY(db.each(sql, {}, [&](const Row& row) -> Result<void> {
    // One row that does not parse refuses its own session, not the start of the daemon.
    if (auto inbox = read_inbox(row)) rows.push_back(std::move(*inbox));
    return {};
  }));
  return rows;
}

Result<std::uint64_t> count_live_inbox(Database& db, const core::Owner& owner) {
  TRY_ASSIGN(
      const std::int64_t count,
      db.integer("SELECT count(*) FROM inbox WHERE tenant = $1 AND session = $2 AND acked_at "
                 "IS NULL",
                 {owner.tenant, owner.session}));
  return static_cast<std::uint64_t>(count);
}

Result<std::uint64_t> count_all_live_inbox(Database& db) {
  TRY_ASSIGN(const std::int64_t count,
             db.integer("SELECT count(*) FROM inbox WHERE acked_at IS NULL", {}));
  return static_cast<std::uint64_t>(count);
}

Result<void> mark_pending_as_repeats(Database& db) {
  TRY(db.run("UPDATE inbox SET repeat = 1 WHERE acked_at IS NULL", {}));
  return {};
}

Result<std::uint64_t> max_inbox_seq(Database& db) {
  TRY_ASSIGN(const std::int64_t seq, db.integer("SELECT max(seq) FROM inbox", {}));
  TRY_ASSIGN(const std::uint64_t given, high_water(db, "inbox"));
  return std::max(static_cast<std::uint64_t>(seq), given);
}

Result<void> insert_hand_over(Database& db, const HandOverRow& row) {
  static const std::string sql =
      "INSERT INTO hand_over (delivery, event, tenant, session, fence, at) "
      "VALUES ($1, $2, $3, $4, $5, $6)";
  for (const EventId& event : row.events) {
    TRY(db.run(sql, {row.delivery, event, row.owner.tenant, row.owner.session, row.fence, row.at}));
  }
  return {};
}

Result<std::optional<HandOverRow>> find_hand_over(Database& db, const DeliveryId& delivery) {
  static const std::string sql =
      "SELECT event, tenant, session, fence, at FROM hand_over WHERE delivery = $1";
  std::optional<HandOverRow> found;
  TRY(db.each(sql, {delivery}, [&](const Row& row) -> Result<void> {
    if (!found) {
      found.emplace();
      found->delivery = delivery;
      found->owner = {TenantId(row.string(1)), SessionId(row.string(2))};
      found->fence = static_cast<std::uint64_t>(row.integer(3));
      found->at = row.time(4);
    }
    found->events.emplace_back(row.string(0));
    return {};
  }));
  return found;
}

}  // namespace waybill::store
