"""The law of the SQLite feed: its states are those of full scans, whatever is written."""

import itertools
import sqlite3
from contextlib import closing, suppress
from unittest.mock import patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from statediff.model import state
from statediff.model.state import MemoryChunks
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.source import SqliteSource
from tests.systems.sqlite.sqlite_databases import clock, database, has_search

BASE = """
CREATE TABLE a (id INTEGER PRIMARY KEY, x, y TEXT);
CREATE INDEX a_x ON a (x);
CREATE TABLE b (k TEXT PRIMARY KEY NOT NULL, v) WITHOUT ROWID;
CREATE TABLE c (x, y);
CREATE TABLE d (id INTEGER PRIMARY KEY AUTOINCREMENT, a REFERENCES a);
WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < 120)
INSERT INTO a SELECT n, n % 7, printf('row %d', n) FROM s;
INSERT INTO b SELECT printf('k%03d', id), x FROM a WHERE id < 60;
INSERT INTO c VALUES (1, zeroblob(5000)), (1, zeroblob(5000)), (NULL, 'x');
INSERT INTO d (a) VALUES (1), (2);
"""
SEARCHED = tuple(
    f"""{BASE}
CREATE VIRTUAL TABLE f USING {module}(t, u{more});
INSERT INTO f SELECT y, x FROM a;
"""
    for module, more in (("fts5", ""), ("fts4", ", prefix='2'"), ("fts3", ""))
    if has_search(module)
)
SERIES = "WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < {count})"
STATEMENTS = (
    f"{SERIES} INSERT OR REPLACE INTO a SELECT {{at}} + n, n, printf('%.{{size}}c', 'z') FROM s",
    f"{SERIES} INSERT OR REPLACE INTO b SELECT 'k' || ({{at}} + n), hex({{size}}) FROM s",
    "INSERT INTO c VALUES ({at}, zeroblob({size}))",
    "INSERT INTO d (a) VALUES ({at})",
    "UPDATE a SET x = x + 1 WHERE id >= {at} AND id < {at} + {count}",
    "UPDATE a SET y = substr(y, 1, length(y) - 1) || '!' WHERE id = {at}",
    "UPDATE a SET y = y || y WHERE id = {at} AND length(y) < 9000",
    "UPDATE a SET id = -id WHERE id = {at}",
    "UPDATE b SET v = zeroblob({size}) WHERE k >= 'k{at}'",
    "UPDATE a SET y = substr(y, 1, length(y) - 9) || 'differently' WHERE length(y) > 900",
    "UPDATE a SET y = substr(y, 1, length(y) - 1) || '?' WHERE length(y) > 900 AND id < {at}",
    "UPDATE a SET x = {at} WHERE id = (SELECT max(id) FROM a)",
    "DELETE FROM a WHERE id % 3 = 0",
    "INSERT INTO a (x) VALUES ({at})",
    "INSERT OR IGNORE INTO a (id) VALUES (-9223372036854775808 + {at}), (9223372036854775000)",
    "UPDATE c SET y = zeroblob(length(y) - 4) || x'01020304' WHERE length(y) > 4",
    "DELETE FROM a WHERE id BETWEEN {at} AND {at} + {count}",
    "DELETE FROM b WHERE k > 'k{at}'",
    "DELETE FROM c WHERE x = {at}",
    "DELETE FROM a",
    "DELETE FROM d",
    "CREATE TABLE e{at} (id INTEGER PRIMARY KEY, z)",
    "CREATE TABLE e{at} AS SELECT * FROM a",
    "DROP TABLE IF EXISTS e{at}",
    "DROP TABLE c",
    "ALTER TABLE a ADD COLUMN w{at} DEFAULT 5",
    "ALTER TABLE b RENAME COLUMN v TO w",
    "ALTER TABLE a RENAME TO e{at}",
    "ALTER TABLE c RENAME TO a",
    "ALTER TABLE e{at} RENAME TO a",
    "CREATE INDEX IF NOT EXISTS i{at} ON a (y)",
    "DROP INDEX IF EXISTS a_x",
    "CREATE TRIGGER IF NOT EXISTS t AFTER DELETE ON a BEGIN DELETE FROM d WHERE a = old.id; END",
    "CREATE VIEW IF NOT EXISTS v{at} AS SELECT 1",
    "REINDEX",
    "ANALYZE",
    "VACUUM",
    "PRAGMA incremental_vacuum",
    "PRAGMA user_version = {at}",
    "PRAGMA wal_checkpoint(TRUNCATE)",
    "PRAGMA journal_mode = DELETE",
    "SAVEPOINT s",
    "ROLLBACK TO s",
    "RELEASE s",
    "blob",
)
SEARCHES = (
    "INSERT INTO f VALUES ('word{at} {size}', {count})",
    "DELETE FROM f WHERE rowid % 5 = {at} % 5",
    "UPDATE f SET t = t WHERE rowid < {at}",
    "INSERT INTO f (f) VALUES ('optimize')",
    "INSERT INTO f (f) VALUES ('merge={at},2')",
    "UPDATE f_idx SET pgno = pgno + 2 WHERE segid = {at} % 3",
    "UPDATE f_segdir SET idx = idx + 1 WHERE rowid % 3 = {at} % 3",
    "UPDATE f_segments SET block = substr(block, 2) WHERE blockid % 9 = {at} % 9",
    "DELETE FROM f_config",
    "DELETE FROM f_stat WHERE id = {at} % 2",
    "ALTER TABLE f RENAME TO g",
    "DROP TABLE f",
)
"""Refused where there is no search index."""
STEPS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(("BEGIN", "BEGIN IMMEDIATE", "COMMIT", "ROLLBACK", *STATEMENTS, *SEARCHES)),
    st.integers(1, 130),
    st.integers(1, 150),
    st.sampled_from((1, 30, 480, 4000)),
)


