"""The agreement of tables, indexes and free pages of a SQLite file: `db.structure`.

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
nobody knows what the run did, and the type is incomplete with the cause.

Nothing that an application registered is run. An index over its functions or collations is not
checked, and a row says so, before and after; a row that comes with the run is a change like any
other. In a copy, something stands in for them and these indexes are made anew: all else is checked.
Before that, the entries of each must be of the rows of its table. SQLite's own functions run where
the schema uses them; none that a schema may call has effects (`pages.schema_trust`).
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from statediff.capture.source import SourceUnavailable
from statediff.model.batches import Row
from statediff.model.values import printable
from statediff.systems.relational.schema import quoted
from statediff.systems.relational.structure import UNCHECKED, Checked
from statediff.systems.sqlite.catalogue import STORED_COLUMN
from statediff.systems.sqlite.definitions import expressions_of, folded
from statediff.systems.sqlite.pages import (
    FileConnection,
    is_missing,
    own_descriptor,
    page_file,
    schema_trust,
    stand_in,
)
from statediff.systems.sqlite.wal import read_commits, read_header

MAX_PROBLEMS: Final = 100
MAX_SECONDS: Final = 300
_CACHE: Final = "cache_size=-65536"
"""64 MiB while every entry of every index is searched for: half the time of the default."""
_MAX_VALUE_BYTES: Final = 1_000_000_000
"""The most bytes of an entry of an index: it lies in the file, whatever a capture keeps of it."""
_STEPS: Final = 1_000_000
_DEFINED: Final = """SELECT name, sql FROM main.sqlite_schema WHERE type = 'table'
AND typeof(name) = 'text' AND typeof(sql) = 'text' AND sql LIKE '%AS%(%'"""
_MAX_TEXT: Final = 1000
_MAX_MISSING: Final = 100
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


def _uncomputed(connection: sqlite3.Connection) -> Iterator[str]:
    """The kept values of generated columns that SQLite computes otherwise of the row now.

    Of functions that only an application has, the values are unobserved as they are.
    """
    ours = "|".join(map(re.escape, getattr(connection, "stand_ins", ()))) or "(?!)"
    for table, definition in connection.execute(_DEFINED).fetchall():
        described = connection.execute(f"PRAGMA main.table_xinfo({quoted(table)})").fetchall()
        stored = {folded(row[1]): row[1] for row in described if row[6] == STORED_COLUMN}
        for column, expression in expressions_of(definition) if stored else ():
            if column not in stored or re.search(ours, expression, re.IGNORECASE):
                continue
            kept = f"{quoted(stored[column])} COLLATE BINARY IS NOT +({expression})"
            asked = f"SELECT count(*) FROM main.{quoted(table)} WHERE {kept}"  # noqa: S608 - quoted
            try:
                (count,) = connection.execute(asked).fetchone()
            except sqlite3.Error as error:
                if _is_environment(error):
                    raise
                if not is_missing(error):
                    yield f"{stored[column]} of {table} cannot be computed: {_said(error)}"
                continue
            if count:
                yield f"{count} values of {stored[column]} of {table} are not what it computes"


def _integrity(connection: sqlite3.Connection) -> Iterator[str]:
    """The problems that `PRAGMA integrity_check` and searches find, with stand-ins in a copy."""
    yield from _uncomputed(connection)
    if not getattr(connection, "stand_ins", ()):
        try:
            yield from _said_of_all(connection)
            return
        except sqlite3.Error as error:
            if _is_environment(error):
                raise
            if not is_missing(error):
                yield f"the check ended early: {_said(error)}"
                return
    with page_file(connection) as path, closing(_opened(path)) as copy, limits(copy):
        for pragma in ("trusted_schema=ON", "synchronous=OFF", "journal_mode=MEMORY"):
            copy.execute(f"PRAGMA {pragma}")  # no function is there but SQLite's own and ours
        missing = _with_stand_ins(copy, lambda: [*_said_of_all(copy)])
        for index, table, why in _indexes_over(copy, missing):
            yield from _differing(copy, index, table)
            yield f"{UNCHECKED}the index {index} of the table {table}, for {why}"
            try:
                copy.execute(f"REINDEX main.{quoted(index)}")
            except sqlite3.Error as error:
                yield f"the index {index} cannot be made anew: {_said(error)}"
        yield from _said_of_all(copy)


def _said_of_all(connection: sqlite3.Connection) -> Iterator[str]:
    yield from _pragma(connection, f"integrity_check({MAX_PROBLEMS})")
    yield from _unfound(connection)


def _with_stand_ins(connection: sqlite3.Connection, work: Callable[[], object]) -> list[str]:
    """The stand-ins that were needed, in SQLite's words, until the work could be done."""
    found: list[str] = []
    while True:
        try:
            work()
            return found
        except sqlite3.Error as error:
            missing = None if len(found) == _MAX_MISSING else stand_in(connection, error)
            if missing is None:
                raise
            found.append(missing)


