"""Values of fields, the five kinds of knowledge about them, and their one encoding.

A *value* is `None`, `bool`, `int`, `Decimal`, `float`, `str`, `bytes`, `datetime` (aware: an
instant; naive: a local timestamp, a type of its own), `date`, a `tuple` of values or a `Map`.
What is *observed* of a field is a value or one of three markers that are never values:
`ABSENT`, `Excluded(rule)`, `Unobserved(cause)` (docs/design.md §3). `Digested` is an `Unobserved`
whose content can still be distinguished from others.

`encode` maps each of them to JSON without floats, type-tagged, so that `1`, `1.0`, `true` and
`"1"` stay four things; `decode` is its strict inverse.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, Self, TypeAlias

from statediff.errors import InputError

MAX_DEPTH: Final = 64
"""Nesting allowed in a list or map value; deeper input is refused, never truncated."""


@dataclass(frozen=True, slots=True)
class Map:
    """A JSON object as a value: `items` sorted by key, keys distinct."""

    items: tuple[tuple[str, Value], ...]

    @staticmethod
    def of(mapping: dict[str, Value]) -> Map:
        return Map(tuple(sorted(mapping.items())))

    def get(self, key: str) -> Observed:
        place = bisect_left(self.items, key, key=itemgetter(0))
        if place < len(self.items) and self.items[place][0] == key:
            return self.items[place][1]
        return ABSENT

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items)


class Unordered(tuple["Value", ...]):  # noqa: SLOT001 - tuples have no slots of their own
    """A list under a rule that takes the order from it: its items sorted, so that it has one form.

    `key` are the members by which each item, an object, is distinguished from all others, in order
    of their names; empty for a multiset, which is one value.
    """

    key: tuple[str, ...]

    def __new__(cls, items: Iterable[Value], key: tuple[str, ...] = ()) -> Self:
        made = super().__new__(cls, items)
        made.key = key
        return made

    def __getnewargs__(self) -> tuple[tuple[Value, ...], tuple[str, ...]]:
        return tuple(self), self.key


@dataclass(frozen=True, slots=True)
class Absent:
    """The enumeration was complete and it is not there."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent()


@dataclass(frozen=True, slots=True)
class Excluded:
    """Captured, but outside the observation boundary; `rule` names the rule that excludes it."""

    rule: str


@dataclass(frozen=True, slots=True)
class Unobserved:
    """A value that was not observed; `cause` says why."""

    cause: str


@dataclass(frozen=True, slots=True)
class Digested(Unobserved):
    """Text (in UTF-8) or bytes that were left in the source: their size and SHA-256 are known.

    Nothing can be said of the content but whether it is another one; see `told_apart`.
    """

    cause: str = field(init=False)
    kind: str
    """`text` or `bytes`."""
    size_bytes: int
    sha256: str

    def __post_init__(self) -> None:
        # Anyone who makes one may have read it from a file.
        is_sound = self.kind in ("text", "bytes") and type(self.size_bytes) is int
        if not (is_sound and self.size_bytes >= 0 and _SHA256.fullmatch(self.sha256)):
            raise ValueError(f"not the digest of a text or of bytes: {self.sha256[:80]!r}")
        told = f"{self.size_bytes} bytes" + (" of text" if self.kind == "text" else "")
        cause = f"{told}, of which the capture holds the digest only: sha256:{self.sha256}"
        object.__setattr__(self, "cause", cause)

    @staticmethod
    def of(content: str | bytes) -> Digested:
        """The digest that stands for a content which is not there itself."""
        kind = "text" if isinstance(content, str) else "bytes"
        stored = content if isinstance(content, bytes) else content.encode(errors="surrogatepass")
        return Digested(kind, len(stored), hashlib.sha256(stored).hexdigest())


_SHA256: Final = re.compile("[0-9a-f]{64}")

Value: TypeAlias = (
    None | bool | int | Decimal | float | str | bytes | datetime | date | tuple["Value", ...] | Map
)
Observed: TypeAlias = Value | Absent | Excluded | Unobserved
Key: TypeAlias = tuple[Value, ...]
"""The key of an entity: the values of the key fields, in the order the schema names them."""


def is_value(observed: Observed) -> bool:
    """True if it is a known value (null included) rather than one of the three markers."""
    return not isinstance(observed, (Absent, Excluded, Unobserved))


