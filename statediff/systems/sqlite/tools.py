"""A SQLite file, for tools: no other file is opened, and no statement runs for long.

The connection is defensive: no statement writes past what SQLite itself keeps in order (the text of
the schema, its version, the tables behind a virtual table, raw pages), or leaves it without a
journal. SQLite has a switch for that, which Python offers from 3.12 on; the authorizer refuses the
same for all versions. Another binding with a SQLite of its own is no way out: two copies of the
library in one process give up each other's locks on a file (sqlite.org/howtocorrupt, §2.2.1).
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from statediff.model.trace import Mark
from statediff.systems.base.tool import MAX_SECONDS, ToolError
from statediff.systems.relational.tools import Rows, Scalar, refuse_transactions
from statediff.systems.sqlite.definitions import folded
from statediff.systems.sqlite.pages import FileConnection
from statediff.systems.sqlite.wal import LogMarks

MAX_VALUE_BYTES: Final = 4 * 1024 * 1024
_STEPS: Final = 10_000
"""Between two looks at the clock, in SQLite's own steps: well under a millisecond."""


class SqliteDatabase:
    """The file behind an URL `sqlite:////path`."""

    def __init__(self, url: str) -> None:
        self._path = Path(unquote(url.removeprefix("sqlite:///")))

    @contextmanager
    def session(self, *, writes: bool) -> Iterator[SqliteSession]:
        mode = "rw" if writes else "ro"
        try:
            connection = sqlite3.connect(
                f"file:{quote(str(self._path))}?mode={mode}",
                uri=True,
                timeout=5.0,
                isolation_level=None,
                check_same_thread=False,
                factory=FileConnection,
            )
        except sqlite3.Error as error:
            raise ToolError(f"the database cannot be opened: {error}") from error
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            guard = _Guard(connection)
            connection.set_authorizer(guard.authorize)
            deadline = time.monotonic() + MAX_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            except sqlite3.Error as error:
                raise ToolError(f"the database cannot be used: {error}") from error
            yield SqliteSession(connection, self._path, guard)
        finally:
            connection.close()  # what was not committed is rolled back


@dataclass(frozen=True)
class SqliteSession:
    """One transaction."""

    connection: sqlite3.Connection
    path: Path
    guard: _Guard

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Rows:
        refuse_transactions(statement)
        self.guard.refuse_hidden_tables(statement)
        try:
            cursor = self.connection.execute(statement, tuple(values))
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise ToolError(f"the database refuses it: {error}") from error
        names = tuple(column[0] for column in cursor.description or ())
        return Rows(names, _rows(cursor), cursor.rowcount if cursor.rowcount >= 0 else None)

    def commit(self, source: str) -> tuple[Mark, ...]:
        try:
            return LogMarks(source, self.path).execute(self.connection, "COMMIT")[1]
        except sqlite3.Error as error:
            raise ToolError(f"nothing was changed: {error}") from error


def _rows(cursor: sqlite3.Cursor) -> Iterator[tuple[object, ...]]:
    try:
        yield from cursor
    except (sqlite3.Error, ValueError, OverflowError) as error:  # text may not be UTF-8
        raise ToolError(f"the database refuses it: {error}") from error


class _Guard:
    """Refuses what no statement of one connection may do."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._hidden: frozenset[str] = frozenset()
        """Names of tables behind virtual ones, while a statement is looked at and not run."""
        if hasattr(connection, "setconfig"):  # Python 3.12
            connection.setconfig(_DEFENSIVE, True)

    def authorize(
        self, action: int, one: str | None, other: str | None, *_about: str | None
    ) -> int:
        """SQLite's question about each step of a statement; `VACUUM INTO` attaches, too."""
        name = folded(one or "")
        is_refused = (
            action == sqlite3.SQLITE_ATTACH
            or (action == sqlite3.SQLITE_PRAGMA and _is_dangerous(name, other))
            or (action in _WRITES and (name in self._hidden or name == "sqlite_dbpage"))
        )
        return sqlite3.SQLITE_DENY if is_refused else sqlite3.SQLITE_OK

    def refuse_hidden_tables(self, statement: str) -> None:
        """`ToolError` for a statement that itself writes to a table behind a virtual one.

        The module of the virtual table writes there too, while the statement runs. So the statement
        is only prepared first.
        """
        listed = self._connection.execute("PRAGMA table_list").fetchall()
        hidden = frozenset(folded(str(row[1])) for row in listed if row[2] == "shadow")
        if not hidden:
            return
        self._hidden = hidden
        try:
            self._connection.execute(f"EXPLAIN {statement}").close()
        except (sqlite3.Error, ValueError, OverflowError) as error:
            if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_AUTH:
                raise ToolError(f"the database refuses it: {error}") from error
        finally:
            self._hidden = frozenset()


_DEFENSIVE: Final = 1010
_WRITES: Final = (sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE)


def _is_dangerous(pragma: str, value: str | None) -> bool:
    if value is None:
        return False
    return pragma in ("writable_schema", "schema_version") or (
        pragma == "journal_mode" and folded(value).strip("'\"` ") == "off"
    )
