"""Databases: reading in a transaction that cannot write, writing in one that holds whole.

Every call has a connection of its own, with the agent's account, and ends it: nothing that a call
sets stays for the next. A call is bounded in time, in rows and in what one value may hold.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import zip_longest
from typing import Annotated, Any, Final, Protocol, TypeAlias

from pydantic import Field

from statediff.model.trace import Mark
from statediff.systems.base.tool import MAX_TEXT, Arguments, Done, Tool, ToolError, tool_name
from statediff.systems.relational.sql import classify

MAX_ROWS: Final = 1000
MAX_CELLS_BYTES: Final = 48 * 1024
"""The most bytes of rows that one call brings back."""
Statement = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


Scalar: TypeAlias = str | int | float | bool | None


class Query(Arguments):
    """One statement that only reads."""

    sql: Statement = Field(description="One statement; the transaction it runs in cannot write.")
    max_rows: int = Field(100, ge=1, le=MAX_ROWS, description="Rows to bring back at most.")
    values: list[Scalar] = Field(
        default=[], max_length=1000, description="In order, what each `?` in the statement is."
    )


class Execute(Arguments):
    """Statements that hold together or not at all."""

    statements: Annotated[list[Statement], Field(min_length=1, max_length=100)] = Field(
        description="In order, in one transaction: if one fails, none has had an effect."
    )
    values: Annotated[list[list[Scalar]], Field(max_length=100)] = Field(
        default=[], description="For each statement, in order, what each `?` in it is."
    )


@dataclass(frozen=True)
class Rows:
    """The result of a statement: the names of its columns, rows one by one, how many it touched."""

    names: tuple[str, ...]
    rows: Iterator[Sequence[Any]]
    touched: int | None


class Session(Protocol):
    """One connection in one transaction."""

    def run(self, statement: str, values: Sequence[Scalar] = ()) -> Rows:
        """One statement, each `?` bound to a value if there are any; `ToolError` if refused."""

    def commit(self, source: str) -> tuple[Mark, ...]:
        """Commit; how the source's history names the transaction, if it wrote."""


class Database(Protocol):
    """A way to reach one database."""

    def session(self, *, writes: bool) -> AbstractContextManager[Session]:
        """A connection that is rolled back and closed at the end, unless it was committed."""


def database_tools(
    source: str, database: Database, product: str, dialect: str
) -> tuple[Tool[Any], ...]:
    """Looking at the database, and changing it; `product` is its name for people."""

    def query(asked: Query) -> Any:
        with database.session(writes=False) as session:
            return _result(session.run(asked.sql, asked.values), asked.max_rows)

    def execute(asked: Execute) -> Any:
        if len(asked.values) > len(asked.statements):
            raise ToolError("there are more lists of values than statements")
        bound = zip_longest(asked.statements, asked.values, fillvalue=())
        with database.session(writes=True) as session:
            results = [_result(session.run(str(each), values), 100) for each, values in bound]
            marks = session.commit(source)
        return Done({"committed": True, "results": results}, marks)

    return (
        Tool(
            tool_name(source, "query"),
            f"Reads from the {product} database {source} with one SQL statement.",
            Query,
            query,
            lambda asked: classify(asked.sql, dialect).action_class,
            is_harmless=True,
        ),
        Tool(
            tool_name(source, "execute"),
            f"Changes the {product} database {source}: SQL statements in one transaction, which "
            "holds whole or not at all. Statements that begin or end transactions are refused.",
            Execute,
            execute,
            lambda asked: classify(";\n".join(asked.statements), dialect).action_class,
            is_one_step=True,
        ),
    )


def _result(found: Rows, most: int) -> Any:
    """The result of a statement for a call: at most so many rows, and whether there are more."""
    if not found.names:
        return {"rows_touched": found.touched}
    rows: list[dict[str, Any]] = []
    kept, more = 0, False
    names = _distinct(found.names)
    for row in found.rows:
        cells = {name: _plain(value) for name, value in zip(names, row, strict=True)}
        kept += sum(len(value) if isinstance(value, str) else 8 for value in cells.values())
        if len(rows) >= most or kept > MAX_CELLS_BYTES:
            more = True
            break
        rows.append(cells)
    told: dict[str, Any] = {"rows": rows}
    return {**told, "more": True} if more else told


def _distinct(names: Iterable[str]) -> list[str]:
    """Columns of one name get a number each: none takes the place of another."""
    found: list[str] = []
    for name in names:
        count, given = 1, name
        while given in found:
            count += 1
            given = f"{name}_{count}"
        found.append(given)
    return found


def _plain(value: Any) -> Any:
    """A value as JSON: exact numbers and instants as text, bytes as base64."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
    return str(value)


_QUOTED_OR_MARK: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|\?|%")


def with_percent_marks(statement: str) -> str:
    """The statement for a driver that marks values with `%s`; what is in quotes keeps its `?`."""

    def mark(found: re.Match[str]) -> str:
        return "%s" if found[0] == "?" else found[0].replace("%", "%%")

    return _QUOTED_OR_MARK.sub(mark, statement)


_ENDS: Final = frozenset(
    {"begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare"}
)


def refuse_transactions(statement: str) -> None:
    """A statement that would begin or end a transaction is a `ToolError`."""
    words: Iterable[str] = statement.lstrip("( \t\r\n;").split(None, 1)[:1]
    if any(word.lower().rstrip(";") in _ENDS for word in words):
        raise ToolError("statements run in one transaction; none may begin or end one")
