"""Multisets of rows: what was really added and removed among rows that have no key.

Rows without a key are told apart by content only. Two rows that a comparison calls equal cancel;
a row with an `Unobserved` cell may equal several others, and says nothing certain about them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from statediff.model.columns import RowChange
from statediff.model.values import Observed, Unobserved, encode, same, told_apart

MAX_COMPARISONS: Final = 1_000_000
"""Row comparisons spent on telling what is certain; beyond it nothing in doubt is certain."""


@dataclass(frozen=True)
class Item:
    """A row on one side, and its content as it is compared: canonical, within Ω."""

    change: RowChange
    content: Mapping[str, Observed]

    @property
    def unobserved(self) -> str | None:
        """The cause of the first unobserved cell; None when all are known."""
        cells = self.content.values()
        return next((cell.cause for cell in cells if isinstance(cell, Unobserved)), None)


@dataclass(frozen=True)
class Cancelled:
    """`pairs` of a removed and an added row with one content; what is left of both sides."""

    pairs: tuple[tuple[Item, Item], ...]
    removed: tuple[Item, ...]
    added: tuple[Item, ...]


def cancel(removed: Iterable[Item], added: Sequence[Item]) -> Cancelled:
    """Removed and added rows of equal and fully observed content, paired one to one in order."""
    waiting: dict[str, list[Item]] = {}
    for item in reversed(added):
        if item.unobserved is None:
            waiting.setdefault(_content(item), []).append(item)
    pairs: list[tuple[Item, Item]] = []
    left: list[Item] = []
    for item in removed:
        partners = waiting.get(_content(item)) if item.unobserved is None else None
        if partners:
            pairs.append((item, partners.pop()))
        else:
            left.append(item)
    used = {id(item) for _, item in pairs}
    return Cancelled(tuple(pairs), tuple(left), tuple(i for i in added if id(i) not in used))


def doubts_about(
    items: Sequence[Item], others: Sequence[Item], stayed: Sequence[Item]
) -> list[str | None]:
    """For each item the cause that makes its coming or going uncertain, or None if it is certain.

    An item is uncertain if a row of the other side (`others`, or `stayed` with unobserved cells on
    both) might have the same content, for what is unobserved in one of the two.
    """
    vague = [other for other in (*others, *stayed) if other.unobserved is not None]
    known = [other for other in others if other.unobserved is None]
    partly = sum(item.unobserved is not None for item in items)
    if len(items) * len(vague) + partly * len(known) > MAX_COMPARISONS:
        cause = "too many rows without a key have unobserved cells to tell them apart"
        return [cause] * len(items)
    causes: list[str | None] = []
    for item in items:
        rivals = vague if item.unobserved is None else [*vague, *known]
        rival = next((r for r in rivals if _may_equal(item, r)), None)
        causes.append(None if rival is None else (item.unobserved or rival.unobserved))
    return causes


def _content(item: Item) -> str:
    return json.dumps([encode(cell) for cell in item.content.values()])


def _may_equal(a: Item, b: Item) -> bool:
    return all(_may_be(cell, b.content[name]) for name, cell in a.content.items())


def _may_be(a: Observed, b: Observed) -> bool:
    told = told_apart(a, b)
    if told is None:
        return isinstance(a, Unobserved) or isinstance(b, Unobserved) or same(a, b)
    return told
