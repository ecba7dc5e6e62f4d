"""Mutated files: what `PRAGMA integrity_check` reports is reported, and by pages as by a scan."""

import random
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from unittest.mock import patch

from hypothesis import event, given, settings
from hypothesis import strategies as st

from statediff.capture.source import SourceUnavailable
from statediff.capture.take import RUIN_PREFIX, take
from statediff.model.state import MemoryChunks
from statediff.systems.relational.structure import STRUCTURE
from statediff.systems.sqlite import scan
from statediff.systems.sqlite.source import SqliteSource
from tests.systems.sqlite.sqlite_databases import clock

JUSTIFIED = ("page 1 ", " are out of order")
"""What is reported of files that `PRAGMA integrity_check` accepts: a header SQLite never writes,
and keys of a table without row ids that no search finds."""


@cache
def base(folder: Path, page_size: int, auto_vacuum: int, mode: str) -> bytes:
    path = folder / f"base-{page_size}-{auto_vacuum}-{mode}.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(
            f"""PRAGMA page_size={page_size}; PRAGMA auto_vacuum={auto_vacuum};
            PRAGMA journal_mode={mode};
            CREATE TABLE a (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, n REAL, body);
            CREATE INDEX a_n ON a (n DESC, name);
            CREATE INDEX a_some ON a (n) WHERE n > 100;
            CREATE INDEX a_low ON a (lower(name));
            CREATE TABLE b (x TEXT COLLATE NOCASE, y INT, z, PRIMARY KEY (x, y)) WITHOUT ROWID;
            CREATE INDEX b_z ON b (z);
            CREATE TABLE c (v);
            CREATE TABLE gone (v);
            WITH RECURSIVE i (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i LIMIT 150)
            INSERT INTO a SELECT n, 'Name' || (n * 7), n * 37 % 151, zeroblob(n % 9 * 90) FROM i;
            INSERT INTO b SELECT 'K' || (id % 40), id, name FROM a;
            INSERT INTO c SELECT printf('%.*c', 20 * id, 'x') FROM a;
            INSERT INTO gone SELECT v FROM c; DROP TABLE gone;
            """
        )
    return path.read_bytes()


def mutate(content: bytearray, size: int, draw: random.Random) -> str:
    """The bytes changed in one place, as damage or an agent would."""
    pages = len(content) // size
    page = draw.randrange(pages)
    start = page * size
    head = start + (100 if page == 0 else 0)
    kind = content[head]
    cells = int.from_bytes(content[head + 3 : head + 5], "big")
    pointers = head + (12 if kind in (2, 5) else 8)
    how = draw.choice(
        (
            *("byte", "byte in a cell", "swap", "pointer", "count", "page", "free", "child"),
            *("header", "exchange", "link", "value"),
        )
    )
    if how == "byte":
        content[start + draw.randrange(size)] ^= 1 << draw.randrange(8)
    elif how == "byte in a cell" and kind in (2, 5, 10, 13) and 0 < cells < size:
        at = int.from_bytes(content[pointers : pointers + 2], "big")
        content[min(start + at + draw.randrange(12), len(content) - 1)] = draw.randrange(256)
    elif how == "swap" and kind in (2, 5, 10, 13) and 1 < cells < size // 2:
        one, other = (pointers + 2 * n for n in draw.sample(range(cells), 2))
        content[one : one + 2], content[other : other + 2] = (
            content[other : other + 2],
            content[one : one + 2],
        )
    elif how == "pointer" and 0 < cells < size // 2:
        struct.pack_into(">H", content, pointers + 2 * draw.randrange(cells), draw.randrange(size))
    elif how == "count":
        struct.pack_into(">H", content, head + 3, max(0, cells + draw.choice((-1, 1))))
    elif how == "page":
        other = draw.randrange(pages) * size
        if page and other:
            content[start : start + size] = content[other : other + size]
    elif how == "free":
        struct.pack_into(">I", content, draw.choice((32, 36)), draw.randrange(pages + 1))
    elif how == "child" and kind in (2, 5):
        struct.pack_into(">I", content, head + 8, draw.randrange(1, pages + 1))
    elif how == "exchange" and page:
        other = draw.randrange(1, pages) * size
        one = content[start : start + size]
        content[start : start + size] = content[other : other + size]
        content[other : other + size] = one
    elif how == "link" and page:  # of a chain, the free list or a map of pages
        struct.pack_into(">I", content, start, draw.randrange(pages + 1))
    elif how == "value" and kind in (10, 13) and 0 < cells < size // 2:
        at = struct.unpack_from(">H", content, pointers + 2 * draw.randrange(cells))[0]
        content[min(start + at + content[start + at], start + size) - 1] ^= 1
    elif how == "header":
        content[draw.randrange(16, 100)] ^= 1 << draw.randrange(8)
    return how


