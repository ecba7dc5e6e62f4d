"""Faults of observation and of words: what was read badly, and what the agent said falsely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Final

from statediff.capture.take import unobserved_state
from statediff.contract.file import ContractFile, parse_contract
from statediff.meta.reference import Change, Reference, Rows, edited, rebuild, with_state
from statediff.meta.world import Fault, World, near, other, put
from statediff.model.batches import Row
from statediff.model.readings import Capture, SourceCapture
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import Coverage, Enumeration, MemoryChunks, State, build_table
from statediff.model.values import Map, Value

STALE: Final = timedelta(hours=1)
SKEW: Final = timedelta(hours=2)


def unsettled_sources(world: World) -> Iterator[Fault]:
    """A source had not come to rest when it was read."""
    timeline = world.reference.timeline
    if timeline is None:
        return
    for part in _sources(world):
        waiting = (*timeline.unsettled, (part.reading.source, "writes were still in flight"))
        mutant = replace(world.reference, timeline=replace(timeline, unsettled=waiting))
        yield _of(part, "unsettled", "was read before it had come to rest", mutant)


def stale_readings(world: World) -> Iterator[Fault]:
    """A reading after shows the source as it was before the agent acted."""
    if world.reference.timeline is None:
        return
    earlier = {p.reading.source: p for p in world.reference.before.parts}
    for part in _sources(world):
        old = earlier.get(part.reading.source)
        if old is not None:
            reading = replace(part.reading, as_of=part.reading.as_of - STALE)
            kept = SourceCapture(reading, old.state)
            yield _of(part, "stale", "was read too early", _with(world.reference, part, kept))


def missing_readings(world: World) -> Iterator[Fault]:
    """A source could not be read after the run."""
    for part in _sources(world):
        cause = "connection refused"
        reading = replace(part.reading, is_complete=False, digest=None, cause=cause)
        dark = unobserved_state(part.state.schema, MemoryChunks(), cause, part.state)
        kept = SourceCapture(reading, dark)
        yield _of(part, "missing", "could not be read", _with(world.reference, part, kept))


def truncated_listings(world: World) -> Iterator[Fault]:
    """A source's enumeration of one type stopped before its end."""
    for part in _sources(world):
        for entity in world.types:
            table = part.state.tables.get(entity.name)
            if table is None or not table.row_count or not table.enumeration.is_complete:
                continue
            cut = Enumeration(Coverage.INCOMPLETE, "the listing was cut short")
            rows = [row for _, row in table.rows()][:-1]
            tables = {**part.state.tables, entity.name: rebuild(table, rows, cut)}
            kept = with_state(part, State(part.state.schema, tables))
            target = f"{part.reading.source}/{entity.name}"
            sentence = f"{part.reading.source} listed {entity.name} only in part"
            yield Fault("truncated", target, sentence, _with(world.reference, part, kept))


def contradictions(world: World) -> Iterator[Fault]:
    """Two sources that deliver one type say different things of one entity, and said so before."""
    for fault, source, change in _other_words(world):
        mutant = replace(fault.mutant, before=edited(fault.mutant.before, change, source))
        yield replace(fault, mutant=mutant)


def partings(world: World) -> Iterator[Fault]:
    """Two sources agreed before the run, and say different things of one entity after it."""
    for fault, _, _ in _other_words(world):
        sentence = f"{fault.sentence}, and did not before"
        yield replace(fault, operator="parted", sentence=sentence)


def _other_words(world: World) -> Iterator[tuple[Fault, str, Mapping[str, Change]]]:
    """A type that one of several sources says otherwise after the run, that source, and how."""
    delivered: dict[str, list[str]] = {}
    for part in _sources(world):
        for name in part.state.tables:
            delivered.setdefault(name, []).append(part.reading.source)
    for entity in world.types:
        sources = delivered.get(entity.name, [])
        found = world.pick(world.untouched(entity))
        fields = world.fields(entity)
        if len(sources) < 2 or found is None or not fields:
            continue
        key, row = found
        field = world.rng.choice(fields)
        change = {entity.name: put(key, {**row, field.name: other(row[field.name], field)})}
        mutant = world.reference.edited(change, only_source=sources[-1])
        sentence = f"{sources[-1]} says something else of a {entity.name} than {sources[0]}"
        target = f"{sources[-1]}/{entity.name}"
        yield Fault("contradiction", target, sentence, mutant), sources[-1], change


