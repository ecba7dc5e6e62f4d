"""Possible changes to a SQLite file: to its rows, its schema, its pages and itself."""

from __future__ import annotations

import os
import random
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

from lab.benchmarks.hostile_files import touched
from lab.benchmarks.hostile_places import Family, NoPlace, pick
from statediff.systems.sqlite.faults import OPERATORS


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None, timeout=5)) as db:
        db.execute("PRAGMA foreign_keys = OFF")
        yield db


def _tables(db: sqlite3.Connection, *, rows: int = 1) -> list[str]:
    # The next numbers of a tracker lie outside the boundary of its tasks.
    names = [
        n
        for (n,) in db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
            " AND name <> 'ids' AND sql NOT LIKE 'CREATE VIRTUAL%' ORDER BY name"
        )
    ]
    return [n for n in names if db.execute(f'SELECT count(*) FROM "{n}"').fetchone()[0] >= rows]


def _cell(db: sqlite3.Connection, rng: random.Random) -> tuple[str, str, str, Any]:
    """A table, a condition that is true of one row of it, a column of it, and its value."""
    table = pick(_tables(db), rng)
    info = db.execute(f'PRAGMA table_info("{table}")').fetchall()
    names = [row[1] for row in info]
    row = pick(db.execute(f'SELECT * FROM "{table}"').fetchall(), rng)
    key = [r[1] for r in info if r[5]] or names
    where = " AND ".join(f'"{n}" IS {_literal(row[names.index(n)])}' for n in key)
    column = pick([n for n in names if n not in key] or names, rng)
    return table, where, column, row[names.index(column)]


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str) and "\0" in value:
        return f"CAST(x'{value.encode().hex()}' AS TEXT)"
    return f"'{value.replace(chr(39), chr(39) * 2)}'" if isinstance(value, str) else repr(value)


def _write(path: Path, statement: str) -> str:
    with opened(path) as db:
        try:
            found = db.execute(statement)
        except sqlite3.IntegrityError as error:  # the database itself refuses it
            raise NoPlace from error
        if found.rowcount == 0:
            raise NoPlace
    return statement


