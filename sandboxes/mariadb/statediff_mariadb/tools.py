"""A MariaDB server, for tools: one statement a message, rows one by one, bounded in time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pymysql
from pymysql.constants import FIELD_TYPE
from pymysql.converters import conversions
from pymysql.cursors import Cursor, SSCursor

from statediff.model.trace import Mark
from statediff.systems.base.tool import MAX_SECONDS, ToolError
from statediff.systems.relational.tools import Rows, Scalar, refuse_transactions, with_percent_marks

_AS_TEXT: Final = frozenset(
    {FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP, FIELD_TYPE.DATE, FIELD_TYPE.TIME}
)


class MariaDatabase:
    """The database behind an URL `mysql://…`, with the account that the URL names."""

    def __init__(self, url: str) -> None:
        self._url = urlsplit(url)

    @contextmanager
    def session(self, *, writes: bool) -> Iterator[MariaSession]:
        try:
            connection = pymysql.connect(
                host=self._url.hostname or "localhost",
                port=self._url.port or 3306,
                user=unquote(self._url.username or ""),
                password=unquote(self._url.password or ""),
                database=unquote(self._url.path.removeprefix("/")),
                charset="utf8mb4",
                ssl_disabled=True,  # a port of this machine's loopback
                connect_timeout=int(MAX_SECONDS),
                read_timeout=MAX_SECONDS + 5,
                write_timeout=MAX_SECONDS + 5,
                cursorclass=SSCursor,
                conv={k: v for k, v in conversions.items() if k not in _AS_TEXT},
                local_infile=False,
            )
        except (pymysql.Error, OSError) as error:
            raise ToolError(f"the database cannot be opened: {error}") from error
        try:
            session = MariaSession(connection)
            session.run(f"SET SESSION max_statement_time = {MAX_SECONDS}")
            session.run("SET SESSION sql_mode = CONCAT(@@sql_mode, ',PIPES_AS_CONCAT,ANSI_QUOTES')")
            session.begin(writes=writes)
            yield session
        finally:
            connection.close()  # what was not committed is rolled back


@dataclass(frozen=True)
class MariaSession:
    """One transaction, except that statements on the schema end one, as MariaDB has it."""

    connection: pymysql.Connection[Any]
    made: list[str] = field(default_factory=list)
    """The transactions that it made so far, as the server's log numbers them."""

    def begin(self, *, writes: bool) -> None:
        self._execute(f"START TRANSACTION READ {'WRITE' if writes else 'ONLY'}")

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Rows:
        refuse_transactions(statement)
        self._note()
        cursor = self._execute(statement, values)
        names = tuple(column[0] for column in cursor.description or ())
        return Rows(names, _report_refusals(cursor), cursor.rowcount)

    def _execute(self, statement: str, values: Sequence[Scalar] = ()) -> Any:
        cursor = self.connection.cursor()
        bound = with_percent_marks(statement) if values else statement
        try:
            cursor.execute(bound, tuple(values) or None)
        except (pymysql.Error, OSError, UnicodeError) as error:
            raise ToolError(f"the database refuses it: {error}") from error
        return cursor

    def commit(self, source: str) -> tuple[Mark, ...]:
        try:
            self.connection.commit()
        except (pymysql.Error, OSError) as error:
            raise ToolError(f"nothing was changed: {error}") from error
        is_logged = self._note()
        if not self.made:  # what wrote nothing is in no log
            return () if is_logged else (Mark(source),)
        return tuple(Mark(source, f"gtid {name}") for name in self.made)

    def _note(self) -> bool:
        """The last transaction is among those made; whether the server logs what it does.

        A statement on the schema ends one before the next begins.
        """
        try:
            with self.connection.cursor(Cursor) as cursor:
                cursor.execute("SELECT @@last_gtid, @@log_bin AND @@sql_log_bin")
                found = cursor.fetchone()
        except (pymysql.Error, OSError):
            return False
        if found is None:
            return False
        if found[0] and found[0] not in self.made:
            self.made.append(str(found[0]))
        return bool(found[1])


def _report_refusals(cursor: Any) -> Iterator[Any]:
    try:
        with cursor:  # what is not read to its end would be in the way of the next statement
            yield from cursor
    except (pymysql.Error, OSError, UnicodeError) as error:
        raise ToolError(f"the database refuses it: {error}") from error