def same(a: Observed, b: Observed) -> bool:
    """True if two observations have one encoding.

    Representation is respected: 1.0 is not 1.00, 0.0 is not -0.0, true is not 1, and NaN is
    itself. What a contract wants to treat as equal, it declares in ν.
    """
    if type(a) is not type(b):
        return False
    if type(a) in _EXACT:
        return a == b
    if isinstance(a, float) and isinstance(b, float):
        return a.hex() == b.hex()
    if isinstance(a, Decimal) and isinstance(b, Decimal):
        return a.as_tuple() == b.as_tuple()
    if isinstance(a, datetime) and isinstance(b, datetime):
        return (a.tzinfo is None) == (b.tzinfo is None) and a == b
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Map) and isinstance(b, Map):
        return len(a.items) == len(b.items) and all(
            ka == kb and same(va, vb) for (ka, va), (kb, vb) in zip(a.items, b.items, strict=True)
        )
    return a == b


_EXACT: Final = frozenset({str, int, bool, type(None), bytes})
"""Kinds whose equal values are the same."""


def told_apart(a: object, b: object) -> bool | None:
    """True if two observations, one of them `Digested`, are of one content; None if nobody knows.

    The other may be the content itself, which a source with another limit has captured.
    """
    if not isinstance(a, Digested):
        a, b = b, a
    if not isinstance(a, Digested) or isinstance(b, Excluded):
        return None
    if isinstance(b, Digested):
        return a == b
    if isinstance(b, Unobserved):
        return None
    return isinstance(b, str | bytes) and a == Digested.of(b)


def encode(observed: Observed) -> list[Any]:
    """The type-tagged JSON form: a list whose first element names the kind."""
    match observed:
        case None:
            return ["null"]
        case Absent():
            return ["absent"]
        case Excluded(rule):
            return ["excluded", rule]
        case Digested(kind=kind, size_bytes=size, sha256=digest):
            return ["digest", kind, str(size), digest]
        case Unobserved(cause):
            return ["unobserved", cause]
        case bool():
            return ["bool", observed]
        case int():
            return ["int", str(observed)]
        case Decimal():
            return ["decimal", str(observed)]
        case float():
            return ["float", observed.hex() if math.isfinite(observed) else str(observed)]
        case str():
            return ["text", observed]
        case bytes():
            return ["bytes", base64.b64encode(observed).decode("ascii")]
        case datetime() if observed.tzinfo is None:
            return ["local_timestamp", observed.isoformat(timespec="microseconds")]
        case datetime():
            utc = observed.astimezone(UTC).replace(tzinfo=None)
            return ["timestamp", utc.isoformat(timespec="microseconds") + "Z"]
        case date():
            return ["date", observed.isoformat()]
        case tuple():
            return ["list", [encode(item) for item in observed]]
        case Map(items):
            return ["map", [[name, encode(value)] for name, value in items]]
    raise TypeError(f"not a value: {type(observed).__name__}")


def decode(tagged: Any, depth: int = 0) -> Observed:
    """The observation that `encode` turned into `tagged`; `InputError` for anything else."""
    if depth > MAX_DEPTH:
        raise InputError(f"a value is nested deeper than {MAX_DEPTH} levels")
    try:
        observed = _decode(tagged, depth)
        canonical = encode(observed) == tagged
    except (
        ValueError,
        TypeError,
        KeyError,
        OverflowError,
        InvalidOperation,
        binascii.Error,
    ) as error:
        raise InputError(f"not an encoded value: {str(tagged)[:80]}") from error
    if not canonical:
        raise InputError(f"not the canonical encoding of a value: {str(tagged)[:80]}")
    return observed


def _decode(tagged: Any, depth: int) -> Observed:
    match tagged:
        case ["null"]:
            return None
        case ["absent"]:
            return ABSENT
        case ["excluded", str(rule)]:
            return Excluded(rule)
        case ["unobserved", str(cause)]:
            return Unobserved(cause)
        case ["digest", str(kind), str(size), str(digest)]:
            return Digested(kind, int(size), digest)
        case ["bool", bool(flag)]:
            return flag
        case ["int", str(text)]:
            return int(text)
        case ["decimal", str(text)]:
            return Decimal(text)
        case ["float", str(text)]:
            return float(text) if text in ("nan", "inf", "-inf") else float.fromhex(text)
        case ["text", str(text)]:
            return text
        case ["bytes", str(text)]:
            return base64.b64decode(text, validate=True)
        case ["local_timestamp", str(text)]:
            return datetime.fromisoformat(text)
        case ["timestamp", str(text)]:
            return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)
        case ["date", str(text)]:
            return date.fromisoformat(text)
        case ["list", list(items)]:
            return tuple(_value(decode(item, depth + 1)) for item in items)
        case ["map", list(items)]:
            members = tuple((str(name), _value(decode(item, depth + 1))) for name, item in items)
            if any(one >= other for (one, _), (other, _) in pairwise(members)):
                raise ValueError("the members of a map are not in order")
            return Map(members)
        case _:
            pass
    raise ValueError("unknown tag")


