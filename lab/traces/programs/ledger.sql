-- A small ledger: tables, indexes, ten thousand rows, updates, a join with grouping, a rollback, a vacuum.
PRAGMA journal_mode = WAL;
PRAGMA mmap_size = 67108864;
PRAGMA cache_size = -8192;
CREATE TABLE account (id INTEGER PRIMARY KEY, name TEXT NOT NULL, opened INTEGER);
CREATE TABLE entry (id INTEGER PRIMARY KEY, account INTEGER, cents INTEGER, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
INSERT INTO account SELECT i, printf('account %05d', i), i * 86400 FROM n;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
INSERT INTO entry SELECT i, 1 + (i * 7919) % 500, (i * 104729) % 100000 - 50000,
  printf('note %d of some length, so that rows fill pages', i * 31) FROM n;
CREATE INDEX entry_by_account ON entry (account, cents);
BEGIN;
UPDATE entry SET cents = cents + 1 WHERE account % 7 = 0;
DELETE FROM entry WHERE cents BETWEEN -10 AND 10;
COMMIT;
BEGIN;
DELETE FROM entry WHERE id % 2 = 0;
ROLLBACK;
SELECT count(*), sum(cents) FROM entry;
SELECT a.name, count(*), sum(e.cents) AS total FROM account a JOIN entry e ON e.account = a.id
 GROUP BY a.id ORDER BY total DESC LIMIT 5;
SELECT count(*) FROM (SELECT DISTINCT note || cents FROM entry);
VACUUM;
PRAGMA integrity_check;
