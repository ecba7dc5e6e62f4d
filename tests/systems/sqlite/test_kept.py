"""Databases beside a kept one: what is read by the pages that differ is what a scan reads."""

import os
import random
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from statediff.capture.take import take
from statediff.model import state
from statediff.model.columns import table_changes
from statediff.model.state import LayeredChunks, MemoryChunks, Origin
from statediff.systems.sqlite.scan import Scan
from statediff.systems.sqlite.source import SqliteSource
from tests.systems.sqlite import test_structure_laws as laws
from tests.systems.sqlite.sqlite_databases import clock, has_search

SHOP = """
CREATE TABLE p (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, r REAL,
  n NUMERIC, d DECIMAL(10,2), j JSON, at TIMESTAMP, ok BOOLEAN, body BLOB, v);
CREATE INDEX p_r ON p (r DESC, name);
CREATE INDEX p_n ON p (n, d);
CREATE TABLE q (code TEXT PRIMARY KEY, v INT, w);
CREATE INDEX q_v ON q (v);
CREATE TABLE s (x INT, y TEXT, PRIMARY KEY (x, y)) STRICT;
CREATE TABLE log (line TEXT);
CREATE TABLE long (id INTEGER PRIMARY KEY, t TEXT, g AS (length(t)) STORED);
WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i LIMIT 200)
INSERT INTO p SELECT n, 'Name' || (n * 7), n * 0.5, n * 3.25, n * 1.1, '{"a":' || n || '}',
  '2024-01-0' || (1 + n % 9) || ' 10:00:00', n % 2, zeroblob(n % 9 * 70),
  CASE n % 4 WHEN 0 THEN n WHEN 1 THEN n * 1.5 WHEN 2 THEN 't' || n ELSE x'ff00' END FROM i;
INSERT INTO q SELECT 'C' || id, id % 20, name FROM p;
INSERT INTO s SELECT id, name FROM p WHERE id < 60;
INSERT INTO log SELECT name FROM p WHERE id < 80;
INSERT INTO long (id, t) SELECT id, printf('%.*c', 17 * id, 'x') FROM p;
DELETE FROM long WHERE id BETWEEN 100 AND 180;
"""
WORK = (
    """INSERT INTO p (name, r, n, d, j, at, ok, body) SELECT 'N' || :n || max(id), :n, :n * 1.5,
    '12.50', '[1, 2]', '2025-02-02 00:00:00', 1, zeroblob(:n * 30) FROM p""",
    "INSERT OR IGNORE INTO p (id, name, r) VALUES (-:n * 1000003, CAST(x'ff' AS TEXT) || :n, 9e99)",
    "UPDATE p SET r = r + :n WHERE id % 50 = :n",
    "UPDATE p SET r = CAST(r AS INT), n = 'text' || :n WHERE id % 37 = :n % 37",
    "UPDATE p SET n = '12', d = 100, j = 'none', at = 'yesterday', ok = 2 WHERE id % 61 = :n",
    "UPDATE p SET d = NULL, v = :n || x'00' WHERE id % 41 = :n",
    "UPDATE p SET body = zeroblob(:n * 100) WHERE id % 40 = :n % 40",
    "UPDATE OR IGNORE p SET id = id + 1000 * :n WHERE id % 60 = :n",
    "DELETE FROM p WHERE id % 45 = :n % 45",
    "DELETE FROM p WHERE id BETWEEN 30 AND 30 + :n",
    "INSERT OR IGNORE INTO q VALUES ('z' || :n, :n, NULL), (NULL, 1, 1)",
    "INSERT OR REPLACE INTO q VALUES ('C' || :n, :n, 1.5)",
    "UPDATE q SET code = code || 'x', w = -9223372036854775808 WHERE v = :n % 20",
    "INSERT OR IGNORE INTO s VALUES (:n, 'k' || :n)",
    "DELETE FROM s WHERE x % 11 = :n % 11",
    "INSERT INTO log VALUES ('again'), ('again')",
    "DELETE FROM log WHERE rowid % 13 = :n % 13",
    "INSERT OR REPLACE INTO long (id, t) SELECT :n + 90, printf('%.*c', 300 * :n, 'y')",
    "DELETE FROM long WHERE id % 9 = :n % 9",
)
RARE = (
    "VACUUM",
    "ALTER TABLE q ADD COLUMN more DEFAULT 7",
    "CREATE INDEX IF NOT EXISTS q_w ON q (w)",
    "ANALYZE",
    "DROP TABLE IF EXISTS log",
    "DELETE FROM p",
    "PRAGMA user_version = 7",
    "CREATE TRIGGER IF NOT EXISTS t AFTER INSERT ON q BEGIN DELETE FROM p WHERE id < 9; END",
    "CREATE VIEW IF NOT EXISTS w AS SELECT * FROM p",
    "DROP VIEW IF EXISTS w",
    "PRAGMA journal_mode = DELETE",
    "PRAGMA journal_mode = WAL",
)


