-- What the code must not do, refused by the store as well. PostgreSQL gets a file of its own.

CREATE TRIGGER receipt_is_append_only_update BEFORE UPDATE ON receipt
BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END;

CREATE TRIGGER receipt_is_append_only_delete BEFORE DELETE ON receipt
BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END;

CREATE TRIGGER receipt_follows_the_table BEFORE INSERT ON receipt
WHEN NEW.from_status IS NOT NULL AND NEW.from_status <> NEW.to_status AND NOT EXISTS (
  SELECT 1 FROM transition t
  WHERE t.from_status = NEW.from_status AND t.to_status = NEW.to_status AND t.receipt = NEW.name)
BEGIN SELECT RAISE(ABORT, 'illegal transition'); END;

CREATE TRIGGER receipt_starts_where_the_job_is BEFORE INSERT ON receipt
WHEN NEW.from_status IS NOT NULL AND NOT EXISTS (
  SELECT 1 FROM job j WHERE j.job = NEW.job AND j.status = NEW.from_status)
BEGIN SELECT RAISE(ABORT, 'the receipt does not start at the status of its job'); END;

CREATE TRIGGER job_begins_queued BEFORE INSERT ON job
WHEN NEW.status <> 'queued'
BEGIN SELECT RAISE(ABORT, 'a job begins queued'); END;

CREATE TRIGGER job_status_needs_its_receipt BEFORE UPDATE OF status ON job
WHEN NEW.status <> OLD.status AND NOT EXISTS (
  SELECT 1 FROM receipt r
  WHERE r.job = NEW.job AND r.seq = NEW.receipts
    AND r.from_status = OLD.status AND r.to_status = NEW.status)
BEGIN SELECT RAISE(ABORT, 'a status changes only together with its receipt'); END;

CREATE TRIGGER job_terminal_row_never_changes BEFORE UPDATE ON job
WHEN OLD.status IN ('succeeded', 'failed', 'stopped')
BEGIN SELECT RAISE(ABORT, 'a terminal job never changes'); END;

CREATE TRIGGER inbox_ending_never_changes BEFORE UPDATE ON inbox
WHEN OLD.state IN ('acked', 'dropped')
BEGIN SELECT RAISE(ABORT, 'an acknowledged or dropped row never changes'); END;
