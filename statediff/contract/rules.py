"""The canonicalization rules there are: what each does, to which kinds, with which parameters.

A rule is pure, row-local and idempotent. A change to what a rule does is a new version beside the
old one, never a change of the old one [SSD §VI]. Stage 3 binds rules to fields
(`canonicalize.rule_book`); identity rules use them on the fields they match by.
"""

from __future__ import annotations

import decimal
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from statediff.contract.parts import seconds
from statediff.model.boundary import did_you_mean
from statediff.model.instants import in_zone, parse_instant
from statediff.model.json_values import canonical_json, others_read, read_json_value
from statediff.model.nested import keyed
from statediff.model.schema import INSTANTS, Kind
from statediff.model.values import Digested, Observed, Unordered, Value, order_key

Transform: TypeAlias = Callable[[Value], Observed]
"""A known value (null included) in canonical form; its digest where nobody knows what it says."""

OPAQUE: Final = "\u2039opaque\u203a"
"""What every non-null value becomes under `opaque@1`."""

MAX_DIGITS: Final = 10_000
"""A number with more digits than this is left as it is: writing it out could fill the memory."""

_ROUNDINGS: Final = {
    "half_even": decimal.ROUND_HALF_EVEN,
    "half_up": decimal.ROUND_HALF_UP,
    "down": decimal.ROUND_DOWN,
    "up": decimal.ROUND_UP,
    "floor": decimal.ROUND_FLOOR,
    "ceiling": decimal.ROUND_CEILING,
}
_YEAR_ONE: Final = datetime.min  # noqa: DTZ901 - local timestamps have no zone
_ANY_KIND: Final = frozenset(Kind)
_TEXT: Final = frozenset({Kind.TEXT, Kind.ANY})
_NESTED: Final = frozenset({Kind.MAP, Kind.LIST})
_NORMAL, _FOLD, _TRIM, RANK_REST = range(4)


@dataclass(frozen=True)
class Setting:
    """A parameter with its checked value; `text` is how records write it."""

    name: str
    value: Any
    text: str


@dataclass(frozen=True)
class Parameter:
    """A parameter a rule takes. `parse` raises `ValueError` saying what was expected."""

    name: str
    default: Any
    parse: Callable[[str, Any], Setting]


@dataclass(frozen=True)
class Rule:
    """A named, versioned canonicalization rule."""

    name: str
    version: int
    docs: str
    kinds: frozenset[Kind]
    """The kinds of field it may be used on."""
    make: Callable[[Mapping[str, Any]], Transform]
    """The transformation under checked settings."""
    parameters: tuple[Parameter, ...] = ()
    is_removal: bool = False
    """The value is taken out of the comparison."""
    keeps_references: bool = False
    """Two different references stay different, so that it may be used on a reference field."""
    unorders: bool = False
    """Takes the order from a list; it comes after the rules inside the list's items."""
    zips: bool = False
    """May be used on several parallel lists at once."""
    stands_alone: bool = False
    """Leaves nothing for another rule on the same field to do."""
    rank: int = RANK_REST
    """Rules on one field stand in rising rank; two of one rank exclude each other, except the last
    rank's, which apply to different kinds of value."""
    yields: Kind | None = None
    """The kind of the values it makes, where that is not the field's own."""

    @property
    def id(self) -> str:
        return f"{self.name}@{self.version}"


def _duration(name: str, raw: Any) -> Setting:
    expected = f"`{name}` is a duration such as 1s, 250ms or 1d, not {raw!r}"
    if not isinstance(raw, str):
        raise ValueError(expected)
    try:
        microseconds = seconds(raw) * 1_000_000
    except ValueError:
        raise ValueError(expected) from None
    if microseconds < 1 or microseconds != int(microseconds):
        raise ValueError(f"`{name}` is a positive whole number of microseconds, not {raw}")
    return Setting(name, int(microseconds), raw)


