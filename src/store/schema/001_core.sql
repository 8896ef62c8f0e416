-- Waybill's store, version 1. Written for every store: BIGINT and BYTEA become INTEGER and BLOB on
-- SQLite, and __STRICT__ becomes STRICT there and nothing elsewhere. Times are Unix milliseconds.

CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) __STRICT__;

-- One value sealed under the store's key: another key is noticed before it is used.
CREATE TABLE key_check (
  value BYTEA NOT NULL PRIMARY KEY
) __STRICT__;

-- The transition table of the contract, so that the schema refuses what the code must not do (I5).
CREATE TABLE transition (
  from_status TEXT NOT NULL,
  to_status TEXT NOT NULL,
  receipt TEXT NOT NULL,
  PRIMARY KEY (from_status, to_status, receipt)
) __STRICT__;

INSERT INTO transition (from_status, to_status, receipt) VALUES
  ('queued', 'running', 'started'),
  ('queued', 'failed', 'failed'),
  ('queued', 'stopped', 'cancelled'),
  ('running', 'waiting_on_user', 'waiting'),
  ('running', 'queued', 'requeued'),
  ('running', 'succeeded', 'completed'),
  ('running', 'failed', 'failed'),
  ('running', 'stopped', 'cancelled'),
  ('waiting_on_user', 'running', 'resumed'),
  ('waiting_on_user', 'failed', 'failed'),
  ('waiting_on_user', 'stopped', 'cancelled');

CREATE TABLE session (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  host_key_hash TEXT,
  fence BIGINT NOT NULL,
  lease_live BIGINT NOT NULL,
  lease_ms BIGINT,
  host_pid BIGINT,
  host_pid_start BIGINT,
  last_call_at BIGINT,
  one_shot BIGINT NOT NULL,
  revision BIGINT NOT NULL,
  running BIGINT NOT NULL,
  queued BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, session)
) __STRICT__;

CREATE INDEX session_queued ON session (tenant, session) WHERE queued > 0;

CREATE TABLE turn (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  turn TEXT NOT NULL,
  state TEXT NOT NULL,
  stopped BIGINT NOT NULL,
  fence BIGINT NOT NULL,
  begun_at BIGINT NOT NULL,
  closed_at BIGINT,
  PRIMARY KEY (tenant, session, turn)
) __STRICT__;

-- At most one open turn per session.
CREATE UNIQUE INDEX turn_open ON turn (tenant, session) WHERE state <> 'closed';

CREATE TABLE job (
  seq BIGINT NOT NULL PRIMARY KEY,
  job TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  turn TEXT,
  sandbox TEXT NOT NULL,
  generation TEXT NOT NULL,
  owner TEXT NOT NULL,
  wake TEXT NOT NULL,
  label TEXT NOT NULL,
  command_preview TEXT NOT NULL,
  cwd BYTEA NOT NULL,
  fingerprint TEXT NOT NULL,
  status TEXT NOT NULL,
  attempt BIGINT NOT NULL,
  activation BIGINT NOT NULL,
  receipts BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  started_at BIGINT,
  stop_at BIGINT,
  stop_cause TEXT,
  stop_actor TEXT,
  stop_reason TEXT,
  stop_by_owner BIGINT,
  survivors TEXT,
  finished_at BIGINT,
  duration_ms BIGINT,
  verdict TEXT,
  cause TEXT,
  actor TEXT,
  reason TEXT,
  proof TEXT,
  ended_by_itself BIGINT,
  exit TEXT,
  stages TEXT,
  output TEXT,
  usage TEXT
) __STRICT__;

CREATE INDEX job_session ON job (tenant, session, seq);
-- Costs grow with what is live, never with history: queries for live jobs repeat these predicates.
CREATE INDEX job_live ON job (tenant, session, status, seq)
  WHERE status NOT IN ('succeeded', 'failed', 'stopped');
CREATE INDEX job_twin ON job (fingerprint) WHERE status NOT IN ('succeeded', 'failed', 'stopped');

