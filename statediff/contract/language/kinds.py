"""The types of expressions: what they are called, which compare, what a literal has."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Final

import re2

from statediff.contract.language.syntax import (
    ANY,
    BOOL,
    NULL,
    NUMBER,
    TEXT,
    CollectionT,
    Const,
    EntityT,
    InputOf,
    ListT,
    Node,
    ScalarT,
    Type,
)
from statediff.model.instants import parse_instant
from statediff.model.schema import Kind
from statediff.model.values import Map, Value

NUMERIC: Final = (Kind.INT, Kind.DECIMAL)
ORDERED: Final = (
    Kind.DECIMAL,
    Kind.INT,
    Kind.FLOAT,
    Kind.TEXT,
    Kind.TIMESTAMP,
    Kind.LOCAL_TIMESTAMP,
    Kind.DATE,
    Kind.ANY,
)
MAX_REGEX_BYTES: Final = 1 << 20
"""Memory that a compiled pattern may take."""


class ExpressionError(ValueError):
    """The expression is not one of the language; `offset` is the 0-based character."""

    def __init__(self, message: str, offset: int = 0, hint: str = "") -> None:
        super().__init__(message)
        self.offset = offset
        self.hint = hint
        self.code = "expression"


def describe(kind: Type) -> str:
    """A type in words, for messages."""
    match kind:
        case ScalarT(kind=None):
            return "null"
        case ScalarT(reference=str() as reference):
            return f"a reference to {reference}"
        case ScalarT(kind=Kind.DECIMAL | Kind.INT):
            return "a number"
        case ScalarT(kind=Kind.ANY):
            return "a value of any kind"
        case ScalarT(kind=scalar):
            name = (scalar or Kind.ANY).value
            return f"{'an' if name[0] in 'aeiou' else 'a'} {name} value"
        case EntityT(type="@call"):
            return "a call"
        case CollectionT(type="@call"):
            return "the calls"
        case EntityT(type="@turn"):
            return "a turn"
        case CollectionT(type="@turn"):
            return "the turns"
        case EntityT(type=name):
            return f"an entity ({name})"
        case CollectionT(type=name):
            return f"a collection of {name}"
        case ListT():
            return "a list"


def is_boolean(kind: Type) -> bool:
    """True if an expression of this type can stand as a condition."""
    return isinstance(kind, ScalarT) and kind.kind in (Kind.BOOL, Kind.ANY)


def type_of(value: Value) -> Type:
    """The type of a literal or input."""
    match value:
        case None:
            return NULL
        case bool():
            return BOOL
        case int() | Decimal():
            return NUMBER
        case str():
            return TEXT
        case tuple():
            return ListT(
                type_of(value[0])
                if value
                and not isinstance(  # type: ignore[arg-type]  # scalars below
                    value[0], (tuple, Map)
                )
                else ANY
            )
        case _:
            pass
    return ANY


def type_of_field(kind: Kind, reference: str | None) -> Type:
    """The expression type of a field of that kind: every exact number is a number."""
    if kind is Kind.LIST:
        return ListT(ANY)
    return ScalarT(Kind.DECIMAL if kind is Kind.INT else kind, reference)


TIMES: Final[Mapping[Kind | None, str]] = {
    Kind.TIMESTAMP: "2026-01-31T09:00:00Z",
    Kind.LOCAL_TIMESTAMP: "2026-01-31T09:00:00",
    Kind.DATE: "2026-01-31",
}
"""The kinds of time, and how a literal of each is written."""
_AS_WRITTEN: Final[dict[Kind | None, str]] = {
    **TIMES,
    Kind.BOOL: "true or false",
    Kind.DECIMAL: "a number without quotes, e.g. 12.50",
    Kind.TEXT: "a text in quotes",
    Kind.LIST: "[1, 2]",
    Kind.MAP: "{key: value}",
}


def is_time(kind: Type) -> bool:
    """True if values of the type are instants, local times or days."""
    return isinstance(kind, ScalarT) and kind.kind in TIMES


def as_time(node: Node, wanted: Type) -> Node:
    """A literal text beside a time, as the time that it writes; any other node as it is."""
    if not isinstance(node, Const | InputOf) or not isinstance(node.value, str):
        return node
    read = _time_written(node.value, wanted.kind if isinstance(wanted, ScalarT) else None)
    return node if read is None else replace(node, type=wanted, value=read)


def _time_written(text: str, kind: Kind | None) -> datetime | date | None:
    if kind is Kind.DATE:
        try:
            return date.fromisoformat(text) if len(text) == len(TIMES[kind]) else None
        except ValueError:
            return None
    read = parse_instant(text) if kind in TIMES else None
    return read if read and (read.tzinfo is None) == (kind is Kind.LOCAL_TIMESTAMP) else None


def how_written(kind: Type) -> str:
    """How a literal of the type is written, as a hint; empty where there is none."""
    written = _AS_WRITTEN.get(kind.kind) if isinstance(kind, ScalarT) else None
    return f"write {written}" if written else ""


def comparable(a: Type, b: Type) -> bool:
    """True if values of the two types can be compared at all."""
    if isinstance(a, ListT) or isinstance(b, ListT):
        return (isinstance(a, ListT) and isinstance(b, ListT)) or ANY in (a, b) or NULL in (a, b)
    if isinstance(a, CollectionT) or isinstance(b, CollectionT):
        return False
    if isinstance(a, EntityT) or isinstance(b, EntityT):
        names = {t.type if isinstance(t, EntityT) else t.reference for t in (a, b)}
        return len(names) == 1 or (len(names) == 2 and None in names and NULL not in (a, b))
    if a.kind is None or b.kind is None or Kind.ANY in (a.kind, b.kind):
        return True
    if a.reference and b.reference and a.reference != b.reference:
        return False
    numeric = (*NUMERIC, Kind.FLOAT)
    return a.kind is b.kind or (a.kind in numeric and b.kind in numeric)


def compile_regex(pattern: str, offset: int = 0) -> re2._Regexp[str]:
    """The RE2 pattern, compiled quietly; `ExpressionError` if RE2 refuses it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MAX_REGEX_BYTES
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ExpressionError(f"not an RE2 expression: {error}", offset) from None


def suggest(name: str, known: Iterable[str]) -> str:
    """“did you mean …?” for the nearest known name; empty if none is near."""
    close = difflib.get_close_matches(name, list(known))
    return f"did you mean `{close[0]}`?" if close else ""
