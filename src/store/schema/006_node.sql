-- Waybill's store, version 6: where this store is at home, and the jobs that ran elsewhere.

CREATE TABLE node (
  id BIGINT NOT NULL PRIMARY KEY,
  machine TEXT NOT NULL,
  inode BIGINT NOT NULL,
  born_ns BIGINT NOT NULL
) __STRICT__;

-- Live jobs that can be neither attached nor proven gone, until an operator releases them.
CREATE TABLE unrecoverable (
  job TEXT NOT NULL PRIMARY KEY,
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  since BIGINT NOT NULL,
  why TEXT NOT NULL
) __STRICT__;
