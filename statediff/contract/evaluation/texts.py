"""Texts, lists and instants made of other values, tests on texts, lists compared as multisets."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import re2

from statediff.contract.evaluation.gathering import MAYBE, bindings
from statediff.contract.evaluation.operations import comparison_key, distance, exact, finite
from statediff.contract.language.context import (
    FALSE,
    TRUE,
    UNDEFINED,
    EntityRef,
    Env,
    EvalContext,
    Evaluator,
    Result,
    Seen,
    Undefined,
    Unknown,
)
from statediff.contract.language.kinds import compile_regex
from statediff.contract.language.syntax import Call, Comprehension, Node
from statediff.model.explanation import Cause, Reason
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
    """What the whole is where an argument is undefined or not known."""
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


# ---------------------------------------------------------------- multisets


@dataclass
class _Bag:
    """The items of a list: those it has, and those it may have beside them."""

    sure: Counter[Any] = field(default_factory=Counter)
    """How often it has each known value."""
    unseen: int = 0
    """Items it has whose values are not known."""
    perhaps: Counter[Any] = field(default_factory=Counter)
    """Known values that it may have or not."""
    is_open: bool = False
    """Whether it may have any further items."""
    causes: set[Cause] = field(default_factory=set)
    may_be_undefined: bool = False
    undefined: Cause = ""
    """Why it is undefined for certain."""
    shown: tuple[Result, ...] = ()
    holders: tuple[EntityRef, ...] = ()

    @property
    def size(self) -> int:
        """How many items it has at least."""
        return self.sure.total() + self.unseen

    def fits(self, other: _Bag) -> bool:
        """Whether each item that this has can be one of the other's, no two the same one."""
        if other.is_open:
            return True
        beyond = self.sure - other.sure - other.perhaps
        return beyond.total() <= other.unseen and self.size <= other.size + other.perhaps.total()


def same_items(by: Evaluator, node: Call, context: EvalContext, env: Env) -> int:
    """The outcomes of `same_items`.

    Equal in some completion: each side's items can be matched into the other's, and then one
    matching does both (Mendelsohn and Dulmage 1958).
    """
    one, two = (_bag(by, argument, context, env) for argument in node.arguments)
    for bag in (one, two):
        if bag.undefined:
            return context.undefined_by(bag.undefined)
    causes = one.causes | two.causes
    mask = TRUE if one.fits(two) and two.fits(one) else FALSE
    if causes:
        context.waits_for(causes)
        mask |= FALSE
    if one.may_be_undefined or two.may_be_undefined:
        mask |= UNDEFINED
    if context.trail is not None:
        things = one.holders + two.holders
        context.trail.seen.append(Seen(node, one.shown, two.shown, mask, things))
    return mask


def _bag(by: Evaluator, argument: Node, context: EvalContext, env: Env) -> _Bag:
    bag = _Bag()
    if isinstance(argument, Comprehension):
        return _gathered(by, argument, context, env)
    listed = by.evaluate(argument, context, env)
    if isinstance(listed, Undefined):
        bag.undefined = listed.reason
    elif isinstance(listed, Unknown):
        bag.is_open, bag.shown = True, (listed,)
        bag.causes.update(listed.causes)
        bag.may_be_undefined = listed.maybe_null or listed.maybe_undefined
    elif not isinstance(listed, tuple):
        bag.undefined = Reason.NO_LIST()
    else:
        bag.shown = listed
        for item in listed:
            _put(bag, item, is_sure=True)
    return bag


def _gathered(by: Evaluator, body: Comprehension, context: EvalContext, env: Env) -> _Bag:
    bag = _Bag()
    shown: list[Result] = []
    reason: Cause = ""
    mark = context.mark()
    for inner, mask, more in bindings(by, body.loops, context, env, bag.causes):
        is_sure = mask == TRUE and not more
        reason = reason or (MAYBE if mask & UNDEFINED else "")
        value = inner if isinstance(inner, Undefined) else by.evaluate(body.element, context, inner)
        if isinstance(value, Undefined):
            reason = value.reason if reason in ("", MAYBE) else reason
            continue
        held = [] if isinstance(inner, Undefined) else [inner[loop.name] for loop in body.loops]
        if not is_sure and any(map(_is_some, held)):
            bag.is_open = True
            bag.may_be_undefined |= isinstance(value, Unknown) and value.maybe_undefined
            continue
        _put(bag, value, is_sure=is_sure)
        shown.append(value)
        bag.holders += tuple(each for each in held if isinstance(each, EntityRef))[:1]
    # Conditions over a whole type would fill the witness with entities that decide nothing.
    context.forget(mark)
    bag.shown = tuple(shown)
    if reason and not bag.causes:
        bag.undefined = reason
    bag.may_be_undefined |= bool(reason)
    return bag


def _is_some(item: Result) -> bool:
    """Whether the item stands for any number of others that nobody has seen."""
    return isinstance(item, Unknown) or (isinstance(item, EntityRef) and not item.key)


def _put(bag: _Bag, item: Result, *, is_sure: bool) -> None:
    if isinstance(item, Unknown):
        bag.causes.update(item.causes)
        bag.may_be_undefined |= item.maybe_undefined
        if is_sure:
            bag.unseen += 1
        else:
            bag.is_open = True
        return
    key = comparison_key(item)
    (bag.sure if is_sure else bag.perhaps)[key] += 1
