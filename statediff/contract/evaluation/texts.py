"""Texts, lists and instants made of other values, and tests on texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import lru_cache
from itertools import chain
from operator import contains
from typing import Any, Final

import re2

from statediff.contract.evaluation.operations import distance, exact, finite
from statediff.contract.language.context import (
    Result,
    Undefined,
    Unknown,
)
from statediff.contract.language.kinds import compile_regex
from statediff.model.explanation import Reason
from statediff.model.values import ABSENT

TEXT_FUNCTIONS: Final = frozenset({"count", "date", "lower", "timestamp"})
"""Functions of known values; `count` with a part only."""
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?"
_FORMS: Final = {
    "date": re.compile(_DAY),
    "timestamp": re.compile(_DAY + _TIME + r"(Z|[+-][0-9]{2}:[0-9]{2})"),
}
"""The one way in which each is written; nothing else is read, so nothing is guessed."""


def _open(arguments: list[Result]) -> Undefined | Unknown | None:
    """The value of the whole where an argument is undefined or not known."""
    for argument in arguments:
        if isinstance(argument, Undefined):
            return argument
    unknown = [argument for argument in arguments if isinstance(argument, Unknown)]
    if not unknown:
        return None
    causes = frozenset(chain.from_iterable(each.causes for each in unknown))
    return Unknown(causes, False, any(u.maybe_null or u.maybe_undefined for u in unknown))


def joined(left: Result, right: Result, is_text: bool) -> Result:
    """Two texts, or two lists, one after the other."""
    wanted: type = str if is_text else tuple
    for side in (left, right):
        if not isinstance(side, (Undefined, Unknown)) and not isinstance(side, wanted):
            return Undefined(Reason.NO_JOIN())
    if (found := _open([left, right])) is not None:
        return found
    return left + right


def length(value: Result) -> Result:
    """The length of a text or list."""
    if isinstance(value, Undefined):
        return value
    if isinstance(value, Unknown):
        return Unknown(value.causes, False, value.maybe_null or value.maybe_undefined)
    if isinstance(value, (str, tuple)):
        return len(value)
    return Undefined(Reason.NO_LENGTH())


def item_at(whole: Result, index: Result) -> Result:
    """The item at a computed index; absent below 0 and beyond the end."""
    if not isinstance(whole, (tuple, Undefined, Unknown)):
        return Undefined(Reason.NO_PARTS(part="[…]"))
    known = isinstance(index, (Undefined, Unknown))
    if not known and not (finite(index) and exact(index).denominator == 1):
        return Undefined(Reason.NO_INDEX())
    found = _open([whole, index])
    if isinstance(found, Unknown):
        return Unknown(found.causes, True, found.maybe_undefined)
    if found is not None:
        return found
    items: tuple[Result, ...] = tuple(whole)  # type: ignore[arg-type]  # known, so a list
    at = int(exact(index))
    return items[at] if 0 <= at < len(items) else ABSENT


def text_function(name: str, arguments: list[Result]) -> Result:
    """A function of texts."""
    for argument in arguments:
        if not isinstance(argument, (str, Undefined, Unknown)):
            return Undefined(Reason.NO_TEST(function=name))
    if (found := _open(arguments)) is not None:
        if isinstance(found, Unknown):
            # A text nobody has seen may be in no form, or be the empty part.
            may_fail = name in _FORMS or (name == "count" and isinstance(arguments[1], Unknown))
            is_wide = found.maybe_undefined or may_fail
            return Unknown(found.causes, False, is_wide)
        return found
    match name:
        case "lower":
            return arguments[0].lower()
        case "count":
            text, part = arguments
            return text.count(part) if part else Undefined(Reason.NO_EMPTY_PART())
        case _:
            return _instant(name, arguments[0])


def _instant(name: str, text: str) -> Result:
    if _FORMS[name].fullmatch(text) is not None:
        try:
            return date.fromisoformat(text) if name == "date" else datetime.fromisoformat(text)
        except ValueError:
            pass  # a 31st of February, an hour 25
    return Undefined(Reason.NO_INSTANT(function=name))


@lru_cache(256)
def _regex(pattern: str) -> re2._Regexp[str]:
    return compile_regex(pattern)


def _matches(text: str, pattern: str) -> bool:
    return _regex(pattern).fullmatch(text) is not None


def _search(text: str, pattern: str) -> bool:
    return _regex(pattern).search(text) is not None


def _within(one: Any, other: Any, most: Any) -> bool:
    return abs(distance(one, other)) <= exact(most)


def joins(text: str, at: int) -> bool:
    """True if a word goes on across the place."""
    return 0 < at < len(text) and text[at - 1].isalnum() and text[at].isalnum()


def mentions(text: str, name: str) -> bool:
    """True if the text names it, not within a longer word; any blanks stand for any others."""
    if not name.isalnum():
        text, name = " ".join(text.split()), " ".join(name.split())
    at = text.find(name) if name else -1
    while at >= 0:
        end = at + len(name)
        if not joins(text, at) and not joins(text, end):
            return True
        at = text.find(name, at + 1)
    return False


TESTS: Final[Mapping[str, Callable[..., bool]]] = {
    "contains": contains,
    "mentions": mentions,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "matches": _matches,
    "search": _search,
    "within": _within,
}
"""The truth of a test on known values of the right kinds."""
