#pragma once
// Scripts that take back what a later version of the schema added, newest first, so that a test has
// a store of an older one.

#include <string_view>

namespace waybill::test {

inline constexpr std::string_view kUndoBackup =
    "DROP INDEX idempotency_job; DROP TRIGGER receipt_numbers_are_not_given_again";
inline constexpr std::string_view kUndoNode = "DROP TABLE node; DROP TABLE unrecoverable";

// From version 5 to version 4.
inline constexpr std::string_view kUndoRetention =
    "DROP TRIGGER receipt_is_append_only_delete; DROP TRIGGER prune_takes_finished_jobs; "
    "DROP TRIGGER job_goes_by_prune; DROP TRIGGER launch_goes_by_prune; "
    "DROP TRIGGER inbox_keeps_what_nobody_took; DROP TRIGGER idempotency_outlives_its_job; "
    "CREATE TRIGGER receipt_is_append_only_delete BEFORE DELETE ON receipt "
    "BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END; "
    "DROP TABLE due_clock; DROP TABLE high_water; DROP TABLE ended; DROP TABLE prune; "
    "DROP TABLE absent_session; DROP INDEX turn_kept; ALTER TABLE turn DROP COLUMN kept_from; "
    "DROP INDEX idempotency_gone; "
    "ALTER TABLE idempotency DROP COLUMN gone_at; ALTER TABLE inbox DROP COLUMN dropped_as; "
    "DROP INDEX hand_over_event; DROP INDEX owed_timer; CREATE INDEX owed_due ON owed (due_at); "
    "UPDATE meta SET value = '4' WHERE key = 'schema_version';";

}  // namespace waybill::test
