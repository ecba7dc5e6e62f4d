"""What differs inside two values: objects by key, lists by index, down to the leaf.

The comparison pairs nothing by similarity: an item that was inserted into a list moves all behind
it, and each of them differs. What to show a person of that is another question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final

from statediff.model.paths import Step, Steps
from statediff.model.values import ABSENT, Absent, Map, Observed, Value, is_value, same

Side = Value | Absent
"""A value, or absent: the key or the index is not there."""


@dataclass(frozen=True)
class Change:
    """One place at which two values differ. At least one side is a value."""

    steps: Steps
    before: Side
    after: Side


MAX_PLACES: Final = 1000
"""Values that differ in more places are one difference: nobody reads more, or lists them."""


def places_that_differ(before: Observed, after: Observed) -> tuple[Change, ...] | None:
    """`differences` of two objects, or of two lists; None where it is one difference of all."""
    for kind in (Map, tuple):
        if isinstance(before, kind) and isinstance(after, kind):
            found = tuple(islice(_differences(before, after, ()), MAX_PLACES + 1))
            return found if len(found) <= MAX_PLACES else None
    return None


def differences(before: Side, after: Side) -> tuple[Change, ...]:
    """The deepest places at which the two differ, in order; none where they are the same.

    A member or item that is on one side only is one difference, with all that is inside it; so is
    one that is an object on one side and a list or a scalar on the other.
    """
    return tuple(_differences(before, after, ()))


def _differences(before: Side, after: Side, steps: Steps) -> Iterator[Change]:
    if isinstance(before, Map) and isinstance(after, Map):
        left, right = dict(before.items), dict(after.items)
        for name in sorted(left.keys() | right.keys()):
            yield from _differences(left.get(name, ABSENT), right.get(name, ABSENT), (*steps, name))
    elif isinstance(before, tuple) and isinstance(after, tuple):
        pairs = zip_longest(before, after, fillvalue=ABSENT)
        for index, (one, other) in enumerate(pairs):
            yield from _differences(one, other, (*steps, index))
    elif not same(before, after):
        yield Change(steps, before, after)


def apply(value: Side, changes: Iterable[Change]) -> Side:
    """The value with each change made: `apply(a, differences(a, b))` is `b`.

    Raises `ValueError` where a place is not as the change says it was.
    """
    for change in _in_applicable_order(changes):
        value = _applied(value, change.steps, change)
    return value


def _in_applicable_order(changes: Iterable[Change]) -> list[Change]:
    """Items that go are taken from the end of their list, whatever order the changes have."""
    found = sorted(changes, key=lambda change: [step_order(step) for step in change.steps])
    gone = [change for change in found if isinstance(change.after, Absent)]
    return [*(c for c in found if not isinstance(c.after, Absent)), *reversed(gone)]


def step_order(step: Step) -> tuple[int, int, str]:
    """The order of places: items by index, then members by key."""
    return (0, step, "") if isinstance(step, int) else (1, 0, step)


def _applied(value: Side, steps: Steps, change: Change) -> Side:
    if not steps:
        if not same(value, change.before):
            raise ValueError(f"{list(change.steps)}: another value is there")
        return change.after
    first, rest = steps[0], steps[1:]
    if isinstance(value, Map) and isinstance(first, str):
        members = dict(value.items)
        inner = _applied(members.pop(first, ABSENT), rest, change)
        return Map.of({**members, first: inner} if is_value(inner) else members)  # type: ignore[dict-item]
    if isinstance(value, tuple) and isinstance(first, int) and first <= len(value):
        there = value[first] if first < len(value) else ABSENT
        inner = _applied(there, rest, change)
        if isinstance(inner, Absent):
            if first != len(value) - 1:
                raise ValueError(f"{list(change.steps)}: only a list's end can go")
            return value[:first]
        return (*value[:first], inner, *value[first + 1 :])
    raise ValueError(f"{list(change.steps)}: there is no such place")
