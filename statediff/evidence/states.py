"""The states of a trial as references into its chunk store, and back: what `states.json` holds.

A chunk is named, never copied. A table like the one before it of its type (the state after one
transaction more) names only the chunks that are others, so that the file follows what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any, Final

from pydantic import TypeAdapter

from statediff.errors import BundleError
from statediff.evidence import documents as doc
from statediff.evidence.histories import seen_from
from statediff.evidence.shapes import (
    COUNT,
    FLAG,
    TEXT,
    Count,
    Shape,
    Text,
    check,
    each,
    many,
    maybe,
    plain,
    record,
    row,
)
from statediff.model.readings import Capture, SourceCapture
from statediff.model.schema import EntityType
from statediff.model.state import ChunkRef, ChunkStore, State, Table

Json = Any
STATES: Final = "statediff.states/1"
_TABLE: Final = row(
    TEXT, COUNT, doc.COVERAGE, many(doc.KEY), maybe(COUNT), many(row(COUNT, TEXT, COUNT, FLAG))
)
_KEPT_STATES: Final = record(
    None,
    {"form": TEXT, "schemas": many(doc.SCHEMA), "tables": many(_TABLE)},
    {"states": plain(dict[Text, tuple[Count, list[Count]]], "{digest: [schema, [table, …]]}")},
)
_CAPTURED: Final = record(None, each("before after", many(doc.PART)), {"during": doc.SEEN})


@cache
def _adapter(shape: Shape) -> TypeAdapter[Any]:
    return TypeAdapter(shape.annotation())


def states_document(
    captures: Iterable[Capture], wanted: Callable[[str], bool] = lambda _source: True
) -> Json:
    """Every state of the captures and of their histories, by digest; of the sources `wanted`."""
    kept = _Kept()
    return {
        "form": STATES,
        "states": {state.digest(): kept.state(state) for state in states_in(captures, wanted)},
        "schemas": kept.schemas,
        "tables": kept.tables,
    }


def states_from(document: Json, store: ChunkStore) -> Mapping[str, State]:
    """The states of such a document; `BundleError` if it is none, or says a wrong digest."""
    check(document, _adapter(_KEPT_STATES), "states.json")
    if document["form"] != STATES:
        raise BundleError(f"states.json: expected the states of a trial, {STATES}")
    try:
        return _states(document, store)
    except (LookupError, ValueError) as error:
        raise BundleError(f"states.json: {error!r}") from error


def _states(document: Json, store: ChunkStore) -> Mapping[str, State]:
    schemas = [doc.schema_from(each) for each in document["schemas"]]
    tables: list[Table] = []
    for name, schema, coverage, cuts, like, chunks in document["tables"]:
        entity = schemas[schema].by_name[name]
        refs = {} if like is None else dict(enumerate(tables[like].chunks))
        refs |= {at: ChunkRef(digest, rows, whole) for at, digest, rows, whole in chunks}
        listed = tuple(refs[at] for at in range(len(cuts) + 1))
        partition = tuple(doc.key_from(key) for key in cuts)
        seen = doc.enumeration_from(coverage)
        tables.append(Table(entity, listed, partition, store, seen))
    found: dict[str, State] = {}
    for digest, (schema, listed_tables) in document["states"].items():
        own = [tables[at] for at in listed_tables]
        state = State(schemas[schema], {table.type.name: table for table in own})
        if state.digest() != digest:
            raise ValueError(f"the state {digest[:16]}… has another digest than it says")
        found[digest] = state
    return found


def capture_from(document: Json, states: Mapping[str, State]) -> Capture:
    """The capture that `capture_document` says, of these states; `LookupError` without one."""
    return Capture(
        tuple(
            SourceCapture(doc.reading_from(each["reading"]), states[each["state"]])
            for each in document
        )
    )


def captures_from(document: Json, states: Mapping[str, State]) -> tuple[Capture, Capture]:
    """Before and after, with all that feeds saw, of a trial's `captures.json`. `BundleError`."""
    check(document, _adapter(_CAPTURED), "captures.json")
    try:
        before, after = (capture_from(document[side], states) for side in ("before", "after"))
        return before, replace(after, history=seen_from(document["during"], states))
    except LookupError as error:
        raise BundleError(
            "captures.json: cannot be read: it names a state that states.json does not hold"
        ) from error


def states_in(captures: Iterable[Capture], wanted: Callable[[str], bool]) -> Iterator[State]:
    """Every state of these sources in the captures and their histories."""
    for capture in captures:
        yield from (part.state for part in capture.parts if wanted(part.reading.source))
        transactions = capture.history.transactions
        yield from (each.state for each in transactions if wanted(each.source))


class _Kept:
    def __init__(self) -> None:
        self.schemas: list[Json] = []
        self.tables: list[Json] = []
        self._schemas: dict[int, int] = {}
        self._types: dict[int, Json] = {}
        """By the identity of a type of a schema that is kept alive."""
        self._tables: dict[tuple[Any, ...], int] = {}
        self._last: dict[tuple[int, str], tuple[int, Table]] = {}
        self._same: dict[tuple[int, int], int] = {}
        """By the identity of a table and of its type: equal in every schema that has this type."""
        self._alive: list[Any] = []

    def state(self, state: State) -> Json:
        schema = self._schema(state)
        named = state.schema.by_name
        return [
            schema,
            [
                self._table(schema, state.tables[name], named.get(name))
                for name in sorted(state.tables)
            ],
        ]

    def _schema(self, state: State) -> int:
        # By identity first: the states of a run share their schema. A schema may not be hashed.
        at = self._schemas.get(id(state.schema))
        if at is None:
            self._alive.append(state.schema)  # or another might get its id
            told = doc.schema_document(state.schema, self._types)
            if told not in self.schemas:
                self.schemas.append(told)
            at = self.schemas.index(told)
            self._schemas[id(state.schema)] = at
        return at

    def _table(self, schema: int, table: Table, named: EntityType | None) -> int:
        at = self._same.get((id(table), id(named)))
        if at is None:
            at = self._same[id(table), id(named)] = self._told(schema, table)
            self._alive.append((table, named))  # or others might get their ids
        return at

    def _told(self, schema: int, table: Table) -> int:
        known = (schema, table.type.name, table.chunks, table.partition, table.enumeration)
        if known in self._tables:
            return self._tables[known]
        like, base = self._last.get((schema, table.type.name), (None, None))
        if base is None or base.partition != table.partition:
            like, base = None, None
        old: tuple[ChunkRef | None, ...] = (
            (None,) * len(table.chunks) if base is None else base.chunks
        )
        chunks = [
            [at, new.digest, new.rows, new.is_fully_observed]
            for at, (was, new) in enumerate(zip(old, table.chunks, strict=True))
            if was != new
        ]
        cuts = [doc.key_document(key) for key in table.partition]
        told = [
            table.type.name, schema, doc.enumeration_document(table.enumeration), cuts, like, chunks
        ]  # fmt: skip
        at = self._tables[known] = len(self.tables)
        self.tables.append(told)
        self._last[schema, table.type.name] = (at, table)
        return at
