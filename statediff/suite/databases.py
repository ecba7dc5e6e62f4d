"""The two databases that a store may lie in, behind one class: SQLite, and PostgreSQL.

Both take the same SQL, with `?` for a value. PostgreSQL needs psycopg, which an extra brings.

SQLite keeps a write-ahead log; a writer takes its lock when it begins (a transaction that reads
first and writes later could not wait for another writer) and waits for up to 30 seconds.
"""

from __future__ import annotations

import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Final

from statediff.errors import StorageError, UsageError
from statediff.systems.base.urls import url_without_password, without_passwords

BUSY_SECONDS: Final = 30
_MAKING: Final = 7_366_244_102  # the advisory lock for making a store in PostgreSQL
_MARK: Final = "statediff:"
Values = Sequence[Any]


class Database(ABC):
    """A connection, for one thread at a time; both drivers' connections do most things alike."""

    errors: type[Exception]
    """The kind of every error that the database raises."""
    _connection: Any

    @abstractmethod
    def is_open(self) -> bool:
        """True if it can still be used."""

    @abstractmethod
    def form(self) -> int | None:
        """The form of the store that is there; None where nothing is, 0 where that is no store."""

    @abstractmethod
    def make(self, tables: Sequence[str], form: int) -> None:
        """The tables are there; a second caller changes nothing."""

    @abstractmethod
    def begin(self, *, writes: bool) -> None:
        """From now on everything is read at one moment, or written at once."""

    def rows(self, sql: str, values: Values = ()) -> list[tuple[Any, ...]]:
        """The rows that the statement finds."""
        found: list[tuple[Any, ...]] = self._connection.execute(self._own(sql), values).fetchall()
        return found

    def put(self, sql: str, rows: Iterable[Values]) -> None:
        """The statement is carried out with each of the rows."""
        self._connection.cursor().executemany(self._own(sql), rows)

    def commit(self) -> None:
        """Make everything written visible to everybody."""
        self._connection.commit()

    def rollback(self) -> None:
        """Nothing of it was written."""
        self._connection.rollback()

    def close(self) -> None:
        """It is no longer used."""
        self._connection.close()

    def _own(self, sql: str) -> str:
        """As the driver writes it."""
        return sql


def connect(url: str) -> Database:
    """The database at the URL; an SQLite file is made where there is none.

    `UsageError` where it is none that holds a store, `StorageError` where it cannot be reached.
    """
    scheme, separator, rest = url.partition("://")
    if scheme == "sqlite" and separator and (not rest or rest.startswith("/")):
        return SQLite(url, rest[1:] or ":memory:")
    if scheme == "postgresql" and separator:
        return PostgreSQL(url)
    raise UsageError(
        "the store: expected sqlite:///FILE or postgresql://user@host/name, found another kind of "
        "URL or none"
    )


def shown(url: str) -> str:
    """The URL of a store as messages show it."""
    return url_without_password(url) if url.startswith("postgresql:") else url


def unusable(url: str, error: Exception) -> StorageError:
    """The error to raise where the store at this URL fails, with the cause."""
    cause = without_passwords(str(error), [url]).strip().splitlines()
    return StorageError(
        f"{shown(url)}: the store cannot be used: {cause[0] if cause else type(error).__name__}; "
        "it is only an index of run folders: name another, or move it away and index again"
    )


class SQLite(Database):
    """A store in a file, or in memory."""

    errors = sqlite3.Error

    def __init__(self, url: str, place: str) -> None:
        try:
            # The driver would begin transactions only before some statements, and no CREATE.
            self._connection = sqlite3.connect(
                place, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            with ExitStack() as failed:
                failed.callback(self._connection.close)
                for setting in ("foreign_keys=ON", "trusted_schema=OFF", "synchronous=FULL"):
                    self._connection.execute(f"PRAGMA {setting}")
                failed.pop_all()
        except sqlite3.Error as error:
            raise unusable(url, error) from error

    def is_open(self) -> bool:
        return True

    def form(self) -> int | None:
        # By one statement: somebody may be making the tables.
        ((form, tables),) = self.rows(
            "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version"
        )
        return int(form) if form or tables else None

    def make(self, tables: Sequence[str], form: int) -> None:
        self._keep_log()
        self.begin(writes=True)
        if self.form() is None:
            for statement in (*tables, f"PRAGMA user_version={form}"):
                self._connection.execute(statement)
        self.commit()

    def _keep_log(self) -> None:
        until = time.monotonic() + BUSY_SECONDS
        # Two who switch at once would wait for each other; SQLite tells one without waiting.
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def begin(self, *, writes: bool) -> None:
        self._connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")


class PostgreSQL(Database):
    """A store in a database of a server; its text is ordered as Python orders it."""

    def __init__(self, url: str) -> None:
        try:
            import psycopg  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise UsageError(
                f"{shown(url)}: a store in PostgreSQL needs {error.name or 'psycopg'}; get it with "
                "`pip install statediff[postgres]`"
            ) from error
        self.errors = psycopg.Error
        try:
            self._connection = psycopg.connect(url, autocommit=True)
        except psycopg.Error as error:
            raise unusable(url, error) from None  # what it was caused by may show a password

    def is_open(self) -> bool:
        return not self._connection.closed

    def form(self) -> int | None:
        ((there, said),) = self.rows(
            "SELECT to_regclass('runs'), obj_description(to_regclass('runs'), 'pg_class')"
        )
        number = (said or "").removeprefix(_MARK)
        return None if there is None else int(number) if number.isdecimal() else 0

    def make(self, tables: Sequence[str], form: int) -> None:
        # Waited for before the transaction: within one, the server may still believe what it knew
        # of the tables when that began.
        self.rows("SELECT pg_advisory_lock(?)", [_MAKING])
        try:
            self.begin(writes=True)
            if self.form() is None:
                for statement in (*tables, f"COMMENT ON TABLE runs IS '{_MARK}{form}'"):
                    self._connection.execute(statement.replace("TEXT", 'TEXT COLLATE "C"'))
            self.commit()
        except BaseException:
            self.rollback()
            raise
        finally:
            self.rows("SELECT pg_advisory_unlock(?)", [_MAKING])

    def begin(self, *, writes: bool) -> None:
        # Otherwise every statement of a reader would see another moment.
        how = "" if writes else " ISOLATION LEVEL REPEATABLE READ READ ONLY"
        self._connection.execute(f"BEGIN{how}")

    def _own(self, sql: str) -> str:
        return sql.replace("%", "%%").replace("?", "%s")
