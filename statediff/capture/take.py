"""Stage 1, capture: every source is read once, and what each delivered is kept as it is.

1. The sources are read in the order of their names, so that evidence has one order.
2. A source that cannot be read leaves a reading that says so, and a state in which every type it
   would have delivered is unobserved with the cause. Nothing else is caught.
3. One that was read before the run, and that the run left unreadable as a whole or in part,
   changed: that is unobserved, and entities of the type `source.NAME` say so. Where a source was
   read in part only, an empty table of that type says that nothing was ruined before.
4. Each reading gets the evidence id `moment/source`, e.g. `before/shop-db`.

This stage may not decide anything: not whether two readings agree, nor whether one is fresh enough,
nor whether a difference matters [SSD §VII].
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from statediff.capture.keyed_store import chunks_of
from statediff.capture.source import (
    Clock,
    Source,
    SourceRuined,
    SourceUnavailable,
    scanned,
    unread,
)
from statediff.errors import AdapterError
from statediff.model.readings import Capture, SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import ChunkStore, State, build_table


def take(
    sources: Sequence[Source],
    store: ChunkStore,
    clock: Clock,
    like: Capture | None,
    moment: str,
) -> Capture:
    """Everything the sources show at one moment (`before` or `after`), sorted by source name.

    `like` is the capture before: each source's state is cut in the same places, so that chunks that
    did not change are shared. Raises `AdapterError` when two sources share a name or a source
    answers for another.
    """
    earlier = {} if like is None else {part.reading.source: part.state for part in like.parts}
    return Capture(
        tuple(
            read_source(source, store, clock, earlier.get(source.name), moment)
            for source in in_name_order(sources)
        )
    )


def in_name_order(sources: Sequence[Source]) -> list[Source]:
    """The sources sorted by name. Raises `AdapterError` when two of them share one."""
    ordered = sorted(sources, key=lambda source: source.name)
    for one, other in itertools.pairwise(ordered):
        if one.name == other.name:
            raise AdapterError(f"two sources are named {one.name!r}: give each its own name")
    return ordered


def read_source(
    source: Source, store: ChunkStore, clock: Clock, like: State | None, moment: str
) -> SourceCapture:
    """What one source shows, whole; if it cannot be read, that nothing is known of it."""
    evidence = f"{moment}/{source.name}"
    store = chunks_of(store, source.name)
    try:
        part = source.read(store, clock, like)
    except SourceUnavailable as error:
        if isinstance(error, SourceRuined) and like is not None and _was_read(like):
            part = _ruined(source.name, store, clock, like, str(error))
            return SourceCapture(replace(part.reading, id=evidence), part.state)
        cause = str(error)
        state = unobserved_state(_known_schema(source, like), store, cause, like)
        return SourceCapture(unread(evidence, source.name, clock(), cause), state)
    if part.reading.source != source.name:
        raise AdapterError(f"source {source.name!r} delivered a reading of {part.reading.source!r}")
    reading = part.reading.cited_as(evidence)
    if not part.spoiled and not _needs_ruin(source.name, part, like):
        return SourceCapture(reading, part.state)
    state = _with_ruin(part.state, source.name, store, part.spoiled)
    return SourceCapture(replace(reading, digest=state.digest()), state)


RUIN_PREFIX: Final = "source."


def _was_read(state: State) -> bool:
    return any(table.enumeration.is_complete for table in state.tables.values())


def _needs_ruin(name: str, part: SourceCapture, like: State | None) -> bool:
    """Whether the absence of ruin has to be said: of a type of an incomplete reading it is open."""
    if like is not None:
        return _ruin_of(like.schema, name).name in like.tables
    return not part.reading.is_complete and _was_read(part.state)


def _ruined(name: str, store: ChunkStore, clock: Clock, like: State, cause: str) -> SourceCapture:
    """What is known of a source that the run left unreadable: nothing but that, as an entity."""
    unknown = unobserved_state(like.schema, store, cause, like)
    return scanned(name, clock(), _with_ruin(unknown, name, store, (cause,)), gaps=(cause,))


def _with_ruin(state: State, name: str, store: ChunkStore, causes: Iterable[str]) -> State:
    """The state with an entity for each thing that the run left unreadable."""
    ruin = _ruin_of(state.schema, name)
    types = {**state.schema.by_name, ruin.name: ruin}
    delivered = tuple(sorted(types))
    schema = replace(
        state.schema,
        types=tuple(types[each] for each in delivered),
        sources=tuple((source, delivered) for source, _ in state.schema.sources),
    )
    rows = [{"problem": cause} for cause in sorted(set(causes))]
    return State(schema, {**state.tables, ruin.name: build_table(ruin, rows, store)})


def _ruin_of(schema: Schema, name: str) -> EntityType:
    """The type of these entities, under a name that no type of the source has."""
    ruin = EntityType(
        f"{RUIN_PREFIX}{name}", ("problem",), (Field("problem", Kind.TEXT, is_nullable=False),)
    )
    while schema.by_name.get(ruin.name, ruin) != ruin:
        ruin = replace(ruin, name=f"{RUIN_PREFIX}{ruin.name}")
    return ruin


def _known_schema(source: Source, like: State | None) -> Schema:
    if like is not None:
        return like.schema
    try:
        return source.schema()
    except SourceUnavailable:
        return Schema(source.name, "0", (), ((source.name, ()),))


def unobserved_state(
    schema: Schema, store: ChunkStore, cause: str, like: State | None = None
) -> State:
    """A state of which nothing is known: every type of the schema unobserved with the cause.

    The tables hold no rows: the chunks of `like`, equal by digest, would read as "unchanged".
    """
    return State(
        schema,
        {
            t.name: build_table(
                t, (), store, like=None if like is None else like.tables.get(t.name)
            ).unobserved(cause)
            for t in schema.types
        },
    )
