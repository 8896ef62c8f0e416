-- Waybill's store, version 3: what else a launch can ask for.

-- 'null': nothing to read; 'open': a pipe that `write` fills and closes.
ALTER TABLE launch ADD COLUMN stdin TEXT NOT NULL DEFAULT 'null';
ALTER TABLE launch ADD COLUMN pty BIGINT NOT NULL DEFAULT 0;
-- A job that is still queued then is not started any more.
ALTER TABLE job ADD COLUMN start_by BIGINT;
-- A wish to stop what outlived its command. The job's own row is closed.
ALTER TABLE leftover ADD COLUMN stop_at BIGINT;
ALTER TABLE leftover ADD COLUMN stop_actor TEXT;
ALTER TABLE leftover ADD COLUMN stop_reason TEXT;
-- How to look at a job's output while it runs: lines, or lines that a pattern fits.
ALTER TABLE job ADD COLUMN monitors BIGINT NOT NULL DEFAULT 0;
CREATE TABLE monitor (
  job TEXT NOT NULL,
  number BIGINT NOT NULL,
  pattern TEXT NOT NULL,
  events_max BIGINT NOT NULL,
  per_minute BIGINT NOT NULL,
  wakes BIGINT NOT NULL,
  -- Output before `read_to` was looked at: lines that fitted, those of them that no event told,
  -- bytes that were gone before they were seen, events made.
  read_to BIGINT NOT NULL,
  lines BIGINT NOT NULL,
  untold BIGINT NOT NULL,
  missed BIGINT NOT NULL,
  events BIGINT NOT NULL,
  PRIMARY KEY (job, number)
) __STRICT__;
