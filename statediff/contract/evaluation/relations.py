"""Relations between evaluated values: equality, order, membership and the tests on texts.

Numbers compare exactly whatever their kind, entities by key, everything else within its kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import zip_longest
from operator import eq, ge, gt, le, lt
from typing import Any, Final

import re2

from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    EvalContext,
    Result,
    Undefined,
    Unknown,
    either,
)
from statediff.contract.language.kinds import compile_regex
from statediff.model.explanation import Reason
from statediff.model.values import Absent, Map, Unobserved, Value, same, told_apart

_EXACT: Final = (int, str)
"""Kinds that are equal to each other, and in order, as Python has it."""
_HOLDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": eq, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip


def _named(side: Result) -> Result:
    """An entity nobody has seen (it has no key) is some entity, equal to any or none."""
    if isinstance(side, EntityRef) and not side.key:
        return Unknown(frozenset({side.cause}), maybe_null=False)
    return side


def relate(op: str, left: Result, right: Result, context: EvalContext) -> int:
    """The outcomes of `left op right` with op in == < <= > >= in."""
    if op != "in" and type(left) is type(right) and type(left) in _EXACT:
        return TRUE if _HOLDS[op](left, right) else FALSE
    left, right = _named(left), _named(right)
    for side in (left, right):
        if isinstance(side, Undefined):
            return context.undefined_by(side.reason)
    if op == "in" and isinstance(right, tuple):
        return _member(left, right, context)
    if op == "in" and not isinstance(right, Unknown):
        return context.undefined_by(Reason.NO_MEMBERSHIP())
    unknown = [s for s in (left, right) if isinstance(s, Unknown)]
    may_be_json = any(isinstance(s, Map | tuple) for s in (left, right))
    is_told = bool(unknown) and op == "==" and not may_be_json
    told = told_apart(_digest(left), _digest(right)) if is_told else None
    if told is not None:
        return TRUE if told else FALSE
    if unknown:
        for side in unknown:
            context.waits_for(side.causes)
        ordered = () if op == "==" else (right,) if op == "in" else (left, right)
        if any(s is None or isinstance(s, Absent) for s in ordered):
            return context.undefined_by(Reason.NO_ORDER_OF_NULL())
        is_open = any(u.maybe_undefined or (u in ordered and u.maybe_null) for u in unknown)
        return either(is_open)
    if op == "==" and isinstance(left, tuple) and isinstance(right, tuple):
        return _equal_lists(left, right, context)
    if op == "==":
        return TRUE if equal(left, right) else FALSE
    sign = order(left, right)
    if sign is None:
        return context.undefined_by(Reason.NO_ORDER())
    return TRUE if _HOLDS[op](sign, 0) else FALSE


def _digest(side: Result) -> Result:
    """What tells an unknown text apart, in its place; anything else known as it is compared."""
    if isinstance(side, Unknown):
        return side.digest or Unobserved("nothing tells it apart")
    return plain(side)


def _member(left: Result, right: tuple[Result, ...], context: EvalContext) -> int:
    if not any(isinstance(side, Unknown) for side in (left, *right)):
        return TRUE if any(equal(left, item) for item in right) else FALSE
    is_open = isinstance(left, Unknown) and left.maybe_undefined
    total = FALSE | UNDEFINED if is_open else FALSE
    for item in right:
        total = combine(ANY_ITEM, total, relate("==", left, item, context))
    return total


def _equal_lists(left: tuple[Result, ...], right: tuple[Result, ...], context: EvalContext) -> int:
    """Item by item, because one that nobody has seen leaves the whole open."""
    total = TRUE if len(left) == len(right) else FALSE
    for one, other in zip_longest(left, right):
        total = combine(ALL_ITEMS, total, relate("==", one, other, context))
    return total


def equal(a: Result, b: Result) -> bool:
    """Equality of known results: numbers by value, entities by key, everything else exactly."""
    a, b = plain(a), plain(b)
    if _is_number(a) and _is_number(b):
        return bool(a == b) if type(a) is type(b) else exact(a) == exact(b)
    if isinstance(a, float) or isinstance(b, float):
        return _is_any_number(a) and _is_any_number(b) and bool(a == b)
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, Map) and isinstance(b, Map):
        (names, values), (others, theirs) = _apart(a), _apart(b)
        return names == others and all(map(equal, values, theirs))
    return same(a, b)


def _apart(value: Map) -> tuple[list[str], list[Value]]:
    return [name for name, _ in value.items], [item for _, item in value.items]


def plain(result: Result) -> Result:
    """An entity as its key; any other result as it is."""
    if isinstance(result, EntityRef):
        return result.key[0] if len(result.key) == 1 else result.key
    return result


def _is_number(value: Result) -> bool:
    return (
        isinstance(value, (int, Decimal, Fraction))
        and not isinstance(value, bool)
        and (not isinstance(value, Decimal) or value.is_finite())
    )


def _is_any_number(value: Result) -> bool:
    return _is_number(value) or isinstance(value, float)


def finite(value: Result) -> bool:
    """Whether the result is a known, finite number."""
    return _is_number(value) or (isinstance(value, float) and value - value == 0)


def time_kind(value: Result) -> str | None:
    """Which kind of time the value is; None where it is no time."""
    if isinstance(value, datetime):
        return "local" if value.tzinfo is None else "instant"
    return "day" if isinstance(value, date) else None


def distance(a: Any, b: Any) -> Fraction:
    """The first number less the second; of two times, the seconds from the second to the first."""
    if time_kind(a) is None:
        return exact(a) - exact(b)
    return Fraction((a - b) // timedelta(microseconds=1), 1_000_000)


def exact(value: Any) -> Fraction:
    """The number as a fraction."""
    return Fraction(value)


def order(a: Result, b: Result) -> int | None:
    """-1, 0 or 1; None where the two have no common order."""
    a, b = plain(a), plain(b)
    if _is_any_number(a) and _is_any_number(b):
        if any(isinstance(x, float) and math.isnan(x) for x in (a, b)):
            return None
        x, y = (side if isinstance(side, float) else exact(side) for side in (a, b))
        return int(x > y) - int(x < y)
    if isinstance(a, str) and isinstance(b, str):
        return int(a > b) - int(a < b)
    if isinstance(a, datetime) and isinstance(b, datetime):
        if (a.tzinfo is None) != (b.tzinfo is None):
            return None
        return int(a > b) - int(a < b)
    if type(a) is date and type(b) is date:
        return int(a > b) - int(a < b)
    return None


def is_text(value: Result) -> bool:
    """Whether the result is a known text."""
    return isinstance(value, str)


@lru_cache(256)
def _regex(pattern: str) -> re2._Regexp[str]:
    return compile_regex(pattern)


def apply_test(name: str, arguments: list[Any]) -> bool:
    """The truth of a test on known values of the right kinds."""
    a, b = arguments[0], arguments[1]
    match name:
        case "contains":
            return b in a
        case "mentions":
            return mentions(a, b)
        case "starts_with":
            return bool(a.startswith(b))
        case "ends_with":
            return bool(a.endswith(b))
        case "matches":
            return _regex(b).fullmatch(a) is not None
        case "search":
            return _regex(b).search(a) is not None
        case "within":
            return abs(distance(a, b)) <= exact(arguments[2])
        case _:
            pass
    raise ValueError(f"not a test: {name}")


def joins(text: str, at: int) -> bool:
    """Whether a word goes on across the place."""
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


def mentions(text: str, name: str) -> bool:
    """Whether the text names it, as it is written and not within a longer word."""
    at = text.find(name) if name else -1
    while at >= 0:
        end = at + len(name)
        if not joins(text, at) and not joins(text, end):
            return True
        at = text.find(name, at + 1)
    return False


def comparison_key(value: Result) -> Any:
    """A hashable form that is equal exactly where `equal` holds."""
    value = plain(value)
    if type(value) is int:  # hashed as the fraction it is
        return Fraction, value
    if finite(value):
        return Fraction, exact(value)
    match value:
        case tuple():
            return tuple, tuple(map(comparison_key, value))
        case Map(items=items):
            return Map, tuple((name, comparison_key(item)) for name, item in items)
        case Decimal():
            return Decimal, value.as_tuple()
        case float() if math.isnan(value):
            return object()  # not even equal to itself
        case _:
            pass
    return type(value), value


def settle(value: Result) -> Value:
    """The result as a value: an exact fraction as an integer or decimal."""
    if isinstance(value, Fraction):
        return (
            int(value)
            if value.denominator == 1
            else Decimal(value.numerator) / Decimal(value.denominator)
        )
    return value  # type: ignore[no-any-return]  # every other result here is a Value


ANY: Final = (TRUE, UNDEFINED, FALSE)
ALL: Final = (FALSE, UNDEFINED, TRUE)
"""A witness decides a quantifier, beside whatever is undefined."""
ANY_ITEM: Final = (UNDEFINED, TRUE, FALSE)
ALL_ITEMS: Final = (UNDEFINED, FALSE, TRUE)
"""A list of which an item is undefined is none."""


@lru_cache(1024)  # there are no more of such masks
def combine(ranks: tuple[int, int, int], total: int, element: int) -> int:
    """Outcomes of all elements after one more: of two, the one that ranks first."""
    mask = 0
    for a in ranks:
        for b in ranks:
            if total & a and element & b:
                mask |= min(a, b, key=ranks.index)
    return mask


def negate(mask: int) -> int:
    """The outcomes of the negation; undefined stays undefined."""
    return (mask & UNDEFINED) | (FALSE if mask & TRUE else 0) | (TRUE if mask & FALSE else 0)


def both(a: int, b: int) -> int:
    """`a and b`, left to right."""
    mask = a & ~TRUE
    return mask | b if a & TRUE else mask
