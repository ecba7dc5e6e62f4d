"""The values of an entity that the run wrote, and which of them nobody can read.

A field is written where it is certainly another than before. It is unread where, besides, a capture
holds no more than its digest, or says that the run kept it from being read: the text is too long,
or it is no JSON value though programs may find one in it.
"""

from __future__ import annotations

from statediff.contract.language.context import EntityRef, EvalContext
from statediff.model.explanation import cause, is_by_agent
from statediff.model.paths import Step, Steps, at, is_ambiguous
from statediff.model.values import (
    ABSENT,
    Digested,
    Map,
    Observed,
    Unobserved,
    same,
    told_apart,
)


def is_written(held: EntityRef, field: str, part: Steps, context: EvalContext) -> bool:
    """True where a field of the entity, or the part of it, is certainly another than before."""
    before = context.before
    if held.side == "before" or held.row is None:
        return False
    if held.type.startswith("@"):
        return True  # a call, a turn or a transaction: the run made all of it
    row = before.row(held.type, held.key)
    if row is None:
        return not before.enumeration(held.type).may_miss(held.key)
    old, new = (each.get(field, ABSENT) for each in (row, held.row))
    for step in part:
        if not (_has_parts(old, step) and _has_parts(new, step)):
            break
        old, new = at(old, (step,)), at(new, (step,))
    return _is_another(old, new)


def is_unread(held: EntityRef, field: str, context: EvalContext) -> bool:
    """True where the run wrote the field, and what it wrote cannot be read."""
    cell = None if held.row is None else held.row.get(field, ABSENT)
    if isinstance(cell, Digested):
        return not _is_kept_out(held, field, context) and is_written(held, field, (), context)
    return isinstance(cell, Unobserved) and is_by_agent(cause(cell.cause))


def _is_kept_out(held: EntityRef, field: str, context: EvalContext) -> bool:
    """True where the schema keeps every content of the field out of captures."""
    known = context.after.schema.by_name.get(held.type)
    found = None if known is None else known.by_name.get(field)
    return found is not None and found.digest_above_bytes == 0


def _is_another(old: Observed, new: Observed) -> bool:
    if isinstance(new, Digested):
        # What could be read before, and cannot be now, was written since.
        is_seen = not isinstance(old, Unobserved) or isinstance(old, Digested)
        return is_seen and not told_apart(old, new)
    return (
        not isinstance(old, Unobserved) and not isinstance(new, Unobserved) and not same(old, new)
    )


def _has_parts(value: Observed, step: Step) -> bool:
    return isinstance(value, Map | tuple) and not is_ambiguous(value, step)