def _value(observed: Observed) -> Value:
    if isinstance(observed, (Absent, Excluded, Unobserved)):
        raise ValueError("a marker cannot stand inside a list or map")
    return observed


def order_key(value: Value) -> tuple[Any, ...]:
    """A total order over values of all kinds: numbers, text by code point, then others."""
    if type(value) is str:  # as most are
        return (4, value)
    if type(value) is int:
        return (2, value, "i")
    match value:
        case None:
            return (0,)
        case bool():
            return (1, value)
        case int():
            return (2, value, "i")
        case Decimal():
            return (2, value, f"d{value}") if not value.is_nan() else (3, str(value))
        case float():
            return (2, value, value.hex()) if not math.isnan(value) else (3, "")
        case str():
            return (4, value)
        case bytes():
            return (5, value)
        case datetime():
            return (
                6,
                value.tzinfo is not None,
                value.replace(tzinfo=None)
                if value.tzinfo is None
                else value.astimezone(UTC).replace(tzinfo=None),
            )
        case date():
            return (7, value.isoformat())
        case tuple():
            return (8, tuple(order_key(item) for item in value))
        case Map(items):
            return (9, tuple((name, order_key(item)) for name, item in items))


def key_order(key: Key) -> tuple[Any, ...]:
    """The order in which entities of a type are stored and reported."""
    if len(key) == 1:
        part = key[0]
        if type(part) is int:  # as most are
            return ((2, part, "i"),)
        return ((4, part),) if type(part) is str else (order_key(part),)
    return tuple([order_key(part) for part in key])


def show(observed: Observed, limit: int = 60) -> str:
    """A short rendering for sentences and tables; control characters are escaped, never sent."""
    match observed:
        case None:
            text = "null"
        case Absent():
            text = "absent"
        case Excluded(rule):
            text = f"excluded ({rule})"
        case Digested(size_bytes=size, sha256=digest):
            text = f"{size} bytes (sha256 {digest[:12]}…)"
        case Unobserved(cause):
            text = f"unobserved ({cause})"
        case bool():
            text = "true" if observed else "false"
        case str():
            text = '"' + observed + '"'
        case bytes():
            text = f"{len(observed)} bytes"
        case datetime():
            text = encode(observed)[1]
        case tuple():
            text = (
                "["
                + ", ".join(show(item, 20) for item in observed[:6])
                + (", …]" if len(observed) > 6 else "]")
            )
        case Map(items):
            text = (
                "{"
                + ", ".join(f"{n}: {show(v, 20)}" for n, v in items[:6])
                + (", …}" if len(items) > 6 else "}")
            )
        case _:
            text = str(observed)
    return printable(text if len(text) <= limit else text[: limit - 1] + "…")


def show_both(before: Observed, after: Observed, limit: int = 60) -> tuple[str, str]:
    """Two values that differ, each in at most `limit` characters around the first difference.

    The two texts are never equal where the values are not.
    """
    one, two = show(before, _WHOLE), show(after, _WHOLE)
    if one == two:
        one, two = _told_fully(before), _told_fully(after)
    if len(one) <= limit and len(two) <= limit:
        return one, two
    begin = max(0, common_beginning(one, two) - limit // 3)
    return _window(one, begin, limit), _window(two, begin, limit)


def common_beginning(one: str, two: str) -> int:
    """How many characters both begin with alike."""
    pairs = enumerate(zip(one, two, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(two)))


_WHOLE: Final = 1 << 20


def _told_fully(value: Observed) -> str:
    if isinstance(value, bytes):
        return show(Digested.of(value))
    return printable(json.dumps(encode(value), ensure_ascii=False))


def _window(text: str, begin: int, limit: int) -> str:
    head = "…" if begin else ""
    room = limit - len(head)
    inside = text[begin : begin + room]
    return f"{head}{inside[:-1]}…" if begin + room < len(text) else head + inside


def printable(text: str) -> str:
    """The text with every control, bidirectional and zero-width character spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        c
        if (c.isprintable() and c not in "\u200b\u200c\u200d\u2060\ufeff") or c == " "
        else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


def show_key(key: Key) -> str:
    """A key as a person writes it: the bare value, or the values in brackets."""
    parts = [part if isinstance(part, str) and part else show(part) for part in key]
    text = parts[0] if len(parts) == 1 else "(" + ", ".join(parts) + ")"
    return printable(text if len(text) <= 60 else text[:59] + "…")