def _scale(name: str, raw: Any) -> Setting:
    if not isinstance(raw, int) or isinstance(raw, bool) or not 0 <= raw <= 100:
        raise ValueError(f"`{name}` is a whole number of digits from 0 to 100, not {raw!r}")
    return Setting(name, raw, str(raw))


def _rounding(name: str, raw: Any) -> Setting:
    if not isinstance(raw, str) or raw not in _ROUNDINGS:
        hint = did_you_mean(str(raw), _ROUNDINGS)
        raise ValueError(f"`{name}` is a rounding mode, not {raw!r}{hint}")
    return Setting(name, raw, raw)


def _text_rule(change: Callable[[str], str]) -> Callable[[Mapping[str, Any]], Transform]:
    def transform(value: Value) -> Value:
        return change(value) if isinstance(value, str) else value

    return lambda _settings: transform


def _leave(_settings: Mapping[str, Any]) -> Transform:
    return lambda value: value


def _truncate(settings: Mapping[str, Any]) -> Transform:
    """Towards the past, counted from the first instant of year 1, so that no result underflows."""
    step = timedelta(microseconds=settings["resolution"])

    def transform(value: Value) -> Value:
        if not isinstance(value, datetime):
            return value
        local = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        floor = local - (local - _YEAR_ONE) % step
        return floor if value.tzinfo is None else floor.replace(tzinfo=UTC)

    return transform


def _zone(name: str, raw: Any) -> Setting:
    if raw is None:
        return Setting(name, None, "none")
    if not isinstance(raw, str) or not 1 <= len(raw) <= 100:
        raise ValueError(f"`{name}` is a zone such as UTC or Europe/Paris, not {raw!r}")
    try:
        return Setting(name, ZoneInfo(raw), raw)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"`{name}` is a zone such as UTC or Europe/Paris, not {raw!r}") from None


def _instant(settings: Mapping[str, Any]) -> Transform:
    zone = settings["zone"]

    def transform(value: Value) -> Value:
        read = parse_instant(value) if isinstance(value, str) else value
        if isinstance(read, datetime) and read.tzinfo is None and zone is not None:
            read = in_zone(read, zone) or read
        return value if read is None else read

    return transform


def _member(name: str, raw: Any) -> Setting:
    if not isinstance(raw, str) or not raw:
        given = "" if raw is None else f", not {raw!r}"
        raise ValueError(f"`{name}` is the member that tells the items apart{given}")
    return Setting(name, raw, raw)


def _multiset(_settings: Mapping[str, Any]) -> Transform:
    def transform(value: Value) -> Value:
        return Unordered(sorted(value, key=order_key)) if isinstance(value, tuple) else value

    return transform


def _by_key(settings: Mapping[str, Any]) -> Transform:
    def transform(value: Value) -> Value:
        return keyed(value, settings["key"]) if isinstance(value, tuple) else value

    return transform


def _rescale(settings: Mapping[str, Any]) -> Transform:
    unit = Decimal(1).scaleb(-settings["scale"])
    mode = _ROUNDINGS[settings["round"]]
    context = decimal.Context(
        prec=MAX_DIGITS + 200,
        Emax=decimal.MAX_EMAX,
        Emin=decimal.MIN_EMIN,
        traps=[decimal.InvalidOperation],
    )

    def transform(value: Value) -> Value:
        if isinstance(value, bool) or not isinstance(value, (int, Decimal, float)):
            return value
        exact = Decimal(value)  # exact for floats too
        if not exact.is_finite() or exact.adjusted() > MAX_DIGITS:
            return value
        scaled = exact.quantize(unit, rounding=mode, context=context)
        return scaled or scaled.copy_abs()  # minus zero is zero

    return transform


def _json(_settings: Mapping[str, Any]) -> Transform:
    def transform(value: Value) -> Observed:
        match value:
            case str():
                read = read_json_value(value)
                if read is None and others_read(value):
                    return Digested.of(value)
                return value if read is None else read
            case bytes():  # binary JSON, or none: nobody knows what it says
                return Digested.of(value)
            case _:
                return canonical_json(value)

    return transform


