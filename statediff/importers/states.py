"""Captures from exported rows: one base many runs share, and what a run made of it.

The schema is inferred (`systems/tables/source.py`, `inference`) and refined by the pack. A run
whose rows say more than the base does (a field, a kind, a type not seen before) gets a schema
inferred from both. A capture made of the base shares every chunk that its edits leave alone, and
its own chunks live as long as it does.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import SchemaFile
from statediff.errors import InputError
from statediff.importers.inference import infer
from statediff.model.batches import Row, encode_rows
from statediff.model.readings import Capture, Reading, ReadingKind, SourceCapture
from statediff.model.schema import EntityType, Schema
from statediff.model.state import ChunkRef, MemoryChunks, State, Table, build_table
from statediff.model.values import ABSENT, Key, Map, Value, key_order, printable, show_key
from statediff.systems.tables.shape import Document, Record
from statediff.systems.tables.source import fits, infer_schema, row_reader

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The instant of every reading: a recording does not say when the state it holds was true."""
CHUNK_ROWS: Final = 32
"""Few, because an edit writes a whole chunk again."""
WIDER_KEPT: Final = 8
"""States kept whose schema is wider than the base's."""


@dataclass(frozen=True)
class Edit:
    """One record before and after; None for a record that is not there."""

    type: str
    before: Record | None
    after: Record | None


def value_of(tree: Any) -> Value:
    """A parsed JSON value as a value of the model."""
    if isinstance(tree, dict):
        return Map.of({name: value_of(item) for name, item in tree.items()})
    if isinstance(tree, list):
        return tuple(value_of(item) for item in tree)
    known: Value = tree
    return known


def record_of(tree: Mapping[str, Any]) -> Record:
    """A parsed JSON object as a record."""
    return {name: value_of(item) for name, item in tree.items()}


class Base:
    """One exported state, built once.

    `hints` are further records, by type, whose fields and kinds belong to the schema although no
    such record is in the state: what the types that are empty there look like elsewhere.
    """

    def __init__(
        self,
        source: str,
        document: Document,
        schema: SchemaFile | None = None,
        hints: Document | None = None,
    ) -> None:
        self._source = source
        self._document = document
        self._refine: Callable[[Schema], Schema] = (
            (lambda found: found) if schema is None else refine(schema, source)
        )
        self._hints = hints or {}
        self._inferred = self._infer({})
        shown = {
            name: document.get(name) or self._hints.get(name, [])
            for name in {*document, *self._hints}
        }
        self._told = infer(self._inferred, shown)
        self._kept = self._build(self._inferred)
        self._wider: dict[Schema, State] = {}

    @property
    def schema(self) -> Schema:
        """The schema of the base alone."""
        return self._kept.schema

    def capture(self) -> Capture:
        """The base as it is, as the capture before."""
        return _capture(self._source, "before", self._kept)

    def pair(self, moved: Sequence[Edit], made: Sequence[Edit]) -> tuple[Capture, Capture]:
        """The captures of a run: before it the base had `moved` on, the run itself `made` edits.

        `InputError` where an edit is of a record that is not there, or creates one that is.
        """
        extra: Document = {}
        for edit in (*moved, *made):
            for record in (edit.before, edit.after):
                if record is not None:
                    extra.setdefault(edit.type, []).append(record)
        base = self._kept if self._knows(extra) else self._widened(self._infer(extra))
        before = _edited(base, moved)
        after = _edited(before, made)
        return _capture(self._source, "before", before), _capture(self._source, "after", after)

    def _knows(self, extra: Document) -> bool:
        types = self._inferred.by_name
        return all(
            name in types and all(fits(types[name], record) for record in records)
            for name, records in extra.items()
        )

    def _infer(self, extra: Document) -> Schema:
        if not extra:
            return infer_schema(self._source, self._document, self._hints)
        # Only the types that the run says more of; the others are as they were.
        part = infer_schema(
            self._source,
            {name: self._document.get(name, []) for name in extra},
            {name: [*self._hints.get(name, []), *records] for name, records in extra.items()},
        )
        types = {**self._inferred.by_name, **part.by_name}
        ordered = tuple(types[name] for name in sorted(types))
        return replace(
            self._inferred, types=ordered, sources=((self._source, tuple(sorted(types))),)
        )

    def _widened(self, inferred: Schema) -> State:
        state = self._wider.pop(inferred, None) or self._build(inferred)
        self._wider[inferred] = state
        if len(self._wider) > WIDER_KEPT:
            del self._wider[next(iter(self._wider))]
        return state

    def _build(self, inferred: Schema) -> State:
        schema = self._refine(self._told.laid_over(inferred))
        store = MemoryChunks()
        tables = {
            t.name: _built(t, self._document.get(t.source_table, []), store) for t in schema.types
        }
        return State(schema, tables)


