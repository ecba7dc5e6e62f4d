"""A structured value as the lines of a tree; of two that differ, what differs and where.

Each line is one member or item. Of a pair, lines that are alike and lead to no difference are
folded into one that counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final

from statediff.model.nested import places_that_differ
from statediff.model.paths import Steps, members, render
from statediff.model.values import Observed, show

LINES: Final = 60
"""Lines of one tree; one more says that it goes on."""
DEEP: Final = 12
_SCALAR: Final = 120


@dataclass(frozen=True)
class Line:
    """One line; `style` is differs, fold, or empty."""

    depth: int
    text: str
    style: str = ""


@dataclass(frozen=True)
class _Place:
    depth: int
    steps: Steps
    text: str


def tree(value: Observed) -> tuple[Line, ...]:
    """The members of an object or a list, level by level; empty of anything else."""
    return _bounded(Line(place.depth, place.text) for place in _places(value, (), 0))


def both_trees(before: Observed, after: Observed) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """The trees of two objects, or of two lists, that differ; empty of anything else."""
    changes = places_that_differ(before, after)
    if changes is None:
        return (), ()
    changed = frozenset(change.steps for change in changes)
    leading = frozenset(steps[:n] for steps in changed for n in range(len(steps)))
    one, two = (
        _bounded(_folded(_places(side, (), 0), changed, leading)) for side in (before, after)
    )
    return one, two


def _places(value: Observed, steps: Steps, depth: int) -> Iterator[_Place]:
    for step, inner in members(value):
        here = (*steps, step)
        label = _short(render("", (step,)).removeprefix('""').removeprefix("."))
        has_more = next(members(inner), None) is not None
        is_cut = has_more and depth + 1 == DEEP
        ending = ": …" if is_cut else "" if has_more else f": {show(inner, _SCALAR)}"
        yield _Place(depth, here, f"{label}{ending}")
        if has_more and not is_cut:
            yield from _places(inner, here, depth + 1)


def _folded(
    places: Iterable[_Place], changed: frozenset[Steps], leading: frozenset[Steps]
) -> Iterator[Line]:
    def style(place: _Place) -> str:
        if any(place.steps[:n] in changed for n in range(1, len(place.steps) + 1)):
            return "differs"
        return "" if place.steps in leading else "fold"

    for kind, run in groupby(places, style):
        group = list(run)
        if kind == "fold" and len(group) > 1:
            yield Line(min(place.depth for place in group), f"… {len(group):,} alike", "fold")
        else:
            yield from (Line(place.depth, place.text, kind) for place in group)


def _bounded(lines: Iterable[Line]) -> tuple[Line, ...]:
    first = tuple(islice(lines, LINES + 1))
    if len(first) <= LINES:
        return first
    return (*first[:LINES], Line(0, "… more; the bundle has all of it", "fold"))


def _short(label: str) -> str:
    return label if len(label) <= _SCALAR else f"{label[:_SCALAR]}…"