@cache
def shop(folder: Path, page_size: int, auto_vacuum: int, mode: str) -> bytes:
    path = folder / f"shop-{page_size}-{auto_vacuum}-{mode}.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for name, value in (
            ("page_size", page_size), ("auto_vacuum", auto_vacuum), ("journal_mode", mode),
        ):  # fmt: skip
            db.execute(f"PRAGMA {name} = {value}")
        db.executescript(SHOP)
    return path.read_bytes()


def work(path: Path, draw: random.Random, count: int) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for _ in range(count):
            statement = draw.choice(WORK if draw.random() < 0.97 else RARE)
            with suppress(sqlite3.Error):
                db.execute(statement, {"n": draw.randrange(1, 60)})


def changed(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)
    return path


class Beside:
    """A kept database, and a copy of it that is read beside it."""

    def __init__(self, folder: Path, image: bytes, name: str = "") -> None:
        self.before, self.after = folder / f"before{name}.db", folder / f"after{name}.db"
        for path in (self.before, self.after):
            for suffix in ("-wal", "-shm", "-journal"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            path.write_bytes(image)
        self.store = MemoryChunks()
        self.reader = SqliteSource("db", self.before).by_pages()
        self.capture = take([self.reader], self.store, clock, None, "before")
        self.before.write_bytes(b"whatever became of it")

    def read(self, *, by_pages: bool = True):
        source = SqliteSource("db", self.after)
        one = self.reader.beside(source) if by_pages else source
        return take([one], LayeredChunks(self.store), clock, self.capture, "after").parts[0]

    def check(self):
        """The state read by pages, which is what a scan reads, to the last difference."""
        found, scan = self.read(), self.read(by_pages=False)
        assert found == scan
        assert found.state.digest() == scan.state.digest()
        for name, before in self.capture.parts[0].state.tables.items():
            pair = found.state.tables[name], scan.state.tables[name]
            if pair[0].type.key == before.type.key:
                one, other = (list(table_changes(before, table)) for table in pair)
                assert one == other
        return found


@settings(max_examples=settings.default.max_examples)
@given(st.integers(0, 2**32))
def test_what_is_read_beside_a_kept_database_is_what_a_scan_reads(tmp_path_factory, seed):
    folder = tmp_path_factory.getbasetemp() / "kept"
    folder.mkdir(exist_ok=True)
    draw = random.Random(seed)
    of = draw.choice((shop, shop, laws.base))
    size, mode = draw.choice((512, 1024, 4096)), draw.choice(("DELETE", "WAL"))
    image = of(folder, size, draw.choice((0, 0, 1, 2)), mode)
    with patch.object(state, "CHUNK_KEYS", draw.choice((8, 4096))):
        both = Beside(folder, image, str(seed % 8))
        kind = draw.choice(("work", "work", "damage"))
        if kind == "work" or draw.random() < 0.5:
            (work if of is shop else laws.work)(both.after, draw, draw.randrange(1, 8))
        if kind == "damage":
            with closing(sqlite3.connect(both.after)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            content = bytearray(both.after.read_bytes())
            for _ in range(draw.choice((1, 1, 2))):
                laws.mutate(content, size, draw)
            both.after.write_bytes(content)
        before = both.capture.parts[0].state
        found = both.check()
        shared = any(t is before.tables.get(name) for name, t in found.state.tables.items())
        event(f"{kind}: {'by pages' if shared else 'by a scan'}")


@pytest.fixture
def both(tmp_path):
    return Beside(tmp_path, shop(tmp_path, 4096, 0, "DELETE"))


def no_scan():
    """Nothing reads a table, nor the whole file."""
    return patch.object(Scan, "table", side_effect=AssertionError("read by a scan"))


@pytest.mark.parametrize(
    "statements",
    [
        (),
        ("UPDATE p SET r = 7 WHERE id = 100",),
        ("INSERT INTO p (name) VALUES ('new')", "DELETE FROM q WHERE v = 3"),
        ("UPDATE p SET body = zeroblob(20000) WHERE id = 5",),
        ("INSERT INTO log VALUES ('again')", "DELETE FROM log WHERE rowid = 7"),
        ("DELETE FROM p WHERE id < 30", "INSERT INTO p (name) SELECT code FROM q WHERE v < 2"),
        ("UPDATE q SET code = CAST(x'ff' AS TEXT) || code WHERE v = 7",),
    ],
)
def test_ordinary_changes_are_read_from_their_pages_alone(both, statements):
    changed(both.after, *statements)
    with no_scan():
        found = both.read()
    scan = both.read(by_pages=False)
    assert found == scan
    assert found.reading.digest == scan.reading.digest
    before = both.capture.parts[0].state.tables
    differing = {n for n, t in found.state.tables.items() if t.chunks != before[n].chunks}
    origins = {n for n, t in found.state.tables.items() if isinstance(t.origin, Origin)}
    assert origins == differing
    assert bool(differing) is bool(statements)


def no_rows():
    """Nothing reads the rows of a table, nor the whole file."""
    return patch.multiple(
        Scan,
        _rows_of=Mock(side_effect=AssertionError("read by a scan")),
        table=lambda self, each, like, table=Scan.table: (
            pytest.fail("checked whole") if each.name == "db.structure" else table(self, each, like)
        ),
    )


@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE TRIGGER t AFTER INSERT ON q BEGIN DELETE FROM p; END", "DELETE FROM q WHERE v=1"),
        ("CREATE VIEW w AS SELECT * FROM p", "UPDATE p SET r = 7 WHERE id = 100"),
        ("CREATE VIEW w AS SELECT 1", "DROP VIEW w", "UPDATE p SET r = 7 WHERE id = 100"),
    ],
)
def test_what_has_no_pages_of_its_own_is_planted_and_no_row_is_read_for_it(both, statements):
    changed(both.after, *statements)
    with no_rows():
        found = both.read()
    assert found == both.check()


