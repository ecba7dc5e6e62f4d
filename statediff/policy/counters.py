"""Counters that the system keeps: the highest key that it ever gave to an entity of a type.

A source says which `db.sequence` entity counts the inserts of which type (`EntityType.counter`).
Such a counter needs no clause: it is explained where it is exactly the greater of what it was and
the highest key that the run created. What it moved beyond that, or back, nothing explains: a key
that was given and taken back shows in a history, and else nowhere. The creations themselves are
changes like any other. A forbid clause over `db.sequence` forbids the counter all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from statediff.contract.language.context import FALSE, TRUE
from statediff.model.delta import Delta, Entity, Op
from statediff.model.explanation import cause
from statediff.model.schema import Schema
from statediff.model.values import ABSENT
from statediff.policy.cascade import KnownMask
from statediff.policy.matching import COME, JudgingContext

TYPE: Final = "db.sequence"
_VALUE: Final = "value"


def explained_counters(
    context: JudgingContext, created: Iterable[Delta] = ()
) -> Iterator[tuple[Delta, KnownMask]]:
    """Each change of a counter that the keys of created entities explain, or may.

    `created` are deltas beside the context's own: those outside Ω, and of transactions.
    """
    moved = [d for change in context.changes for d in change.deltas if d.type == TYPE]
    if not moved:
        return
    counted = _counted(context.after.schema)
    known = [*(d for change in context.changes for d in change.deltas), *created]
    for delta in moved:
        name = counted.get(delta.key)
        if name is None or not _is_exact(delta, (d for d in known if d.type == name)):
            continue
        waiting = frozenset(
            cause(doubt.cause)
            for doubt in context.doubts
            if doubt.type == name and doubt.path is None
        )
        yield delta, KnownMask(TRUE | FALSE if waiting else TRUE, waiting)


def _counted(schema: Schema) -> dict[tuple[object, ...], str]:
    return {(t.counter,): t.name for t in schema.types if t.counter is not None}


def _is_exact(delta: Delta, others: Iterable[Delta]) -> bool:
    """Whether the counter is what it was, raised to the highest key that came."""
    keys = [d.key[0] for d in others if d.op in COME and len(d.key) == 1]
    numbers = [key for key in keys if type(key) is int]
    if not numbers or len(numbers) < len(keys):
        return False
    if delta.op is Op.UPDATE and delta.path == _VALUE and not delta.steps:
        before, after = delta.before, delta.after
    elif delta.op is Op.CREATE and isinstance(delta.after, Entity):
        before, after = 0, dict(delta.after.fields).get(_VALUE, ABSENT)
    else:
        return False
    return type(before) is int and type(after) is int and after == max(before, *numbers)
