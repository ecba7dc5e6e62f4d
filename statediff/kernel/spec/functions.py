"""Functions of values: arithmetic, aggregates, texts, parts of values, lists as multisets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fractions import Fraction
from functools import partial
from typing import Any, Final

from statediff.contract.language.kinds import compile_regex
from statediff.contract.language.syntax import CALL_TYPE, FieldOf
from statediff.kernel.spec.values import (
    FALSE,
    NO_VALUE,
    TRUE,
    UNDEFINED,
    Gathered,
    NoValue,
    Result,
    Some,
    Truths,
    is_finite,
    is_nothing,
    likeness,
    may,
    order,
    plain,
)
from statediff.model.paths import Step, at, is_ambiguous
from statediff.model.values import ABSENT, Digested, Excluded, Map, Observed, Unobserved


def field_value(node: FieldOf, holder: Result) -> Result:
    """The field of an entity; `node.part` is the way to the place inside it."""
    if is_nothing(holder) or isinstance(holder, NoValue):
        return NO_VALUE
    # A value nobody has seen may lack the part; the arguments of a call are always an object.
    lacks = len(node.part) > ((node.entity_type, node.field) == (CALL_TYPE, "arguments"))
    if isinstance(holder, Some) or holder.row is None:
        is_absent = isinstance(holder, Some) and holder.undefined
        return Some(node.is_nullable, is_absent or lacks)
    held: Observed = holder.row.get(node.field, ABSENT)
    for step in node.part:
        if not isinstance(held, Unobserved):
            if is_ambiguous(held, step) or not isinstance(held, Map | tuple):
                return NO_VALUE
            held = at(held, (step,))
    if isinstance(held, Digested) and not node.part:
        return Some(null=False, undefined=True, digest=held)
    if isinstance(held, Unobserved):
        return Some(node.is_nullable, lacks)
    return Some() if isinstance(held, Excluded) else held


def part_of(whole: Result, step: Step) -> Result:
    """The part inside a value that is no field."""
    if isinstance(whole, Some):
        return Some(undefined=True)
    is_part = isinstance(whole, Map | tuple) and not is_ambiguous(whole, step)
    return at(whole, (step,)) if is_part else NO_VALUE


def item_at(whole: Result, index: Result) -> Result:
    """The item at a computed index; absent outside the list."""
    is_list = isinstance(whole, tuple | Some)
    is_index = isinstance(index, Some) or (is_finite(index) and Fraction(index).denominator == 1)
    if not is_list or not is_index:
        return NO_VALUE
    found = unless_open((whole, index))
    if isinstance(found, Some):
        return Some(null=True, undefined=found.undefined)
    place = int(index)
    return whole[place] if 0 <= place < len(whole) else ABSENT


# ---------------------------------------------------------------- functions


def unless_open(given: Iterable[Result]) -> NoValue | Some | None:
    """The result of a function of these where one is undefined or not known."""
    if NO_VALUE in (listed := list(given)):
        return NO_VALUE
    some = [each for each in listed if isinstance(each, Some)]
    may_fail = any(each.null or each.undefined for each in some)
    return Some(null=False, undefined=may_fail) if some else None


def measure_of(found: Result) -> str | None:
    """What the value is measured in: numbers, instants, local times or days; None: nothing."""
    if isinstance(found, datetime):
        return "local time" if found.tzinfo is None else "instant"
    return "day" if isinstance(found, date) else "number" if is_finite(found) else None


def size_of(found: Result) -> Fraction:
    """A number; of a time the seconds since some moment, the same for all of its kind."""
    if isinstance(found, datetime):
        since = found - datetime(1970, 1, 1, tzinfo=found.tzinfo and UTC)
    elif isinstance(found, date):
        since = found - date(1970, 1, 1)
    else:
        return Fraction(found)
    return Fraction(since.days * 86_400 + since.seconds) + Fraction(since.microseconds, 1_000_000)


def arithmetic(op: str, left: Result, right: Result) -> Result:
    """Arithmetic, exact."""
    known = [side for side in (left, right) if not isinstance(side, Some)]
    kinds = {measure_of(side) for side in known}
    if None in kinds or len(kinds) > 1 or (kinds - {"number"} and op != "-"):
        return NO_VALUE
    if op == "/" and not isinstance(right, Some) and Fraction(right) == 0:
        return NO_VALUE
    found = unless_open((left, right))
    if isinstance(found, Some):
        return Some(
            null=False, undefined=found.undefined or (op == "/" and isinstance(right, Some))
        )
    x, y = size_of(left), size_of(right)
    return x / y if op == "/" else {"+": x + y, "-": x - y, "*": x * y}[op]


def concatenation(sides: tuple[Result, Result], wanted: type) -> Result:
    """Two texts, or two lists, one after the other."""
    if not all(isinstance(side, wanted | Some) for side in sides):
        return NO_VALUE
    found = unless_open(sides)
    return sides[0] + sides[1] if found is None else found


@dataclass(frozen=True)
class Reckoned:
    """A result, with the least and the greatest that it may be where completions have such.

    Elements that are undefined count 0 to 1 in a `count`; its bounds hold beside them.
    """

    result: Result
    least: Result = None
    greatest: Result = None


def aggregate(name: str, of: Gathered | None, is_plain: bool) -> Reckoned:
    """`count`, `sum`, `min` or `max`; an empty sum is zero, and min or max of nothing undefined.

    Open and undefined elements leave it decided where every completion agrees.
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
    others = [each for each in of.doubted if not isinstance(each, Some)]
    some = [each for each in (*of.values, *of.doubted) if isinstance(each, Some)]
    extreme = _sum if name == "sum" else partial(_extreme, -1 if name == "min" else 1)
    if of.undefined or extreme(known) is NO_VALUE:
        return Reckoned(NO_VALUE)
    if not of.is_open:
        return Reckoned(extreme(known) if known or name == "sum" else NO_VALUE)
    may_fail = of.is_undefined or any(each.null or each.undefined for each in some)
    may_fail |= (bool(some) or of.is_any) and not is_plain
    may_fail |= extreme([*known, *others]) is NO_VALUE or (name != "sum" and not of.values)
    if may_fail:
        return Reckoned(Some(null=False, undefined=True))
    # How often an unseen element counts matters to a sum alone.
    is_bounded = not some and not (of.is_any and name == "sum")
    if name == "sum":
        gains = [max(Fraction(each), Fraction(0)) for each in others]
        losses = [min(Fraction(each), Fraction(0)) for each in others]
        ends = (_sum([*known, *losses]), _sum([*known, *gains])) if is_bounded else (None, None)
    else:
        near = extreme(known) if known else None
        far = extreme([*known, *others]) if is_bounded else None
        ends = (far, near) if name == "min" else (near, far)
    is_decided = None not in ends and order(*ends) == 0
    decided = ends[1] if name == "min" else ends[0]
    return Reckoned(decided if is_decided else Some(null=False), *ends)


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


