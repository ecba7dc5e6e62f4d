"""Values where some are not known or undefined, and what operations make of them (design.md §3).

A result is a value, a Fraction, ABSENT, a Thing, Some, NO_VALUE, or a tuple of these for a list; a
condition has the set of truths that it can have.
"""

from __future__ import annotations

import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Any, Final, NamedTuple, TypeAlias

from statediff.contract.language.kinds import compile_regex
from statediff.model import values as model
from statediff.model.batches import Row
from statediff.model.readings import Timeline
from statediff.model.state import NOT_DELIVERED, Enumeration
from statediff.model.trace import NoAnswer, RunEnding
from statediff.model.values import ABSENT, Absent, Key, Map, Unobserved, key_order

TRUE: Final = 1
FALSE: Final = 2
UNDEFINED: Final = 4
OPEN: Final = TRUE | FALSE
"""True or false, nobody knows which."""
Truths: TypeAlias = int
Result: TypeAlias = Any
Env: TypeAlias = Mapping[str, Result]
NO_VALUE: Final = object()
"""Undefined by the rules of the language."""


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
    digest: model.Digested | None = None

    @property
    def may_fail(self) -> bool:
        """An operation that needs a value may be undefined of it."""
        return self.null or self.undefined


@dataclass(frozen=True)
class Crowd:
    """Entities ranged over; with `is_open` there may be any number of others."""

    things: tuple[Thing, ...] = ()
    is_open: bool = False


class Table(NamedTuple):
    """The known rows of a type by the order of their keys, and if those are all."""

    rows: Mapping[tuple[Any, ...], tuple[Key, Row]] = {}
    enumeration: Enumeration = NOT_DELIVERED

    @property
    def is_complete(self) -> bool:
        return self.enumeration.is_complete

    def may_miss(self, key: Key) -> bool:
        """True if an entity of this key may be there, if it is not among the rows."""
        return self.enumeration.may_miss(key)


State: TypeAlias = Mapping[str, Table]
"""A type that is not in it was not observed."""


@dataclass(frozen=True)
class World:
    """The world that expressions read: states by their sides, answer, entities that changed."""

    states: Mapping[str, State]
    answer: Mapping[str, model.Observed] | NoAnswer
    changed: Mapping[tuple[str, str], Crowd] = field(default_factory=dict)
    """(created | updated | …, type) → the entities."""
    now: str = ""
    """The side that `now` is."""
    ending: RunEnding | None = None
    timeline: Timeline | None = None
    is_strict: bool = False
    """True where a value that the run wrote and nobody can read is undefined, and not unknown."""
    kept_out: frozenset[tuple[str, str]] = frozenset()
    """(type, field) of which no capture has the content."""

    def table(self, side: str, type_name: str) -> Table:
        """All that is known of the type on that side."""
        return self.states[self.now if side == "now" else side].get(type_name, Table())

    def look(self, side: str, type_name: str, parts: Iterable[Result]) -> Result:
        """The entity; absent only where all of the type are known."""
        table, key = self.table(side, type_name), tuple(map(as_stored, parts))
        found = table.rows.get(key_order(as_captured(key)))
        if found is not None:
            return Thing(self.now if side == "now" else side, type_name, key, found[1])
        return Some(null=False, undefined=True) if table.may_miss(as_captured(key)) else ABSENT


def as_stored(value: Result) -> Any:
    """An exact fraction as a value of the model."""
    if not isinstance(value, Fraction):
        return value
    whole = value.denominator == 1
    return int(value) if whole else Decimal(value.numerator) / Decimal(value.denominator)


def as_captured(parts: Iterable[Result]) -> Key:
    """The key as it was captured: a whole number however it is written."""
    stored = map(as_stored, parts)
    return tuple(
        int(p) if isinstance(p, Decimal) and p.is_finite() and p == p.to_integral_value() else p
        for p in stored
    )


# ---------------------------------------------------------------- sets of truths


def both(one: Truths, other: Truths) -> Truths:
    """`one and other`, left to right: a guard protects what stands on its right."""
    return one & ~TRUE | (other if one & TRUE else 0)


