#pragma once
// What brings a store back to an older version, newest step first, so that the way forward can be
// tested with rows in it.

#include <string_view>

namespace waybill::test {

// From version 5 to version 4.
inline constexpr std::string_view kUndoRetention =
    "DROP TRIGGER receipt_is_append_only_delete; DROP TRIGGER prune_takes_finished_jobs; "
    "DROP TRIGGER job_goes_by_prune; DROP TRIGGER launch_goes_by_prune; "
    "DROP TRIGGER inbox_keeps_what_nobody_took; DROP TRIGGER idempotency_outlives_its_job; "
    "CREATE TRIGGER receipt_is_append_only_delete BEFORE DELETE ON receipt "
    "BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END; "
    "DROP TABLE due_clock; DROP TABLE high_water; DROP TABLE ended; DROP TABLE prune; "
    "DROP TABLE absent_session; DROP INDEX turn_kept; ALTER TABLE turn DROP COLUMN kept_from; "
    "ALTER TABLE launch DROP COLUMN key; DROP INDEX idempotency_gone; "
    "ALTER TABLE idempotency DROP COLUMN gone_at; ALTER TABLE inbox DROP COLUMN dropped_as; "
    "DROP INDEX hand_over_event; DROP INDEX owed_timer; CREATE INDEX owed_due ON owed (due_at); "
    "UPDATE meta SET value = '4' WHERE key = 'schema_version';";

}  // namespace waybill::test
