"""A SQLite file, for tools: no other file is opened, and no statement runs for long."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

from statediff.model.trace import Mark
from statediff.systems.base.tool import MAX_SECONDS, ToolError
from statediff.systems.relational.tools import Rows, refuse_transactions
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
            )
        except sqlite3.Error as error:
            raise ToolError(f"the database cannot be opened: {error}") from error
        try:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            connection.set_authorizer(_authorize)
            deadline = time.monotonic() + MAX_SECONDS
            connection.set_progress_handler(lambda: time.monotonic() > deadline, _STEPS)
            try:
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            except sqlite3.Error as error:
                raise ToolError(f"the database cannot be used: {error}") from error
            yield SqliteSession(connection, self._path)
        finally:
            connection.close()  # what was not committed is rolled back


@dataclass(frozen=True)
class SqliteSession:
    """One transaction."""

    connection: sqlite3.Connection
    path: Path

    def run(self, statement: str) -> Rows:
        refuse_transactions(statement)
        try:
            cursor = self.connection.execute(statement)
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


def _authorize(action: int, *_about: str | None) -> int:
    """Every statement is allowed but those that open another file; `VACUUM INTO` attaches too."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