def _built(entity: EntityType, records: Iterable[Record], store: MemoryChunks) -> Table:
    read = row_reader(entity)
    rows = [read(record) for record in records]
    if entity.is_keyless:
        return build_table(entity, rows, store)
    keys = sorted((_key(entity, row) for row in rows), key=key_order)
    cuts = tuple(keys[CHUNK_ROWS::CHUNK_ROWS])
    like = Table(entity, (), cuts, store)
    try:
        return build_table(entity, rows, store, like=like)
    except ValueError as error:
        raise InputError(str(error)) from error


def _capture(source: str, moment: str, state: State) -> Capture:
    reading = Reading(
        f"{moment}/{source}",
        source,
        ReadingKind.SCAN,
        as_of=EPOCH,
        clock="recording",
        is_complete=True,
        digest=state.digest(),
    )
    return Capture((SourceCapture(reading, state),))


def _edited(state: State, edits: Sequence[Edit]) -> State:
    if not edits:
        return state
    types = {t.source_table: t for t in state.schema.types}
    tables = dict(state.tables)
    grouped: dict[str, list[Edit]] = {}
    for edit in edits:
        grouped.setdefault(edit.type, []).append(edit)
    for name, group in grouped.items():
        entity = types[name]
        table = tables[entity.name]
        change = _rewritten if entity.is_keyless else _replaced
        tables[entity.name] = change(table, group)
    return State(state.schema, tables)


def _replaced(table: Table, edits: Sequence[Edit]) -> Table:
    """The table with the edited keys' chunks written again, all others shared."""
    entity = table.type
    read = row_reader(entity)
    found: dict[Key, Row | None] = {}
    for edit in edits:
        for record, is_new in ((edit.before, False), (edit.after, True)):
            if record is None:
                continue
            row = read(record)
            key = _key(entity, row)
            there = found[key] if key in found else table.row(key)
            if not is_new and there is None:
                raise InputError(f"{_name(entity, key)} is changed, and is not there")
            if is_new and there is not None:
                raise InputError(f"{_name(entity, key)} is created, and is there already")
            found[key] = row if is_new else None
    cuts = [key_order(cut) for cut in table.partition]
    store = _Layered(table.store)
    chunks = list(table.chunks)
    by_chunk: dict[int, dict[Key, Row | None]] = {}
    for key, after in found.items():
        at = _chunk_of(cuts, key)
        by_chunk.setdefault(at, {})[key] = after
    for at, changed in by_chunk.items():
        single = replace(table, chunks=(chunks[at],), partition=())
        rows = dict(single.rows())
        rows.update({key: row for key, row in changed.items() if row is not None})
        for key in (key for key, row in changed.items() if row is None):
            rows.pop(key, None)
        ordered = sorted(rows.items(), key=lambda pair: key_order(pair[0]))
        chunks[at] = store.put(encode_rows(entity, ordered))
    return replace(table, chunks=tuple(chunks), store=store)


def _rewritten(table: Table, edits: Sequence[Edit]) -> Table:
    """The table of a type without a key, as a multiset."""
    read = row_reader(table.type)
    rows = [row for _, row in table.rows()]
    for edit in edits:
        if edit.before is not None:
            gone = read(edit.before)
            if gone not in rows:
                raise InputError(f"a {printable(table.type.name)} is changed, and is not there")
            rows.remove(gone)
        if edit.after is not None:
            rows.append(read(edit.after))
    return build_table(table.type, rows, _Layered(table.store))


def _chunk_of(cuts: Sequence[tuple[Any, ...]], key: Key) -> int:
    return bisect.bisect_right(cuts, key_order(key))


def _key(entity: EntityType, row: Row) -> Key:
    parts = []
    for name in entity.key:
        part = row.get(name, ABSENT)
        if part is ABSENT or part is None or isinstance(part, tuple | Map):
            raise InputError(f"a {printable(entity.name)} has no {printable(name)}")
        parts.append(part)
    return tuple(parts)  # type: ignore[arg-type]  # values: converters make no other kind


def _name(entity: EntityType, key: Key) -> str:
    return f"{printable(entity.name)} {show_key(key)}"


class _Layered(MemoryChunks):
    """Chunks of one run over those of the base: dropped with the run."""

    def __init__(self, under: Any) -> None:
        super().__init__()
        self._under = under

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        return super().get(ref) if ref.digest in self._batches else self._under.get(ref)

    def piece(self, ref: ChunkRef) -> pa.Buffer:
        return super().piece(ref) if ref.digest in self._batches else self._under.piece(ref)