WORK = (
    "INSERT INTO a SELECT max(id) + :n, 'New' || :n || max(id), :n, zeroblob(:n * 40) FROM a",
    "INSERT INTO a VALUES (-:n * 1000003, 'Low' || :n, NULL, 'x')",
    "UPDATE a SET n = n + :n WHERE id % 50 = :n",
    "UPDATE a SET n = 1000 - n, name = upper(name) WHERE id % 37 = :n % 37",
    "UPDATE a SET body = zeroblob(:n * 100) WHERE id % 40 = :n % 40",
    "UPDATE OR IGNORE a SET id = id + 1000 * :n WHERE id % 60 = :n",
    "DELETE FROM a WHERE id % 45 = :n % 45",
    "DELETE FROM a WHERE id BETWEEN 30 AND 30 + :n",
    "INSERT OR IGNORE INTO b VALUES ('k' || :n, :n * 7, 'Z' || :n), ('Q', :n, NULL)",
    "UPDATE b SET z = 'z' || :n WHERE y % 30 = :n % 30",
    "UPDATE OR IGNORE b SET x = x || ' ' WHERE y % 20 = :n % 20",
    "DELETE FROM b WHERE y % 25 = :n % 25",
    "UPDATE c SET v = printf('%.*c', 97 * :n, 'y') WHERE rowid % 70 = :n",
    "DELETE FROM c WHERE rowid % 19 = :n % 19",
)


def work(path: Path, draw: random.Random, count: int) -> None:
    """Some statements as programs have them."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db, suppress(sqlite3.Error):
        for _ in range(count):
            db.execute(draw.choice(WORK), {"n": draw.randrange(1, 40)})


def oracle(path: Path) -> list[str]:
    """SQLite's own findings in a file that it opens for an application."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        try:
            said = [str(row[0]) for row in db.execute("PRAGMA integrity_check")]
        except sqlite3.Error as error:
            return [str(error)]
    return [] if said == ["ok"] else said


def check_mutant(folder: Path, seed: int) -> str:
    draw = random.Random(seed)
    size, mode = draw.choice((512, 1024, 4096)), draw.choice(("DELETE", "WAL"))
    pristine = base(folder, size, draw.choice((0, 0, 1, 2)), mode)
    path = folder / f"{seed % 64}.db"
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).unlink()
    path.write_bytes(pristine)
    source, store = SqliteSource("db", path), MemoryChunks()
    with closing(source.by_pages()) as reader:
        before = take([reader], store, clock, None, "before")
        assert before.parts[0].reading.is_complete, before.parts[0].reading.cause
        if draw.random() < 0.5:
            work(path, draw, draw.randrange(1, 6))
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        content = bytearray(path.read_bytes())
        how = [mutate(content, size, draw) for _ in range(draw.choice((1, 1, 1, 2)))]
        path.write_bytes(content)
        after = take([source], store, clock, before, "after").parts[0]
        state = after.state
        ruined = f"{RUIN_PREFIX}db" in state.tables
        told: list[str] = []
        if not ruined:
            told = [str(row["problem"]) for _, row in state.tables[STRUCTURE].rows()]
            assert state.tables[STRUCTURE].enumeration.is_complete
        if not ruined:
            with suppress(SourceUnavailable):
                by_pages = reader.read_changed(store, clock, before.parts[0].state).state
                pair = (by_pages.tables[STRUCTURE], state.tables[STRUCTURE])
                assert bool(pair[0].row_count) == bool(pair[1].row_count), (seed, how, told)
                assert told or by_pages.digest() == state.digest(), (seed, how)
    said = oracle(path)
    if said:
        assert ruined or told, (seed, how, said)
        return "reported"
    assert not ruined, (seed, how)
    assert all(any(text in line for text in JUSTIFIED) for line in told), (seed, how, told)
    return "justified" if told else "sound"