@pytest.mark.parametrize(
    "line",
    [
        "'trigger', 't', 'p', 0, 'CREATE TABLE t (x)'",
        "'TRIGGER', 't', 'p', 0, 'CREATE TRIGGER t AFTER INSERT ON p BEGIN DELETE FROM p; END'",
        "'view', 'p', 'p', 0, 'CREATE TRIGGER t AFTER INSERT ON p BEGIN DELETE FROM p; END'",
        "'view', 'w', 'w', 2, 'CREATE VIEW w AS SELECT 1'",
        "'view', 'w', 'w', 0, CAST('CREATE VIEW w AS SELECT 1' AS BLOB)",
        "'trigger', 't', 'p', 0, 'CREATE TRIGGER t of no sense'",
        "'index', 'i', 'p', 0, NULL",
    ],
)
def test_a_line_written_into_the_catalogue_by_hand_is_read_as_by_a_scan(both, line):
    changed(
        both.after,
        "PRAGMA writable_schema = ON",
        f"INSERT INTO sqlite_schema VALUES ({line})",
    )
    both.check()


def test_an_index_that_did_not_learn_of_a_row_is_found(both):
    content = both.after.read_bytes()
    places = [at for at in range(len(content)) if content.startswith(b"Name700", at)]
    problems = []
    for place in places:
        both.after.write_bytes(content[:place] + b"Name70x" + content[place + 7 :])
        problems.append(both.check().state.tables["db.structure"].row_count > 0)
    # A row and two indexes that have its name, and another row whose value no index has.
    assert sorted(problems) == [False, True, True, True]


