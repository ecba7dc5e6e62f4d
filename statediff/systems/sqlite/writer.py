"""Somebody who writes to a SQLite file beside the agent, and can name each transaction of theirs.

A transaction is begun under the write lock, so that the first one in the log after that is its own,
if it left one. SQLite counts an update that writes what was there already, and logs nothing. So
triggers in the connection's own temporary schema note the rows that came, went or became others,
and a transaction in which none did is rolled back. What was committed is in the log for certain,
whatever anybody else does meanwhile.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from statediff.systems.base.others import WriterBusy, WriterEnded, WriterUnsure
from statediff.systems.relational.schema import quoted
from statediff.systems.sqlite.pages import FileConnection, schema_trust
from statediff.systems.sqlite.wal import LogMarks

BUSY_SECONDS: Final = 0.2
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_NOTED: Final = "statediff_noted"
"""A table of the connection's own temporary schema, which goes before any other of its name."""


class SqliteWriter:
    """A `Writer` of one database file."""

    def __init__(self, source: str, file: Path) -> None:
        self._connection = sqlite3.connect(
            f"{file.absolute().as_uri()}?mode=rw",
            uri=True,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            factory=FileConnection,
        )
        self._connection.execute("PRAGMA foreign_keys = ON")
        self._connection.execute(schema_trust())
        self._marks = LogMarks(source, file)
        self._definitions = self._defined()
        self._note_changes()

    def begin(self) -> None:
        self._ask("BEGIN IMMEDIATE")
        try:
            if self._defined() != self._definitions:
                raise WriterEnded("the run changed the definitions of the database")
            self._marks.note()
            self._ask(f"DELETE FROM temp.{_NOTED}")  # noqa: S608 - ours
        except OSError as error:
            self.rollback()
            raise WriterEnded(f"the log cannot be read: {error.strerror}") from error
        except (WriterBusy, WriterEnded):
            self.rollback()
            raise

    def query(self, sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return self._ask(sql, values)

    def execute(self, sql: str, values: Sequence[Any]) -> None:
        self._ask(sql, values)

    def commit(self) -> str | None:
        if not self._ask(f"SELECT 1 FROM temp.{_NOTED} LIMIT 1"):  # noqa: S608 - ours
            self.rollback()
            return None
        try:
            self._connection.execute("COMMIT")
            made = self._marks.since()
        except (OSError, sqlite3.Error) as error:
            self.rollback()
            raise WriterUnsure(f"its commit failed, or its log cannot be read: {error}") from error
        if not made:
            raise WriterUnsure("the log does not have it")
        return made[0].name

    def rollback(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # SQLite may have rolled back by itself
            self._connection.execute("ROLLBACK")

    def close(self) -> None:
        self._connection.close()

    def _note_changes(self) -> None:
        """From here on each row that comes, goes or becomes another one is noted."""
        connection = self._connection
        connection.execute(f"CREATE TEMP TABLE {_NOTED} (one INTEGER)")
        tables = [name for kind, name, *_ in self._definitions if kind == "table"]
        for at, table in enumerate(tables):
            named = quoted(table)
            columns = connection.execute(f"PRAGMA main.table_info({named})").fetchall()
            # Compared byte by byte: a collation may take two texts for one.
            differs = " OR ".join(
                f"OLD.{name} COLLATE BINARY IS NOT NEW.{name}"
                for name in (quoted(column[1]) for column in columns)
            )
            for event, when in (("INSERT", ""), ("DELETE", ""), ("UPDATE", f"WHEN {differs}")):
                trigger = (
                    f"CREATE TEMP TRIGGER statediff_{at}_{event} AFTER {event} ON main.{named} "  # noqa: S608 - quoted
                    f"{when} BEGIN INSERT INTO {_NOTED} VALUES (1); END"
                )
                with contextlib.suppress(sqlite3.Error):  # of SQLite's own, or virtual
                    connection.execute(trigger)

    def _defined(self) -> list[tuple[Any, ...]]:
        return self._ask("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY 1, 2")

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, tuple(values)).fetchall()
        except sqlite3.IntegrityError as error:
            raise WriterBusy(str(error)) from error  # refused, as people's work is at times
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF in _BUSY:
                raise WriterBusy(str(error)) from error
            raise WriterEnded(str(error)) from error
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise WriterEnded(str(error)) from error
