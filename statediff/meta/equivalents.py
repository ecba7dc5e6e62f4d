"""The harmless twin beside a fault: the same place told in another way, which means the same.

A twin never alters what a clause may speak of. It takes the reference, and of the place that the
fault alters it changes the representation only, in every way that is open there:

1. the entities get chunks of their own, before the run as well where no history is told from there;
2. their fields outside the boundary hold something else, and those under ν are spelled otherwise;
3. an entity that the run created gets another number, and all that refers to it says so;
4. what is done and undone is done again as it stands, where a fault of the run did it;
5. a source that was not seen as it should was seen a moment later, or page by page;
6. and the whole trial happens on another day.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from statediff.meta import twins
from statediff.meta.fault_classes import EVIDENCE, altered, kind_of, target_type
from statediff.meta.reference import (
    MAX_ROWS,
    Change,
    Reference,
    Rows,
    is_known,
    rebuilt,
    with_state,
)
from statediff.meta.values import near
from statediff.meta.world import Fault, World, both, put
from statediff.model.readings import SourceCapture, Timeline
from statediff.model.state import State
from statediff.model.values import Key, key_order

MOMENT: Final = timedelta(milliseconds=1)
PLACES: Final = 12
"""Entities of a fault whose representation is changed."""
DAYS: Final = 900


def twin_of(fault: Fault, world: World) -> Fault:
    """The twin beside the fault; the same fault gets the same twin."""
    rng = random.Random(f"{fault.id} {fault.sentence} {world.reference.name}")  # noqa: S311 — reproducible
    reference, kind = world.reference, kind_of(fault)
    told: list[str] = []
    if kind in EVIDENCE:
        mutant = _seen_otherwise(fault, kind, world, told)
    else:
        mutant = _told_otherwise(fault, kind, world, told)
    apart = timedelta(minutes=rng.randrange(1, DAYS * 24 * 60))
    if reference.timeline is not None:
        mutant = moved(mutant, apart)
        told.append(f"the trial ran {apart.days} days later")
    sentence = f"{target_type(fault, world)}: {'; '.join(told) or 'nothing can be told otherwise'}"
    return Fault(f"beside-{fault.operator}", fault.target, sentence, mutant, is_twin=True)


def moved(reference: Reference, apart: timedelta) -> Reference:
    """The trial with every instant of its own clock later by as much; every age is the same."""
    line = reference.timeline

    def later(moment: datetime | None) -> datetime | None:
        return None if moment is None else moment + apart

    history = reference.after.history
    history = replace(
        history,
        readings=tuple(replace(each, as_of=each.as_of + apart) for each in history.readings),
        transactions=tuple(
            replace(each, committed_at=later(each.committed_at)) for each in history.transactions
        ),
    )
    before, after = (
        replace(side, parts=tuple(_read_later(part, apart) for part in side.parts))
        for side in (reference.before, reference.after)
    )
    return replace(
        reference, before=before, after=replace(after, history=history),
        timeline=None if line is None else _shifted(line, later),
    )  # fmt: skip


def _shifted(line: Timeline, later: Callable[[datetime | None], datetime | None]) -> Timeline:
    return replace(
        line,
        reset_verified_at=later(line.reset_verified_at),
        agent_started_at=later(line.agent_started_at),
        first_action_at=later(line.first_action_at),
        agent_finished_at=later(line.agent_finished_at),
        settled_at=later(line.settled_at),
    )


def _seen_otherwise(fault: Fault, kind: str, world: World, told: list[str]) -> Reference:
    """What was not seen as it should is seen all the same: later by a moment, or in pages."""
    reference = world.reference
    source, _, type_name = fault.target.partition("/")
    if type_name:
        told.append(f"{source} listed it page by page, whole")
        keys = list(reference.rows(type_name))
        return _apart(reference, {type_name: keys[1:PLACES]}, only=source)
    if kind == "unsettled-source" and reference.timeline is not None:
        settled = reference.timeline.settled_at
        if settled is not None:
            told.append(f"{source} came to rest a moment later, and was read then")
            reference = replace(
                reference, timeline=replace(reference.timeline, settled_at=settled + MOMENT)
            )
    else:
        told.append(f"{source} was read a moment later")
    # All of them: clauses across sources need readings after a common rest.
    parts = tuple(_read_later(part, MOMENT) for part in reference.after.parts)
    return replace(reference, after=replace(reference.after, parts=parts))


def _read_later(part: SourceCapture, apart: timedelta) -> SourceCapture:
    return replace(part, reading=replace(part.reading, as_of=part.reading.as_of + apart))


def _told_otherwise(fault: Fault, kind: str, world: World, told: list[str]) -> Reference:
    reference = world.reference
    places = _places(fault, world)
    if kind == "transient-effect":
        passed = reference.passing(dict.fromkeys(places, _as_it_stands))
        if passed is not None:
            told.append("it was written again as it stands")
            return passed
    respelled = dict(_respelled(world, places, told))
    mutant = reference.edited(respelled) if respelled else reference
    numbered = _numbered(world, mutant, places)
    if numbered is not None:
        told.append("what was created has another number")
        mutant = numbered
    told.append("it is delivered in other chunks")
    return _apart(mutant, places)


def _places(fault: Fault, world: World) -> dict[str, list[Key]]:
    """The entities that the fault alters and that the reference knows, by type."""
    found: dict[str, list[Key]] = {}
    for name, key in sorted(altered(world.reference, fault.mutant), key=repr)[:PLACES]:
        found.setdefault(name, []).append(key)
    if not found:
        name = target_type(fault, world)
        keys = list(world.reference.rows(name))[:PLACES] if name in world.reference.types else []
        found = {name: keys} if keys else {}
    return found


def _as_it_stands(rows: Rows) -> None:
    """Every row is written again as it stands at that moment, which the end may not be."""
    for key, row in list(rows.items()):
        rows[key] = dict(row)


def _respelled(
    world: World, places: Mapping[str, list[Key]], told: list[str]
) -> Iterator[tuple[str, Change]]:
    """Another spelling under ν, and other values outside the boundary, of the places' fields."""
    for name, keys in places.items():
        entity, rows = world.reference.types[name], world.reference.rows(name)
        changes: list[Change] = []
        for key in keys:
            row = rows.get(key)
            if row is None or not is_known(row):
                continue
            new = dict(row)
            for field in entity.fields:
                if field.name in entity.key:
                    continue
                if world.is_outside(name, field.name):
                    new[field.name] = near(row[field.name], field)
                    continue
                spelled = twins.spelled(world, name, field.name, row[field.name])
                if spelled is not None:
                    new[field.name] = spelled
            if new != row:
                changes.append(put(key, new))
        if changes:
            told.append(f"{name} in another spelling, or another outside the boundary")
            yield name, both(*changes)


