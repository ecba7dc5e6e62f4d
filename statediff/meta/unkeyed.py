"""Faults of identity: a listing without keys, in which many entities share one natural key.

The listing is of entities that are there, as an export without numbers would give it, and the
contract gets a rule that identifies them by one field. Who of them is who cannot be told: the
right verdict is INCONCLUSIVE, by the resolve stage [SSD §VIII].
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from statediff.evaluate import ContractFile, parse_contract
from statediff.meta.reference import Reference, Rows, with_state
from statediff.meta.world import Fault, World
from statediff.model.batches import Row
from statediff.model.readings import Capture, SourceCapture
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import MemoryChunks, State, build_table

ALIKE: Final = 6
"""Entities of one natural key on each side: more ways to pair them than are tried."""
MOST: Final = 4
"""Types of which each reference gets such a listing."""


def unkeyed(world: World) -> Iterator[Fault]:
    """A type is listed a second time, without its keys, and many of its entities look the same."""
    reference = world.reference
    if reference.contract.content.identify or not reference.after.parts:
        return
    types = [entity for entity in world.types if _told(world, entity)]
    for entity in sorted(world.rng.sample(types, min(MOST, len(types))), key=lambda t: t.name):
        natural = _natural(world, entity)
        found = world.pick(_told(world, entity))
        if natural is None or found is None:
            continue
        name = f"{entity.name.replace('.', '_')}_listing"
        if name in reference.types:
            continue
        kept = Field(natural.name, natural.kind), Field("at", Kind.INT)
        listing = EntityType(name, (), kept)
        alike = found[1][natural.name]
        sides = [
            _listed(side, listing, [{natural.name: alike, "at": first + n} for n in range(ALIKE)])
            for side, first in ((reference.before, 0), (reference.after, ALIKE))
        ]
        mutant = replace(reference, contract=_identifying(reference, name, natural.name))
        mutant = replace(mutant, before=sides[0]).with_parts(sides[1].parts)
        sentence = f"{ALIKE} of {name} have one {natural.name}, before and after, and no key"
        yield Fault("one-natural-key", name, sentence, mutant)


def _natural(world: World, entity: EntityType) -> Field | None:
    """The first text by which people would know an entity of the type."""
    named = (f for f in world.fields(entity) if f.kind is Kind.TEXT and f.reference is None)
    return next(named, None)


def _told(world: World, entity: EntityType) -> Rows:
    """The entities that the run left alone and of which that text is known."""
    natural = _natural(world, entity)
    if natural is None:
        return {}
    return {k: r for k, r in world.untouched(entity).items() if r[natural.name]}


def _identifying(reference: Reference, name: str, field: str) -> ContractFile:
    rule = f"{{type: {name}, match_on: {{{field}: null}}, version: 1, because: no key}}"
    known = reference.contract
    data = known.data + f"\nidentify: [{rule}]\n".encode()
    return parse_contract(data, "the contract of a listing", lambda _: known.recorded or b"")


def _listed(side: Capture, listing: EntityType, rows: list[Row]) -> Capture:
    """The capture whose first source delivers the listing as well."""
    first, *others = side.parts
    schema = first.state.schema
    types = tuple(sorted((*schema.types, listing), key=lambda each: each.name))
    table = build_table(listing, rows, MemoryChunks())
    sources = tuple(
        (name, tuple(sorted((*known, listing.name))) if name == first.reading.source else known)
        for name, known in schema.sources
    )
    state = State(
        replace(schema, types=types, sources=sources), {**first.state.tables, listing.name: table}
    )
    parts: tuple[SourceCapture, ...] = (with_state(first, state), *others)
    return replace(side, parts=parts)
