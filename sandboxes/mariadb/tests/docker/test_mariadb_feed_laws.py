"""The law of MariaDB's feed: its states are those of full scans, or left open with a cause."""

import os
import sys
from contextlib import ExitStack, closing, suppress

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

pymysql = pytest.importorskip("pymysql")
pytest.importorskip("pymysqlreplication")

from sandboxes.mariadb.tests.docker.mariadb_runs import Run, connection, differing, make_system  # noqa: E402
from statediff.capture.source import SourceUnavailable  # noqa: E402

pytestmark = pytest.mark.docker("mariadb")
IS_FUZZ = os.environ.get("HYPOTHESIS_PROFILE") == "fuzz"

DDL = """
CREATE TABLE a (id INT NOT NULL PRIMARY KEY, x DECIMAL(9, 3), y VARCHAR(300), z DOUBLE,
  n INT AS (id * 2) STORED);
CREATE TABLE b (k VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL, m DATETIME(3), v LONGBLOB,
  PRIMARY KEY (k));
CREATE TABLE c (x INT, y TEXT);
CREATE TABLE d (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, a INT,
  FOREIGN KEY (a) REFERENCES a (id) ON DELETE SET NULL ON UPDATE CASCADE);
CREATE TABLE p (id INT NOT NULL, part INT NOT NULL, s SET('u', 'v'), PRIMARY KEY (id, part))
  PARTITION BY HASH (part) PARTITIONS 2;
CREATE TABLE f (id INT NOT NULL PRIMARY KEY, b VARCHAR(20) COLLATE utf8mb4_general_ci,
  FOREIGN KEY (b) REFERENCES b (k) ON DELETE CASCADE);
"""
SEED = """
INSERT INTO a (id, x, y, z) SELECT seq, seq % 7 / 8, CONCAT('row ', seq), -0.0e0 FROM seq_1_to_60;
INSERT INTO b SELECT CONCAT('k', seq), '2024-01-01 00:00:00.5', X'00' FROM seq_1_to_20;
INSERT INTO c VALUES (1, 'same'), (1, 'same'), (NULL, NULL);
INSERT INTO d (a) VALUES (1), (2), (NULL);
INSERT INTO p VALUES (1, 1, 'u'), (2, 2, 'u,v');
INSERT INTO f VALUES (1, 'K1'), (2, 'k2'), (3, NULL);
"""
WRITES = (
    "INSERT INTO a (id, x, y) SELECT {at} + seq, 1 / 3, REPEAT('ü', {size}) FROM seq_1_to_{count}",
    "REPLACE INTO a (id, y, z) VALUES ({at}, 'again', {at} / 3), ({at} + 1, NULL, 1e300)",
    "INSERT INTO a (id, x) VALUES ({at}, 1) ON DUPLICATE KEY UPDATE x = x + 1",
    "UPDATE a SET x = x * -1 WHERE id BETWEEN {at} AND {at} + {count}",
    "UPDATE a SET y = REVERSE(y), z = z + 0.1",
    "UPDATE a SET id = id + 1000 WHERE id = {at}",
    "UPDATE a SET id = -id ORDER BY id DESC",
    "DELETE FROM a WHERE id % {count} = 0",
    "DELETE FROM a WHERE id = {at}",
    "INSERT IGNORE INTO b VALUES ('K{at}', NOW(3), REPEAT('z', {size}))",
    "UPDATE b SET m = m + INTERVAL {at} MICROSECOND * 1000, v = CONCAT(v, X'FF')",
    "UPDATE b SET k = UPPER(k) WHERE k > 'k{at}'",
    "DELETE FROM b WHERE k = 'k{at}'",
    "INSERT INTO c VALUES ({at}, 'same'), (1, 'same')",
    "UPDATE c SET y = 'same', x = 1 LIMIT {count}",
    "DELETE FROM c WHERE x = 1 LIMIT 1",
    "INSERT INTO d (a) SELECT id FROM a LIMIT {count}",
    "UPDATE d SET id = id + 500 WHERE id = {at}",
    "DELETE FROM d",
    "INSERT INTO p SELECT id, {at}, 'v' FROM a WHERE id > 0 LIMIT {count}",
    "UPDATE p SET part = part + 1 ORDER BY part DESC",
    "UPDATE f SET b = 'K{at}' WHERE id = 2",
    "CREATE TABLE IF NOT EXISTS e{at} (id INT PRIMARY KEY, w FLOAT)",
    "INSERT INTO e{at} VALUES ({at}, 1 / 3), ({count}, NULL)",
)
DEFINITIONS = (
    "CREATE TABLE e{at} AS SELECT * FROM a",
    "CREATE OR REPLACE TABLE c (x INT, y TEXT)",
    "DROP TABLE IF EXISTS e{at}",
    "DROP TABLE c",
    "TRUNCATE c",
    "TRUNCATE d",
    "ALTER TABLE a ADD COLUMN IF NOT EXISTS w{at} INT DEFAULT 5",
    "ALTER TABLE b CHANGE v w LONGBLOB",
    "ALTER TABLE a MODIFY x DECIMAL(12, 1)",
    "ALTER TABLE d AUTO_INCREMENT = 3",
    "ALTER TABLE c ENGINE = Aria",
    "ALTER TABLE p DROP PRIMARY KEY",
    "RENAME TABLE c TO e{at}",
    "RENAME TABLE a TO spare, b TO a, spare TO b",
    "CREATE INDEX i{at} ON a (x)",
    "CREATE TRIGGER t{at} AFTER DELETE ON a FOR EACH ROW INSERT INTO c VALUES (OLD.id, 'gone')",
    "CREATE VIEW v{at} AS SELECT 1",
    "CREATE TEMPORARY TABLE tmp AS SELECT * FROM a",
    "CREATE SEQUENCE s{at}",
    "SET PASSWORD = PASSWORD('mine{at}')",
    "OPTIMIZE TABLE a",
    "SET foreign_key_checks = 0",
)
ORDERS = (
    "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "XA START 'x{at}'",
    "XA END 'x{at}'", "XA PREPARE 'x{at}'", "XA COMMIT 'x{at}'", "XA ROLLBACK 'x{at}'",
)  # fmt: skip
STEPS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(WRITES * 3 + DEFINITIONS + ORDERS[:3] * 4 + ORDERS),
    st.integers(1, 25),
    st.integers(1, 9),
    st.sampled_from((1, 30, 270)),
)


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    made = make_system(tmp_path_factory.mktemp("store"), DDL, SEED)
    yield made
    made.stop()


