"""Gates of a full scan of SQLite: a change is a delta, or said to be unobserved; none is silent."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from statediff.kernel.diff import diff
from statediff.model.delta import Diff
from statediff.model.state import MemoryChunks
from statediff.systems.sqlite.source import SqliteSource

LONG = "n" * 63
DDL = f"""
CREATE TABLE item (id INTEGER PRIMARY KEY, a, b, n NUMERIC, r REAL, w TEXT,
  g INTEGER GENERATED ALWAYS AS (length(w)) STORED, v AS (n + 1) VIRTUAL);
INSERT INTO item (id, a, b, n, r, w) VALUES (1, 'x', 'y', '1.50', 0.0, 'short'),
  (2, 'y', 'x', '2', 0.0, 'short');
CREATE TABLE bag (x); INSERT INTO bag VALUES ('same'), ('same'), ('other');
CREATE TABLE {LONG} (id INTEGER PRIMARY KEY, {LONG} TEXT); INSERT INTO {LONG} VALUES (1, 'a');
CREATE VIEW shown AS SELECT a FROM item;
CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO counted VALUES (7);
"""
GATES = {
    "values swapped between rows": ("UPDATE item SET a = b, b = a", {"item"}),
    "one column swapped between rows": (
        "UPDATE item SET a = CASE id WHEN 1 THEN 'y' ELSE 'x' END", {"item"},
    ),
    "a text that only looks like the same number": (
        "UPDATE item SET a = 1 WHERE id = 1; UPDATE item SET a = '1' WHERE id = 1", {"item"},
    ),
    "an integer becomes a float": ("UPDATE item SET a = 1.0 WHERE id = 1", {"item"}),
    "a wide value changes in one byte": (
        f"UPDATE item SET w = '{'z' * 100_000}' WHERE id = 2", {"item"},
    ),
    "names of 63 bytes": (f"UPDATE {LONG} SET {LONG} = 'b'", {LONG}),
    "one of two equal rows is gone": (
        "DELETE FROM bag WHERE rowid = (SELECT min(rowid) FROM bag)", {"bag"},
    ),
    "a row like others comes": ("INSERT INTO bag VALUES ('same')", {"bag"}),
    "a view": ("DROP VIEW shown; CREATE VIEW shown AS SELECT b FROM item", {"db.view"}),
    "a generated column": ("UPDATE item SET w = 'longer than before' WHERE id = 1", {"item"}),
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON bag BEGIN DELETE FROM item; END", {"db.trigger"},
    ),
    "a dropped table": ("DROP TABLE bag", {"bag", "db.table"}),
    "a renamed column": ("ALTER TABLE item RENAME COLUMN a TO z", {"item", "db.column"}),
    "all rows deleted": ("DELETE FROM bag", {"bag"}),
    "a column is added": (
        "ALTER TABLE item ADD COLUMN more DEFAULT 5", {"item", "db.column"},
    ),
    "a sequence": ("UPDATE sqlite_sequence SET seq = 99", {"db.sequence"}),
    "commits that need not be on disk": (
        "PRAGMA synchronous = OFF; UPDATE item SET a = 'q' WHERE id = 1", {"item"},
    ),
}  # fmt: skip


def compared(file: Path, statement: str) -> Diff:
    """The diff of two scans; what the pages that changed tell is the same."""
    source, store = SqliteSource("db", file), MemoryChunks()
    with closing(sqlite3.connect(file)) as db, closing(source.by_pages()) as pages:
        db.executescript(DDL)
        before = pages.read(store, lambda: datetime.now(UTC), None).state
        db.executescript(statement)
        after = source.read(store, lambda: datetime.now(UTC), before).state
        changed = pages.read_changed(store, lambda: datetime.now(UTC), before).state
    assert changed.digest() == after.digest()
    return diff(before, after)


@pytest.mark.parametrize("gate", GATES)
def test_a_change_is_told_where_it_was_made_or_declared_unobserved(
    gate: str, tmp_path: Path
) -> None:
    statement, where = GATES[gate]
    found = compared(tmp_path / "db", statement)
    told = {d.type for d in found.deltas} | {d.type for d in found.doubts}
    assert where <= told
    assert told - where <= {"db.column", "db.table", "db.view"}, "what did not change is not told"


def test_the_sign_of_zero_is_told_where_the_file_keeps_it(tmp_path: Path) -> None:
    source = SqliteSource("db", tmp_path / "db")
    states = []
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as db:
        db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
        for zero in (0.0, -0.0):
            db.execute("REPLACE INTO t VALUES (1, ?)", (zero,))
            like = states[-1] if states else None
            states.append(source.read(MemoryChunks(), lambda: datetime.now(UTC), like).state)
        (kept,) = db.execute("SELECT x FROM t").fetchone()
    assert str(kept) == "-0.0"
    assert [d.path for d in diff(*states).deltas] == ["x"]


def test_work_that_was_rolled_back_is_no_change(tmp_path: Path) -> None:
    found = compared(tmp_path / "db", "BEGIN; DELETE FROM item; DROP TABLE bag; ROLLBACK")
    assert found == Diff((), (), ())


def test_a_generated_value_that_is_not_stored_follows_from_what_is(tmp_path: Path) -> None:
    found = compared(tmp_path / "db", "UPDATE item SET n = 7 WHERE id = 2")
    assert {d.path for d in found.deltas} == {"n"}
