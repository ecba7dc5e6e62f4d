"""Faults of observation and of words: what was read badly, and what the agent said falsely."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from statediff.capture.take import unobserved_state
from statediff.meta.reference import Reference, rebuilt, with_state
from statediff.meta.values import near, other
from statediff.meta.world import Fault, World, put
from statediff.model.readings import SourceCapture
from statediff.model.schema import Field, Kind
from statediff.model.state import Coverage, Enumeration, MemoryChunks, State
from statediff.model.values import Map, Value

STALE = timedelta(hours=1)


def unsettled(world: World) -> Iterator[Fault]:
    """A source had not come to rest when it was read."""
    timeline = world.reference.timeline
    if timeline is None:
        return
    for part in _sources(world):
        waiting = (*timeline.unsettled, (part.reading.source, "writes were still in flight"))
        mutant = replace(world.reference, timeline=replace(timeline, unsettled=waiting))
        yield _of(part, "unsettled", "was read before it had come to rest", mutant)


def stale(world: World) -> Iterator[Fault]:
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


def missing(world: World) -> Iterator[Fault]:
    """A source could not be read after the run."""
    for part in _sources(world):
        cause = "connection refused"
        reading = replace(part.reading, is_complete=False, digest=None, cause=cause)
        dark = unobserved_state(part.state.schema, MemoryChunks(), cause, part.state)
        kept = SourceCapture(reading, dark)
        yield _of(part, "missing", "could not be read", _with(world.reference, part, kept))


def truncated(world: World) -> Iterator[Fault]:
    """A source's enumeration of one type stopped before its end."""
    for part in _sources(world):
        for entity in world.types:
            table = part.state.tables.get(entity.name)
            if table is None or not table.row_count or not table.enumeration.is_complete:
                continue
            cut = Enumeration(Coverage.INCOMPLETE, "the listing was cut short")
            rows = [row for _, row in table.rows()][:-1]
            tables = {**part.state.tables, entity.name: rebuilt(table, rows, cut)}
            kept = with_state(part, State(part.state.schema, tables))
            target = f"{part.reading.source}/{entity.name}"
            sentence = f"{part.reading.source} listed {entity.name} only in part"
            yield Fault("truncated", target, sentence, _with(world.reference, part, kept))


def contradictory(world: World) -> Iterator[Fault]:
    """Two sources that deliver one type say different things of one entity."""
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
        change = put(key, {**row, field.name: other(row[field.name], field)})
        mutant = world.reference.edited({entity.name: change}, only_source=sources[-1])
        sentence = f"{sources[-1]} says something else of a {entity.name} than {sources[0]}"
        yield Fault("contradiction", f"{sources[-1]}/{entity.name}", sentence, mutant)


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


OPERATORS = (unsettled, stale, missing, truncated, contradictory, false_claims)


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