def test_what_is_in_the_log_only_is_read_and_what_is_not_committed_is_not(tmp_path):
    both = Beside(tmp_path, shop(tmp_path, 4096, 0, "WAL"))
    with closing(sqlite3.connect(both.after, isolation_level=None)) as db:
        db.execute("UPDATE p SET r = 7 WHERE id = 100")
        db.execute("BEGIN")
        db.execute("UPDATE p SET r = 8 WHERE id = 101")
        found = both.check()
        assert both.after.with_name("after.db-wal").stat().st_size
    [change] = found.state.tables["p"].origin.changes
    assert change.key == (100,)


def test_a_write_that_was_interrupted_is_taken_back(both):
    with closing(sqlite3.connect(both.after, isolation_level=None)) as db:
        db.execute("PRAGMA cache_size = 1")
        db.execute("BEGIN")
        db.execute("UPDATE p SET r = r + 1, body = zeroblob(9000)")
        image, journal = both.after.read_bytes(), Path(f"{both.after}-journal").read_bytes()
    both.after.write_bytes(image)
    Path(f"{both.after}-journal").write_bytes(journal)
    assert both.check().state.digest() == both.capture.parts[0].state.digest()


WRITER = """import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=0)
db.execute("UPDATE p SET r = 1")
db.commit()"""


def test_reading_gives_up_no_lock_that_the_process_has_on_the_file(both):
    with closing(sqlite3.connect(both.after, isolation_level=None)) as db:
        db.execute("BEGIN")
        db.execute("SELECT count(*) FROM p").fetchall()
        assert both.read().state.digest() == both.capture.parts[0].state.digest()
        done = subprocess.run(
            [sys.executable, "-c", WRITER, both.after], check=False, capture_output=True
        )
    assert b"database is locked" in done.stderr


@pytest.mark.parametrize("definition", ["fts3(t)", "fts4(t, prefix='1')", "fts5(t)"])
def test_a_search_index_is_read_as_by_a_scan(tmp_path, definition):
    if not has_search(definition[:4]):
        pytest.skip(f"this SQLite has no {definition[:4]}")
    path = tmp_path / "searched.db"
    path.write_bytes(shop(tmp_path, 4096, 0, "DELETE"))
    changed(
        path,
        f"CREATE VIRTUAL TABLE f USING {definition}",
        "INSERT INTO f (rowid, t) SELECT id, name || ' ' || r FROM p",
        "INSERT INTO f (rowid, t) VALUES (9001, 'another word')",
    )
    both = Beside(tmp_path, path.read_bytes())
    before = both.capture.parts[0].state
    in_and_out = (
        "INSERT INTO f (rowid, t) VALUES (9000, 'zebra')",
        "DELETE FROM f WHERE rowid = 9000",
        "INSERT INTO f (f) VALUES ('optimize')",
    )
    changed(both.after, *in_and_out)
    assert both.after.read_bytes() != path.read_bytes()
    assert both.check().state.digest() == before.digest()
    changed(both.after, "INSERT INTO f (rowid, t) VALUES (9000, 'zebra')")
    assert both.check().state.digest() != before.digest()
    changed(both.after, "DELETE FROM f WHERE rowid = 9000")
    assert both.check().state.digest() == before.digest()
    part, column = ("f_data", "block") if definition == "fts5(t)" else ("f_segdir", "root")
    changed(both.after, f"UPDATE {part} SET {column} = substr({column}, 1, length({column}) - 1)")
    assert both.check().state.digest() != before.digest()


def test_threads_and_forked_processes_share_what_is_kept(both):
    changed(both.after, "UPDATE p SET r = 7 WHERE id % 20 = 3", "DELETE FROM q WHERE v = 2")
    expected = both.read(by_pages=False).state.digest()
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(both.read) for _ in range(12)]
        assert {each.result().state.digest() for each in found} == {expected}
    child = os.fork()
    if not child:
        os._exit(0 if both.read().state.digest() == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_database_that_was_not_sound_before_is_scanned(tmp_path):
    image = shop(tmp_path, 4096, 0, "DELETE")
    place = image.rindex(b"Name700")
    both = Beside(tmp_path, image[:place] + b"Name70x" + image[place + 7 :])
    changed(both.after, "UPDATE q SET v = 7 WHERE code = 'C100'")
    found = both.check()
    assert not found.state.tables["db.structure"].enumeration.is_complete


def test_a_source_of_another_name_is_read_as_it_is(both):
    source = SqliteSource("other", both.after)
    assert both.reader.beside(source) is source
