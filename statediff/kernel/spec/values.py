"""Values, entities, states, and the sets of truths that a condition can have."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import zip_longest
from typing import Any, Final, TypeAlias

from statediff.model.batches import Row
from statediff.model.readings import Timeline
from statediff.model.trace import NoAnswer, RunEnding
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Key,
    Map,
    Observed,
    Unobserved,
    key_order,
    told_apart,
)

Truths: TypeAlias = int
TRUE: Final = 1
FALSE: Final = 2
UNDEFINED: Final = 4
OPEN: Final = TRUE | FALSE
"""True or false, nobody knows which."""
Result: TypeAlias = Any
"""A value, a Fraction, ABSENT, a Thing, Some, NO_VALUE, or a tuple of them for a list."""


@dataclass(frozen=True)
class Thing:
    """An entity in hand. `row` None: its fields are unknown. No key: some entity, not seen."""

    side: str
    type: str
    key: Key
    row: Row | None


@dataclass(frozen=True)
class Some:
    """A value that was not observed; it may be null, or undefined, only where that is said.

    Of an entity `undefined` says that it may be absent, and `null` that even that may be undefined.
    """

    null: bool = True
    undefined: bool = False
    digest: Digested | None = None


@dataclass(frozen=True)
class NoValue:
    """Undefined by the rules of the language (docs/design.md §3)."""


NO_VALUE: Final = NoValue()


@dataclass(frozen=True)
class Crowd:
    """Entities ranged over; with `is_open` there may be any number of others."""

    things: tuple[Thing, ...] = ()
    is_open: bool = False


@dataclass(frozen=True)
class Table:
    """The rows of one type that are known, by the order of their keys, and if those are all.

    Where they are not, `below` has beginnings of all keys that may be missing, if that is known.
    """

    rows: Mapping[tuple[Any, ...], tuple[Key, Row]] = field(default_factory=dict)
    is_complete: bool = False
    below: tuple[str, ...] = ()

    def may_miss(self, key: Key) -> bool:
        """Whether an entity of this key may be there, if it is not among the rows."""
        if self.is_complete or not self.below or not key or not isinstance(key[0], str):
            return not self.is_complete
        return any(key[0].startswith(beginning) for beginning in self.below)


NOT_SEEN: Final = Table()
State: TypeAlias = Mapping[str, Table]
"""A type that is not in it was not observed."""


@dataclass(frozen=True)
class World:
    """The world that expressions read: states by their sides, answer, entities that changed."""

    states: Mapping[str, State]
    answer: Mapping[str, Observed] | NoAnswer
    changed: Mapping[tuple[str, str], Crowd] = field(default_factory=dict)
    """(created | updated | …, type) → the entities."""
    now: str = ""
    """The side that `now` is."""
    ending: RunEnding | None = None
    """How the run ended; None where nobody knows."""
    timeline: Timeline | None = None
    """When it began and ended; None where nobody knows."""
    is_strict: bool = False
    """What nobody can read of what the run wrote is undefined, and not unknown."""
    kept_out: frozenset[tuple[str, str]] = frozenset()
    """(type, field) of which no capture has the content."""

    def table(self, side: str, type_name: str) -> Table:
        """All that is known of the type on that side."""
        return self.states[self.now if side == "now" else side].get(type_name, NOT_SEEN)

    def look(self, side: str, type_name: str, parts: Iterable[Result]) -> Result:
        """The entity; absent only where all of the type are known."""
        side, table = self.now if side == "now" else side, self.table(side, type_name)
        key = tuple(map(as_stored, parts))
        captured = as_captured(key)
        found = table.rows.get(key_order(captured))
        if found is not None:
            return Thing(side, type_name, key, found[1])
        return Some(null=False, undefined=True) if table.may_miss(captured) else ABSENT


Env: TypeAlias = Mapping[str, Result]


def as_stored(value: Result) -> Any:
    """An exact fraction as a value of the model."""
    if not isinstance(value, Fraction):
        return value
    whole = value.denominator == 1
    return int(value) if whole else Decimal(value.numerator) / Decimal(value.denominator)


def as_captured(parts: Iterable[Result]) -> Key:
    """The key as it was captured: a whole number however it is written."""
    return tuple(map(_whole_number, map(as_stored, parts)))


def _whole_number(part: Any) -> Any:
    is_whole = isinstance(part, Decimal) and part.is_finite() and part == part.to_integral_value()
    return int(part) if is_whole else part


# ---------------------------------------------------------------- sets of truths


def both(one: Truths, other: Truths) -> Truths:
    """`one and other`, left to right: a guard protects what stands on its right."""
    return one & ~TRUE | (other if one & TRUE else 0)


def opposite(one: Truths) -> Truths:
    """The truths of the negation; undefined stays undefined."""
    return one & UNDEFINED | (FALSE if one & TRUE else 0) | (TRUE if one & FALSE else 0)


def without_undefined(one: Truths) -> Truths:
    """The truths where what is undefined counts as false."""
    return one & ~UNDEFINED | (FALSE if one & UNDEFINED else 0)


def may(*, be_undefined: bool) -> Truths:
    """The truths of what is true or false, or perhaps undefined."""
    return OPEN | UNDEFINED if be_undefined else OPEN


def quantify(stop: Truths, masks: Iterable[Truths]) -> Truths:
    """`all` (FALSE stops it) or `any` (TRUE does): a witness decides, then what is undefined."""
    each, other = tuple(masks), OPEN & ~stop
    if stop in each:
        return stop
    possible = {bit for bit in (stop, UNDEFINED) if any(mask & bit for mask in each)}
    return sum(possible) | (other if all(mask & other for mask in each) else 0)


def as_condition(found: Result) -> Truths:
    """The truths of a value that stands as a condition."""
    if isinstance(found, bool):
        return TRUE if found else FALSE
    is_open = isinstance(found, Some)
    return may(be_undefined=found.null or found.undefined) if is_open else UNDEFINED


def over_items(stop: Truths, masks: Iterable[Truths]) -> Truths:
    """All or any of the items of a list; there is none where an item is undefined."""
    each, other = tuple(masks), OPEN & ~stop
    undefined = UNDEFINED if any(mask & UNDEFINED for mask in each) else 0
    stops = any(mask & stop for mask in each) and all(mask & OPEN for mask in each)
    return undefined | (stop if stops else 0) | (other if all(m & other for m in each) else 0)


# ---------------------------------------------------------------- relations


def is_nothing(found: Result) -> bool:
    """Null or absent."""
    return found is None or isinstance(found, Absent)


def plain(found: Result) -> Result:
    """An entity as its key; any other result as it is."""
    if not isinstance(found, Thing):
        return found
    return found.key[0] if len(found.key) == 1 else found.key


def is_finite(found: Result) -> bool:
    """Known, a number, and finite."""
    if isinstance(found, Decimal | float):
        return found.is_finite() if isinstance(found, Decimal) else math.isfinite(found)
    return isinstance(found, int | Fraction) and not isinstance(found, bool)


def likeness(found: Result) -> Any:
    """A form that is equal where `==` is: numbers by value, entities by key, others exactly."""
    found = plain(found)
    if is_finite(found):
        return Fraction, Fraction(found)
    match found:
        case tuple():
            return tuple, tuple(map(likeness, found))
        case Map(items=items):
            return Map, tuple((name, likeness(item)) for name, item in items)
        case Decimal():
            return Decimal, found.as_tuple()
        case float() if math.isnan(found):
            return object()  # not even equal to itself
        case _:
            return type(found), found


def relate(op: str, left: Result, right: Result) -> Truths:
    """The truths of `left op right` with op in == < <= > >= in."""
    # An entity that nobody has seen is equal to any or none.
    sides = [Some(null=False) if isinstance(s, Thing) and not s.key else s for s in (left, right)]
    left, right = sides
    some = [side for side in sides if isinstance(side, Some)]
    if NO_VALUE in sides or (op == "in" and not isinstance(right, tuple | Some)):
        return UNDEFINED
    if op == "in" and isinstance(right, tuple):
        is_open = isinstance(left, Some) and left.undefined and left.digest is None
        none = FALSE | UNDEFINED if is_open else FALSE
        return over_items(TRUE, (none, *(relate("==", left, item) for item in right)))
    if op == "==" and isinstance(left, tuple) and isinstance(right, tuple):
        alike = TRUE if len(left) == len(right) else FALSE
        pairs = zip_longest(left, right)
        return over_items(FALSE, (alike, *(relate("==", one, other) for one, other in pairs)))
    if some and op == "==" and not any(isinstance(side, Map | tuple) for side in sides):
        told = told_apart(*map(_digest, sides))
        if told is not None:
            return TRUE if told else FALSE
    ordered = {"==": [], "in": [right]}.get(op, sides)
    if some and not any(map(is_nothing, ordered)):
        may_be_null = any(isinstance(side, Some) and side.null for side in ordered)
        return may(be_undefined=may_be_null or any(side.undefined for side in some))
    if op == "==":
        return TRUE if likeness(left) == likeness(right) else FALSE
    sign = order(left, right)
    if sign is None:
        return UNDEFINED
    return TRUE if {"<": sign < 0, "<=": sign <= 0, ">": sign > 0, ">=": sign >= 0}[op] else FALSE


def _digest(side: Result) -> Result:
    """The digest that tells an unobserved content apart; else the side as it is compared."""
    return side.digest or Unobserved("") if isinstance(side, Some) else plain(side)


def order(one: Result, other: Result) -> int | None:
    """-1, 0 or 1; None where the two have no common order."""
    a, b = plain(one), plain(other)
    kinds: tuple[Any, ...] = (a, b)
    if all(is_finite(x) or (isinstance(x, float) and not math.isnan(x)) for x in kinds):
        a, b = (x if isinstance(x, float) else Fraction(x) for x in kinds)
    elif all(isinstance(x, datetime) for x in kinds):
        if (a.tzinfo is None) != (b.tzinfo is None):
            return None
    elif not all(isinstance(x, str) for x in kinds) and not all(type(x) is date for x in kinds):
        return None
    return int(a > b) - int(a < b)


@dataclass(frozen=True)
class Gathered:
    """The values that count for certain, and what else may count."""

    values: tuple[Result, ...] = ()
    doubted: tuple[Result, ...] = ()
    """Values of elements that may count, and of those that nobody has seen."""
    maybe: int = 0
    """Elements that may count: doubtful ones, and those that are undefined."""
    undefined: int = 0
    """Elements that are undefined for certain."""
    is_any: bool = False
    """Any number of others may count."""
    is_uncounted: bool = False
    """Elements within one that is undefined: nobody knows how many."""
    is_undefined: bool = False
    """Some element is, or may be, undefined."""
    may_be_none: bool = False
    """There may be no list at all: an item of it may be undefined, or it is null."""

    @property
    def is_open(self) -> bool:
        """Completions may differ in what counts, or in its value."""
        is_doubted = self.is_any or self.maybe > self.undefined
        return is_doubted or any(isinstance(each, Some) for each in self.values)