def compared(op: str, left: Reckoned, right: Reckoned) -> Truths | None:
    """The truth that all values within the bounds have; None where there is no such."""

    def is_below(one: Reckoned, other: Reckoned, *signs: int) -> bool:
        ends = one.greatest, other.least
        return None not in ends and order(*ends) in signs

    if not any(isinstance(side.result, Some | NoValue) for side in (left, right)):
        return None
    match op:
        case "<":
            return TRUE if is_below(left, right, -1) else _unless(is_below(right, left, -1, 0))
        case "<=":
            return TRUE if is_below(left, right, -1, 0) else _unless(is_below(right, left, -1))
        case ">" | ">=":
            return compared({">": "<", ">=": "<="}[op], right, left)
        case "==":
            return _unless(is_below(left, right, -1) or is_below(right, left, -1))
        case _:
            return None


def _unless(is_refuted: bool) -> Truths | None:
    return FALSE if is_refuted else None


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
    mask = 0 if of.undefined else TRUE
    return mask | (FALSE if may_be_equal else 0) | (UNDEFINED if of.is_undefined else 0)


def _mentions(text: str, name: str) -> bool:
    """The text names it, as it is written and not within a longer word."""

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


def _is_text(found: Result) -> bool:
    return isinstance(found, str)


def _is_most(found: Result) -> bool:
    return isinstance(found, Some) or is_finite(found)


