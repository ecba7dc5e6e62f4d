"""Mutated files: what `PRAGMA integrity_check` reports is reported, and by pages as by a scan."""

import random
import sqlite3
import struct
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from statediff.capture.source import SourceUnavailable
from statediff.capture.take import RUIN_PREFIX, take
from statediff.model.state import MemoryChunks
from statediff.systems.sqlite.source import SqliteSource
from statediff.systems.sqlite.structure import STRUCTURE
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
        ("byte", "byte in a cell", "swap", "pointer", "count", "page", "free", "child", "header")
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
    elif how == "header":
        content[draw.randrange(16, 100)] ^= 1 << draw.randrange(8)
    return how


def oracle(path: Path) -> list[str]:
    """What SQLite itself says of a file that it opens for an application."""
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
        content = bytearray(pristine)
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
