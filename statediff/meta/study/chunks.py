"""Twins that came in other chunks: the same rows, cut in other places."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from statediff.meta.reference import MAX_ROWS, rebuilt, with_state
from statediff.meta.world import Fault, World
from statediff.model.readings import SourceCapture
from statediff.model.state import State
from statediff.model.values import Key

FINE: Final = 50
"""Rows that get a chunk of their own, where rows are delivered one by one."""


def recut(world: World) -> Iterator[Fault]:
    """Twins: the same rows of a type came in other chunks, before or after, or one by one."""
    reference = world.reference
    # A history is told from its own base: a source that has one is cut anew at its end only.
    told = {reading.source for reading in reference.after.history.readings}
    for entity in world.types:
        for name, side, cut in (
            ("other-chunks", reference.after, _halved),
            ("row-chunks", reference.after, _one_by_one),
            ("other-chunks-before", reference.before, _halved),
            ("row-chunks-before", reference.before, _one_by_one),
        ):
            parts = tuple(
                part
                if side is reference.before and part.reading.source in told
                else _recut(part, entity.name, cut)
                for part in side.parts
            )
            if all(new is old for new, old in zip(parts, side.parts, strict=True)):
                continue
            if side is reference.after:
                mutant = reference.with_parts(parts)
            else:
                mutant = replace(reference, before=replace(reference.before, parts=parts))
            sentence = f"{entity.name} is delivered in other chunks"
            yield Fault(name, entity.name, sentence, mutant, is_twin=True)


def _recut(
    part: SourceCapture, type_name: str, cut: Callable[[list[Key]], tuple[Key, ...]]
) -> SourceCapture:
    """The source with the type's rows in chunks that begin at the cuts; itself if they do."""
    table = part.state.tables.get(type_name)
    if table is None or not table.enumeration.is_complete or not 1 < table.row_count <= MAX_ROWS:
        return part
    rows = dict(table.rows())
    cuts = cut(list(rows))
    if table.type.is_keyless or cuts == table.partition:
        return part
    made = rebuilt(replace(table, partition=cuts), rows.values())
    return with_state(part, State(part.state.schema, {**part.state.tables, type_name: made}))


def _halved(keys: list[Key]) -> tuple[Key, ...]:
    return (keys[len(keys) // 2],)


def _one_by_one(keys: list[Key]) -> tuple[Key, ...]:
    return tuple(keys[1:FINE])
