"""The differences inside two values: objects by key, lists by index, down to the leaf.

A list that a rule of ν keys is compared by the keys of its items, a multiset as one value. A list
that has a key on one side only is one difference: its items have nothing to be compared by.

The comparison pairs nothing by similarity: an item that was inserted into a list moves all behind
it, and each of them differs. What to show a person of that is another question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Final, TypeAlias, cast

from statediff.model.json_values import as_nested
from statediff.model.paths import Indexes, Item, Step, Steps, at, members
from statediff.model.values import (
    ABSENT,
    Absent,
    Map,
    Observed,
    Unordered,
    Value,
    is_value,
    order_key,
    same,
)

Side = Value | Absent
"""A value, or absent: the key or the index is not there."""


class CapturedValue:
    """A value as captured, which is read once, however many places inside it are asked for."""

    def __init__(self, raw: Observed) -> None:
        self.value = as_nested(raw)
        self._indexes: Indexes = {}

    def at(self, steps: Steps) -> Observed:
        """The value at the place; absent where there is none."""
        return at(self.value, steps, self._indexes)


@dataclass(frozen=True)
class Change:
    """One place at which two values differ. At least one side is a value."""

    steps: Steps
    before: Side
    after: Side


MAX_PLACES: Final = 1000
"""Values that differ in more places are one difference: nobody reads more, or lists them."""


def places_that_differ(before: Observed, after: Observed) -> tuple[Change, ...] | None:
    """The differences of two objects, or of two lists; None where it is one difference of all."""
    found = tuple(islice(all_differences(before, after), MAX_PLACES + 1))
    return found if 0 < len(found) <= MAX_PLACES and found[0].steps else None


def differences(before: Side, after: Side) -> tuple[Change, ...]:
    """`all_differences` of two values, at once."""
    return tuple(all_differences(before, after))


def all_differences(before: Observed, after: Observed, steps: Steps = ()) -> Iterator[Change]:
    """The deepest places at which the two differ, in order; none where they are the same.

    A member or item that is on one side only is one difference, with all that is inside it; so is
    one that is an object on one side and a list or a scalar on the other, and a marker.
    """
    if isinstance(before, Map) and isinstance(after, Map):
        left, right = dict(before.items), dict(after.items)
        for name in sorted({**left, **right}):  # both are in order: this is a merge
            one, other = left.get(name, ABSENT), right.get(name, ABSENT)
            yield from all_differences(one, other, (*steps, name))
    elif isinstance(before, Unordered) and isinstance(after, Unordered) and before.key:
        items, others = dict(members(before)), dict(members(after))
        for step in sorted(items.keys() | others.keys(), key=step_order):
            one, other = items.get(step, ABSENT), others.get(step, ABSENT)
            yield from all_differences(one, other, (*steps, step))
    elif _has_indexes(before) and _has_indexes(after):
        pairs = zip_longest(before, after, fillvalue=ABSENT)  # type: ignore[arg-type]  # lists of values, as the kind says
        for index, (one, other) in enumerate(pairs):
            yield from all_differences(one, other, (*steps, index))
    elif not same(before, after):
        yield Change(steps, cast(Side, before), cast(Side, after))


Forms: TypeAlias = tuple[Observed, Observed]
"""A value under ν, and under the equality of its type alone."""


def hidden_differences(before: Forms, after: Forms, steps: Steps = ()) -> Iterator[Change]:
    """The deepest places at which two values differ under their type's equality, and not under ν.

    The sides of each change are those under ν.
    """
    values = (*before, *after)
    known: Indexes = {}
    (one, plain), (other, changed) = before, after
    if same(plain, changed):
        return
    if all(isinstance(value, Map) for value in values):
        for name in sorted({name for value in values if isinstance(value, Map) for name in value}):
            yield from _hidden_at(values, (name,), steps, known)
    elif isinstance(one, Unordered) and isinstance(other, Unordered):
        yield from _hidden_in_list((one, plain), (other, changed), steps)
    elif all(_has_indexes(value) for value in values):
        for index in range(min(len(value) for value in values if isinstance(value, tuple))):
            yield from _hidden_at(values, (index,), steps, known)
    elif same(one, other):
        yield Change(steps, cast(Side, one), cast(Side, other))


def _hidden_at(
    values: Sequence[Observed], inner: Steps, steps: Steps, known: Indexes
) -> Iterator[Change]:
    one, plain, other, changed = (at(value, inner, known) for value in values)
    yield from hidden_differences((one, plain), (other, changed), (*steps, *inner))


def _hidden_in_list(
    before: tuple[Unordered, Observed], after: tuple[Unordered, Observed], steps: Steps
) -> Iterator[Change]:
    """The changes of a keyed list: each item by its key, then the order of those on both sides."""
    one, other = before[0], after[0]
    if not one.key:
        if same(one, other):
            yield Change(steps, one, other)
        return
    known: Indexes = {}
    common = dict(members(one)).keys() & dict(members(other)).keys()
    for step in sorted(common, key=step_order):
        if ABSENT in [at(value, (step,), known) for value in (*before, *after)]:
            for name in one.key:  # a rule spells the key itself
                part = cast(Side, at(one, (step, name), known))
                yield Change((*steps, step, name), part, part)
        else:
            yield from _hidden_at((*before, *after), (step,), steps, known)
    orders = [
        [found for item in items if (found := Item.at(one.key, item)) and found in common]
        for items in (before[1], after[1])
        if isinstance(items, tuple)
    ]
    if len(orders) == 2 and orders[0] != orders[1]:
        yield Change(steps, one, other)


def _has_indexes(value: Observed) -> bool:
    return isinstance(value, tuple) and not isinstance(value, Unordered)


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
    """The order of places: items by index or by what tells them apart, then members by key."""
    match step:
        case int():
            return (0, step, "")
        case Item():
            first = step.parts[0][1]
            number = int(first) if first.lstrip("-").isdecimal() else 0
            return (2, number, ",".join(f"{name}={value}" for name, value in step.parts))
        case _:
            return (1, 0, step)


def _applied(value: Side, steps: Steps, change: Change) -> Side:
    if not steps:
        if not same(value, change.before):
            raise ValueError(f"{list(change.steps)}: another value is there")
        return change.after
    first, rest = steps[0], steps[1:]
    if isinstance(value, Map) and isinstance(first, str):
        held = dict(value.items)
        inner = _applied(held.pop(first, ABSENT), rest, change)
        return Map.of({**held, first: inner} if is_value(inner) else held)  # type: ignore[dict-item]  # a value, just checked
    if isinstance(value, Unordered) and isinstance(first, Item) and first.key == value.key:
        items = dict(members(value))
        inner = _applied(items.pop(first, ABSENT), rest, change)
        found = [*items.values(), *(() if isinstance(inner, Absent) else (inner,))]
        return keyed(tuple(found), value.key)
    if isinstance(value, tuple) and isinstance(first, int) and first <= len(value):
        there = value[first] if first < len(value) else ABSENT
        inner = _applied(there, rest, change)
        if isinstance(inner, Absent):
            if first != len(value) - 1:
                raise ValueError(f"{list(change.steps)}: only a list's end can go")
            return value[:first]
        return (*value[:first], inner, *value[first + 1 :])
    raise ValueError(f"{list(change.steps)}: there is no such place")


def keyed(items: tuple[Value, ...], key: tuple[str, ...]) -> tuple[Value, ...]:
    """The list without its order, where `key` tells each item from all others; else as it is."""
    steps = [Item.at(key, item) for item in items]
    if None in steps or len(set(steps)) < len(steps):
        return tuple(items)
    by = sorted(items, key=lambda item: [order_key(at(item, (name,))) for name in key])  # type: ignore[arg-type]  # lists of values, as the kind says
    return Unordered(by, key)
