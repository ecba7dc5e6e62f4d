"""Gates of a scan of PostgreSQL: a change is a delta, or unobserved; none is silent.

Chunks are short here, so that every table with a sound key is compared by the server's digests; a
reading of all rows must show the same.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

psycopg = pytest.importorskip("psycopg")

from statediff_postgres import digests as postgres_digests  # noqa: E402
from statediff_postgres.sandbox import PostgresSystem  # noqa: E402
from statediff_postgres.source import PostgresSource  # noqa: E402

from statediff.kernel.diff import diff  # noqa: E402
from statediff.model import bulk  # noqa: E402
from statediff.model.delta import Diff  # noqa: E402
from statediff.model.state import MemoryChunks  # noqa: E402
from statediff.packs import PackSource  # noqa: E402

pytestmark = pytest.mark.docker("postgres")
LONG = "n" * 63
DDL = f"""
CREATE TABLE item (id int PRIMARY KEY, a text, b text, n numeric, r float8, w text,
  g int GENERATED ALWAYS AS (length(w)) STORED);
ALTER TABLE item ALTER COLUMN w SET STORAGE EXTERNAL;
CREATE TABLE bag (x text);
CREATE UNLOGGED TABLE quick (id int PRIMARY KEY, x text);
CREATE TABLE {LONG} (id int PRIMARY KEY, {LONG} text);
CREATE VIEW shown AS SELECT a FROM item;
CREATE SEQUENCE counter;
CREATE TABLE part (id int PRIMARY KEY, x text) PARTITION BY RANGE (id);
CREATE TABLE part_low PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part_high PARTITION OF part FOR VALUES FROM (10) TO (20);
CREATE TABLE loose (LIKE part INCLUDING ALL);
"""
SEED = f"""
INSERT INTO item (id, a, b, n, r, w) VALUES (1, 'x', 'y', 1.5, 0.0, 'short'),
  (2, 'y', 'x', 2, 0.0, repeat('w', 50000)), (3, 'z', 'z', 3, 0, repeat('v', 50000));
INSERT INTO item (id, a) SELECT n, 'more' FROM generate_series(4, 12) n;
INSERT INTO bag VALUES ('same'), ('same'), ('other');
INSERT INTO quick SELECT n, 'a' FROM generate_series(1, 4) n;
INSERT INTO {LONG} SELECT n, 'a' FROM generate_series(1, 4) n;
INSERT INTO part VALUES (1, 'low'), (2, 'low'), (11, 'high'), (13, 'high');
"""
GATES = {
    "values swapped between rows": ("UPDATE item SET a = b, b = a WHERE id < 3", {"item"}),
    "one column swapped between rows": (
        "UPDATE item SET a = CASE id WHEN 1 THEN 'y' ELSE 'x' END WHERE id < 3", {"item"},
    ),
    "numeric scale": ("UPDATE item SET n = 1.50 WHERE id = 1", {"item"}),
    "negative zero": ("UPDATE item SET r = '-0' WHERE id = 1", {"item"}),
    "an unlogged table": ("UPDATE quick SET x = 'b' WHERE id = 1", {"quick"}),
    "a sequence": ("SELECT nextval('counter')", {"db.sequence"}),
    "a trigger": (
        ("CREATE TRIGGER t BEFORE UPDATE ON bag FOR EACH ROW "
        "EXECUTE FUNCTION suppress_redundant_updates_trigger()"),
        {"db.trigger"},
    ),
    "one of two equal rows is gone": (
        "DELETE FROM bag WHERE ctid = (SELECT min(ctid) FROM bag)", {"bag"},
    ),
    "TRUNCATE": ("TRUNCATE bag", {"bag"}),
    "commits that need not be on disk": (
        "SET synchronous_commit = off; UPDATE item SET a = 'q' WHERE id = 1", {"item"},
    ),
    "a wide value changes in one byte": (
        "UPDATE item SET w = overlay(w PLACING 'W' FROM 40000) WHERE id = 2", {"item"},
    ),
    "a narrow value beside a wide one": ("UPDATE item SET a = 'q' WHERE id = 3", {"item"}),
    "names of 63 bytes": (f"UPDATE {LONG} SET {LONG} = 'b' WHERE id = 4", {LONG}),
    "a dropped table": ("DROP TABLE bag", {"bag", "db.table"}),
    "a view": ("CREATE OR REPLACE VIEW shown AS SELECT b AS a FROM item", {"db.view"}),
    "a generated column": ("UPDATE item SET w = 'long' WHERE id = 1", {"item"}),
    "a row moves between partitions": (
        "UPDATE part SET id = 12 WHERE id = 1", {"part"},
    ),
    "a partition is taken off": (
        "ALTER TABLE part DETACH PARTITION part_low", {"db.table", "part", "part_low"},
    ),
    "a renamed column": ("ALTER TABLE item RENAME COLUMN a TO z", {"item", "db.column"}),
    "triggers that a role does not fire": (
        "SET session_replication_role = replica; UPDATE item SET b = 'q' WHERE id = 1", {"item"},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def system(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("pack")
    (folder / "ddl.sql").write_text(DDL)
    (folder / "seed.sql").write_text(SEED)
    files = {"ddl": folder / "ddl.sql", "seed": folder / "seed.sql"}
    made = PostgresSystem(PackSource("gates", "postgres", None, files), (), folder / "own")
    made.start()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(bulk, "CHUNK_KEYS", 1)
    monkeypatch.setattr(postgres_digests, "LEAST_CHUNKS", 2)


def compared(system: PostgresSystem, statement: str) -> Diff | None:
    """The diff of two full scans; None where the agent may not do that."""
    system.reset()
    (source,) = system.sources()
    store = MemoryChunks()
    before = source.read(store, lambda: datetime.now(UTC), None).state
    with psycopg.connect(system.url, autocommit=True) as agent:
        try:
            agent.execute(statement)
        except psycopg.errors.InsufficientPrivilege:
            return None
    after = source.read(store, lambda: datetime.now(UTC), before).state
    whole = PostgresSource(
        "gates", system._running().reader_url, None, source.own_databases, reads_all=True
    )
    assert whole.read(store, lambda: datetime.now(UTC), before).state == after
    return diff(before, after)


def test_a_change_is_told_where_it_was_made_or_declared_unobserved(system) -> None:
    silent, noisy = [], []
    for gate, (statement, where) in GATES.items():
        found = compared(system, statement)
        if found is None:
            assert gate == "triggers that a role does not fire"
            continue
        told = {d.type for d in found.deltas} | {d.type for d in found.doubts}
        if not where <= told:
            silent.append((gate, sorted(told)))
        if {name for name in told - where if not name.startswith("db.")}:
            noisy.append((gate, sorted(told)))
    assert not silent
    assert not noisy


def test_work_that_was_rolled_back_is_no_change(system) -> None:
    found = compared(system, "BEGIN; DELETE FROM item; DROP TABLE bag; ROLLBACK")
    assert found == Diff((), (), ())
