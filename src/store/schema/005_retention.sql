-- Waybill's store, version 5: time that passed, and what goes when it is over. Times by which
-- something is due or counts as old are on the store's own clock (engine/due_clock.h), which only
-- runs forward; times that are shown are the machine's.

-- One row. On the clock of the machine's boot `boot`, when its monotonic clock showed `mono_ms` and
-- its wall clock `wall_at`, the store's clock showed `due_at`.
CREATE TABLE due_clock (
  one BIGINT NOT NULL PRIMARY KEY,
  boot TEXT NOT NULL,
  mono_ms BIGINT NOT NULL,
  wall_at BIGINT NOT NULL,
  due_at BIGINT NOT NULL
) __STRICT__;

-- The greatest numbers given so far, of which the rows may be gone.
CREATE TABLE high_water (
  name TEXT NOT NULL PRIMARY KEY,
  value BIGINT NOT NULL
) __STRICT__;

-- Finished jobs. Age counts from `kept_from`: the end, or later when something of the job was still
-- wanted when its time was over.
CREATE TABLE ended (
  seq BIGINT NOT NULL PRIMARY KEY,
  ended_at BIGINT NOT NULL,
  kept_from BIGINT NOT NULL
) __STRICT__;

CREATE INDEX ended_kept ON ended (kept_from);

-- Jobs that are being removed, inside the transaction that does it and nowhere else: the guards let
-- rows of these go, and of no others.
CREATE TABLE prune (
  job TEXT NOT NULL PRIMARY KEY
) __STRICT__;

-- Sessions without a host, and when to look at them again.
CREATE TABLE absent_session (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  look_at BIGINT NOT NULL,
  PRIMARY KEY (tenant, session)
) __STRICT__;

CREATE INDEX absent_session_look ON absent_session (look_at);

-- Set when a turn is closed.
ALTER TABLE turn ADD COLUMN kept_from BIGINT;
CREATE INDEX turn_kept ON turn (kept_from) WHERE kept_from IS NOT NULL;

-- When the job that the key had made was removed.
ALTER TABLE idempotency ADD COLUMN gone_at BIGINT;
CREATE INDEX idempotency_gone ON idempotency (gone_at) WHERE gone_at IS NOT NULL;

-- Why an event was given up.
ALTER TABLE inbox ADD COLUMN dropped_as TEXT;

CREATE INDEX hand_over_event ON hand_over (event);

-- Timers alone: what waits for facts is due all the time.
DROP INDEX owed_due;
CREATE INDEX owed_timer ON owed (due_at) WHERE kind <> 'supervise';