def _numbered(world: World, mutant: Reference, places: Mapping[str, list[Key]]) -> Reference | None:
    """The mutant in which an entity of these types that the run created has another number."""
    for one in world.touched:
        if one.type in places and twins.is_renumberable(world, one):
            changes, _ = twins.renumbered(world, one)
            return mutant.edited(changes)
    return None


def _apart(
    reference: Reference, places: Mapping[str, list[Key]], only: str | None = None
) -> Reference:
    """The same rows, each entity of the places at the head of a chunk; after, and before as well.

    A history is told from its own base: a source that has one is cut anew at its end only.
    """
    told = {reading.source for reading in reference.after.history.readings}
    before = tuple(
        part if part.reading.source in told or only not in (None, part.reading.source)
        else _cut(part, places)
        for part in reference.before.parts
    )  # fmt: skip
    after = tuple(
        part if only not in (None, part.reading.source) else _cut(part, places)
        for part in reference.after.parts
    )
    cut = reference.with_parts(after)
    return replace(cut, before=replace(cut.before, parts=before))


def _cut(part: SourceCapture, places: Mapping[str, list[Key]]) -> SourceCapture:
    tables = dict(part.state.tables)
    for name, keys in places.items():
        table = tables.get(name)
        if table is None or table.type.is_keyless or not table.enumeration.is_complete:
            continue
        if not 1 < table.row_count <= MAX_ROWS:
            continue
        cuts = {key_order(key): key for key in (*table.partition, *keys)}
        partition = tuple(cuts[order] for order in sorted(cuts))
        rows = [row for _, row in table.rows()]
        tables[name] = rebuilt(replace(table, partition=partition), rows)
    if tables == part.state.tables:
        return part
    return with_state(part, State(part.state.schema, tables))