def another_value(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        table, where, column, value = _cell(db, rng)
    ways: list[Any] = [None, 0, -1, 10**15, "", "x", b"\0\xff", 0.5]
    if isinstance(value, str):
        ways += [
            value + " ",
            value.upper(),
            value.replace("e", "\u0435"),
            value + "\0",
            value[:-1],
            value.encode(),
        ]
    elif isinstance(value, int | float):
        ways += [value + 1, -value, value * 100]
    left = [w for w in ways if w != value or type(w) is not type(value)]
    return _write(
        path,
        f'UPDATE OR IGNORE "{table}" SET "{column}" = {_literal(pick(left, rng))} WHERE {where}',
    )


def row_deleted(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        table, where, _, _ = _cell(db, rng)
    return _write(path, f'DELETE FROM "{table}" WHERE {where}')


def rows_copied(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        table, where, _, _ = _cell(db, rng)
        info = db.execute(f'PRAGMA table_info("{table}")').fetchall()
        unique = {
            c
            for index in db.execute(f'PRAGMA index_list("{table}")').fetchall()
            if index[2]
            for (_, _, c) in db.execute(f'PRAGMA index_info("{index[1]}")')
        }
        fresh = rng.randrange(10**6, 10**7)
        cells = [
            str(fresh)
            if row[5] and "INT" in row[2].upper()
            else f"'n{fresh}'"
            if row[5] or row[1] in unique
            else f'"{row[1]}"'
            for row in info
        ]
    names = ", ".join(f'"{row[1]}"' for row in info)
    what = f'INSERT OR IGNORE INTO "{table}" ({names}) SELECT {", ".join(cells)} FROM "{table}"'
    return _write(path, f"{what} WHERE {where}")


def all_of_a_table(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        table = pick(_tables(db), rng)
    ways = (f'DELETE FROM "{table}"', f'DROP TABLE "{table}"', f'ALTER TABLE "{table}" RENAME TO z')
    return _write(path, rng.choice(ways))


def schema_object(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        table = pick(_tables(db), rng)
        made = db.execute(
            "SELECT type, name FROM sqlite_schema WHERE type IN ('index', 'trigger',"
            " 'view') AND sql IS NOT NULL"
        ).fetchall()
        column = db.execute(f'PRAGMA table_info("{table}")').fetchall()[-1][1]
    name = f"z{rng.randrange(10**6)}"
    ways = [
        f'CREATE TRIGGER {name} AFTER INSERT ON "{table}" BEGIN SELECT 1; END',
        f'CREATE VIEW {name} AS SELECT * FROM "{table}"',
        f'CREATE INDEX {name} ON "{table}" ("{column}")',
        f"CREATE TABLE {name} (id INTEGER PRIMARY KEY)",
        f'ALTER TABLE "{table}" ADD COLUMN {name} TEXT',
        f'ALTER TABLE "{table}" RENAME COLUMN "{column}" TO {name}',
        *(f'DROP {kind} "{old}"' for kind, old in made),
    ]
    return _write(path, rng.choice(ways))


def definition_text(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        table = pick(_tables(db), rng)
    one, two = rng.choice(
        [
            ("NOT NULL", ""),
            ("TEXT", "INTEGER"),
            ("INTEGER", "REAL"),
            ("CHECK", "CHECK (1) CHECK"),
            ("CREATE TABLE", "CREATE  TABLE"),
        ]
    )
    with opened(path) as db:
        db.execute("PRAGMA writable_schema = ON")
        found = db.execute(
            "UPDATE sqlite_schema SET sql = replace(sql, ?, ?) WHERE name = ?"
            " AND instr(sql, ?) > 0",
            (one, two, table, one),
        )
        if not found.rowcount or one == "CREATE TABLE":
            db.execute(
                "UPDATE sqlite_schema SET sql = replace(sql, ')', ', z9)') WHERE name = ?"
                " AND type = 'table'",
                (table,),
            )
    return f"the definition of {table}: {one!r} is {two!r}"


def settings(path: Path, rng: random.Random) -> str:
    number = rng.randrange(1, 2**31)
    return _write(path, f"PRAGMA {rng.choice(['user_version', 'application_id'])} = {number}")


def structure(path: Path, rng: random.Random) -> str:
    name = rng.choice(sorted(OPERATORS))
    if not OPERATORS[name](path):
        raise NoPlace
    return name


def _whole(path: Path) -> bytearray:
    """The content of the file with its log, which is gone."""
    with opened(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return bytearray(path.read_bytes())


def overwritten_bytes(path: Path, rng: random.Random) -> str:
    """Bytes of the cells of a page in use."""
    content = _whole(path)
    size = int.from_bytes(content[16:18], "big")
    pages = [
        at
        for at in range(size, len(content), size)
        if content[at] in (2, 5, 10, 13) and struct.unpack_from(">H", content, at + 3)[0]
    ]
    start = pick(pages, rng)
    cells = struct.unpack_from(">H", content, start + 3)[0]
    head = 8 if content[start] in (10, 13) else 12
    first = struct.unpack_from(f">{cells}H", content, start + head)
    at = start + rng.choice(first) + rng.randrange(4)
    content[at] ^= 1 << rng.randrange(8)
    path.write_bytes(content)
    return f"byte {at} of page {start // size + 1}"


def roots_exchanged(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        found = db.execute(
            "SELECT name, rootpage FROM sqlite_schema WHERE type = ? AND rootpage > 1",
            (rng.choice(["index", "table"]),),
        ).fetchall()
        if len(found) < 2:
            raise NoPlace
        (one, first), (two, second) = rng.sample(found, 2)
        db.execute("PRAGMA writable_schema = ON")
        for name, root in ((one, second), (two, first)):
            db.execute("UPDATE sqlite_schema SET rootpage = ? WHERE name = ?", (root, name))
    return f"the roots of {one} and {two}"


def file_itself(path: Path, rng: random.Random) -> str:
    way = rng.choice(["gone", "empty", "text", "folder", "link", "pipe", "half", "dangling"])
    content = _whole(path)
    path.unlink()
    match way:
        case "empty":
            path.touch()
        case "text":
            path.write_bytes(rng.randbytes(rng.randrange(1, 9000)))
        case "folder":
            path.mkdir()
        case "link":
            path.with_name("elsewhere").write_bytes(content)
            path.symlink_to("elsewhere")
        case "dangling":
            path.symlink_to("nowhere")
        case "pipe":
            os.mkfifo(path)
        case "half":
            path.write_bytes(content[: len(content) // 2 + rng.randrange(100)])
    return f"the file is {way}"


def left_beside(path: Path, rng: random.Random) -> str:
    """Harm that is in the log only, or beside a journal that has to be put back first."""
    way = rng.choice(["log", "journal"])
    with opened(path) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        whole, log = path.read_bytes(), path.with_name(f"{path.name}-wal")
        what = row_deleted(path, rng)
        frames = log.read_bytes() if log.exists() else b""
    if way == "log" and frames:
        path.write_bytes(whole)
        log.write_bytes(frames)
    else:
        path.with_name(f"{path.name}-journal").write_bytes(rng.randbytes(rng.randrange(1, 9000)))
    return f"{what}, and a {way}"


def cut_off(path: Path, rng: random.Random) -> str:
    """A program is killed within a transaction."""
    child = os.fork()
    if not child:
        db = sqlite3.connect(path, isolation_level=None)
        for pragma in ("cache_size = 1", "foreign_keys = OFF"):
            db.execute(f"PRAGMA {pragma}")
        db.execute("BEGIN")
        for table in rng.sample(found := _tables(db), len(found)):
            db.execute(f'DELETE FROM "{table}"')
        os._exit(0)
    os.waitpid(child, 0)
    return "killed within a transaction"


def maintenance(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        tables = _tables(db)
    ways = [
        "VACUUM",
        "ANALYZE",
        "PRAGMA optimize",
        "REINDEX",
        "PRAGMA wal_checkpoint(TRUNCATE)",
        "PRAGMA incremental_vacuum",
        "PRAGMA integrity_check",
        "PRAGMA analysis_limit = 100",
        "PRAGMA optimize(0x10002)",
        "PRAGMA wal_checkpoint(FULL)",
        "PRAGMA shrink_memory",
        *(f'ANALYZE "{t}"' for t in tables),
        *(f'REINDEX "{t}"' for t in tables),
    ]
    done = [rng.choice(ways) for _ in range(rng.randint(1, 3))]
    with opened(path) as db:
        for each in done:
            db.execute(each).fetchall()
    return "; ".join(done)


def rewritten(path: Path, rng: random.Random) -> str:
    with opened(path) as db:
        table, where, column, _ = _cell(db, rng)
        triggers = db.execute(
            "SELECT count(*) FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = ?", (table,)
        ).fetchone()
        if triggers[0]:
            raise NoPlace  # they write of it
        way = rng.choice(["itself", "rolled back", "temporary", "copy", "page size"])
        match way:
            case "itself":
                db.execute(f'UPDATE "{table}" SET "{column}" = "{column}"')
            case "rolled back":
                db.execute("BEGIN")
                db.execute(f'DELETE FROM "{table}" WHERE {where}')
                db.execute("ROLLBACK")
            case "temporary":
                db.execute(f'CREATE TEMP TABLE z AS SELECT * FROM "{table}"')
            case "page size":
                db.execute("PRAGMA journal_mode = DELETE")
                db.execute(f"PRAGMA page_size = {rng.choice([1024, 2048, 8192])}")
                db.execute("VACUUM")
                db.execute("PRAGMA journal_mode = WAL")
            case _:
                with closing(sqlite3.connect(path.with_name("copy"))) as other:
                    db.backup(other)
                path.with_name("copy").unlink()
    return f"{way}: {table}"


HARMS: Final[tuple[Family, ...]] = (
    another_value,
    another_value,
    row_deleted,
    rows_copied,
    all_of_a_table,
    schema_object,
    definition_text,
    settings,
    structure,
    overwritten_bytes,
    roots_exchanged,
    file_itself,
    left_beside,
)
CHORES: Final[tuple[Family, ...]] = (maintenance, rewritten, touched, cut_off)
