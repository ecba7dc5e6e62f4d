"""The order of statements in which a system's own keys hold after each of them.

A row goes before the row that it refers to, and comes after it; what frees a unique value goes
before what takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from statediff.meta.reach import values_of
from statediff.model.schema import EntityType
from statediff_lab.importers.recorded import SeededChange


def in_order_of_keys(
    changes: Sequence[SeededChange], types: Sequence[EntityType]
) -> list[SeededChange]:
    """The changes, each after those that it needs; as they are where they need one another."""
    tables = {entity.source_table: entity for entity in types}
    named = {entity.name: entity for entity in types}
    foreign = [(entity, key) for entity in types if entity.rules for key in entity.rules.foreign]
    freed: dict[Any, int] = {}
    taken: dict[Any, int] = {}
    graph: dict[int, set[int]] = {number: set() for number in range(len(changes))}
    for number, change in enumerate(changes):
        entity = tables[change.type]
        unique = entity.rules.unique if entity.rules else ()
        targets = [key.targets for _, key in foreign if key.type == entity.name]
        for names in {entity.key, *unique, *targets} - {()}:
            was, now = _places(change, entity, names, entity, names)
            if was != now:
                freed[was], taken[now] = number, number
    for place, number in taken.items():
        if place in freed and place[2] is not None:
            graph[number].add(freed[place])
    for number, change in enumerate(changes):
        for entity, key in foreign:
            if entity.source_table == change.type and key.type in named:
                was, now = _places(change, entity, key.fields, named[key.type], key.targets)
                if was != now and was[2] is not None and was in freed:
                    graph[freed[was]].add(number)
                if was != now and now[2] is not None and now in taken:
                    graph[number].add(taken[now])
    try:
        ordered = TopologicalSorter({n: needed - {n} for n, needed in graph.items()})
        return [changes[number] for number in ordered.static_order()]
    except CycleError:
        return [*changes]


def _places(
    change: SeededChange,
    entity: EntityType,
    names: Sequence[str],
    target: EntityType,
    targets: Sequence[str],
) -> tuple[Any, Any]:
    """The row's values in the fields before and after, as a row of the target has them."""
    columns = tuple(entity.by_name[name].source_column for name in names)
    was, now = (
        (target.name, tuple(targets), None if row is None else values_of(row, columns))
        for row in (change.before, change.after)
    )
    return was, now
