"""PostgreSQL's text form of a value as a value of ours, exactly; what has none stays that text.

The server writes every value with its type's own output function under settings that the source
fixes (ISO dates, UTC, shortest exact floats, hex bytes), so equal text is equal content. The
functions here give it the type it stands for. `infinity`, years before Christ or beyond 9999, an
array with a lower bound of its own and JSON beyond the caps have no value of that type: they stay
the text that was stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, Final

from statediff.model.schema import Kind
from statediff.model.values import Unobserved
from statediff.systems.base.rows import Convert, instant

MAX_VALUE_BYTES: Final = 1024 * 1024
_ARRAY_DEPTH: Final = 6


@dataclass(frozen=True)
class PgType:
    """A column's type: for a domain its base type, for an array the type of its elements."""

    oid: int
    name: str
    """As declared, e.g. `INTEGER` or `app.mood[]`; types of the catalogue in capitals."""
    is_array: bool = False
    is_own: bool = False
    """Made in the database: its output function is the server's, its casts may not be used."""


def kind_of(pg_type: PgType) -> Kind:
    """The kind of value a column of this type holds."""
    return Kind.LIST if pg_type.is_array else _KINDS.get(pg_type.oid, Kind.TEXT)


def reader(pg_type: PgType) -> Convert | None:
    """How the text of a value of this type is read; None when the text is the value."""
    read = _READERS.get(pg_type.oid)
    if not pg_type.is_array:
        return read
    return lambda text: _array(text, read)


def _truth(text: str) -> Any:
    return {"t": True, "f": False}.get(text, text)


def _decimal(text: str) -> Any:
    # NaN and the infinities are no numbers that a contract could compare or add.
    return text if text.lstrip("-")[:1] in ("N", "I") else Decimal(text)


def _bytes(text: str) -> Any:
    return bytes.fromhex(text[2:]) if text.startswith("\\x") else text


def _date(text: str) -> Any:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


def _timestamp(text: str) -> Any:
    # The session's zone is UTC, which the server writes as +00.
    return instant(f"{text}:00" if text.endswith("+00") else text, None)


def _array(text: str, read: Convert | None) -> Any:
    if not text.startswith("{"):
        return text  # `[2:4]={…}`: its first element is not number 1
    items, at = _elements(text, 1, read, 1)
    if at != len(text):
        return Unobserved("an array that cannot be read")
    return items


def _elements(text: str, at: int, read: Convert | None, depth: int) -> tuple[Any, int]:
    """The elements after an opening brace, and the position after the closing one."""
    items: list[Any] = []
    if depth > _ARRAY_DEPTH:
        return (), -1
    while at < len(text):
        if text[at] == "{":
            item, at = _elements(text, at + 1, read, depth + 1)
        elif text[at] == "}":
            return (), at + 1
        else:
            item, at = _element(text, at, read)
        items.append(item)
        if at < 0 or text[at : at + 1] == "}":
            return tuple(items), (at + 1 if at >= 0 else at)
        at += 1  # the comma
    return (), -1


_PLAIN: Final = re.compile(r"[^,{}\"\\]+")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def _element(text: str, at: int, read: Convert | None) -> tuple[Any, int]:
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        stored = re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)
        return (stored if read is None else read(stored)), quoted.end()
    plain = _PLAIN.match(text, at)
    if plain is None:
        return None, -1
    if plain[0] == "NULL":
        return None, plain.end()
    return (plain[0] if read is None else read(plain[0])), plain.end()


# By the type's number in pg_type, which is fixed for the types that PostgreSQL comes with.
_BOOL, _BYTES, _INT8, _INT2, _INT4, _JSON, _FLOAT4, _FLOAT8 = 16, 17, 20, 21, 23, 114, 700, 701
_DATE, _TIMESTAMP, _TIMESTAMPTZ, _NUMERIC, _JSONB, _OID = 1082, 1114, 1184, 1700, 3802, 26
_READERS: Final[Mapping[int, Callable[[str], Any]]] = {
    _BOOL: _truth,
    _BYTES: _bytes,
    _INT8: int,
    _INT2: int,
    _INT4: int,
    _OID: int,
    _FLOAT4: float,
    _FLOAT8: float,
    _DATE: _date,
    _TIMESTAMP: _timestamp,
    _TIMESTAMPTZ: _timestamp,
    _NUMERIC: _decimal,
}
_KINDS: Final[Mapping[int, Kind]] = {
    _BOOL: Kind.BOOL,
    _BYTES: Kind.BYTES,
    _INT8: Kind.INT,
    _INT2: Kind.INT,
    _INT4: Kind.INT,
    _OID: Kind.INT,
    _FLOAT4: Kind.FLOAT,
    _FLOAT8: Kind.FLOAT,
    _DATE: Kind.DATE,
    _TIMESTAMP: Kind.LOCAL_TIMESTAMP,
    _TIMESTAMPTZ: Kind.TIMESTAMP,
    _NUMERIC: Kind.DECIMAL,
    _JSON: Kind.JSON,
    _JSONB: Kind.JSON,
}
TIMESTAMP_OID: Final = _TIMESTAMP
BYTES_OID: Final = _BYTES
EXACT_SIZE_OIDS: Final = frozenset({17, 25, 1042, 1043})
"""bytea, text, char and varchar: `octet_length` knows their size without unpacking them."""
INTEGER_OIDS: Final = frozenset({_INT2, _INT4, _INT8})
ORDERED_OIDS: Final = INTEGER_OIDS | {25, 1043}
"""Types that the server can sort as `key_order` does (text under the collation "C")."""
TEXT_OIDS: Final = frozenset({25, 1043})
SENT_OIDS: Final = frozenset(_READERS) | {
    18,
    19,
    25,
    _JSON,
    _JSONB,
    650,
    774,
    829,
    869,
    1042,
    1043,
    1083,
    1186,
    1266,
    1560,
    1562,
    2950,
}
"""Types whose `send` function gives all of a value, so that its text follows from that: those that
are read as more than text, "char", name, text, json, network addresses, char, varchar, times,
intervals, bit strings and uuid. Arrays of them too."""
