-- Waybill's store, version 4: what the outputs of finished jobs take on the disk, and what of them
-- was given up. A job's own row is closed when it ends; this is a row beside it, for outputs that
-- have at least one byte.

CREATE TABLE output (
  job TEXT NOT NULL PRIMARY KEY,
  -- The node's receipt number of the ending: the oldest goes first.
  ended_seq BIGINT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  kept_bytes BIGINT NOT NULL,
  -- Of an output that was shortened after the end; NULL: as the job's row says.
  gaps TEXT,
  expired_at BIGINT,
  expired_why TEXT NOT NULL
) __STRICT__;

CREATE INDEX output_kept ON output (tenant, session, ended_seq) WHERE expired_at IS NULL;
CREATE INDEX output_oldest ON output (ended_seq) WHERE expired_at IS NULL;
CREATE INDEX output_largest ON output (kept_bytes) WHERE expired_at IS NULL;

-- The sum of kept_bytes of a session.
CREATE TABLE output_use (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  bytes BIGINT NOT NULL,
  PRIMARY KEY (tenant, session)
) __STRICT__;

CREATE INDEX output_use_bytes ON output_use (bytes);
