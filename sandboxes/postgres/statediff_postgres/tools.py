"""A PostgreSQL server, for tools: one statement a message, rows one by one, bounded in time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.types.string import TextLoader

from statediff.model.trace import Mark
from statediff.systems.base.tool import MAX_SECONDS, ToolError
from statediff.systems.relational.tools import Rows, Scalar, refuse_transactions, with_percent_marks


class PostgresDatabase:
    """The database behind an URL `postgresql://…`, with the account that the URL names."""

    def __init__(self, url: str) -> None:
        self._url = url

    @contextmanager
    def session(self, *, writes: bool) -> Iterator[PostgresSession]:
        try:
            connection = psycopg.connect(
                self._url,
                connect_timeout=int(MAX_SECONDS),
                options=f"-c statement_timeout={int(MAX_SECONDS * 1000)}",
            )
        except psycopg.Error as error:
            raise ToolError(f"the database cannot be opened: {error}") from error
        try:
            connection.read_only = not writes
            for kind in ("timestamp", "timestamptz", "date", "interval"):
                connection.adapters.register_loader(kind, TextLoader)  # years beyond Python's
            yield PostgresSession(connection)
        finally:
            connection.close()  # what was not committed is rolled back


@dataclass(frozen=True)
class PostgresSession:
    """One transaction."""

    connection: psycopg.Connection[Any]

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Rows:
        refuse_transactions(statement)
        cursor = self.connection.cursor()
        text = statement.encode()
        # Prepared or streamed, a message holds one statement, and a `%` in it is a `%`.
        try:
            if self.connection.read_only:
                stream = cursor.stream(text)
                rows: Iterator[Any] = itertools.chain([next(stream)], stream)
            else:
                bound = with_percent_marks(statement).encode() if values else text
                cursor.execute(bound, tuple(values) or None, prepare=True)
                rows = iter(cursor if cursor.description else ())
        except StopIteration:
            rows = iter(())
        except (psycopg.Error, UnicodeError) as error:
            raise ToolError(f"the database refuses it: {error}") from error
        names = tuple(column.name for column in cursor.description or ())
        touched = cursor.rowcount if cursor.rowcount >= 0 else None
        return Rows(names, _report_refusals(rows), touched)

    def _marks(self, source: str) -> tuple[Mark, ...]:
        # In full: the agent's statements may have set a search path with functions of its own.
        found = self.connection.execute(
            "SELECT pg_catalog.pg_current_xact_id_if_assigned()::pg_catalog.text"
        ).fetchone()
        return (Mark(source, found[0]),) if found is not None and found[0] is not None else ()

    def commit(self, source: str) -> tuple[Mark, ...]:
        marks = self._marks(source)
        try:
            self.connection.commit()
        except psycopg.Error as error:
            raise ToolError(f"nothing was changed: {error}") from error
        return marks


def _report_refusals(rows: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from rows
    except (psycopg.Error, UnicodeError) as error:
        raise ToolError(f"the database refuses it: {error}") from error