def opposite(one: Truths) -> Truths:
    """The truths of the negation; undefined stays undefined."""
    return one & UNDEFINED | (FALSE if one & TRUE else 0) | (TRUE if one & FALSE else 0)


def may(be_undefined: bool) -> Truths:
    """The truths of what is true or false, or perhaps undefined."""
    return OPEN | UNDEFINED if be_undefined else OPEN


def quantify(stop: Truths, masks: Iterable[Truths]) -> Truths:
    """`all` (FALSE stops it) or `any` (TRUE does): a witness decides, then what is undefined."""
    each, other = tuple(masks), OPEN & ~stop
    if stop in each:
        return stop
    possible = {bit for bit in (stop, UNDEFINED) if any(mask & bit for mask in each)}
    return sum(possible) | (other if all(mask & other for mask in each) else 0)


def over_items(stop: Truths, masks: Iterable[Truths]) -> Truths:
    """All or any of the items of a list; there is none where an item is undefined."""
    each, other = tuple(masks), OPEN & ~stop
    undefined = UNDEFINED if any(mask & UNDEFINED for mask in each) else 0
    stops = any(mask & stop for mask in each) and all(mask & OPEN for mask in each)
    return undefined | (stop if stops else 0) | (other if all(m & other for m in each) else 0)


def as_condition(found: Result) -> Truths:
    """The truths of a value that stands as a condition."""
    if isinstance(found, bool):
        return TRUE if found else FALSE
    return may(found.may_fail) if isinstance(found, Some) else UNDEFINED


def there(found: Result) -> Truths:
    """The truths of an entity's being there."""
    return OPEN if isinstance(found, Some) else FALSE if isinstance(found, Absent) else TRUE


# ---------------------------------------------------------------- relations


def is_nothing(found: Result) -> bool:
    """Null or absent."""
    return found is None or isinstance(found, Absent)


def plain(found: Result) -> Result:
    """An entity as its key; any other result as it is."""
    if not isinstance(found, Thing):
        return found
    return found.key[0] if len(found.key) == 1 else found.key


