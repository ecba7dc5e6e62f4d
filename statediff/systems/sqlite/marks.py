"""Which transaction of a SQLite database a call made, said by the connection that made it.

A statement is first tried where nothing can be written; one that only reads made no transaction.
Whatever writes is run under the write lock: until it is committed nobody else commits, so that the
first transaction in the write-ahead log after the position at the lock is its own. Whether it left
one at all shows in the log and in the count of changed rows; where others committed before one
could look, and no row was counted, the mark names no transaction.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

from statediff.model.trace import Mark
from statediff.systems.sqlite.wal import Commit, LogHeader, read_commits, read_header

READ_ONLY: Final = "attempt to write a readonly database"


class LogMarks:
    """The transactions in the log of one database, told to the connections that make them.

    Of one thread; every connection has its own.
    """

    def __init__(self, source: str, database: Path | str) -> None:
        self._source = source
        self._path = f"{database}-wal"
        self._header: LogHeader | None = None
        self._last: Commit | None = None
        self._changes = 0
        """What the connection had changed when its own transaction began."""

    def execute(
        self, connection: sqlite3.Connection, statement: str, parameters: Sequence[Any] = ()
    ) -> tuple[list[tuple[Any, ...]], tuple[Mark, ...]]:
        """The rows of one statement and the transactions that it made: none, one or unknown.

        The connection is in autocommit mode (`isolation_level=None`). A transaction that it begins
        itself is made by the call that commits it. Raises `sqlite3.Error` as SQLite does.
        """
        if connection.in_transaction:
            return self._settled(connection, statement, parameters, "")
        self._changes = connection.total_changes
        try:
            connection.execute("PRAGMA query_only = ON")
            with closing(connection.execute(statement, parameters)) as cursor:
                return cursor.fetchall(), ()
        except sqlite3.OperationalError as error:
            if READ_ONLY not in str(error):
                raise
        finally:
            connection.execute("PRAGMA query_only = OFF")
        connection.execute("BEGIN IMMEDIATE")
        try:
            return self._settled(connection, statement, parameters, "COMMIT")
        except BaseException:
            # SQLite may have rolled back by itself.
            with suppress(sqlite3.OperationalError):
                connection.execute("ROLLBACK")
            raise

    def _settled(
        self,
        connection: sqlite3.Connection,
        statement: str,
        parameters: Sequence[Any],
        commit: str,
    ) -> tuple[list[tuple[Any, ...]], tuple[Mark, ...]]:
        """One statement of an open transaction; what it made, if that ended with it."""
        self.note()
        version = self._version(connection)
        with closing(connection.execute(statement, parameters)) as cursor:
            rows = cursor.fetchall()
        if commit:
            connection.execute(commit)
        if connection.in_transaction:
            return rows, ()
        own = self.since()
        if not own:
            # Without a log nothing shows whether there was a transaction.
            return rows, () if self._header is not None else (Mark(self._source),)
        # The first is ours, if we left one; else it is one that others committed since.
        if connection.total_changes != self._changes and self._is_plain(connection):
            return rows, (own[0],)
        is_alone = version == self._version_at_rest(connection)
        return rows, (own[0] if is_alone else Mark(self._source),)

    def note(self) -> None:
        """What is committed now is not among what `since` tells."""
        for _ in self._new():
            pass

    def since(self) -> list[Mark]:
        """The transactions committed since `note`, whoever made them."""
        return [Mark(self._source, str(commit.frame)) for commit in self._new()]

    def _new(self) -> Iterable[Commit]:
        try:
            log = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        # Nothing locks the log itself, so that closing it gives no lock of SQLite's up.
        try:
            header = read_header(log)
            if header is None:
                return
            if header != self._header:
                self._header, self._last = header, None
            for commit in read_commits(log, header, self._last):
                self._last = commit
                yield commit
        finally:
            os.close(log)

    def _version(self, connection: sqlite3.Connection) -> Any:
        """Changes when another connection commits, and only then."""
        return connection.execute("PRAGMA data_version").fetchone()

    def _version_at_rest(self, connection: sqlite3.Connection) -> Any:
        """The same, while nobody is at a commit: what is in the log, but not yet in its index."""
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return None
        try:
            return self._version(connection)
        finally:
            connection.execute("ROLLBACK")

    def _is_plain(self, connection: sqlite3.Connection) -> bool:
        """Whether every changed row that SQLite counts is one of this database."""
        names = {row[1] for row in connection.execute("PRAGMA database_list")}
        return names == {"main"}
