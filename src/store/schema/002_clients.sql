-- Waybill's store, version 2: agent clients. What a host's own programs (its MCP process, its
-- hooks) tell of it, so that its sessions can be woken and its commands kept in its sandbox.

-- Which client runs the session; '' for a host that asks for its inbox by itself.
ALTER TABLE session ADD COLUMN client TEXT NOT NULL DEFAULT '';
-- A wake of a live host is open until then; nobody else is woken before.
ALTER TABLE session ADD COLUMN wake_until BIGINT;

ALTER TABLE launch ADD COLUMN wrapper TEXT NOT NULL DEFAULT '[]';

CREATE TABLE session_client (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  attached_at BIGINT NOT NULL,
  wrapper TEXT NOT NULL,
  allow_rules TEXT NOT NULL,
  deny_rules TEXT NOT NULL,
  -- How to start the client again when it is closed; sealed, since it holds an environment.
  sealed_resume BYTEA,
  -- The job that starts it, while that runs, and how many were started since a user last spoke.
  wake_job TEXT,
  wakes BIGINT NOT NULL,
  PRIMARY KEY (tenant, session)
) __STRICT__;

CREATE INDEX session_client_wake ON session_client (wake_job) WHERE wake_job IS NOT NULL;

-- A tool call that a hook has announced, until the MCP process asks whose it is.
CREATE TABLE host_call (
  host_key_hash TEXT NOT NULL,
  call TEXT NOT NULL,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  turn TEXT,
  -- Made inside a subagent, whose context is not the session's: no notice rides on its result.
  subagent BIGINT NOT NULL,
  at BIGINT NOT NULL,
  PRIMARY KEY (host_key_hash, call)
) __STRICT__;

CREATE INDEX host_call_at ON host_call (at);
-- The sessions of one host.
CREATE INDEX session_host ON session (host_key_hash) WHERE lease_live = 1;