def place_of(found: Result) -> tuple[str, Any]:
    """The kind that the value has an order with, and its place there; "" where it has none."""
    match found := plain(found):
        case str():
            return "text", found
        case datetime():
            since = found - datetime(1970, 1, 1, tzinfo=found.tzinfo and UTC)
            place = Fraction(since // timedelta(microseconds=1), 1_000_000)
            return "local time" if found.tzinfo is None else "instant", place
        case date():
            return "day", Fraction((found - date(1970, 1, 1)).days * 86_400)
        case float() if math.isinf(found):
            return "number", found
        case float() if math.isnan(found):
            return "", None
        case bool() | Decimal() if isinstance(found, bool) or not found.is_finite():
            return "", None
        case int() | Decimal() | float() | Fraction():
            return "number", Fraction(found)
        case _:
            return "", None


def size_of(found: Result) -> Any:
    """The size of a finite number, or of a time on its scale, exact; None of anything else."""
    place = None if isinstance(found, Thing) else place_of(found)[1]
    return place if isinstance(place, Fraction) else None


def is_finite(found: Result) -> bool:
    """Known, a number, and finite."""
    return size_of(found) is not None and not isinstance(found, date)


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
    is_open = any(side.undefined for side in some)
    if NO_VALUE in sides:
        return UNDEFINED
    if op == "in":
        if not isinstance(right, tuple):
            return may(is_open or right.null) if isinstance(right, Some) else UNDEFINED
        is_lost = isinstance(left, Some) and left.undefined and left.digest is None
        none = FALSE | UNDEFINED if is_lost else FALSE
        return over_items(TRUE, (none, *(relate("==", left, item) for item in right)))
    if op == "==":
        if all(isinstance(side, tuple) for side in sides):
            alike = TRUE if len(left) == len(right) else FALSE
            pairs = zip_longest(left, right)
            return over_items(FALSE, (alike, *(relate("==", one, other) for one, other in pairs)))
        if some and not any(isinstance(side, Map | tuple) for side in sides):
            told = model.told_apart(*map(_digest, sides))
            if told is not None:
                return as_condition(told)
        return may(is_open) if some else as_condition(likeness(left) == likeness(right))
    if any(map(is_nothing, sides)):
        return UNDEFINED
    if some:
        return may(any(side.may_fail for side in some))
    sign = order(left, right)
    return UNDEFINED if sign is None else as_condition(_SIGNS[op](sign, 0))


_SIGNS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _digest(side: Result) -> Result:
    """The digest that tells an unobserved content apart; else the side as it is compared."""
    return side.digest or Unobserved("") if isinstance(side, Some) else plain(side)


def order(one: Result, other: Result) -> int | None:
    """-1, 0 or 1; None where the two have no common order."""
    (kind, a), (other_kind, b) = place_of(one), place_of(other)
    return int(a > b) - int(a < b) if kind and kind == other_kind else None


# ---------------------------------------------------------------- functions


def apply(
    function: Callable[..., Result],
    given: Sequence[Result],
    *,
    fits: Callable[[Result], bool] = lambda _: True,
    may_fail: bool = False,
) -> Result:
    """The function of the values: undefined where one is or does not fit, open where one is."""
    some = [each for each in given if isinstance(each, Some)]
    if NO_VALUE in given or not all(isinstance(each, Some) or fits(each) for each in given):
        return NO_VALUE
    may_fail = may_fail or any(each.may_fail for each in some)
    return Some(null=False, undefined=may_fail) if some else function(*given)


def measures_of(given: Iterable[Result]) -> set[str]:
    """The measure of the known values: numbers or a kind of time; "" for anything else."""
    known = [each for each in given if not isinstance(each, Some)]
    return {"" if size_of(each) is None else place_of(each)[0] for each in known}


_EXACT: Final[Mapping[str, Callable[..., Fraction]]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "%": operator.mod,
}  # fmt: skip


def arithmetic(op: str, left: Result, right: Result) -> Result:
    """Arithmetic, exact; of two times of one kind there is a difference."""
    kinds, is_open = measures_of((left, right)), isinstance(right, Some)
    if "" in kinds or len(kinds) > 1 or (kinds - {"number"} and op != "-"):
        return NO_VALUE
    if op in "/%" and not is_open and size_of(right) == 0:
        return NO_VALUE
    may_fail = op in "/%" and is_open
    return apply(lambda a, b: _EXACT[op](size_of(a), size_of(b)), (left, right), may_fail=may_fail)


def item_at(whole: Result, index: Result) -> Result:
    """The item at a computed index; absent outside the list."""
    is_index = isinstance(index, Some) or (is_finite(index) and Fraction(index).denominator == 1)
    if not isinstance(whole, tuple | Some) or not is_index:
        return NO_VALUE
    found = apply(lambda *_: ABSENT, (whole, index))
    if isinstance(found, Some) or not 0 <= index < len(whole):  # type: ignore[arg-type]  # known
        return replace(found, null=True) if isinstance(found, Some) else ABSENT
    return whole[int(index)]  # type: ignore[index]  # a list


def _mentions(text: str, name: str) -> bool:
    """The text names it, not within a longer word, whatever blanks stand between words."""
    text, name = (" ".join(each.split()) for each in (text, name))

    def goes_on(place: int) -> bool:
        return 0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum()

    places = (n for n in range(len(text)) if name and text.startswith(name, n))
    return any(not goes_on(n) and not goes_on(n + len(name)) for n in places)


TESTS: Final[Mapping[str, Callable[..., bool]]] = {
    "contains": lambda text, part: part in text,
    "mentions": _mentions,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "matches": lambda text, regex: compile_regex(regex).fullmatch(text) is not None,
    "search": lambda text, regex: compile_regex(regex).search(text) is not None,
    "within": lambda a, b, most: abs(size_of(a) - size_of(b)) <= Fraction(most),
}


def truths_of_test(name: str, given: Iterable[Result]) -> Truths:
    """A test on texts, or on two numbers or times and a number; undefined of anything else."""
    given = [plain(each) for each in given]
    if name != "within":
        return as_condition(apply(TESTS[name], given, fits=lambda each: isinstance(each, str)))
    kinds = measures_of(given[:2])
    is_sound = "" not in kinds and len(kinds) < 2 and measures_of(given[2:]) <= {"number"}
    return as_condition(apply(TESTS[name], given)) if is_sound else UNDEFINED


_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})"


