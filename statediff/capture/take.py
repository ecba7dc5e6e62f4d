"""Stage 1, capture: every source is read once, and what each delivered is kept as it is.

1. The sources are read in the order of their names, so that evidence has one order.
2. A source that cannot be read leaves a reading that says so, and a state in which every type it
   would have delivered is unobserved with the cause. Before the run nothing else is caught. After
   it, whatever fails twice is such a cause.
3. One that was read before the run, and that the run left unreadable as a whole or in part,
   changed: that is unobserved, and entities of the type `source.NAME` say so. Where a source was
   read in part only, an empty table of that type says that nothing was ruined before.
4. Each reading gets the evidence id `moment/source`, e.g. `before/shop-db`.

This stage may not decide anything: not whether two readings agree, nor whether one is fresh enough,
nor whether a difference matters [SSD §VII].
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

from statediff.capture.held_chunks import chunks_of
from statediff.capture.source import (
    Clock,
    PlacedSource,
    Source,
    SourceRuined,
    SourceTooSlow,
    SourceUnavailable,
    asked_twice,
    scanned,
    unread,
)
from statediff.capture.standing import can_be_opened, look_again, look_at, losses
from statediff.errors import AdapterError
from statediff.model.explanation import is_unread, unread_because
from statediff.model.readings import Capture, PathFacts, SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import ChunkStore, State, Table, build_table


def take(
    sources: Sequence[Source],
    store: ChunkStore,
    clock: Clock,
    like: Capture | None,
    moment: str,
) -> Capture:
    """Everything the sources show at one moment (`before` or `after`), sorted by source name.

    `like` is the capture before: each source's state is cut in the same places, so that chunks that
    did not change are shared. Raises `AdapterError` when two sources share a name, and before a run
    when a source answers for another.
    """
    earlier = {} if like is None else {part.reading.source: part for part in like.parts}
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
    source: Source, store: ChunkStore, clock: Clock, earlier: SourceCapture | None, moment: str
) -> SourceCapture:
    """Read one source whole; if it cannot be read, nothing of it is known.

    `earlier` is its part of the capture before; with it, every failure is data.
    """
    evidence = f"{moment}/{source.name}"
    store = chunks_of(store, source.name)
    like = None if earlier is None else earlier.state
    try:
        if earlier is None:
            began = time.thread_time()
            part = _read(source, store, clock, None)
            took = time.thread_time() - began
            part = replace(part, place=_place_of(source), seconds=took)
        else:
            part = _read_again(source, store, clock, earlier)
    except SourceUnavailable as error:
        cause = str(error)
        ruin = None if earlier is None else _ruin_by_run(source, earlier, error)
        if ruin is not None and like is not None:
            part = _ruined(source.name, store, clock, like, ruin)
            return SourceCapture(replace(part.reading, id=evidence), part.state)
        if isinstance(error, SourceRuined) and like is not None and not is_unread(cause):
            cause = unread_because(cause)
        state = unobserved_state(_known_schema(source, like), store, cause, like)
        return SourceCapture(unread(evidence, source.name, clock(), cause), state)
    reading = part.reading.cited_as(evidence)
    if not part.spoiled and not _needs_ruin(source.name, part, like):
        return SourceCapture(reading, part.state, (), part.place, part.seconds)
    state = _with_ruin(part.state, source.name, store, part.spoiled)
    return replace(part, reading=replace(reading, digest=state.digest()), state=state, spoiled=())


def _read(source: Source, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
    part = source.read(store, clock, like)
    if part.reading.source != source.name:
        raise AdapterError(f"source {source.name!r} delivered a reading of {part.reading.source!r}")
    return part


def _read_again(
    source: Source, store: ChunkStore, clock: Clock, earlier: SourceCapture
) -> SourceCapture:
    """The reading after a run; the second one where the first failed or shows less than before."""
    first = True

    def read() -> SourceCapture:
        nonlocal first
        part = _read(source, store, clock, earlier.state)
        if first and _shows_less(part, earlier):
            first = False
            return _read(source, store, clock, earlier.state)
        return part

    return asked_twice(read, least=TIMES_AS_BEFORE * (earlier.seconds or 0.0))


def _shows_less(part: SourceCapture, earlier: SourceCapture) -> bool:
    if earlier.reading.is_complete and not part.reading.is_complete:
        return True
    for name, table in part.state.tables.items():
        known = earlier.state.tables.get(name, table)
        if known is not table and _is_observed(known) and not _is_observed(table):
            return True
    return False


def _is_observed(table: Table) -> bool:
    """True where every cell was observed; a table worked out later is derived from those."""
    return table.is_later("chunks") or table.is_fully_observed


def _place_of(source: Source) -> PathFacts:
    return look_at(*source.places) if isinstance(source, PlacedSource) else ()


def _ruin_by_run(source: Source, earlier: SourceCapture, error: SourceUnavailable) -> str | None:
    """The change by which the run keeps the source from being read; None where none is proven.

    A place that is as it was, and that cannot be opened, is the machine's trouble.
    """
    if not _was_read(earlier.state):
        return None
    if earlier.place and isinstance(source, PlacedSource) and source.places:
        lost = losses(earlier.place, look_again(earlier.place))
        if lost:
            return "; ".join(lost) if is_unread(str(error)) else f"{error} ({'; '.join(lost)})"
        if not can_be_opened(earlier.place):
            return None
    if isinstance(error, SourceTooSlow) and earlier.seconds is not None:
        return f"{error.what}, and took {earlier.seconds:.1f} s before the run"
    return str(error) if isinstance(error, SourceRuined) else None


RUIN_PREFIX: Final = "source."
TIMES_AS_BEFORE: Final = 10
"""A reading after a run may take so many times what it took before, whatever a reading may take:
beyond both, it is what the run wrote that takes so long."""


def _was_read(state: State) -> bool:
    return any(table.enumeration.is_complete for table in state.tables.values())


def _needs_ruin(name: str, part: SourceCapture, like: State | None) -> bool:
    """True if the absence of ruin has to be said: of a type of an incomplete reading it is open."""
    if like is not None:
        return _ruin_of(like.schema, name).name in like.tables
    return not part.reading.is_complete and _was_read(part.state)


def _ruined(name: str, store: ChunkStore, clock: Clock, like: State, cause: str) -> SourceCapture:
    """The capture of a source that the run left unreadable: nothing but that, as an entity."""
    unknown = unobserved_state(like.schema, store, cause, like)
    return scanned(name, clock(), _with_ruin(unknown, name, store, (cause,)), gaps=(cause,))


def is_ruined(part: SourceCapture) -> bool:
    """True where nothing is known of the source but that the run left it unreadable."""
    ruin = _ruin_of(part.state.schema, part.reading.source).name
    tables = part.state.tables
    return (
        ruin in tables
        and tables[ruin].row_count > 0
        and not any(t.enumeration.is_complete for name, t in tables.items() if name != ruin)
    )


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
    ruin = _ruin_named(f"{RUIN_PREFIX}{name}")
    while schema.by_name.get(ruin.name, ruin) != ruin:
        ruin = _ruin_named(f"{RUIN_PREFIX}{ruin.name}")
    return ruin


@lru_cache(maxsize=64)
def _ruin_named(name: str) -> EntityType:
    return EntityType(name, ("problem",), (Field("problem", Kind.TEXT, is_nullable=False),))


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
