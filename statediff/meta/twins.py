"""Harmless twins: differences that mean nothing, on which a verdict must not move."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import cast

from statediff.meta.reference import Change, Rows, is_known
from statediff.meta.values import fresh_key, near, with_key
from statediff.meta.world import Fault, Touched, World, put
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture, Timeline
from statediff.model.schema import EntityType, Kind
from statediff.model.values import Key, Map, Observed, Value, is_value, same

LATER = timedelta(days=3, hours=5)
APART = 100


def other_ids(world: World) -> Iterator[Fault]:
    """A created entity got another number, and all that refers to it says so."""
    for one in world.touched:
        if is_renumberable(world, one):
            changes, new = renumbered(world, one)
            sentence = f"{one.name} is numbered {new[0]!r}"
            yield replace(world.faulty("other-id", one.type, sentence, changes), is_twin=True)


def other_spelling(world: World) -> Iterator[Fault]:
    """A value is spelled in another way that ν declares to be the same."""
    book = world.compiled.book
    for use in book.uses:
        for one in (t for t in world.touched if t.type == use.type and t.after is not None):
            row = one.after or {}
            for name in use.fields:
                new = spelled(world, use.type, name, row.get(name))
                if new is not None:
                    change = put(one.key, {**row, name: new})
                    target = f"{use.type}.{name}"
                    sentence = f"{one.name}: {name} in another spelling"
                    made = world.faulty("other-spelling", target, sentence, {one.type: change})
                    yield replace(made, is_twin=True)


def outside(world: World) -> Iterator[Fault]:
    """A field outside the boundary holds something else."""
    for one in world.touched:
        entity = world.reference.types[one.type]
        row = one.after
        if row is None or not is_known(row):
            continue
        for field in entity.fields:
            if field.name in entity.key or not world.is_outside(entity.name, field.name):
                continue
            change = put(one.key, {**row, field.name: near(row[field.name], field)})
            target = f"{entity.name}.{field.name}"
            sentence = f"{one.name}: {field.name}, outside the boundary, is another"
            made = world.faulty("outside-boundary", target, sentence, {entity.name: change})
            yield replace(made, is_twin=True)


def other_day(world: World) -> Iterator[Fault]:
    """The whole trial happened later; every age is the same."""
    timeline = world.reference.timeline
    if timeline is None:
        return
    moved = replace(
        world.reference,
        timeline=_later(timeline),
        before=replace(world.reference.before, parts=_parts(world.reference.before.parts)),
        after=replace(world.reference.after, parts=_parts(world.reference.after.parts)),
    )
    yield Fault("other-day", "trial", "the trial ran some days later", moved, is_twin=True)


OPERATORS = (other_ids, other_spelling, outside, other_day)


def is_renumberable(world: World, one: Touched) -> bool:
    """Whether the run created it under a number that its answer does not tell."""
    entity = world.reference.types[one.type]
    if one.before is not None or one.after is None or not _is_numbered(entity):
        return False
    return not _mentions(world.reference.answer, one.key[0])


def renumbered(world: World, one: Touched) -> tuple[dict[str, Change], Key]:
    """The changes that give it another number, wherever it is referred to, and its new key."""
    entity = world.reference.types[one.type]
    taken = world.reference.rows(entity.name)
    new = fresh_key(entity, taken, (_top(taken) + APART,))
    return _renumbered(world, entity, one, new), new


def spelled(world: World, type_name: str, field: str, value: Observed) -> Value | None:
    """Another spelling that ν declares to be the same; None if there is none."""
    book = world.compiled.book
    kept = book.value(type_name, field, value)
    for new in _spellings(value) if is_value(kept) else ():
        if same(book.value(type_name, field, new), kept):
            return new
    return None


def _is_numbered(entity: EntityType) -> bool:
    if len(entity.key) != 1 or entity.is_association:
        return False
    return entity.by_name[entity.key[0]].kind is Kind.INT


def _top(rows: Rows) -> int:
    return max((int(key[0]) for key in rows if isinstance(key[0], int)), default=0)


def _mentions(answer: object, key: Value) -> bool:
    if isinstance(answer, Map):
        return any(_mentions(value, key) for _, value in answer.items)
    if isinstance(answer, tuple):
        return any(_mentions(value, key) for value in answer)
    return type(answer) is type(key) and answer == key


def _renumbered(world: World, entity: EntityType, one: Touched, new: Key) -> dict[str, Change]:
    def moved(rows: Rows) -> None:
        row = rows.pop(one.key, None)
        if row is not None:
            rows[new] = with_key(entity, row, new)

    changes: dict[str, Change] = {entity.name: moved}
    old = one.key[0]
    for other in world.reference.types.values():
        rows = world.reference.rows(other.name).values()
        if other.name != entity.name and any(_referring(other, r, entity.name, old) for r in rows):
            changes[other.name] = _pointing(other, entity.name, old, new[0])
    return changes


def _referring(entity: EntityType, row: Row, target: str, key: Value) -> tuple[str, ...]:
    """The fields that refer to the target's entity of that key.

    Those the schema declares, and a number right after the name of its type: a log of many types
    (`on: comment, item: 50`) cannot declare what it refers to.
    """
    declared = [f.name for f in entity.fields if f.reference == target]
    named = [
        number.name
        for name, number in pairwise(entity.fields)
        if number.reference is None and same(row.get(name.name), target)
    ]
    return tuple(name for name in (*declared, *named) if same(row.get(name), key))


def _pointing(entity: EntityType, target: str, old: Value, new: Value) -> Change:
    def change(rows: Rows) -> None:
        for key, row in list(rows.items()):
            names = _referring(entity, row, target, old)
            if names:
                pointed = {**row, **dict.fromkeys(names, new)}
                del rows[key]
                moved = tuple(cast(Value, pointed[name]) for name in entity.key)
                rows[moved or key] = pointed

    return change


def _spellings(value: Observed) -> Iterator[Value]:
    match value:
        case str():
            yield from _unlike(unicodedata.normalize("NFD", value), value)
            yield from _unlike(unicodedata.normalize("NFC", value), value)
            yield from _unlike(unicodedata.normalize("NFKC", value), value)
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


def _later(timeline: Timeline) -> Timeline:
    return replace(
        timeline,
        reset_verified_at=_moved(timeline.reset_verified_at),
        agent_started_at=_moved(timeline.agent_started_at),
        first_action_at=_moved(timeline.first_action_at),
        agent_finished_at=_moved(timeline.agent_finished_at),
        settled_at=_moved(timeline.settled_at),
    )


def _moved(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment + LATER


def _parts(parts: tuple[SourceCapture, ...]) -> tuple[SourceCapture, ...]:
    return tuple(
        replace(part, reading=replace(part.reading, as_of=part.reading.as_of + LATER))
        for part in parts
    )
