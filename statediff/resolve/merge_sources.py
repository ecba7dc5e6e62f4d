"""One table out of what several sources deliver of a type (docs/design.md §3, Contradiction)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.explanation import PARTED
from statediff.model.readings import Capture, SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import Coverage, Enumeration, MemoryChunks, State, Table, build_table
from statediff.model.values import (
    ABSENT,
    Digested,
    Key,
    Unobserved,
    key_order,
    same,
    show,
    show_key,
)


@dataclass(frozen=True)
class Scope:
    """What decides whose word counts: see `resolve`."""

    schema: Schema
    delivered: Mapping[str, frozenset[str]]
    authority: Mapping[str, str]
    refused: Mapping[tuple[str, str], str]
    must_report: Collection[str] | None

    def must(self, source: str) -> bool:
        return self.must_report is None or source in self.must_report


_NOTHING: Final[Mapping[str, Table]] = {}


@dataclass(frozen=True)
class Earlier:
    """The capture before the run, and the state that its sources gave together."""

    capture: Capture
    state: State


def combine(
    capture: Capture,
    side: str | None,
    scope: Scope,
    types: Collection[str] | None = None,
    known: Mapping[str, Table] = _NOTHING,
    earlier: Earlier | None = None,
) -> State:
    """The state on one side (None: between the two), out of what all its sources delivered.

    Of these `types` only, where they are named; `known` are tables that are made already. What
    sources agreed on `earlier`, and contradict each other on here, has parted in the run.
    """
    tables: dict[str, Table] = {}
    for entity in scope.schema.types:
        if types is not None and entity.name not in types:
            continue
        table = known.get(entity.name) or _one_table(capture, side, entity, scope, earlier)
        if table is not None:
            tables[entity.name] = table
    return State(scope.schema, tables)


def _one_table(
    capture: Capture,
    side: str | None,
    entity: EntityType,
    scope: Scope,
    earlier: Earlier | None,
) -> Table | None:
    """What is known of a type on one side; None where no source delivers it there."""
    parts = [
        (p.reading.source, _declared(p, entity.name))
        for p in capture.parts
        if entity.name in p.state.tables
    ]
    if len(parts) == 1 and not scope.refused:
        return parts[0][1]  # there is nobody to agree with
    sources = scope.delivered[entity.name]
    refused = {s: c for (at, s), c in sorted(scope.refused.items()) if at == side and s in sources}
    usable = [(source, table) for source, table in parts if source not in refused]
    blocking = [cause for source, cause in refused.items() if scope.must(source) or not usable]
    if blocking:
        known = parts[0][1] if parts else _empty(entity)
        return known.unobserved(blocking[0])
    if not usable:
        absent = _knows_absence(capture, scope, entity.name)
        return _empty(entity) if absent else None
    chosen = [table for source, table in usable if source == scope.authority.get(entity.name)]
    if chosen:
        return chosen[0]
    return _agree(entity, usable, _earlier_table(entity.name, usable, scope, earlier))


def _earlier_table(
    name: str, usable: list[tuple[str, Table]], scope: Scope, earlier: Earlier | None
) -> Table | None:
    """What the same sources gave together before the run, if each of them read all of the type."""
    if earlier is None:
        return None
    complete = {
        part.reading.source
        for part in earlier.capture.parts
        if name in part.state.tables
        and _declared(part, name).enumeration.is_complete
        and ("before", part.reading.source) not in scope.refused
    }
    is_same = complete == {source for source, _ in usable}
    return earlier.state.tables.get(name) if is_same else None


@lru_cache(maxsize=4096)  # a run with many transactions asks for each of them
def _empty(entity: EntityType) -> Table:
    return build_table(entity, (), MemoryChunks())


def _declared(part: SourceCapture, type_name: str) -> Table:
    """The source's table; incomplete if its reading is and it does not say which type is cut."""
    table = part.state.tables[type_name]
    if part.reading.is_complete:
        return table
    if not all(each.enumeration.is_complete for each in part.state.tables.values()):
        return table
    cause = part.reading.cause or f"the reading of {part.reading.source} is incomplete"
    return replace(table, enumeration=Enumeration(Coverage.INCOMPLETE, cause))


