"""Harmless twins: differences that mean nothing, on which a verdict must not move.

The operators in `TWINS` seed them everywhere, `recut` in other chunks. `twin_of` makes the twin of
one fault: it takes the reference, and of the place that the fault alters it changes only the
representation, in every way that is open there. It never alters what a clause may speak of:

1. the entities get chunks of their own, before the run as well where no history begins there;
2. their fields outside the boundary get another value, and those under ν another spelling;
3. an entity that the run created gets another number, and so do all references to it;
4. what the fault does and undoes is written again with its own values;
5. a source that was badly seen is seen a moment later, or page by page;
6. and the whole trial happens on another day, where no clause asks when it was.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias, cast

from statediff.contract.clauses.patterns import Pattern
from statediff.evidence.documents import TIMELINE
from statediff.meta.fault_classes import EVIDENCE_CLASSES, altered_entities, class_of, target_type
from statediff.meta.nested import nested_twins
from statediff.meta.reference import (
    MAX_ROWS,
    Change,
    Reference,
    Rows,
    is_known,
    rebuild,
    with_state,
)
from statediff.meta.world import Fault, Touched, World, fresh_key, in_turn, near, put, with_key
from statediff.model.batches import Row
from statediff.model.delta import Op
from statediff.model.readings import SourceCapture
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES, EntityType, Field, Kind
from statediff.model.state import State, Table
from statediff.model.values import ABSENT, Key, Map, Observed, Value, is_value, key_order, same

LATER: Final = timedelta(days=3, hours=5)
MOMENT: Final = timedelta(milliseconds=1)
DAYS: Final = 900
APART: Final = 100
"""How far a new number is from the highest one."""
PLACES: Final = 12
"""Entities of a fault whose representation is changed."""
FINE: Final = 50
"""Rows that get a chunk of their own, where rows are delivered one by one."""
Cut: TypeAlias = Callable[[SourceCapture], SourceCapture]


# ---------------------------------------------------------------- operators


def other_ids(world: World) -> Iterator[Fault]:
    """A created entity gets another number, and so do all references to it."""
    for one in world.touched:
        if is_renumberable(world, one):
            changes, new = renumber(world, one)
            sentence = f"{one.name} is numbered {new[0]!r}"
            yield replace(world.faulty("other-id", one.type, sentence, changes), is_twin=True)


def other_spelling(world: World) -> Iterator[Fault]:
    """A value gets another spelling that ν declares to be the same."""
    book = world.compiled.book
    for use in (use for use in book.uses if not use.steps):
        for one in (t for t in world.touched if t.type == use.type and t.after is not None):
            row = one.after or {}
            for name in use.fields:
                new = respell(world, use.type, name, row.get(name))
                if new is not None:
                    sentence = f"{one.name}: {name} in another spelling"
                    made = world.altered("other-spelling", sentence, one.row_after, name, new)
                    yield replace(made, is_twin=True)


def outside(world: World) -> Iterator[Fault]:
    """A field outside the boundary gets another value."""
    for one in world.touched:
        entity = world.reference.types[one.type]
        row = one.after
        if row is None or not is_known(row):
            continue
        for field in entity.fields:
            if field.name in entity.key or row[field.name] is ABSENT:
                continue
            if not world.is_outside(entity.name, field.name):
                continue
            sentence = f"{one.name}: {field.name}, outside the boundary, is another"
            new = near(row[field.name], field)
            made = world.altered("outside-boundary", sentence, one.row_after, field.name, new)
            yield replace(made, is_twin=True)


def other_day(world: World) -> Iterator[Fault]:
    """The whole trial happens later; every age is the same."""
    if _may_be_later(world):
        mutant = postpone(world.reference, LATER)
        yield Fault("other-day", "trial", "the trial ran some days later", mutant, is_twin=True)


def inside(world: World) -> Iterator[Fault]:
    """A place inside a value has another spelling, or another value outside the boundary."""
    yield from nested_twins(world, _spellings)


def _may_be_later(world: World) -> bool:
    """True where no clause speaks of the day, so that what the run stamped may stay as it is."""
    return world.reference.timeline is not None and not world.compiled.contract.asks_when_it_was


TWINS = (other_ids, other_spelling, outside, other_day, inside)


def recut(world: World) -> Iterator[Fault]:
    """The same rows of a type come in other chunks, before or after, or one by one."""
    for entity in world.types:
        for name, side, cuts_of in (
            ("other-chunks", _cut_after, _halves),
            ("row-chunks", _cut_after, _single_rows),
            ("other-chunks-before", _cut_before, _halves),
            ("row-chunks-before", _cut_before, _single_rows),
        ):
            mutant = side(world.reference, partial(_recut, type_name=entity.name, cuts_of=cuts_of))
            if mutant is not None:
                sentence = f"{entity.name} is delivered in other chunks"
                yield Fault(name, entity.name, sentence, mutant, is_twin=True)


# ---------------------------------------------------------------- the twin of a fault


def twin_of(fault: Fault, world: World) -> Fault:
    """The twin beside the fault; the same fault gets the same twin."""
    rng = random.Random(f"{fault.id} {fault.sentence} {world.reference.name}")  # noqa: S311 — reproducible
    fault_class = class_of(fault)
    notes: list[str] = []
    if fault_class in EVIDENCE_CLASSES:
        mutant = _observe_otherwise(fault, fault_class, world, notes)
    else:
        mutant = _represent_otherwise(fault, fault_class, world, notes)
    apart = timedelta(minutes=rng.randrange(1, DAYS * 24 * 60))
    if _may_be_later(world):
        mutant = postpone(mutant, apart)
        notes.append(f"the trial ran {apart.days} days later")
    sentence = f"{target_type(fault, world)}: {'; '.join(notes) or 'no other way to write it'}"
    return Fault(f"beside-{fault.operator}", fault.target, sentence, mutant, is_twin=True)


def _observe_otherwise(fault: Fault, fault_class: str, world: World, notes: list[str]) -> Reference:
    """The same source well seen, where it was badly seen: later by a moment, or in pages."""
    reference = world.reference
    source, _, type_name = fault.target.partition("/")
    if type_name:
        notes.append(f"{source} listed it page by page, whole")
        keys = list(reference.rows(type_name))
        return _separate(reference, {type_name: keys[1:PLACES]}, only=source)
    if fault_class == "unsettled-source" and reference.timeline is not None:
        settled = reference.timeline.settled_at
        if settled is not None:
            notes.append(f"{source} came to rest a moment later, and was read then")
            timeline = replace(reference.timeline, settled_at=settled + MOMENT)
            reference = replace(reference, timeline=timeline)
    else:
        notes.append(f"{source} was read a moment later")
    # All of them: clauses across sources need readings after a common rest.
    parts = tuple(_postpone_part(part, MOMENT) for part in reference.after.parts)
    return replace(reference, after=replace(reference.after, parts=parts))


def _represent_otherwise(
    fault: Fault, fault_class: str, world: World, notes: list[str]
) -> Reference:
    reference = world.reference
    places = _places(fault, world)
    if fault_class == "transient-effect":
        passed = reference.passing(dict.fromkeys(places, _rewrite))
        if passed is not None:
            notes.append("it was written again as it stands")
            return passed
    changes = dict(_respell_places(world, places, notes))
    mutant = reference.edited(changes) if changes else reference
    renumbered = _renumber_places(world, mutant, places)
    if renumbered is not None:
        notes.append("what was created has another number")
        mutant = renumbered
    notes.append("it is delivered in other chunks")
    return _separate(mutant, places)


def _places(fault: Fault, world: World) -> dict[str, list[Key]]:
    """The entities that the fault alters and that the reference knows, by type."""
    found: dict[str, list[Key]] = {}
    altered = altered_entities(world.reference, fault.mutant)
    for name, key in sorted(altered, key=repr)[:PLACES]:
        found.setdefault(name, []).append(key)
    if not found:
        name = target_type(fault, world)
        keys = list(world.reference.rows(name))[:PLACES] if name in world.reference.types else []
        found = {name: keys} if keys else {}
    return found


def _rewrite(rows: Rows) -> None:
    """Every row is written again with the values it has at that moment."""
    for key, row in list(rows.items()):
        rows[key] = dict(row)


def _respell_places(
    world: World, places: Mapping[str, list[Key]], notes: list[str]
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
                if field.name in entity.key or row[field.name] is ABSENT:
                    continue
                if world.is_outside(name, field.name):
                    new[field.name] = near(row[field.name], field)
                    continue
                spelling = respell(world, name, field.name, row[field.name])
                if spelling is not None and not _is_forbidden(world, name, field.name):
                    new[field.name] = spelling
            if new != row:
                changes.append(put(key, new))
        if changes:
            notes.append(f"{name} in another spelling, or another outside the boundary")
            yield name, in_turn(*changes)


def _is_forbidden(world: World, type_name: str, field: str) -> bool:
    """True if a clause forbids any update of the field, another spelling too: ν hides none."""
    return any(
        isinstance(clause, Pattern)
        and Op.UPDATE in clause.operations
        and type_name in clause.types
        and (clause.fields is None or field in clause.fields)
        for clause in world.compiled.contract.forbid
    )


def _renumber_places(
    world: World, mutant: Reference, places: Mapping[str, list[Key]]
) -> Reference | None:
    """The mutant in which an entity of these types that the run created has another number."""
    for one in world.touched:
        if one.type in places and is_renumberable(world, one):
            changes, _ = renumber(world, one)
            return mutant.edited(changes)
    return None


# ---------------------------------------------------------------- another day


def postpone(reference: Reference, apart: timedelta) -> Reference:
    """The trial with every instant of its own clock later by as much; every age is the same."""

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
        replace(side, parts=tuple(_postpone_part(part, apart) for part in side.parts))
        for side in (reference.before, reference.after)
    )
    line = reference.timeline
    moved: dict[str, Any] = {step: later(getattr(line, step)) for step in TIMELINE if line}
    return replace(
        reference,
        before=before,
        after=replace(after, history=history),
        timeline=line and replace(line, **moved),
    )


def _postpone_part(part: SourceCapture, apart: timedelta) -> SourceCapture:
    return replace(part, reading=replace(part.reading, as_of=part.reading.as_of + apart))


# ---------------------------------------------------------------- other chunks


def _separate(
    reference: Reference, places: Mapping[str, list[Key]], only: str | None = None
) -> Reference:
    """The same rows, each entity of the places at the head of a chunk; after and before."""

    def cut(part: SourceCapture) -> SourceCapture:
        if only in (None, part.reading.source):
            for name, keys in places.items():
                part = _recut(part, name, partial(_cuts_at, keys))
        return part

    reference = _cut_after(reference, cut) or reference
    return _cut_before(reference, cut) or reference


def _cut_after(reference: Reference, cut: Cut) -> Reference | None:
    """The reference with every part after cut; None where that changes nothing."""
    parts = tuple(cut(part) for part in reference.after.parts)
    if all(new is old for new, old in zip(parts, reference.after.parts, strict=True)):
        return None
    return reference.with_parts(parts)


def _cut_before(reference: Reference, cut: Cut) -> Reference | None:
    """The same before the run.

    A history begins at its own base: a source that has one is cut at its end only.
    """
    based = {reading.source for reading in reference.after.history.readings}
    sides = reference.before.parts
    parts = tuple(part if part.reading.source in based else cut(part) for part in sides)
    if all(new is old for new, old in zip(parts, sides, strict=True)):
        return None
    return replace(reference, before=replace(reference.before, parts=parts))


def _recut(
    part: SourceCapture, type_name: str, cuts_of: Callable[[Table], tuple[Key, ...]]
) -> SourceCapture:
    """The source with the type's rows in chunks that begin at the cuts; itself if they do."""
    table = part.state.tables.get(type_name)
    if table is None or table.type.is_keyless or not table.enumeration.is_complete:
        return part
    cuts = cuts_of(table) if 1 < table.row_count <= MAX_ROWS else table.partition
    if cuts == table.partition:
        return part
    made = rebuild(replace(table, partition=cuts), [row for _, row in table.rows()])
    return with_state(part, State(part.state.schema, {**part.state.tables, type_name: made}))


