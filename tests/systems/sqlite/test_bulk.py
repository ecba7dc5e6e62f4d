"""Reading a table of SQLite in columns gives the state that reading it by rows gives."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from statediff.model import bulk
from statediff.model.schema import Kind, Schema
from statediff.model.state import MemoryChunks, State
from statediff.model.values import Digested
from statediff.systems.relational.schema import MAX_KEY_LENGTH
from statediff.systems.sqlite import scan as sqlite_scan
from statediff.systems.sqlite.source import SqliteSource

DDL = """
CREATE TABLE one (id INTEGER PRIMARY KEY, a INTEGER, b REAL, c TEXT, d BLOB, e DECIMAL, f BOOLEAN,
  g TIMESTAMP, h TEXT GENERATED ALWAYS AS (c || '!') VIRTUAL);
CREATE TABLE two (x TEXT, y INTEGER, v, PRIMARY KEY (x, y)) WITHOUT ROWID;
CREATE TABLE odd (k PRIMARY KEY, v);
"""
VALUES = [
    None,
    0,
    1,
    -1,
    2**62,
    1.5,
    -0.0,
    "",
    "a",
    "ü",
    "1.50",
    "2024-01-02T03:04:05Z",
    b"",
    b"\xff",
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "db.sqlite"


def filled(file: Path, seed: int) -> None:
    random = Random(seed)
    file.unlink(missing_ok=True)
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.executescript("PRAGMA synchronous = OFF; BEGIN;" + DDL)
        mixed = random.random() < 0.5
        plain = [5, 2.5, "t", b"b", "1.50", 1, "2024-01-02T03:04:05Z"]
        for id_ in random.sample(range(-20, 40), random.randrange(30)):
            cells = [random.choice(VALUES) if mixed else random.choice([p, None]) for p in plain]
            columns = "id, a, b, c, d, e, f, g"
            db.execute(f"INSERT INTO one ({columns}) VALUES (?,?,?,?,?,?,?,?)", (id_, *cells))
        for n in range(random.randrange(20)):
            row = random.choice(["", "a", "b", "ü"]), n % 4, random.choice(VALUES)
            db.execute("INSERT OR IGNORE INTO two VALUES (?, ?, ?)", row)
        for key in random.sample(VALUES[1:] if mixed else list("edcba"), 4):
            db.execute("INSERT OR IGNORE INTO odd VALUES (?, 1)", (key,))
        if random.random() < 0.2:
            db.execute("INSERT INTO odd VALUES (CAST(x'ff41' AS TEXT), 1), (NULL, 2)")
        db.execute("COMMIT")


def read(file: Path, like: State | None = None) -> State:
    return SqliteSource("db", file).read(MemoryChunks(), lambda: datetime.now(UTC), like).state


def test_columns_and_rows_give_the_same_state(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("statediff.model.state.CHUNK_KEYS", 5)
    monkeypatch.setattr(bulk, "CHUNK_KEYS", 5)
    monkeypatch.setattr(sqlite_scan, "BLOCK_ROWS", 7)
    for seed in range(25):
        filled(file, seed)
        bulk_states = [first := read(file)]
        filled(file, seed + 1000)
        bulk_states.append(read(file, first))
        with monkeypatch.context() as by_rows:
            by_rows.setattr(sqlite_scan.Scan, "_in_bulk", lambda *_: None)
            filled(file, seed)
            row_states = [first := read(file)]
            filled(file, seed + 1000)
            row_states.append(read(file, first))
        assert bulk_states == row_states, seed


def test_tables_with_sound_keys_are_never_read_by_rows(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(file, 3)
    monkeypatch.setattr(sqlite_scan.Scan, "_stream", None)
    with closing(sqlite3.connect(file)) as db:
        db.execute("DROP TABLE odd")
    state = read(file)
    assert state.tables["one"].row_count > 5
    assert state.tables["two"].row_count > 2


def test_a_key_beyond_the_limit_is_left_out_and_told(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.executescript("CREATE TABLE t (k TEXT PRIMARY KEY); INSERT INTO t VALUES ('a')")
        before = read(file)
        db.execute("INSERT INTO t VALUES (?)", ("x" * (MAX_KEY_LENGTH + 1),))
        db.commit()
    table = read(file, like=before).tables["t"]
    assert table.row_count == 1
    assert "1 rows have a key beyond the capture limit" in table.enumeration.cause
    # Who had such keys before the run is counted row by row.
    table = read(file).tables["t"]
    assert table.enumeration.is_complete
    assert (table.type.key, table.row_count) == ((), 2)


def test_a_value_beyond_the_limit_leaves_its_neighbours_known(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_scan, "MAX_VALUE_BYTES", 1000)
    with closing(sqlite3.connect(file)) as db:
        db.executescript(
            "CREATE TABLE t (k INTEGER PRIMARY KEY, v); INSERT INTO t VALUES (1, 'a'), "
            "(2, zeroblob(2000))"
        )
    rows = dict(read(file).tables["t"].rows())
    assert rows[(1,)]["v"] == "a"
    assert rows[(2,)]["v"] == Digested.of(bytes(2000))


def test_a_declared_key_that_is_not_unique_is_told(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.executescript(
            "CREATE TABLE t (k INTEGER, v); INSERT INTO t VALUES (1, 1), (1, 2), (2, 3)"
        )

    def keyed(schema: Schema) -> Schema:
        types = tuple(replace(t, key=("k",)) if t.name == "t" else t for t in schema.types)
        return replace(schema, types=types)

    source = SqliteSource("db", file, keyed)
    part = source.read(MemoryChunks(), lambda: datetime.now(UTC), None)
    assert part.state.schema.by_name["t"].by_name["k"].kind is Kind.INT
    table = part.state.tables["t"]
    assert table.enumeration.is_complete is (not table.type.key)
    assert table.row_count == (3 if not table.type.key else 1)


def test_rows_met_before_are_read_as_their_own_columns_declare(tmp_path: Path) -> None:
    found = []
    for scale in (1, 2, 1):
        file = tmp_path / f"{len(found)}.db"
        with closing(sqlite3.connect(file)) as db:
            db.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, cost DECIMAL(9, {scale}))")
            db.execute("INSERT INTO t VALUES (1, 1.5)")
            db.commit()
        [(_, row)] = read(file).tables["t"].rows()
        found.append(str(row["cost"]))
    assert found == ["1.5", "1.50", "1.5"]