def _instant(form: str, read: Callable[[str], Any], text: str) -> Result:
    """The instant that is written in just this form."""
    try:
        return read(text) if re.fullmatch(form, text) else NO_VALUE
    except ValueError:  # a 31st of February, an hour 25
        return NO_VALUE


FUNCTIONS: Final[Mapping[str, Callable[..., Result]]] = {
    "len": len,
    "lower": str.lower,
    "count": lambda text, part: text.count(part) if part else NO_VALUE,
    "date": partial(_instant, _DAY, date.fromisoformat),
    "timestamp": partial(_instant, _DAY + _TIME, datetime.fromisoformat),
}


def function(name: str, given: Sequence[Result]) -> Result:
    """A function of texts; `len` of a list, too. A text nobody has seen may be in no form."""
    may_fail = name in ("date", "timestamp") or (name == "count" and isinstance(given[1], Some))
    wanted: Any = str | tuple if name == "len" else str
    return apply(
        FUNCTIONS[name], given, fits=lambda each: isinstance(each, wanted), may_fail=may_fail
    )


# ---------------------------------------------------------------- elements, taken together


@dataclass
class Gathered:
    """The values that count for certain, and what else may count."""

    values: list[Result] = field(default_factory=list)
    doubted: list[Result] = field(default_factory=list)
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
    is_loose: bool = False
    """An element may count, or not, whatever there is of it."""
    is_wild: bool = False
    """A doubted element stands for items that nobody has seen."""

    @property
    def is_open(self) -> bool:
        """Completions may differ in what counts, or in its value."""
        is_doubted = self.is_any or self.maybe > self.undefined
        return is_doubted or any(isinstance(each, Some) for each in self.values)


class Reckoned(NamedTuple):
    """A result, with the least and the greatest that it may be where completions have such."""

    result: Result
    least: Result = None
    greatest: Result = None


def aggregate(name: str, of: Gathered | None, is_plain: bool) -> Reckoned:
    """`count`, `sum`, `min` or `max`; an empty sum is zero, and min or max of nothing undefined.

    Open and undefined elements leave it decided where every completion agrees; an undefined one
    counts 0 to 1 in a `count`.
    """
    if of is None:
        return Reckoned(NO_VALUE)
    if name == "count":
        least = len(of.values)
        greatest = None if of.is_any or of.is_uncounted else least + of.maybe
        if least == greatest and not of.is_undefined:
            return Reckoned(least, least, least)
        is_lost = of.is_undefined and not of.is_open
        found = NO_VALUE if is_lost else Some(null=False, undefined=of.is_undefined)
        return Reckoned(found) if of.may_be_none else Reckoned(found, least, greatest)
    known = [each for each in of.values if not isinstance(each, Some)]
    every = known + [each for each in of.doubted if not isinstance(each, Some)]
    some = [each for each in (*of.values, *of.doubted) if isinstance(each, Some)]
    extreme = _sum if name == "sum" else partial(_extreme, -1 if name == "min" else 1)
    if of.undefined or extreme(known) is NO_VALUE:
        return Reckoned(NO_VALUE)
    if not of.is_open:
        return Reckoned(extreme(known) if known or name == "sum" else NO_VALUE)
    may_fail = of.is_undefined or any(each.may_fail for each in some)
    may_fail |= (bool(some) or of.is_any) and not is_plain
    may_fail |= extreme(every) is NO_VALUE or (name != "sum" and not of.values)
    if may_fail:
        return Reckoned(Some(null=False, undefined=True))
    # How often an unseen element counts matters to a sum alone.
    is_bounded = not some and not (of.is_any and name == "sum")
    near, far = extreme(known) if known else None, extreme(every) if is_bounded else None
    ends = (far, near) if name == "min" else (near, far)
    if name == "sum":
        others = list(map(Fraction, every[len(known) :]))
        both_ways = [[*known, *(e for e in others if (e > 0) is up)] for up in (False, True)]
        ends = (_sum(both_ways[0]), _sum(both_ways[1])) if is_bounded else (None, None)
    is_decided = None not in ends and order(*ends) == 0
    return Reckoned(ends[name == "min"] if is_decided else Some(null=False), *ends)