def _indexes_over(
    connection: sqlite3.Connection, missing: Iterable[str]
) -> Iterator[tuple[str, str, str]]:
    """(index, table, what is missing) of the indexes that only an application can keep."""
    names = {re.split(r": |\(", text)[1]: text for text in missing if ": " in text}
    listed = connection.execute(
        "SELECT i.name, i.tbl_name, i.sql, t.sql FROM main.sqlite_schema AS i"
        " JOIN main.sqlite_schema AS t ON t.name = i.tbl_name AND t.type = 'table'"
        " WHERE i.type = 'index' AND typeof(i.name) = 'text' ORDER BY 1"
    ).fetchall()
    for index, table, own, around in listed:
        parts = connection.execute(f"PRAGMA main.index_xinfo({quoted(index)})").fetchall()
        by = {str(part[4]).upper() for part in parts}
        computed = {part[2] for part in parts} & _generated(connection, table)
        text = f"{own or ''} {around if computed else ''}"
        for name, why in names.items():
            if name.upper() in by or re.search(rf"\b{re.escape(name)}\s*\(", text, re.IGNORECASE):
                yield index, table, why
                break


def _generated(connection: sqlite3.Connection, table: str) -> set[str]:
    described = connection.execute(f"PRAGMA main.table_xinfo({quoted(table)})").fetchall()
    return {row[1] for row in described if row[6]}


def _differing(connection: sqlite3.Connection, index: str, table: str) -> Iterator[str]:
    """Statements that find entries which are of no row of the table, as far as they are columns."""
    parts = connection.execute(f"PRAGMA main.index_xinfo({quoted(index)})").fetchall()
    computed = _generated(connection, table)
    parts = [part for part in parts if part[1] != -2 and part[2] not in computed]
    columns = [*dict.fromkeys("rowid" if part[1] == -1 else quoted(part[2]) for part in parts)]
    asked = ", ".join(f"t.{column} COLLATE BINARY" for column in columns)
    table = f"main.{quoted(table)} AS t"
    one, other = (
        f"SELECT {asked} FROM {table} {path}"  # noqa: S608 - quoted
        for path in (f"INDEXED BY {quoted(index)}", "NOT INDEXED")
    )
    with suppress(sqlite3.OperationalError):  # a partial index, of which nobody knows the rows
        for first, second, what in ((one, other, "entries"), (other, one, "rows")):
            text = f"SELECT count(*) FROM ({first} EXCEPT {second})"  # noqa: S608 - quoted
            (count,) = connection.execute(text).fetchone()
            if count:
                side = "of no row" if what == "entries" else "missing"
                yield f"{count} {what} are {side} in index {index}"


def _trees(connection: sqlite3.Connection) -> Iterator[str]:
    """The first thing that is wrong with whose each page is, and how it is filled.

    Nothing is compared with an index, so that collations and functions need not be known. It comes
    before all that reads rows: pages that lead to each other would be read without an end.

    SQLite counts the pages of the whole file only where the table that it happens to list first has
    some. A view or a virtual table has none, so where there is one a copy without them is checked.
    """
    if not connection.execute(f"SELECT count(*) {_WITHOUT_PAGES.format(_ROOTLESS)}").fetchone()[0]:
        yield from _quick_check(connection)
        return
    with page_file(connection) as path:
        with closing(_opened(path)) as copy:
            for pragma in ("writable_schema=ON", "auto_vacuum=INCREMENTAL", "synchronous=OFF"):
                copy.execute(f"PRAGMA {pragma}")  # no page is moved when rows go
            copy.execute(f"DELETE {_WITHOUT_PAGES.format(_ROOTLESS + _TRIGGER)}")
        with closing(_opened(path)) as copy, limits(copy):
            copy.execute(schema_trust())
            yield from _quick_check(copy)


def _opened(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, factory=FileConnection)


_ROOTLESS: Final = "'table', 'view'"
_TRIGGER: Final = ", 'trigger'"
"""It may be one of a view."""
_WITHOUT_PAGES: Final = "FROM main.sqlite_schema WHERE type IN ({}) AND NOT coalesce(rootpage, 0)"


def _quick_check(connection: sqlite3.Connection) -> Iterator[str]:
    """The first problems that `PRAGMA quick_check` finds, with whatever collations it asks for."""
    found: list[str] = []
    connection.execute("PRAGMA ignore_check_constraints=ON")
    try:
        _with_stand_ins(connection, lambda: found.extend(_pragma(connection, "quick_check(1)")))
    except sqlite3.Error as error:
        if _is_environment(error):
            raise
        found.append(f"the check ended early: {_said(error)}")
    finally:
        connection.execute("PRAGMA ignore_check_constraints=OFF")
    # What it says of values comes after all pages, and SQLite 3.40 takes a column after a key for
    # one of its parts: `integrity_check` says the same, and rightly.
    yield from (line for line in found if not _OF_A_VALUE.search(line))


_OF_A_VALUE: Final = re.compile(r" value in |^CHECK constraint failed in ")


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


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF


def _said(error: sqlite3.Error) -> str:
    return printable(str(error)[:120])