def execute(connection, statement, at, count, size):
    # A statement may be refused: a table is gone, the other connection holds the lock.
    with suppress(sqlite3.Error, ValueError):
        if statement == "blob":
            with connection.blobopen("c", "y", 1) as blob:
                blob.seek(len(blob) - 1)
                blob.write(bytes([at]))
        else:
            connection.execute(statement.format(at=at, count=count, size=size)).fetchall()


@pytest.mark.slow
@given(
    st.lists(STEPS, max_size=25),
    st.sampled_from((512, 4096)),
    st.sampled_from((0, 1, 2)),
    st.sampled_from((8, state.CHUNK_KEYS)),
    st.sampled_from((BASE, *SEARCHED)),
)
def test_the_states_of_the_feed_are_those_of_scans_after_every_step(
    tmp_path_factory, steps, page_size, auto_vacuum, chunk_keys, base
):
    with patch.object(state, "CHUNK_KEYS", chunk_keys):
        number = states_equal_scans(tmp_path_factory, steps, page_size, auto_vacuum, base)
    event(f"{number} changes")


def test_a_table_that_is_renamed_back_is_as_before_in_the_feed_too(tmp_path_factory):
    there, back = "ALTER TABLE a RENAME TO e{at}", "ALTER TABLE e{at} RENAME TO a"
    steps = [(0, each, 1, 1, 1) for each in (there, back, "DELETE FROM c", there, back)]
    assert states_equal_scans(tmp_path_factory, steps, 4096, 0, BASE) == 5


def states_equal_scans(tmp_path_factory, steps, page_size, auto_vacuum, base):
    path = database(tmp_path_factory.mktemp("db") / "a.db", base, page_size, auto_vacuum)
    source, feed, store = SqliteSource("db", path), SqliteFeed("db", path), MemoryChunks()
    feed.attach()
    before = source.read(store, clock, None).state
    scans = [before]
    with (
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as one,
        closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other,
    ):
        one.execute("PRAGMA cache_size = 2")  # so that what is rolled back was written to the log
        for which, statement, *numbers in steps:
            execute((one, other)[which], statement, *numbers)
            scan = source.read(store, clock, before).state
            if scan != scans[-1]:
                scans.append(scan)
    seen = feed.finish(store, clock, before)
    feed.detach()
    if seen.gap is not None:  # a checkpoint of an empty log looks like one that was cut off
        assert "or checkpointed" in seen.gap
        assert len(scans) == 1
        return 0
    told = [before]
    told.extend(t.state for t in seen.transactions)
    changed = [after for now, after in itertools.pairwise(told) if after != now]
    assert [s.digest() for s in changed] == [s.digest() for s in scans[1:]]
    assert changed == scans[1:]
    return len(changed)


