"""Counters that the system keeps by itself.

A counter that the system keeps is explained without a clause: a source says which `db.sequence`
entity counts the inserts of which type (`EntityType.counter`), and it must be exactly the greater
of what it was and the highest key that the run created. What it moved beyond that, or back, nothing
explains: a key that was given and taken back shows in a history, and else nowhere. The creations
themselves are changes like any other. A forbid clause over `db.sequence` forbids the counter all
the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from statediff.contract.language.context import FALSE, TRUE
from statediff.kernel.policy.matching import JudgingContext
from statediff.kernel.policy.relation import COME
from statediff.model.delta import Delta, Doubt, Entity, Op
from statediff.model.explanation import Cause, cause
from statediff.model.schema import COUNT, Schema
from statediff.model.values import ABSENT, Key


@dataclass(frozen=True)
class KnownMask:
    """An outcome and, where it is open, what it waits for."""

    mask: int
    causes: frozenset[Cause] = frozenset()


SURE: Final = KnownMask(TRUE)
NEVER: Final = KnownMask(FALSE)


def explained_counters(
    moved: Iterable[Delta], context: JudgingContext, created: Iterable[Delta]
) -> Iterator[tuple[Delta, KnownMask]]:
    """Each of the changes of counters that the keys of created entities explain, or may.

    `created` are deltas beside the context's own: those outside Ω, and of transactions.
    """
    counted = _counted(context.after.schema)
    come: dict[str, list[Key]] = {}
    for each in (*(d for change in context.changes for d in change.deltas), *created):
        if each.op in COME:
            come.setdefault(each.type, []).append(each.key)
    for delta in moved:
        name = counted.get(delta.key)
        ends = _ends(delta)
        if name is None or ends is None:
            continue
        keys = come.get(name, [])
        doubts = [d for d in context.doubts if d.type == name and d.path is None]
        possible = (keys, *([*keys, key] for key in _unseen(doubts, ends)))
        if any(_is_exact(ends, each) for each in possible):
            waiting = frozenset(cause(doubt.cause) for doubt in doubts)
            yield delta, KnownMask(TRUE | FALSE if waiting else TRUE, waiting)


def _counted(schema: Schema) -> dict[tuple[object, ...], str]:
    return {(t.counter,): t.name for t in schema.types if t.counter is not None}


def _ends(delta: Delta) -> tuple[int, int] | None:
    """What the counter was and is; None where it is no whole number, or is gone."""
    before: object = 0
    after: object = ABSENT
    if delta.op is Op.UPDATE and delta.path == COUNT and not delta.steps:
        before, after = delta.before, delta.after
    elif delta.op is Op.CREATE and isinstance(delta.after, Entity):
        after = dict(delta.after.fields).get(COUNT, ABSENT)
    if type(before) is not int or type(after) is not int:
        return None
    return before, after


def _is_exact(ends: tuple[int, int], keys: Iterable[Key]) -> bool:
    """Whether the counter is what it was, raised to the highest key that came."""
    before, after = ends
    listed = [key[0] for key in keys if len(key) == 1]
    numbers = [key for key in listed if type(key) is int]
    return bool(numbers) and len(numbers) == len(listed) and after == max(before, *numbers)


def _unseen(doubts: Iterable[Doubt], ends: tuple[int, int]) -> Iterator[Key]:
    """The key that the counter stands at, where a row that has it may be there unseen."""
    highest = (ends[1],)
    if any(doubt.key in (None, highest) for doubt in doubts):
        yield highest