def wrong(told, scanned):
    """The types of which the feed told a moment wrongly.

    Numbers are given out when a statement asks for them, committed or not: between two commits,
    and in work that is rolled back, they move with nothing in the log.
    """
    return differing(told, scanned)[0] - {"db.sequence"}


@settings(
    max_examples=max(6, settings().max_examples // 5),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(STEPS, min_size=10 if IS_FUZZ else 0, max_size=20))
def test_the_states_of_the_feed_are_those_of_scans_after_every_step_or_left_open(system, steps):
    system.reset()
    run = Run(system)
    with ExitStack() as stack:
        lines = [stack.enter_context(closing(connection(system))) for _ in range(2)]
        for line in lines:
            line.query("SET innodb_lock_wait_timeout = 0, lock_wait_timeout = 0")
        for which, statement, at, count, size in steps:
            with suppress(pymysql.Error):  # a table is gone, the other session holds a lock
                lines[which].query(statement.format(at=at, count=count, size=size))
            run.scan()
    run.scan()
    try:
        found = run.end()
    except SourceUnavailable as error:
        event(f"declared: {error}")
        return
    assert differing(found.part.state, run.scans[-1]) == (set(), set())
    assert found.part.state.digest() == run.scans[-1].digest()
    assert found.seen.gap is None
    # Some transaction left each state that was scanned, in this order.
    told = [run.before, *(t.state for t in found.seen.transactions)]
    place, untold = 0, 0
    for scan in run.scans[1:]:
        place = next((n for n in range(place, len(told)) if not wrong(told[n], scan)), len(told))
        assert place < len(told), differing(told[-1], scan)
        untold += bool(differing(told[place], scan)[1])
    event(f"{len(run.scans) - 1} changes, {untold} of them left open in part")
    sys.stderr.write(f"{len(found.seen.transactions)} transactions, {untold} left open in part\n")