def false_claims(world: World) -> Iterator[Fault]:
    """The answer says something else, or nothing."""
    answer = world.reference.answer
    if not isinstance(answer, Map) or not world.compiled.contract.needs_answer:
        return
    declared = world.compiled.contract.document.answer.schema_
    for name, value in answer.items:
        if name in declared:
            said = Map.of({**dict(answer.items), name: _other_answer(value)})
            mutant = replace(world.reference, answer=said)
            yield Fault("false-claim", name, f"the answer's {name} is false", mutant)


def clock_skew(world: World) -> Iterator[Fault]:
    """A source's clock is late: its reading after claims an instant before the run's end."""
    timeline = world.reference.timeline
    if timeline is None:
        return
    for part in world.reference.after.parts:
        early = replace(part.reading, as_of=part.reading.as_of - SKEW)
        parts = tuple(
            SourceCapture(early, part.state) if each is part else each
            for each in world.reference.after.parts
        )
        sentence = f"{part.reading.source}'s clock is two hours behind"
        mutant = world.reference.with_parts(parts)
        yield Fault("clock-skew", part.reading.source, sentence, mutant)


EVIDENCE_FAULTS = (
    unsettled_sources,
    stale_readings,
    missing_readings,
    truncated_listings,
    contradictions,
    partings,
    false_claims,
)


def _other_answer(value: Value) -> Value:
    if isinstance(value, tuple):
        return value[1:] if value else ("made up",)
    kinds = {bool: Kind.BOOL, int: Kind.INT, Decimal: Kind.DECIMAL}
    return near(value, Field("answer", kinds.get(type(value), Kind.TEXT)))


def _sources(world: World) -> tuple[SourceCapture, ...]:
    return world.reference.after.parts


def _with(reference: Reference, part: SourceCapture, kept: SourceCapture) -> Reference:
    parts = tuple(kept if each is part else each for each in reference.after.parts)
    return reference.with_parts(parts)


def _of(part: SourceCapture, operator: str, what: str, mutant: Reference) -> Fault:
    return Fault(operator, part.reading.source, f"{part.reading.source} {what}", mutant)


ALIKE: Final = 6
"""Entities of one natural key on each side: more ways to pair them than are tried."""
MOST: Final = 4
"""Types of which each reference gets such a listing."""


def keyless_listing(world: World) -> Iterator[Fault]:
    """A type is listed a second time, without its keys, and many of its entities look the same."""
    reference = world.reference
    if reference.contract.content.identify or not reference.after.parts:
        return
    types = [entity for entity in world.types if _named_entities(world, entity)]
    for entity in sorted(world.rng.sample(types, min(MOST, len(types))), key=lambda t: t.name):
        natural = _natural(world, entity)
        found = world.pick(_named_entities(world, entity))
        if natural is None or found is None:
            continue
        name = f"{entity.name.replace('.', '_')}_listing"
        if name in reference.types:
            continue
        kept = Field(natural.name, natural.kind), Field("at", Kind.INT)
        listing = EntityType(name, (), kept)
        alike = found[1][natural.name]
        sides = [
            with_listing(
                side, listing, [{natural.name: alike, "at": first + n} for n in range(ALIKE)]
            )
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


def _named_entities(world: World, entity: EntityType) -> Rows:
    """The entities that the run left alone and of which that text is known."""
    natural = _natural(world, entity)
    if natural is None:
        return {}
    return {k: r for k, r in world.untouched(entity).items() if r[natural.name]}


def _identifying(reference: Reference, name: str, field: str) -> ContractFile:
    rule = f"{{type: {name}, match_on: {{{field}: null}}, version: 1, because: no key}}"
    data = reference.contract.data + f"\nidentify: [{rule}]\n".encode()
    return parse_contract(data, "the contract of a listing")


def with_listing(side: Capture, listing: EntityType, rows: list[Row]) -> Capture:
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
