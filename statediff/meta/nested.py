"""Faults inside values: what else a wrong run may write into an object or list that it changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from statediff.meta.reference import is_known
from statediff.meta.world import Fault, World, near, put
from statediff.model.json_values import as_nested, write_json
from statediff.model.nested import Change, Side, apply, differences
from statediff.model.paths import Steps, render
from statediff.model.schema import Field, Kind
from statediff.model.values import ABSENT, Map, Observed, Value, same

MAX_PER_FIELD: Final = 3
_KINDS: Final = frozenset({Kind.JSON, Kind.MAP, Kind.LIST, Kind.ANY})


def nested_changes(world: World) -> Iterator[Fault]:
    """Another place of an object or list that the run wrote is not as it was."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in world.touched:
        if one.after is None or not is_known(one.after):
            continue
        entity = world.reference.types[one.type]
        for field in (f for f in world.fields(entity) if f.kind in _KINDS):
            raw = one.after[field.name]
            value = as_nested(raw)
            place = (entity.name, field.name)
            if not isinstance(value, Map | tuple) or seen[place] == MAX_PER_FIELD:
                continue
            seen[place] += 1
            held = ABSENT if one.before is None else as_nested(one.before[field.name])
            before = held if isinstance(held, Map | tuple) else ABSENT
            for operator, change in _alterations(world, value, before):
                altered = apply(value, (change,))
                cell = write_json(altered) if isinstance(raw, str) else altered
                if same(*(world.compiled.book.value(*place, each) for each in (raw, cell))):
                    continue  # a rule of ν makes them one
                sentence = f"{one.name}: {render(field.name, change.steps)} is altered as well"
                row = {**one.after, field.name: cell}
                changes = {entity.name: put(one.key, row)}
                yield world.faulty(operator, ".".join(place), sentence, changes)


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