def _nested(_settings: Mapping[str, Any]) -> Transform:
    return canonical_json


def _opaque(_settings: Mapping[str, Any]) -> Transform:
    return lambda value: None if value is None else OPAQUE


_ALL: Final = (
    Rule(
        "ignore",
        1,
        "Removes the value from the comparison; it stays captured and shown.",
        _ANY_KIND,
        _leave,
        is_removal=True,
        keeps_references=True,
        stands_alone=True,
    ),
    Rule(
        "timestamp",
        1,
        "Truncates timestamps, with or without a zone, to a resolution.",
        frozenset({Kind.TIMESTAMP, Kind.LOCAL_TIMESTAMP, Kind.ANY}),
        _truncate,
        (Parameter("resolution", "1s", _duration),),
    ),
    Rule(
        "instant",
        1,
        "Reads an instant kept as text however it is spelled; `zone` is that of texts without one.",
        frozenset({*INSTANTS, Kind.ANY}),
        _instant,
        (Parameter("zone", None, _zone),),
    ),
    Rule(
        "nfc",
        1,
        "Unicode normalization form C: one code sequence for canonically equal text.",
        _TEXT,
        _text_rule(lambda text: unicodedata.normalize("NFC", text)),
        rank=_NORMAL,
    ),
    Rule(
        "nfkc",
        1,
        "Unicode normalization form KC: as NFC, and compatibility characters unified.",
        _TEXT,
        _text_rule(lambda text: unicodedata.normalize("NFKC", text)),
        rank=_NORMAL,
    ),
    Rule(
        "casefold",
        1,
        "Removes distinctions of case by full Unicode case folding.",
        _TEXT,
        _text_rule(str.casefold),
        rank=_FOLD,
    ),
    Rule(
        "trim",
        1,
        "Removes white space at both ends.",
        _TEXT,
        _text_rule(str.strip),
        rank=_TRIM,
    ),
    Rule(
        "unordered",
        1,
        "Makes a list a multiset; parallel lists are zipped and sorted together.",
        frozenset({Kind.LIST, Kind.JSON, Kind.ANY}),
        _multiset,
        keeps_references=True,
        unorders=True,
        zips=True,
    ),
    Rule(
        "keyed",
        1,
        "Compares a list of objects by the member `key` of each, in any order. Where an object "
        "lacks the key, or two share it, the list keeps its order.",
        frozenset({Kind.LIST, Kind.JSON, Kind.ANY}),
        _by_key,
        (Parameter("key", None, _member),),
        unorders=True,
    ),
    Rule(
        "decimal",
        1,
        "Makes a number a decimal with exactly this many digits after the point.",
        frozenset({Kind.INT, Kind.DECIMAL, Kind.FLOAT, Kind.ANY}),
        _rescale,
        (Parameter("scale", 2, _scale), Parameter("round", "half_even", _rounding)),
        yields=Kind.DECIMAL,
    ),
    Rule(
        "json",
        1,
        "The equality of JSON: white space, order of keys, escapes and the spelling of numbers "
        "mean nothing. It is on every JSON field, unless `raw@1` is.",
        frozenset({Kind.JSON, Kind.TEXT, Kind.ANY}),
        _json,
        yields=Kind.ANY,
    ),
    Rule(
        "raw",
        1,
        "Compares a JSON field as the text that was written.",
        frozenset({Kind.JSON, *_NESTED}),
        _leave,
        stands_alone=True,
    ),
    Rule(
        "opaque",
        1,
        "Keeps only whether there is a value; for identifiers that mean nothing.",
        _ANY_KIND,
        _opaque,
        stands_alone=True,
        yields=Kind.TEXT,
    ),
)

JSON_TYPE: Final = Rule(
    "json", 1, "The equality of JSON inside objects and lists that were read as such.",
    _NESTED, _nested, keeps_references=True,
)  # fmt: skip
"""What `json@1` is where no text has to be read."""

RULES: Final[Mapping[str, Rule]] = {rule.id: rule for rule in _ALL}
"""Every rule by `name@version`."""
