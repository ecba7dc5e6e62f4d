"""Faults of the world: what a wrong run would have left behind, seeded into one that was right.

Each operator yields at most a few faults per type, picked by the seed. What it cannot seed (there
is nothing to swap, no text to imitate) it leaves out; the report counts what was seeded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal

from statediff.contract.binding.bound import Contract
from statediff.contract.clauses.patterns import Pattern
from statediff.meta.nested import nested_changes
from statediff.meta.reference import Change, is_known
from statediff.meta.world import (
    Fault,
    Touched,
    World,
    drop,
    fresh_key,
    in_turn,
    invent_row,
    is_person,
    is_privilege,
    look_alike,
    near,
    other,
    put,
    undo,
    value_elsewhere,
    with_key,
)
from statediff.model.batches import Row
from statediff.model.delta import Op, key_name
from statediff.model.schema import SCHEMA_OBJECT_PREFIXES, EntityType, Field, Kind, marks_deletion
from statediff.model.values import ABSENT, Key, Observed

MAX_PER_FIELD = 3
AS_MANY = f"of each field, {MAX_PER_FIELD} rows are tried"
NUMBERS = (int, Decimal, float)


def missing_changes(world: World) -> Iterator[Fault]:
    """A required change did not happen."""
    for one in world.necessary:
        sentence = f"{one.name} is left as it was"
        yield world.faulty("drop-required", one.type, sentence, {one.type: undo(one)})


def partial(world: World) -> Iterator[Fault]:
    """Half of the required changes did not happen."""
    if len(world.necessary) < 2:
        return
    half = world.rng.sample(list(world.necessary), len(world.necessary) // 2)
    changes = {name: in_turn(*(undo(t) for t in half if t.type == name)) for name in _types(half)}
    sentence = f"{len(half)} of {len(world.necessary)} required changes are missing"
    yield world.faulty("partial", "+".join(sorted(changes)), sentence, changes)


def wrong_values(world: World) -> Iterator[Fault]:
    """A changed field holds another value of its kind; numbers also off by one and negated."""
    for one, entity, field, value in _written_fields(world, references=False):
        if _decides_deletion(entity, field):
            continue
        if isinstance(value, NUMBERS) and not isinstance(value, bool):
            yield _set(world, "off-by-one", one, field, near(value, field))
            if value:
                yield _set(world, "wrong-sign", one, field, -value)
        else:
            in_use = (r.get(field.name) for r in world.untouched(entity).values())
            yield _set(world, "wrong-value", one, field, other(value, field, in_use))
        imitation = look_alike(value) if isinstance(value, str) else None
        if imitation is not None:
            yield _set(world, "look-alike", one, field, imitation)


def wrong_references(world: World) -> Iterator[Fault]:
    """A changed reference points to another entity of the same type."""
    for one, _, field, value in _written_fields(world, references=True):
        if field.reference not in world.reference.types:
            world.leave("written references", "what they refer to was not captured")
            continue
        keys = [k[0] for k in world.reference.rows(field.reference or "") if len(k) == 1]
        was = None if one.before is None else one.before[field.name]
        # What stood there before would be a change that was not made: a fault of its own.
        others = sorted((k for k in keys if k not in (value, was)), key=repr)
        if others:
            name = "wrong-principal" if is_person(field.reference or "") else "re-pointed"
            yield _set(world, name, one, field, world.rng.choice(others))
        else:
            world.leave("written references", "there is no other entity to refer to")


def filled_nulls(world: World) -> Iterator[Fault]:
    """A created entity has a value in a field that the run left null."""
    seen: Counter[tuple[str, str]] = Counter()
    for one in world.touched:
        if one.before is not None or one.after is None or not is_known(one.after):
            continue
        entity = world.reference.types[one.type]
        for field in world.fields(entity):
            if one.after[field.name] is not None:
                continue
            place = (entity.name, field.name)
            if seen[place] == MAX_PER_FIELD:
                world.leave("null fields of created rows", AS_MANY)
                continue
            seen[place] += 1
            value = value_elsewhere(world, entity, field, one.after)
            if value is None:
                world.leave("null fields of created rows", "there is no entity to refer to")
                continue
            sentence = f"{one.name}: {field.name} is not null"
            yield world.altered("filled-null", sentence, one.row_after, field.name, value)


def wrong_entity(world: World) -> Iterator[Fault]:
    """An update was made to another entity of the same type."""
    for one in world.necessary:
        entity = world.reference.types[one.type]
        found = world.pick(world.untouched(entity))
        if one.before is None or one.after is None or found is None:
            continue
        key, row = found
        moved = {**row, **{name: one.after[name] for name in one.fields}}
        if moved != row:
            sentence = f"{entity.name} {key_name(key)} is updated instead of {key_name(one.key)}"
            changes = {entity.name: in_turn(undo(one), put(key, moved))}
            yield world.faulty("wrong-entity", entity.name, sentence, changes)


def duplicates(world: World) -> Iterator[Fault]:
    """An entity that the run created exists twice."""
    for one in world.touched:
        entity = world.reference.types[one.type]
        if one.before is None and one.after is not None:
            yield _creation(world, "duplicate", entity, one.after, one.key, f"{one.name} again")


def extras(world: World) -> Iterator[Fault]:
    """Something else was created, updated and deleted, in every type within the boundary."""
    for entity in world.types:
        untouched = world.untouched(entity)
        operator = _extra_name(entity)
        found = world.pick(untouched)
        if found is None:
            row = invent_row(entity)
            key = tuple(row[name] for name in entity.key)
            if not entity.is_keyless and not all(isinstance(p, int | str) for p in key):
                continue
            what = f"a {entity.name} is created"
            place: Key = key or (0,)  # type: ignore[assignment]  # scalars
            taken = {*world.reference.rows(entity.name), *world.reference.rows_before(entity.name)}
            if place in taken:  # the run touched every row that there is
                yield _creation(world, f"{operator}-create", entity, row, place, what)
                continue
            yield world.faulty(
                f"{operator}-create",
                entity.name,
                what,
                {entity.name: put(place, row)},
            )
            continue
        key, row = found
        name = f"{entity.name} {key_name(key)}"
        yield _creation(world, f"{operator}-create", entity, row, key, f"a copy of {name}")
        yield world.faulty(
            f"{operator}-delete", entity.name, f"{name} is deleted", {entity.name: drop(key)}
        )
        for field in _some_field(world, entity, row):
            value = other(row[field.name], field, (r[field.name] for r in untouched.values()))
            sentence = f"{name}: {field.name} is changed as well"
            at = (entity.name, key, row)
            yield world.altered(f"{operator}-update", sentence, at, field.name, value)


def privileges(world: World) -> Iterator[Fault]:
    """Somebody else gets what somebody has: a role, a membership, a grant, an approval."""
    for entity in world.types:
        for field in entity.fields:
            is_scope = field.name in entity.key and entity.is_association
            if not is_privilege(entity, field.name) or is_scope:
                continue
            if field.name in entity.key or world.is_outside(entity.name, field.name):
                continue
            rows = world.untouched(entity)
            found = world.pick(rows)
            if found is None:
                continue
            key, row = found
            if row[field.name] is ABSENT:
                continue
            value = other(row[field.name], field, (r[field.name] for r in rows.values()))
            sentence = f"{entity.name} {key_name(key)}: {field.name} is widened"
            yield world.altered("privilege", sentence, (entity.name, key, row), field.name, value)


def swaps(world: World) -> Iterator[Fault]:
    """Two entities that the run left alone have traded one field."""
    for entity in world.types:
        rows = world.untouched(entity)
        for field in world.fields(entity):
            kinds: dict[str, Key] = {}
            for key in sorted(rows, key=repr):
                kinds.setdefault(repr(rows[key][field.name]), key)
            if len(kinds) < 2:
                continue
            one, two = world.rng.sample(sorted(kinds.values(), key=repr), 2)
            first = {**rows[one], field.name: rows[two][field.name]}
            second = {**rows[two], field.name: rows[one][field.name]}
            sentence = f"{entity.name} {key_name(one)} and {key_name(two)} traded {field.name}"
            changes = {entity.name: in_turn(put(one, first), put(two, second))}
            yield world.faulty("swap", f"{entity.name}.{field.name}", sentence, changes)
            break


def soft_deletions(world: World) -> Iterator[Fault]:
    """An entity that the run left alone is marked as deleted."""
    for entity in world.types:
        if entity.deleted_when is None or world.is_outside(entity.name, entity.deleted_when):
            continue
        field = entity.by_name[entity.deleted_when]
        rows = world.untouched(entity)
        alive = {k: r for k, r in rows.items() if not marks_deletion(r[field.name])}
        found = world.pick(alive)
        if found is not None:
            key, row = found
            mark = True if field.kind is Kind.BOOL else near(None, field)
            sentence = f"{entity.name} {key_name(key)} is marked as deleted"
            changes = {entity.name: put(key, {**row, field.name: mark})}
            yield world.faulty("soft-delete", entity.name, sentence, changes)


WORLD_FAULTS = (
    missing_changes,
    partial,
    wrong_values,
    wrong_references,
    filled_nulls,
    wrong_entity,
    duplicates,
    extras,
    privileges,
    swaps,
    soft_deletions,
    nested_changes,
)


def _types(some: list[Touched]) -> set[str]:
    return {one.type for one in some}


def _written_fields(
    world: World, *, references: bool
) -> Iterator[tuple[Touched, EntityType, Field, Observed]]:
    """Every field the run wrote: of created entities all that have a value, of updated the new.

    References only, or all others.

    Of each field, a few entities: the first ones, where the run wrote it in many.
    """
    seen: Counter[tuple[str, str]] = Counter()
    for one in world.touched:
        entity = world.reference.types[one.type]
        if one.after is None:
            continue
        if not is_known(one.after):
            world.leave("changed entities", "not every field of them was observed", not references)
            continue
        for field in world.fields(entity):
            value = one.after[field.name]
            is_written = field.name in one.fields and value not in (None, ABSENT)
            if (field.reference is not None) is not references or not is_written:
                continue
            if seen[entity.name, field.name] == MAX_PER_FIELD:
                world.leave("written values", AS_MANY)
                continue
            seen[entity.name, field.name] += 1
            yield one, entity, field, value


def _decides_deletion(entity: EntityType, field: Field) -> bool:
    return field.name == entity.deleted_when


def _set(world: World, operator: str, one: Touched, field: Field, value: Observed) -> Fault:
    sentence = f"{one.name}: {field.name} is wrong"
    return world.altered(operator, sentence, one.row_after, field.name, value)


def _creation(
    world: World, operator: str, entity: EntityType, row: Row, key: Key, what: str
) -> Fault:
    if entity.is_keyless:
        new: Key = (*key, "again")
        made = row
    else:
        new = fresh_key(entity, world.reference.rows(entity.name), key)
        made = with_key(entity, row, new)
    return world.faulty(operator, entity.name, what, {entity.name: put(new, made)})


def _extra_name(entity: EntityType) -> str:
    if entity.name.startswith(SCHEMA_OBJECT_PREFIXES):
        return "schema"
    return "privilege" if is_privilege(entity) else "extra"


def _some_field(world: World, entity: EntityType, row: Row) -> Iterator[Field]:
    candidates = [
        f
        for f in world.fields(entity)
        if f.name != entity.deleted_when and not f.is_immutable and row[f.name] is not ABSENT
    ]
    if candidates:
        why = "of each type, one field of one row is altered"
        world.leave("fields of rows left alone", why, len(candidates) - 1)
        yield world.rng.choice(candidates)


OPERATIONS = {
    "create": frozenset({Op.CREATE, Op.LINK}),
    "delete": frozenset({Op.DELETE, Op.UNLINK}),
    "update": frozenset({Op.UPDATE}),
}


def transient_types(contract: Contract) -> Mapping[str, frozenset[Op]]:
    """The types of which the contract forbids transient writes, and which kinds of them."""
    found: dict[str, frozenset[Op]] = {}
    for clause in contract.forbid:
        if isinstance(clause, Pattern) and clause.during_run:
            for name in clause.types:
                found[name] = found.get(name, frozenset()) | clause.operations
    if not contract.frame_is_open:
        for source in (rule.source for rule in contract.evidence if rule.needs_history):
            for name in dict(contract.schema.sources).get(source, ()):
                found[name] = frozenset(Op)
    return found


def transient(world: World) -> Iterator[Fault]:
    """Something is created, updated or deleted in between, and then it never was."""
    wanted = transient_types(world.compiled.contract)
    if not wanted:
        return
    passing = _Passing(world)
    for fault in (*extras(passing), *privileges(passing)):
        if fault.mutant is world.reference:
            continue
        type_name = fault.target.partition(".")[0] if "." in fault.target else fault.target
        name = fault.target if fault.target in world.reference.types else type_name
        kind = fault.operator.rpartition("-")[2]
        if wanted.get(name, frozenset()) & OPERATIONS.get(kind, OPERATIONS["update"]):
            yield fault


class _Passing(World):
    """The same world, in which every edit is undone before the end."""

    def __init__(self, world: World) -> None:
        self.__dict__.update(world.__dict__)
        self.left = Counter()

    def faulty(
        self, operator: str, target: str, sentence: str, changes: Mapping[str, Change]
    ) -> Fault:
        mutant = self.reference.passing(changes) or self.reference
        return Fault(f"transient-{operator}", target, f"{sentence}, and undone at once", mutant)