def _cuts_at(keys: list[Key], table: Table) -> tuple[Key, ...]:
    cuts = {key_order(key): key for key in (*table.partition, *keys)}
    return tuple(cuts[order] for order in sorted(cuts))


def _halves(table: Table) -> tuple[Key, ...]:
    keys = [key for key, _ in table.rows()]
    return (keys[len(keys) // 2],)


def _single_rows(table: Table) -> tuple[Key, ...]:
    return tuple(key for key, _ in table.rows())[1:FINE]


# ---------------------------------------------------------------- other numbers


def is_renumberable(world: World, one: Touched) -> bool:
    """True if the run created it under a number, and whatever mentions that number is known.

    Words that hold the number, or a number beside no name of the type, may refer to the entity or
    not: the twin that keeps them would contradict itself, so it is not made.
    """
    reference = world.reference
    entity = reference.types[one.type]
    if one.before is not None or one.after is None or not _has_number(entity):
        return False
    if _is_structure(entity):
        return False
    if entity.counter is not None:  # the counter says which number came: another contradicts it
        return False
    number = one.key[0]
    is_said: list[object] = [reference.answer]
    if world.compiled.contract.steps or world.compiled.contract.turns:
        is_said += [part for a in reference.trace.actions for part in (a.arguments, a.result)]
    return not any(_holds(said, number) for said in is_said) and all(
        name in _references(reference.types[other.type], other.after, entity, number)
        for other in world.touched
        if other.after is not None
        for name in _mentions(world, other, entity, number)
    )


def renumber(world: World, one: Touched) -> tuple[dict[str, Change], Key]:
    """The changes that give it another number, and all references to it; and its new key."""
    entity = world.reference.types[one.type]
    taken = world.reference.rows(entity.name)
    new = fresh_key(entity, taken, (_top(taken) + APART,))

    def move(rows: Rows) -> None:
        row = rows.pop(one.key, None)
        if row is not None:
            rows[new] = with_key(entity, row, new)

    changes: dict[str, Change] = {entity.name: move}
    old = one.key[0]
    for other in world.reference.types.values():
        rows = world.reference.rows(other.name).values()
        if any(_references(other, r, entity, old) for r in rows):
            moved = changes.get(other.name)
            pointing = _repoint(other, entity, old, new[0])
            changes[other.name] = pointing if moved is None else in_turn(moved, pointing)
    return changes, new


def _has_number(entity: EntityType) -> bool:
    if len(entity.key) != 1 or entity.is_association:
        return False
    return entity.by_name[entity.key[0]].kind is Kind.INT


def _top(rows: Rows) -> int:
    return max((int(key[0]) for key in rows if isinstance(key[0], int)), default=0)


def _holds(said: object, number: Value) -> bool:
    """True if a value has the number in it: as a number, or as digits of a text."""
    match said:
        case Map():
            return any(_holds(part, number) for item in said.items for part in item)
        case tuple():
            return any(_holds(part, number) for part in said)
        case str():
            return re.search(rf"(?<![0-9]){number!s}(?![0-9])", said) is not None
        case _:
            return type(said) is type(number) and said == number


def _mentions(world: World, other: Touched, target: EntityType, number: Value) -> Iterator[str]:
    """The fields within the boundary that hold the number, and may mean the entity by it."""
    for field in _speaking(world.reference.types[other.type], target):
        if _holds((other.after or {}).get(field.name), number) and not world.is_outside(
            other.type, field.name
        ):
            yield field.name


def _speaking(entity: EntityType, target: EntityType) -> Iterator[Field]:
    """The fields that may speak of the target's entities.

    A reference to another type does not, nor a key of the entity's own that is called as the
    target's is. Structure speaks of types by name, and its numbers are places.
    """
    for field in entity.fields:
        is_own = entity.key == (field.name,) and field.name == target.key[0]
        is_said = field.reference == target.name
        if is_said or not (is_own or field.reference or _is_structure(entity)):
            yield field


def _is_structure(entity: EntityType) -> bool:
    """True if its entities are parts of a system, which numbers them by their place."""
    return entity.name.startswith(SCHEMA_OBJECT_PREFIXES)


def _references(entity: EntityType, row: Row, target: EntityType, number: Value) -> tuple[str, ...]:
    """The fields that refer to the target's entity of that number.

    Those the schema declares, and the one that holds the number, or its digits and nothing else, in
    a row that names the type: a log of many types (`on: comment, item: 50`) cannot declare what it
    refers to.
    """
    plain = [
        field
        for field in _speaking(entity, target)
        if any(same(row.get(field.name), form) for form in (number, str(number)))
    ]
    declared = [field.name for field in plain if field.reference == target.name]
    named = [field.name for field in plain if field.reference is None]
    types = {target.name.casefold(), target.source_table.casefold()}
    is_named = any(isinstance(v, str) and v.casefold() in types for v in row.values())
    return tuple(declared + (named if is_named and len(named) == 1 else []))


def _repoint(entity: EntityType, target: EntityType, old: Value, new: Value) -> Change:
    def change(rows: Rows) -> None:
        for key, row in list(rows.items()):
            names = _references(entity, row, target, old)
            if names:
                moved = {n: str(new) if isinstance(row[n], str) else new for n in names}
                pointing = {**row, **moved}
                del rows[key]
                own = tuple(cast(Value, pointing[name]) for name in entity.key)
                rows[own or key] = pointing

    return change


# ---------------------------------------------------------------- other spellings


def respell(world: World, type_name: str, field: str, value: Observed) -> Value | None:
    """Another spelling that ν declares to be the same; None if there is none."""
    book = world.compiled.book
    canonical = book.value(type_name, field, value)
    for new in _spellings(value) if is_value(canonical) else ():
        if same(book.value(type_name, field, new), canonical):
            return new
    return None


def _spellings(value: Observed) -> Iterator[Value]:
    match value:
        case str():
            for form in ("NFD", "NFC", "NFKC"):
                yield from _unlike(unicodedata.normalize(form, value), value)
            yield from _unlike(value.swapcase(), value)
            yield f" {value} "
        case datetime():
            yield value + timedelta(microseconds=1)
            yield value + timedelta(milliseconds=300)
        case Decimal():
            yield from _unlike(value.quantize(value.scaleb(-2)), value)
        case tuple():
            yield from _unlike(tuple(reversed(value)), value)
        case _:
            return


def _unlike(candidate: Value, value: Value) -> Iterator[Value]:
    if not same(candidate, value):
        yield candidate