def _sum(values: list[Result]) -> Result:
    return sum(map(Fraction, values), Fraction(0)) if all(map(is_finite, values)) else NO_VALUE


def _extreme(wanted: int, values: list[Result]) -> Result:
    """The first that is least (-1) or greatest (1); NO_VALUE where two have no order."""
    if any(map(is_nothing, values)):
        return NO_VALUE
    best = values[0] if values else None
    for each in values[1:]:
        sign = order(each, best)
        if sign is None:
            return NO_VALUE
        best = each if sign == wanted else best
    return best


def compare_bounds(op: str, left: Reckoned, right: Reckoned) -> Truths | None:
    """The truths that values within the bounds have; None where these say nothing.

    What is undefined and has bounds, as a count, is open beside what nobody knows yet: that may
    come to lie beyond them.
    """

    def is_below(one: Reckoned, other: Reckoned, *signs: int) -> bool:
        ends = one.greatest, other.least
        return None not in ends and order(*ends) in signs

    if not any(isinstance(side.result, Some) or side.result is NO_VALUE for side in (left, right)):
        return None
    proven = {
        "<": is_below(left, right, -1), "<=": is_below(left, right, -1, 0),
        ">": is_below(right, left, -1), ">=": is_below(right, left, -1, 0),
    }  # fmt: skip
    refuted = {"<": proven[">="], "<=": proven[">"], ">": proven["<="], ">=": proven["<"]}
    if proven.get(op) or {**refuted, "==": proven["<"] or proven[">"]}.get(op):
        return TRUE if proven.get(op) else FALSE
    is_bounded = any(s.result is NO_VALUE and s.least is not None for s in (left, right))
    if op == "in" or not is_bounded or not any(isinstance(s.result, Some) for s in (left, right)):
        return None
    return UNDEFINED | FALSE if op == "==" else UNDEFINED | OPEN


def unique(of: Gathered | None) -> Truths:
    """No two elements are equal: two that are for certain decide it."""
    if of is None:
        return UNDEFINED
    known = [likeness(each) for each in of.values if not isinstance(each, Some)]
    if len(set(known)) < len(known):
        return FALSE | UNDEFINED if of.may_be_none else FALSE
    every = [likeness(each) for each in (*of.values, *of.doubted) if not isinstance(each, Some)]
    number = len(of.values) + len(of.doubted)
    may_be_equal = of.is_any or len(set(every)) < len(every) or number > max(1, len(every))
    mask = (0 if of.undefined else TRUE) | (FALSE if may_be_equal else 0)
    return mask | (UNDEFINED if of.is_undefined else 0)


def same_items(one: Gathered | None, two: Gathered | None) -> Truths:
    """They can be equal exactly if each side fits the other (Mendelsohn and Dulmage 1958)."""
    if one is None or two is None:
        return UNDEFINED
    sides = one, two
    is_open = [of.is_loose or any(isinstance(each, Some) for each in of.values) for of in sides]
    if any(of.is_undefined and not each for of, each in zip(sides, is_open, strict=True)):
        return UNDEFINED
    mask = TRUE if _fits(one, two) and _fits(two, one) else FALSE
    mask |= FALSE if any(is_open) else 0
    return mask | UNDEFINED if one.is_undefined or two.is_undefined else mask


def _fits(one: Gathered, other: Gathered) -> bool:
    """Each item can be one of the other's, no two the same one."""
    if other.is_wild or any(isinstance(each, Some) for each in other.doubted):
        return True
    mine, theirs, perhaps = (
        Counter(likeness(each) for each in items if not isinstance(each, Some))
        for items in (one.values, other.values, other.doubted)
    )
    beyond, unseen = mine - theirs - perhaps, len(other.values) - theirs.total()
    return beyond.total() <= unseen and len(one.values) <= len(other.values) + perhaps.total()
