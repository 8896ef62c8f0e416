-- Waybill's store, version 7: backups and what comes after one was put back.

-- Which job a key has made, asked when that job is launched: the key stands in its launch file.
CREATE INDEX idempotency_job ON idempotency (job);