-- How to launch a command job. `sealed` holds command or argv and environment under authenticated
-- encryption; the key lies beside the store with mode 0600.
CREATE TABLE launch (
  job TEXT NOT NULL PRIMARY KEY,
  shell TEXT,
  deadline_ms BIGINT,
  grace_ms BIGINT NOT NULL,
  umask BIGINT NOT NULL,
  cap_bytes BIGINT NOT NULL,
  head_bytes BIGINT NOT NULL,
  leftovers TEXT NOT NULL,
  sealed BYTEA NOT NULL
) __STRICT__;

CREATE TABLE receipt (
  node_seq BIGINT NOT NULL PRIMARY KEY,
  job TEXT NOT NULL,
  seq BIGINT NOT NULL,
  attempt BIGINT NOT NULL,
  activation BIGINT NOT NULL,
  from_status TEXT,
  to_status TEXT NOT NULL,
  name TEXT NOT NULL,
  at BIGINT NOT NULL,
  cause TEXT,
  actor TEXT NOT NULL,
  reason TEXT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  turn TEXT,
  sandbox TEXT NOT NULL,
  generation TEXT NOT NULL
) __STRICT__;

CREATE UNIQUE INDEX receipt_job ON receipt (job, seq);

-- One ending per job (I4).
CREATE UNIQUE INDEX receipt_ending ON receipt (job)
  WHERE name IN ('completed', 'failed', 'cancelled') AND from_status <> to_status;

-- What survived a main process that ended by itself. Its own record: the job's row is terminal.
CREATE TABLE leftover (
  job TEXT NOT NULL PRIMARY KEY,
  found TEXT NOT NULL,
  survived TEXT NOT NULL,
  settled BIGINT NOT NULL,
  kept BIGINT NOT NULL
) __STRICT__;

-- Events and messages of all sessions: rows of one inbox with one state machine. `turn` is set while
-- the row belongs to that turn alone.
CREATE TABLE inbox (
  seq BIGINT NOT NULL PRIMARY KEY,
  event TEXT NOT NULL UNIQUE,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  turn TEXT,
  job TEXT NOT NULL,
  type TEXT NOT NULL,
  lane TEXT NOT NULL,
  author TEXT NOT NULL,
  wakes BIGINT NOT NULL,
  state TEXT NOT NULL,
  withheld TEXT NOT NULL,
  repeat BIGINT NOT NULL,
  tries BIGINT NOT NULL,
  last_error TEXT NOT NULL,
  due_at BIGINT NOT NULL,
  delivery TEXT,
  offer_fence BIGINT,
  offer_path TEXT,
  offer_connection BIGINT,
  taken_by TEXT,
  acked_as TEXT,
  acked_at BIGINT,
  data TEXT,
  sealed_tail BYTEA,
  created_at BIGINT NOT NULL
) __STRICT__;

CREATE INDEX inbox_live ON inbox (tenant, session, seq) WHERE acked_at IS NULL;
CREATE INDEX inbox_job ON inbox (job);
CREATE INDEX inbox_delivery ON inbox (delivery) WHERE delivery IS NOT NULL AND acked_at IS NULL;
CREATE INDEX inbox_connection ON inbox (offer_connection)
  WHERE offer_connection IS NOT NULL AND acked_at IS NULL;

-- Which events a hand-over carried: an expired one can still be acknowledged by its name.
CREATE TABLE hand_over (
  delivery TEXT NOT NULL,
  event TEXT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  fence BIGINT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (delivery, event)
) __STRICT__;

CREATE TABLE owed (
  kind TEXT NOT NULL,
  key TEXT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  due_at BIGINT NOT NULL,
  tries BIGINT NOT NULL,
  last_error TEXT NOT NULL,
  fence BIGINT NOT NULL,
  PRIMARY KEY (kind, key)
) __STRICT__;

CREATE INDEX owed_due ON owed (due_at);

CREATE TABLE idempotency (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  key TEXT NOT NULL,
  job TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, session, key)
) __STRICT__;