@settings(max_examples=2 * settings.default.max_examples)
@given(st.integers(0, 2**32))
def test_what_sqlite_reports_of_a_mutated_file_is_a_change(tmp_path_factory, seed):
    folder = tmp_path_factory.getbasetemp() / "structure"
    folder.mkdir(exist_ok=True)
    event(check_mutant(folder, seed))


@contextmanager
def read_by_pages(folder: Path, name: str, draw: random.Random) -> Iterator[tuple]:
    """A sound file that was read whole; a function reads it by pages and by a scan.

    It gives both tables of problems, and whether the whole file was checked for the first.
    """
    size = draw.choice((1024, 4096))
    path = folder / f"{name}.db"
    path.write_bytes(base(folder, size, draw.choice((0, 1, 2)), "DELETE"))
    source, store = SqliteSource("db", path), MemoryChunks()
    with closing(source.by_pages()) as reader:
        before = reader.read(store, clock, None).state

        def read():
            with patch.object(scan, "check", wraps=scan.check) as check:
                by_pages = reader.read_changed(store, clock, before).state.tables[STRUCTURE]
                is_whole = check.called
            by_scan = source.read(store, clock, before).state.tables[STRUCTURE]
            return by_pages, by_scan, is_whole

        yield path, read


@settings(max_examples=settings.default.max_examples // 2)
@given(st.integers(0, 2**32))
def test_ordinary_work_is_followed_without_a_whole_check(tmp_path_factory, seed):
    folder = tmp_path_factory.getbasetemp() / "structure"
    folder.mkdir(exist_ok=True)
    draw = random.Random(seed)
    with read_by_pages(folder, f"w{seed % 64}", draw) as (path, read):
        work(path, draw, draw.randrange(1, 12))
        by_pages, by_scan, is_whole = read()
    assert not is_whole or path.read_bytes()[52:56] != bytes(4), "pages move with their maps only"
    assert by_pages == by_scan
    assert not by_pages.row_count
    assert by_pages.enumeration.is_complete


HIDDEN = {
    "a_n": ("a (n DESC, name)", " WHERE id > 60"),
    "a_low": ("a (lower(name))", " WHERE 0"),
    "a_some": ("a (n) WHERE n > 100", " AND id > 60"),
    "b_z": ("b (z)", " WHERE y < 75"),
}


def behind(path: Path, draw: random.Random) -> None:
    """Work that an index does not learn of, on pages that are all as SQLite writes them."""
    first = path.read_bytes()[:1024]
    size = int.from_bytes(first[16:18], "big")
    name, (indexed, more) = draw.choice(list(HIDDEN.items()))
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        first = path.read_bytes()[:size]
        db.execute("PRAGMA writable_schema = ON")
        db.execute(
            "UPDATE sqlite_schema SET sql = ? WHERE name = ?",
            (f"CREATE INDEX {name} ON {indexed}{more}", name),
        )
        db.execute("PRAGMA schema_version = 1000")
    work(path, draw, draw.randrange(1, 5))
    now = path.read_bytes()[:100]
    with path.open("r+b") as file:  # the catalogue is put back byte for byte
        file.write(now[:40] + first[40:44] + now[44:] + first[100:])


@settings(max_examples=settings.default.max_examples // 2)
@given(st.integers(0, 2**32))
def test_work_that_an_index_does_not_learn_of_is_a_change(tmp_path_factory, seed):
    folder = tmp_path_factory.getbasetemp() / "structure"
    folder.mkdir(exist_ok=True)
    draw = random.Random(seed)
    with read_by_pages(folder, f"h{seed % 64}", draw) as (path, read):
        behind(path, draw)
        said = oracle(path)
        by_pages, by_scan, _ = read()
    event("harmed" if said else "harmless")
    assert bool(said) == bool(by_scan.row_count) == bool(by_pages.row_count), (seed, said)
