"""Operations on evaluated results: no recursion, no names, only what three values make of them.

Numbers compare exactly whatever their kind, entities by key, everything else within its kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain, zip_longest
from operator import add, eq, ge, gt, le, lt, mod, mul, sub, truediv
from typing import Any, Final, NamedTuple

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
    not_enumerated,
)
from statediff.contract.language.syntax import CALL_TYPE, Entities, FieldOf
from statediff.model.explanation import Cause, Reason, cause
from statediff.model.paths import at, is_ambiguous
from statediff.model.state import Coverage
from statediff.model.values import (
    ABSENT,
    Absent,
    Digested,
    Excluded,
    Key,
    Map,
    Observed,
    Unobserved,
    Value,
    same,
    told_apart,
)

_EXACT: Final = (int, str)
"""Kinds that are equal to each other, and in order, as Python has it."""
_HOLDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": eq, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
_EXACTLY: Final[Mapping[str, Callable[[Fraction, Fraction], Fraction]]] = {
    "+": add, "-": sub, "*": mul, "/": truediv, "%": mod,
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
    """The digest of an unknown text in its place; anything else known as it is compared."""
    if isinstance(side, Unknown):
        return side.digest or Unobserved("nothing tells it apart")
    return plain(side)


def _member(left: Result, right: tuple[Result, ...], context: EvalContext) -> int:
    if not any(isinstance(side, Unknown) for side in (left, *right)):
        return TRUE if any(equal(left, item) for item in right) else FALSE
    # A text of which the digest is known is there, whatever it says.
    is_open = isinstance(left, Unknown) and left.maybe_undefined and left.digest is None
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
    """True if the result is a known, finite number."""
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


def order_of(value: Result) -> tuple[str, Any]:
    """Which values it has an order with, and its place among them; "" where with none."""
    value = plain(value)
    if finite(value):
        return "number", exact(value)
    if isinstance(value, float):
        return ("", None) if math.isnan(value) else ("number", value)
    if isinstance(value, str):
        return "text", value
    if isinstance(value, datetime):
        return ("local" if value.tzinfo is None else "instant"), value
    return ("date", value) if type(value) is date else ("", None)


def order(a: Result, b: Result) -> int | None:
    """-1, 0 or 1; None where the two have no common order."""
    (kind, x), (other, y) = order_of(a), order_of(b)
    return int(x > y) - int(x < y) if kind and kind == other else None


def is_known(value: Result) -> bool:
    """True of a value that every comparison decides, by itself and all through."""
    if isinstance(value, tuple):
        return all(map(is_known, value))
    if isinstance(value, EntityRef):
        return bool(value.key)
    return not isinstance(value, (Unknown, Undefined))


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


def as_condition(result: Result, context: EvalContext) -> int:
    """The outcomes of a result that stands as a condition."""
    match result:
        case True:
            return TRUE
        case False:
            return FALSE
        case Unknown():
            context.waits_for(result.causes)
            return either(result.maybe_null or result.maybe_undefined)
        case Undefined(reason):
            return context.undefined_by(reason)
        case _:
            pass
    return context.undefined_by(Reason.NO_CONDITION())


def member_by_key(left: Result, right: Entities, context: EvalContext) -> int:
    """The outcomes of `left in before.TYPE`."""
    if isinstance(left, Undefined):
        return context.undefined_by(left.reason)
    if isinstance(left, Unknown):
        context.waits_for(left.causes)
        return either(left.maybe_undefined)
    if left is None or isinstance(left, Absent):
        return FALSE
    found = look(right.root, right.entity, (plain(left),), context)
    if isinstance(found, Absent):
        return FALSE
    if isinstance(found, Unknown):
        context.waits_for(found.causes)
        return either(False)
    return TRUE


def look(side: str, entity: str, key: Key, context: EvalContext) -> Result:
    """The entity; ABSENT only where the enumeration cannot have missed it."""
    key = tuple(settle(part) for part in key)
    side = context.now if side == "now" else side
    view = context.view(side)
    enumeration = view.enumeration(entity)
    if enumeration.coverage is not Coverage.UNOBSERVED:
        captured = captured_key(key)
        row = view.row(entity, captured)
        if row is not None:
            return EntityRef(side, entity, key, row)
        if not enumeration.may_miss(captured):
            return ABSENT
    return Unknown(frozenset({not_enumerated(entity, side, enumeration)}), False, True)


def captured_key(key: Key) -> Key:
    """The key as it was captured: integral numbers look up integers however they are written."""
    return tuple(
        int(p) if isinstance(p, Decimal) and p.is_finite() and p == p.to_integral_value() else p
        for p in key
    )


def field_value(node: FieldOf, holder: Result) -> Result:
    """The field of what `node.entity` evaluated to."""
    match holder:
        case Undefined():
            return holder
        case Absent() | None:
            of_type = node.entity_type.removeprefix("@")
            return Undefined(Reason.ABSENT_ENTITY(entity_type=of_type, field=node.field))
        case Unknown():
            wide = holder.maybe_undefined or _may_lack_parts(node)
            return Unknown(holder.causes, node.is_nullable, wide)
        case _:
            pass
    if not isinstance(holder, EntityRef):
        raise TypeError(f"not an entity: {holder!r}")
    if holder.row is None:
        return Unknown(frozenset({holder.cause}), node.is_nullable, _may_lack_parts(node))
    observed: Observed = holder.row.get(node.field, ABSENT)
    for step in node.part:
        if is_ambiguous(observed, step):
            return Undefined(Reason.NO_PART(field=node.field, part=str(step)))
        if isinstance(observed, Map | tuple):
            observed = at(observed, (step,))
        elif not isinstance(observed, Unobserved):
            return Undefined(Reason.NO_PART(field=node.field, part=str(step)))
    if isinstance(observed, Unobserved):
        of_type = node.entity_type.removeprefix("@")
        why = Reason.FIELD(
            entity_type=of_type, field=node.field, side=holder.side, cause=cause(observed.cause)
        )
        if isinstance(observed, Digested) and not node.part:
            return Unknown(frozenset({why}), False, True, observed)
        return Unknown(frozenset({why}), node.is_nullable, _may_lack_parts(node))
    if isinstance(observed, Excluded):
        why = Reason.EXCLUDED(entity_type=node.entity_type, field=node.field, rule=observed.rule)
        return Unknown(frozenset({why}))
    return observed


def _may_lack_parts(node: FieldOf) -> bool:
    """True if a value of the field may have no parts, so that the one named would be undefined."""
    has_parts = (node.entity_type, node.field) == (CALL_TYPE, "arguments")
    return len(node.part) > has_parts


def arithmetic(op: str, left: Result, right: Result) -> Result:
    """`left op right`, exact; a remainder has the sign of its divisor."""
    for side in (left, right):
        if isinstance(side, Undefined):
            return side
    for side in (left, right):
        if not isinstance(side, Unknown) and not finite(side):
            return _difference(op, left, right)
    unknown = [s for s in (left, right) if isinstance(s, Unknown)]
    divides = op in ("/", "%")
    if divides and not isinstance(right, Unknown) and exact(right) == 0:
        return Undefined(Reason.DIVISION_BY_ZERO())
    if unknown:
        causes = frozenset(chain.from_iterable(u.causes for u in unknown))
        wide = any(u.maybe_null or u.maybe_undefined for u in unknown)
        return Unknown(causes, False, wide or (divides and isinstance(right, Unknown)))
    return _EXACTLY[op](exact(left), exact(right))


def _difference(op: str, left: Result, right: Result) -> Result:
    """The seconds between two times, of which one at least is known; else undefined."""
    known = [side for side in (left, right) if not isinstance(side, Unknown)]
    kinds = {time_kind(side) for side in known}
    if op != "-" or None in kinds or len(kinds) > 1:
        return Undefined(Reason.NO_NUMBER())
    for side in (left, right):
        if isinstance(side, Unknown):
            return Unknown(side.causes, False, side.maybe_null or side.maybe_undefined)
    return distance(left, right)


class Partial(NamedTuple):
    """The result over elements that nobody looked at one by one: all of them count."""

    number: int = 0
    total: int | Fraction = 0
    undefined: int = 0
    """Further elements that are undefined for certain, beside one that is looked at."""


NOTHING: Final = Partial()


@dataclass
class Collected:
    """The elements of an aggregate, and what else may count."""

    values: list[Result] = field(default_factory=list)
    """The values of the elements that count for certain."""
    holders: list[tuple[EntityRef, ...]] = field(default_factory=list)
    """The entities that each of these values is of."""
    doubted: list[Result] = field(default_factory=list)
    """The values of the elements that may count, and of those that nobody has seen."""
    maybe: int = 0
    """Elements that may count: doubtful ones, and those that are undefined."""
    undefined: int = 0
    """Elements that are undefined for certain."""
    is_any: bool = False
    """Any number of others may count."""
    is_uncounted: bool = False
    """Elements within one that is undefined: nobody knows how many."""
    reason: Cause = ""
    """Why an element is, or may be, undefined."""
    may_be_none: bool = False
    """There may be no list at all: an item of it may be undefined, or it is null."""
    causes: set[Cause] = field(default_factory=set)
    """Why there may be more, or other values."""
    shown: list[tuple[Result, tuple[EntityRef, ...]]] = field(default_factory=list)
    """The values that count, or may, in their order, each with the entities that it is of."""
    is_wild: bool = False
    """A doubted element stands for items that nobody has seen."""
    beside: Partial = NOTHING
    """The result of columns, or an index, for further elements, all of which count."""
    is_plain: bool = False
    """Any two values of an element, null apart, have an order (and numbers a sum)."""

    @property
    def is_open(self) -> bool:
        """Completions may differ in what counts, or in its value."""
        is_doubted = self.is_any or self.maybe > self.undefined
        return is_doubted or any(isinstance(each, Unknown) for each in self.values)


@dataclass(frozen=True)
class Reckoned:
    """A result, with the least and the greatest that it may be where completions have such.

    Elements that are undefined count 0 to 1 in a `count`; its bounds hold beside them.
    """

    result: Result
    least: Result = None
    greatest: Result = None

    @property
    def shown(self) -> Result:
        """The value, or the bounds of one that nobody knows."""
        return self if isinstance(self.result, (Unknown, Undefined)) else self.result


def aggregate(name: str, of: Collected) -> Reckoned:
    """`count`, `sum`, `min` or `max`; an empty sum is zero, and min or max of nothing undefined.

    Open and undefined elements leave it decided where every completion agrees.
    """
    if name == "count":
        return _count(of)
    known = [each for each in of.values if not isinstance(each, Unknown)]
    others = [each for each in of.doubted if not isinstance(each, Unknown)]
    unseen = [each for each in (*of.values, *of.doubted) if isinstance(each, Unknown)]
    if of.undefined:
        return Reckoned(Undefined(of.reason))
    extreme = _sum if name == "sum" else partial(_extreme, name)
    found, has_some = extreme(known, of.beside), bool(of.values or of.beside.number)
    if isinstance(found, Undefined) and (known or not (has_some or of.is_open)):
        return Reckoned(found)
    if not of.is_open:
        return Reckoned(found)
    every = extreme([*known, *others], of.beside)
    may_fail = (
        bool(of.reason)
        or any(each.maybe_null or each.maybe_undefined for each in unseen)
        or (not of.is_plain and (bool(unseen) or of.is_any))
        or (name != "sum" and not has_some)
        or (isinstance(every, Undefined) and bool(known or others))
    )
    causes = frozenset(of.causes)
    if may_fail:
        return Reckoned(Unknown(causes, False, True))
    # How often an unseen element counts matters to a sum alone.
    is_bounded = not unseen and not (of.is_any and name == "sum")
    if name == "sum":
        ends = [
            found + sum((side(exact(each), Fraction(0)) for each in others), Fraction(0))
            for side in (min, max)
        ]
        least, greatest = ends if is_bounded else (None, None)
    else:
        near = None if isinstance(found, Undefined) else found
        far = every if is_bounded else None
        least, greatest = (far, near) if name == "min" else (near, far)
    if least is not None and greatest is not None and order(least, greatest) == 0:
        return Reckoned(greatest if name == "min" else least, least, greatest)
    return Reckoned(Unknown(causes, False), least, greatest)


def _count(of: Collected) -> Reckoned:
    least = len(of.values) + of.beside.number
    is_bounded = not (of.is_any or of.is_uncounted)
    greatest = least + of.maybe + of.beside.undefined if is_bounded else None
    if least == greatest and not of.reason:
        return Reckoned(least, least, least)
    if of.reason and not of.is_open:
        return Reckoned(Undefined(of.reason), least, greatest)
    found = Unknown(frozenset(of.causes), False, bool(of.reason))
    return Reckoned(found) if of.may_be_none else Reckoned(found, least, greatest)


def _sum(values: list[Result], beside: Partial) -> Result:
    if any(each is None or isinstance(each, Absent) for each in values):
        return Undefined(Reason.OVER_NOTHING(function="sum"))
    if not all(map(finite, values)):
        return Undefined(Reason.SUM_OF_OTHERS())
    return sum(map(exact, values), Fraction(beside.total))


def _extreme(name: str, values: list[Result], _beside: Partial) -> Result:
    """The first that is least or greatest."""
    if any(each is None or isinstance(each, Absent) for each in values):
        return Undefined(Reason.OVER_NOTHING(function=name))
    if not values:
        return Undefined(Reason.OF_NOTHING(function=name))
    wanted = -1 if name == "min" else 1
    best = values[0]
    for each in values[1:]:
        sign = order(each, best)
        if sign is None:
            return Undefined(Reason.NO_COMMON_ORDER(function=name))
        best = each if sign == wanted else best
    return best


def compared(op: str, left: Reckoned, right: Reckoned) -> int | None:
    """The outcomes that values within the bounds have; None where these say nothing.

    What is undefined and has bounds, as a count, is open beside what nobody knows yet: that may
    come to lie beyond them.
    """
    is_open = isinstance(left.result, (Unknown, Undefined))
    if not is_open and not isinstance(right.result, (Unknown, Undefined)):
        return None
    match op:
        case "<":
            is_true, is_false = _below(left, right, -1), _below(right, left, -1, 0)
        case "<=":
            is_true, is_false = _below(left, right, -1, 0), _below(right, left, -1)
        case ">" | ">=":
            return compared("<" if op == ">" else "<=", right, left)
        case "==":
            is_true, is_false = False, _below(left, right, -1) or _below(right, left, -1)
        case _:
            return None
    if is_true or is_false:
        return TRUE if is_true else FALSE
    bounded = [s for s in (left, right) if isinstance(s.result, Undefined) and type(s.least) is int]
    if not bounded or not any(isinstance(side.result, Unknown) for side in (left, right)):
        return None
    return UNDEFINED | FALSE if op == "==" else UNDEFINED | TRUE | FALSE


def _below(one: Reckoned, other: Reckoned, *signs: int) -> bool:
    known = one.greatest is not None and other.least is not None
    return known and order(one.greatest, other.least) in signs
