-- What may be removed, and what never: rows of jobs that are being pruned.

DROP TRIGGER receipt_is_append_only_delete;

CREATE TRIGGER receipt_is_append_only_delete BEFORE DELETE ON receipt
WHEN NOT EXISTS (SELECT 1 FROM prune p WHERE p.job = OLD.job)
BEGIN SELECT RAISE(ABORT, 'receipts are append-only'); END;

CREATE TRIGGER prune_takes_finished_jobs BEFORE INSERT ON prune
WHEN NOT EXISTS (
  SELECT 1 FROM job j WHERE j.job = NEW.job AND j.status IN ('succeeded', 'failed', 'stopped'))
BEGIN SELECT RAISE(ABORT, 'only a finished job can be removed'); END;

CREATE TRIGGER job_goes_by_prune BEFORE DELETE ON job
WHEN NOT EXISTS (SELECT 1 FROM prune p WHERE p.job = OLD.job)
BEGIN SELECT RAISE(ABORT, 'a job is removed by retention alone'); END;

CREATE TRIGGER launch_goes_by_prune BEFORE DELETE ON launch
WHEN NOT EXISTS (SELECT 1 FROM prune p WHERE p.job = OLD.job)
BEGIN SELECT RAISE(ABORT, 'a launch is removed with its job'); END;

CREATE TRIGGER inbox_keeps_what_nobody_took BEFORE DELETE ON inbox
WHEN OLD.acked_at IS NULL OR NOT EXISTS (SELECT 1 FROM prune p WHERE p.job = OLD.job)
BEGIN SELECT RAISE(ABORT, 'an event is removed with its job, and never before it was heard'); END;

CREATE TRIGGER idempotency_outlives_its_job BEFORE DELETE ON idempotency
WHEN OLD.gone_at IS NULL
BEGIN SELECT RAISE(ABORT, 'an idempotency key outlives its job'); END;