LEAVES = """
CREATE TABLE a (id INTEGER PRIMARY KEY, x, y TEXT);
WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < 400)
INSERT INTO a SELECT n, n, printf('row %d', n) FROM s;
INSERT INTO a VALUES (1000, 1, printf('%.5000c', 'z'));
"""
REWRITINGS = (
    "DELETE FROM a WHERE id BETWEEN 100 AND 300",  # whole leaves are freed, and not written
    "DELETE FROM a WHERE id < 400 AND id % 2",
    "DELETE FROM a WHERE id > 17",
    "DELETE FROM a",
    "UPDATE a SET y = substr(y, 1, 4999) || '!' WHERE id = 1000",  # in place, its leaf is not
    "UPDATE a SET id = id + 2000 WHERE id < 50",
    "UPDATE a SET id = -id",
    "UPDATE a SET y = y || printf('%.300c', 'x') WHERE id IN (7, 8, 9, 10)",
    "INSERT INTO a SELECT id + 1500, x, y FROM a",
    "INSERT INTO a SELECT -id, x, printf('%.2000c', 'v') FROM a WHERE id < 20",
    "INSERT OR REPLACE INTO a SELECT id, 0, 'short' FROM a WHERE id % 10 = 0",
)


@pytest.mark.parametrize("auto_vacuum", [0, 1])
@pytest.mark.parametrize("statement", REWRITINGS)
def test_a_commit_that_rewrites_leaves_is_followed(tmp_path, monkeypatch, statement, auto_vacuum):
    monkeypatch.setattr(state, "CHUNK_KEYS", 8)
    path = database(tmp_path / "a.db", LEAVES, 512, auto_vacuum)
    source, feed, store = SqliteSource("db", path), SqliteFeed("db", path), MemoryChunks()
    feed.attach()
    before = source.read(store, clock, None).state
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        for sql in ("UPDATE a SET x = 0 WHERE id = 350", statement):
            writer.execute(sql)
    seen = feed.finish(store, clock, before)
    feed.detach()
    assert seen.gap is None
    assert len(seen.transactions) == 2
    assert seen.transactions[1].state == source.read(store, clock, before).state


WITHOUT_ROW_IDS = (
    "CREATE TABLE w (a REAL, b TEXT, c, d NUMERIC, e DECIMAL(10,2), f BLOB, PRIMARY KEY (b, a))",
    "CREATE TABLE w (a REAL, b TEXT COLLATE NOCASE, c, d, e, f, PRIMARY KEY (b DESC))",
    "CREATE TABLE w (a, b, c DOUBLE, d BOOLEAN, e DATETIME, f, PRIMARY KEY (a, b), UNIQUE (c))",
)
VALUES = (
    0, 1, 2**40, 1.0, 1.5, -0.0, 1e300, "x", "Xy", "é", "1.0", b"\xff", "2024-01-01 10:00:00",
    '{"a": 1}', None, "long" * 2000,
)  # fmt: skip
CHANGES = (
    "INSERT OR REPLACE INTO w VALUES (:0, :1, :2, :3, :4, :5)",
    "UPDATE w SET c = :0 WHERE a = :1",
    "UPDATE w SET a = :0 WHERE b = :1",
    "UPDATE w SET b = upper(b) WHERE length(b) < 9",
    "DELETE FROM w WHERE b = :0",
)
MOMENTS = st.lists(
    st.tuples(st.sampled_from(CHANGES), st.lists(st.sampled_from(VALUES), min_size=6, max_size=6)),
    min_size=20,
    max_size=40,
)


@pytest.mark.parametrize("definition", WITHOUT_ROW_IDS)
def test_rows_of_a_table_without_row_ids_are_those_of_scans(tmp_path_factory, definition):
    @settings(max_examples=settings.default.max_examples // 4)
    @given(MOMENTS)
    def law(moments):
        path = tmp_path_factory.mktemp("db") / "a.db"
        database(path, f"{definition} WITHOUT ROWID", 512, 0)
        source, feed, store = SqliteSource("db", path), SqliteFeed("db", path), MemoryChunks()
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            before, scans = None, []
            for number, (statement, values) in enumerate(moments):
                with suppress(sqlite3.Error):
                    db.execute(statement, {str(at): value for at, value in enumerate(values)})
                if number == 10:
                    feed.attach()
                    before = source.read(store, clock, None).state
                elif before is not None:
                    scans.append(source.read(store, clock, before).state.digest())
            seen = feed.finish(store, clock, before)
        feed.detach()
        assert seen.gap is None
        told = [before.digest(), *(t.state.digest() for t in seen.transactions)]
        distinct = [now for was, now in itertools.pairwise(told) if now != was]
        wanted = [now for was, now in itertools.pairwise([told[0], *scans]) if now != was]
        assert distinct == wanted

    law()
