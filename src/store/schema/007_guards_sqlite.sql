-- Receipt numbers are never given again, whatever becomes of the receipts.
CREATE TRIGGER receipt_numbers_are_not_given_again AFTER DELETE ON receipt
WHEN OLD.node_seq > (SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM meta
                     WHERE key = 'newest_receipt')
BEGIN
  INSERT INTO meta (key, value) VALUES ('newest_receipt', CAST(OLD.node_seq AS TEXT))
  ON CONFLICT (key) DO UPDATE SET value = excluded.value;
END;
