"""Whether the tables, indexes and free pages of a SQLite file agree: `db.structure`.

Rows are read past every index. What an application finds through one is another matter: a row that
is missing from an index is in the table and in no answer. `db.structure` has a row for each place
where the file disagrees with itself; a sound file has none. Decision 34 gives the reasons.

What is looked at, in the caller's read transaction:

1. all that `PRAGMA integrity_check` says: pages reached twice or never, cells and row ids out of
   order, the free list, entries of indexes against rows, and the declared constraints but `CHECK`,
   which SQLite does not read of a file that it may not write: what a row holds is the contract's;
2. what it does not say: a key of a table without row ids that a search does not find, and a header
   that SQLite refuses to write under.

Sound before and unsound after is a change: rows appear. Where soundness was not established before,
nobody knows what the run did, and the type is incomplete with the cause. What the run made
uncheckable (an index over a function that only its own program has) is a row like any other.

Nothing that an application registered is run: such functions and collations are not known here.
SQLite's own functions do run where the schema uses them in a constraint or an index; those with
effects do not, as `trusted_schema` is off.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from statediff.capture.source import SourceUnavailable
from statediff.model.batches import Row
from statediff.model.values import printable
from statediff.systems.relational.schema import quoted
from statediff.systems.relational.structure import Checked
from statediff.systems.sqlite.pages import FileConnection, own_descriptor, page_file
from statediff.systems.sqlite.wal import read_commits, read_header

MAX_PROBLEMS: Final = 100
MAX_SECONDS: Final = 300
_CACHE: Final = "cache_size=-65536"
"""64 MiB while every entry of every index is searched for: half the time of the default."""
_MAX_VALUE_BYTES: Final = 1_000_000_000
"""Of an entry of an index: it lies in the file, whatever a capture keeps of it."""
_STEPS: Final = 1_000_000
_MAX_TEXT: Final = 1000
_MAX_COLLATIONS: Final = 100
_ENVIRONMENT: Final = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_FULL,
    }
)


def check(connection: sqlite3.Connection) -> Checked:
    """All problems of the database, inside the caller's transaction.

    What the environment prevents is tried once more.
    """
    checked = _checked(connection)
    return checked if checked.cause is None else _checked(connection)


def _checked(connection: sqlite3.Connection) -> Checked:
    objects = _roots(connection)
    found: set[str] = set()
    try:
        with limits(connection):
            found.update(_header_problems(_header(connection)))
            damage = frozenset(_trees(connection))
            found.update(damage)
            if not damage:
                found.update(_integrity(connection))
                found.update(_unfound(connection))
    except sqlite3.Error as error:
        if _is_environment(error):
            return Checked((), f"its structure could not be checked: {_said(error)}")
        found.add(f"the check ended early: {_said(error)}")
    texts = sorted({printable(text[:_MAX_TEXT]) for text in found})
    return Checked(tuple(_row(text, objects) for text in texts))


@contextmanager
def limits(connection: sqlite3.Connection) -> Iterator[None]:
    """The connection has memory and length for a check, and does not check for ever."""
    deadline = time.monotonic() + MAX_SECONDS
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
    former = connection.execute("PRAGMA cache_size").fetchone()[0]
    longest = connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    try:
        connection.execute(f"PRAGMA {_CACHE}")
        yield
    finally:
        connection.set_progress_handler(None, 0)
        connection.execute(f"PRAGMA cache_size={former}")
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest)


def _integrity(connection: sqlite3.Connection) -> Iterator[str]:
    """What `PRAGMA integrity_check` says, table by table where it cannot check them together."""
    try:
        yield from _pragma(connection, f"integrity_check({MAX_PROBLEMS})")
        return
    except sqlite3.Error as error:
        if _is_environment(error):
            raise
        if _is_damage(error):
            yield f"the check ended early: {_said(error)}"
            return
    # Something in the schema is not known here.
    for (name,) in connection.execute("SELECT name FROM main.sqlite_schema WHERE type = 'table'"):
        if isinstance(name, str):
            try:
                yield from _pragma(connection, f"integrity_check({quoted(name)})")
            except sqlite3.Error as error:
                if _is_environment(error):
                    raise
                yield f"the table {name} cannot be checked: {_said(error)}"


def _trees(connection: sqlite3.Connection) -> Iterator[str]:
    """The first thing that is wrong with whose each page is, and how it is filled.

    Nothing is compared with an index, so that collations and functions need not be known. It comes
    before all that reads rows: pages that lead to each other would be read without an end.

    SQLite counts the pages of the whole file only where the table that it happens to list first has
    some. A view or a virtual table has none, so where there is one a copy without them is checked.
    """
    if not connection.execute(f"SELECT count(*) {_WITHOUT_PAGES}").fetchone()[0]:
        yield from _quick_check(connection)
        return
    with page_file(connection) as path:
        with closing(_opened(path)) as copy:
            for pragma in ("writable_schema=ON", "auto_vacuum=INCREMENTAL", "synchronous=OFF"):
                copy.execute(f"PRAGMA {pragma}")  # no page is moved when rows go
            copy.execute(f"DELETE {_WITHOUT_PAGES}")
        with closing(_opened(path)) as copy, limits(copy):
            copy.execute("PRAGMA trusted_schema=OFF")
            yield from _quick_check(copy)


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, factory=FileConnection)


_WITHOUT_PAGES: Final = (
    "FROM main.sqlite_schema WHERE type IN ('table', 'view') AND NOT coalesce(rootpage, 0)"
)


def _quick_check(connection: sqlite3.Connection) -> Iterator[str]:
    """What `PRAGMA quick_check` finds first, with whatever collations it asks for."""
    known: list[str] = []
    connection.execute("PRAGMA ignore_check_constraints=ON")
    try:
        while True:
            try:
                yield from _pragma(connection, "quick_check(1)")
                return
            except sqlite3.Error as error:
                missing = _COLLATION.match(str(error))
                if _is_environment(error):
                    raise
                if missing is None or len(known) == _MAX_COLLATIONS:
                    yield f"the check ended early: {_said(error)}"
                    return
                known.append(missing[1])
                connection.create_collation(
                    missing[1], lambda one, other: (one > other) - (one < other)
                )
    finally:
        connection.execute("PRAGMA ignore_check_constraints=OFF")
        for name in known:
            connection.create_collation(name, None)


_COLLATION: Final = re.compile(r"no such collation sequence: (.+)", re.DOTALL)


def _pragma(connection: sqlite3.Connection, call: str) -> Iterator[str]:
    for (said,) in connection.execute(f"PRAGMA main.{call}").fetchall():
        text = said if isinstance(said, str) else bytes(said).decode("utf-8", "backslashreplace")
        for line in text.splitlines():
            code = _CODE.search(line)
            if code is not None and int(code[1]) & 0xFF in _ENVIRONMENT:
                failed = sqlite3.OperationalError(line)
                failed.sqlite_errorcode = int(code[1])
                raise failed
            if line != "ok" and not line.startswith("***"):
                yield line


_CODE: Final = re.compile(r": unable to get the page\. error code=(?!522)(\d{1,9})$")
"""A page that could not be read; 522: because the file ends before it, which is its damage."""


def _unfound(connection: sqlite3.Connection) -> Iterator[str]:
    """Keys of tables without row ids that a search does not find."""
    listed = connection.execute("PRAGMA main.table_list").fetchall()
    for _schema, name, kind, _columns, is_without, *_ in listed:
        if kind != "table" or not is_without or not isinstance(name, str):
            continue
        described = connection.execute(f"PRAGMA main.table_xinfo({quoted(name)})").fetchall()
        key = [quoted(row[1]) for row in described if row[5] and isinstance(row[1], str)]
        same = " AND ".join(f"b.{column} = a.{column}" for column in key)
        table = f"main.{quoted(name)}"
        with suppress(sqlite3.OperationalError):  # of a collation that is not known here
            (lost,) = connection.execute(
                f"SELECT count(*) FROM {table} AS a NOT INDEXED WHERE NOT EXISTS"  # noqa: S608 - quoted
                f" (SELECT 1 FROM {table} AS b WHERE {same})"
            ).fetchone()
            if lost:
                yield f"{lost} keys of the table {name} are out of order"


def _header(connection: sqlite3.Connection) -> bytes:
    """The head of the file, as the log has it if it has it."""
    path = connection.execute("PRAGMA database_list").fetchall()[0][2]
    descriptor = own_descriptor(path)
    if descriptor is None:
        return b""
    try:
        return _logged_header(f"{path}-wal") or os.pread(descriptor, _HEADER_BYTES, 0)
    except OSError:
        return b""


def _logged_header(path: str) -> bytes:
    try:
        log = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        header = read_header(log)
        commits = () if header is None else read_commits(log, header)
        pages = [commit.pages[1][:_HEADER_BYTES] for commit in commits if 1 in commit.pages]
        return pages[-1] if pages else b""
    except (OSError, SourceUnavailable):
        return b""
    finally:
        os.close(log)  # no lock of SQLite's is on the log itself


def _header_problems(header: bytes) -> Iterator[str]:
    if len(header) < _HEADER_BYTES:
        return
    written, read = header[18], header[19]
    if (written, read) not in ((1, 1), (2, 2)):
        yield f"page 1 is of format {written} to write and {read} to read, not of 1 or 2 to both"
    if header[21:24] != b"\x40\x20\x20":
        yield f"page 1 has the payload fractions {tuple(header[21:24])}, not (64, 32, 32)"


_HEADER_BYTES: Final = 100


def _roots(connection: sqlite3.Connection) -> dict[str, int]:
    with suppress(sqlite3.Error):
        listed = connection.execute("SELECT name, rootpage FROM main.sqlite_schema").fetchall()
        return {
            name: root for name, root in listed if isinstance(name, str) and isinstance(root, int)
        }
    return {}


_PAGE: Final = re.compile(r"[Pp]age (\d{1,10})\b")
_INDEX: Final = re.compile(r" (?:from|in|of) index (.+)$", re.DOTALL)
_PLACE: Final = re.compile(
    r"(?: value in | constraint failed in |^the table |keys of the table )(.+)", re.DOTALL
)


def _row(text: str, objects: dict[str, int]) -> Row:
    """The problem, what it is a problem of, and a page that shows it: its own or the root."""
    name: str | None = None
    if (index := _INDEX.search(text)) is not None:
        name = index[1]
    elif (place := _PLACE.search(text)) is not None:
        name = max((n for n in objects if _begins(place[1], n)), key=len, default=None)
    pages = _PAGE.findall(text)
    page = int(pages[-1]) if pages else objects.get(name or "")
    return {"problem": text, "object": name, "page": page}


def _begins(text: str, name: str) -> bool:
    return text == name or text.startswith((f"{name}.", f"{name} "))


def _is_environment(error: sqlite3.Error) -> bool:
    return _code(error) in _ENVIRONMENT


def _is_damage(error: sqlite3.Error) -> bool:
    return _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def _said(error: sqlite3.Error) -> str:
    return printable(str(error)[:120])
