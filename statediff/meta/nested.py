"""Faults inside values: what else a wrong run may write into an object or list that it changed.

What ν makes the same, and what lies outside Ω, is no fault but a harmless twin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Final, cast

from statediff.meta.reference import is_known
from statediff.meta.world import Fault, Touched, World, near
from statediff.model.json_values import as_nested, write_json
from statediff.model.nested import Change, Side, all_differences, apply, differences
from statediff.model.paths import Steps, at, places, render
from statediff.model.schema import NESTED, EntityType, Field, Kind
from statediff.model.values import ABSENT, Map, Observed, Value, same
from statediff.model.view import ComparisonView

MAX_PER_FIELD: Final = 3


@dataclass(frozen=True)
class _Written:
    """An object or a list that the run wrote, and what was there before."""

    one: Touched
    entity: EntityType
    field: Field
    value: Value
    before: Side


def nested_changes(world: World) -> Iterator[Fault]:
    """Another place of an object or list that the run wrote is not as it was."""
    for written in _written(world):
        for operator, change in _alterations(world, written.value, written.before):
            fault = _fault(world, operator, written, change)
            if not _is_harmless(world, written, change):
                yield fault


def nested_twins(world: World, spellings: Callable[[Observed], Iterator[Value]]) -> Iterator[Fault]:
    """A place inside a value is written as ν allows, or lies outside Ω and is another."""
    for written in _written(world):
        done: set[tuple[str, Steps]] = set()
        for operator, change in _harmless(world, written, spellings):
            place = (operator, change.steps)
            if place not in done and _is_harmless(world, written, change):
                done.add(place)
                yield replace(_fault(world, operator, written, change), is_twin=True)


def _harmless(
    world: World, written: _Written, spellings: Callable[[Observed], Iterator[Value]]
) -> Iterator[tuple[str, Change]]:
    """For each rule inside the field, and each order that a rule takes, the changes to try."""
    own = (written.entity.name, written.field.name)
    for use in world.compiled.book.uses:
        if use.type != own[0] or own[1] not in use.fields or use.rule.is_removal:
            continue
        for steps in places(written.value, use.steps):
            held = cast(Side, at(written.value, steps))
            for other in spellings(held) if use.steps or use.rule.unorders else ():
                yield "other-spelling", Change(steps, held, other)
    for where in world.compiled.removed(*own):
        for steps in places(written.value, where):
            held = cast(Side, at(written.value, steps))
            yield "outside-boundary", Change(steps, held, near(held, Field("", Kind.TEXT)))


def _written(world: World) -> Iterator[_Written]:
    seen: Counter[tuple[str, str]] = Counter()
    for one in world.touched:
        if one.after is None or not is_known(one.after):
            continue
        entity = world.reference.types[one.type]
        for field in (f for f in world.fields(entity) if f.kind in NESTED):
            value = as_nested(one.after[field.name])
            place = (entity.name, field.name)
            if not isinstance(value, Map | tuple) or seen[place] == MAX_PER_FIELD:
                continue
            seen[place] += 1
            held = ABSENT if one.before is None else as_nested(one.before[field.name])
            before = held if isinstance(held, Map | tuple) else ABSENT
            yield _Written(one, entity, field, value, before)


def _cell(written: _Written, change: Change) -> Observed:
    """The field with the change, written as the run wrote the field."""
    altered = apply(written.value, (change,))
    is_text = isinstance((written.one.after or {})[written.field.name], str)
    return write_json(altered) if is_text else altered


def _is_harmless(world: World, written: _Written, change: Change) -> bool:
    """True if ν makes both values one, but for what it removes and what lies outside Ω."""
    place = (written.entity.name, written.field.name)
    raw = (written.one.after or {})[place[1]]
    book = world.compiled.book
    sides = [book.value(*place, each) for each in (raw, _cell(written, change))]
    view = ComparisonView(place[0], (place[1],), book, world.compiled.boundary)
    return all(
        view.why_removed(place[1], each.steps, each.before, each.after)
        for each in all_differences(sides[0], sides[1])
    )


def _fault(world: World, operator: str, written: _Written, change: Change) -> Fault:
    one, name = written.one, written.field.name
    sentence = f"{one.name}: {render(name, change.steps)} is altered as well"
    return world.altered(operator, sentence, one.row_after, name, _cell(written, change))


def _alterations(world: World, value: Value, before: Side) -> Iterator[tuple[str, Change]]:
    """One of each kind that there is room for, at places that the run itself left alone."""
    written = [c.steps for c in differences(before, value)] if before is not ABSENT else []

    def is_free(steps: Steps) -> bool:
        return not any(w[: len(steps)] == steps or steps[: len(w)] == w for w in written)

    places = list(_places(value))
    scalars = [(s, v) for s, v in places if is_free(s) and not isinstance(v, Map | tuple)]
    if scalars:
        steps, held = world.rng.choice(scalars)
        yield "nested-value", Change(steps, held, near(held, Field("", Kind.TEXT)))
        steps, held = world.rng.choice(scalars)
        yield "nested-type", Change(steps, held, _of_another_type(held))
    objects = [(s, v) for s, v in places if isinstance(v, Map)]
    if objects:
        at, _ = world.rng.choice(objects)
        yield "nested-added", Change((*at, "altered"), ABSENT, True)
    members = [(s, v) for s, v in places if s and isinstance(s[-1], str) and is_free(s)]
    if members:
        at, gone = world.rng.choice(members)
        yield "nested-removed", Change(at, gone, ABSENT)
    lists = [(s, v) for s, v in places if isinstance(v, tuple) and v]
    if lists:
        at, items = world.rng.choice(lists)
        yield "nested-duplicated", Change((*at, len(items)), ABSENT, items[-1])
    orders = [(s, v) for s, v in lists if not same(v, v[::-1])]
    if orders:
        at, items = world.rng.choice(orders)
        yield "nested-reordered", Change(at, items, items[::-1])
    yield from _swapped(world, [(s, v) for s, v in objects if is_free(s)])


def _swapped(world: World, objects: list[tuple[Steps, Map]]) -> Iterator[tuple[str, Change]]:
    """Two members of one object have traded their values."""
    for steps, held in objects:
        pairs = [
            (one, two)
            for one, first in held.items
            for two, second in held.items
            if one < two and not same(first, second)
        ]
        if pairs:
            one, two = world.rng.choice(pairs)
            members = dict(held.items)
            traded = Map.of({**members, one: members[two], two: members[one]})
            yield "nested-swapped", Change(steps, held, traded)
            return


def _places(value: Value, steps: Steps = ()) -> Iterator[tuple[Steps, Value]]:
    """Every place inside the value, itself included."""
    yield steps, value
    if isinstance(value, Map):
        for name, inner in value.items:
            yield from _places(inner, (*steps, name))
    elif isinstance(value, tuple):
        for index, inner in enumerate(value):
            yield from _places(inner, (*steps, index))


def _of_another_type(value: Observed) -> Value:
    match value:
        case bool():
            return int(value)
        case int() | Decimal():
            return str(value)
        case str():
            return (value,)
        case _:
            return False