def _knows_absence(capture: Capture, scope: Scope, type_name: str) -> bool:
    """Whether every source of the type read all it has on this side, and the type was not there.

    That is a table made or dropped in the run.
    """
    readings = {r.source: r for r in capture.readings}
    sources = scope.schema.sources_of(type_name)
    return bool(sources) and all(
        source in readings and readings[source].is_complete for source in sources
    )


def _agree(
    entity: EntityType, parts: list[tuple[str, Table]], earlier: Table | None = None
) -> Table:
    """One table out of several: known is only what all of them know and none denies.

    `earlier` is what the same sources gave together before the run.

    If one of them could be silent and the others believed, taking evidence away could turn an
    open question into a match.
    """
    name, table = parts[0]
    for other_name, other in parts[1:]:
        if (
            table.type.fields == other.type.fields
            and table.chunks == other.chunks
            and table.enumeration == other.enumeration
        ):
            continue
        table = _merge(entity, (name, table), (other_name, other), earlier)
        name = f"{name} and {other_name}"
    return table


def _merge(
    entity: EntityType, a: tuple[str, Table], b: tuple[str, Table], earlier: Table | None
) -> Table:
    for name, table in (a, b):
        if table.enumeration.coverage is Coverage.UNOBSERVED:
            cause = table.enumeration.cause or f"{name} could not read it"
            return _empty(entity).unobserved(cause)
    left, right = _keyed(a[1]), _keyed(b[1])
    rows: list[Row] = []
    causes = [t.enumeration.cause for _, t in (a, b) if not t.enumeration.is_complete]
    are_complete = not causes
    parted: list[str] = []
    for order in sorted(left.keys() | right.keys()):
        if order in left and order in right:
            key, row = left[order]
            rows.append(_cells(entity, (a[0], row), (b[0], right[order][1]), key, earlier))
            continue
        lacking = b[0] if order in left else a[0]
        key = (left.get(order) or right[order])[0]
        what = f"{entity.name} {show_key(key)} is not in {lacking}"
        if are_complete and _agreed(earlier, key):
            parted.append(f"{PARTED}: {what}")
        else:
            causes.append(f"contradiction: {what}")
    causes = parted + causes
    enumeration = Enumeration(Coverage.INCOMPLETE, causes[0]) if causes else a[1].enumeration
    return build_table(entity, rows, MemoryChunks(), enumeration=enumeration)


def _keyed(table: Table) -> dict[Any, tuple[Key, Row]]:
    # By `key_order`: to Python the keys 1, 1.0 and True are one.
    return {key_order(key): (key, row) for key, row in table.rows()}


def _agreed(earlier: Table | None, key: Key, field: str | None = None) -> bool:
    """Whether the sources agreed on the field of the entity, or on whether there is the entity."""
    row = None if earlier is None else earlier.row(key)
    if earlier is None or row is None:
        return earlier is not None and earlier.enumeration.is_complete
    cell = None if field is None else row.get(field)
    return isinstance(cell, Digested) or not isinstance(cell, Unobserved)


def _cells(
    entity: EntityType, a: tuple[str, Row], b: tuple[str, Row], key: Key, earlier: Table | None
) -> Row:
    row: Row = {}
    for spec in entity.fields:
        held = [(s, r[spec.name]) for s, r in (a, b) if spec.name in r]
        silent = [cell for _, cell in held if isinstance(cell, Unobserved)]
        if not held:
            row[spec.name] = ABSENT
        elif silent:
            row[spec.name] = silent[0]
        elif all(same(held[0][1], cell) for _, cell in held):
            row[spec.name] = held[0][1]
        else:
            word = PARTED if _agreed(earlier, key, spec.name) else "contradiction"
            said = ", ".join(f"{s} says {show(v, 30)}" for s, v in held)
            row[spec.name] = Unobserved(f"{word}: {said}")
    return row