def truths_of_test(name: str, given: list[Result]) -> Truths:
    """A test on texts or numbers; undefined of anything else."""
    given = [plain(each) for each in given]
    known = [each for each in given if not isinstance(each, Some)]
    if name != "within":
        is_sound = all(map(_is_text, known))
    else:
        kinds = {measure_of(each) for each in given[:2] if not isinstance(each, Some)}
        is_sound = None not in kinds and len(kinds) < 2 and all(map(_is_most, given[2:]))
    if not is_sound:
        return UNDEFINED
    found = unless_open(given)
    if isinstance(found, Some):
        return may(be_undefined=found.undefined)
    return TRUE if TESTS[name](*given) else FALSE


_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_ZONE: Final = r"(Z|[+-][0-9]{2}:[0-9]{2})"


def _instant(form: str, read: Callable[[str], Any]) -> Callable[[str], Result]:
    """A reader of instants that are written in just this form."""

    def instant(text: str) -> Result:
        try:
            return read(text) if re.fullmatch(form, text) else NO_VALUE
        except ValueError:  # a 31st of February, an hour 25
            return NO_VALUE

    return instant


FUNCTIONS: Final[Mapping[str, Callable[..., Result]]] = {
    "len": lambda sized: len(sized) if isinstance(sized, str | tuple) else NO_VALUE,
    "lower": str.lower,
    "count": lambda text, part: text.count(part) if part else NO_VALUE,
    "date": _instant(_DAY, date.fromisoformat),
    "timestamp": _instant(_DAY + _TIME + _ZONE, datetime.fromisoformat),
}


def function(name: str, given: list[Result]) -> Result:
    """A function of values, where all are known; those of texts are undefined of anything else."""
    if name != "len" and not all(isinstance(t, str | Some) for t in given):
        return NO_VALUE
    found = unless_open(given)
    if isinstance(found, Some):
        # A text nobody has seen may be in no form, or be the empty part.
        is_form = name in ("date", "timestamp")
        may_fail = is_form or (name == "count" and isinstance(given[1], Some))
        return Some(null=False, undefined=found.undefined or may_fail)
    return NO_VALUE if found is not None else FUNCTIONS[name](*given)


# ---------------------------------------------------------------- lists as multisets


@dataclass
class Bag:
    """The items of a list: known ones, unseen ones, known ones that it may have, any further."""

    sure: Counter[Any] = field(default_factory=Counter)
    unseen: int = 0
    perhaps: Counter[Any] = field(default_factory=Counter)
    is_any: bool = False
    is_open: bool = False
    is_undefined: bool = False

    def put(self, item: Result, *, is_sure: bool) -> None:
        """Add an item that is there, or may be."""
        if not isinstance(item, Some):
            (self.sure if is_sure else self.perhaps)[likeness(item)] += 1
            return
        self.is_open, self.is_undefined = True, self.is_undefined or item.undefined
        self.unseen, self.is_any = self.unseen + is_sure, self.is_any or not is_sure

    def fits(self, other: Bag) -> bool:
        """True where each item can be one of the other's, no two the same one."""
        beyond, size = self.sure - other.sure - other.perhaps, self.sure.total() + self.unseen
        most = other.sure.total() + other.unseen + other.perhaps.total()
        return other.is_any or (beyond.total() <= other.unseen and size <= most)


def same_items(one: Bag, two: Bag) -> Truths:
    """Equal in some completion where each side fits the other (Mendelsohn and Dulmage 1958)."""
    if any(bag.is_undefined and not bag.is_open for bag in (one, two)):
        return UNDEFINED
    mask = TRUE if one.fits(two) and two.fits(one) else FALSE
    mask |= FALSE if one.is_open or two.is_open else 0
    return mask | UNDEFINED if one.is_undefined or two.is_undefined else mask
