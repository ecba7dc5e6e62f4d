"""Captures from exported rows: one base many runs share, and what a run made of it.

The schema is inferred (`systems/tables/source.py`, `infer`) and refined by the pack. A run
whose rows say more than the base does (a field, a kind, a type not seen before) gets a schema
inferred from both. A capture made of the base shares every chunk that its edits leave alone, and
its own chunks live as long as it does.

Where the benchmark's files declare no keys and no references, `infer` finds them. `infer_schema`
finds fields and their kinds, and the key `id`. Exports of whole databases also spell keys
`user_id`, have rows that only join two others, and refer by name or by value:

1. Key: `id`; else the type's own name with `_id` or `Id`, if it is there and unique in every row;
   else all such columns together, if they are; else none, and rows are counted. A type of which
   only its key is known is an association.
2. Reference: a column that is called like a type, with or without `_id` or `Id`; else a text column
   called so whose values are all keys of exactly one type. Integers prove nothing: every table
   counts from 1.

All of it follows from the state before and the pack's hints, never from a run, and a pack's schema
file has the last word.

`schema_yaml` and `tables_json` write the schema and the states in the files that every command
reads.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from statediff.contract.document.refinement import refine
from statediff.contract.document.schemafile import SchemaFile
from statediff.errors import InputError
from statediff.model.batches import Row, encode_rows
from statediff.model.readings import Capture, Reading, ReadingKind, SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import LayeredChunks, MemoryChunks, State, Table, build_table
from statediff.model.values import (
    ABSENT,
    Key,
    Map,
    Observed,
    Value,
    is_value,
    key_order,
    printable,
    show,
    show_key,
)
from statediff.systems.tables.inference import fits, infer_schema
from statediff.systems.tables.shape import Document, Record
from statediff.systems.tables.source import row_reader
from statediff_lab.importers.pack import compose_yaml

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
        self._keys = infer(self._inferred, shown)
        self._kept = self._build(self._inferred)
        self._wider: dict[Schema, State] = {}

    @property
    def schema(self) -> Schema:
        """The schema of the base alone."""
        return self._kept.schema

    def capture(self) -> Capture:
        """The base as it is, as the capture before."""
        return capture_of(self._source, "before", self._kept)

    def pair(
        self, moved: Sequence[Edit], made: Sequence[Edit], later: Sequence[Edit] = ()
    ) -> tuple[Capture, Capture]:
        """The captures of a run: before it the base had `moved` on, the run itself `made` edits.

        Of `later` edits the schema has the fields, so that all states of a run are of one schema.
        `InputError` where an edit is of a record that is not there, or creates one that is.
        """
        extra: Document = {}
        for edit in (*moved, *made, *later):
            for record in (edit.before, edit.after):
                if record is not None:
                    extra.setdefault(edit.type, []).append(record)
        base = self._kept if self._knows(extra) else self._widen(self._infer(extra))
        before = _edit_table(base, moved)
        after = _edit_table(before, made)
        return capture_of(self._source, "before", before), capture_of(self._source, "after", after)

    def _knows(self, extra: Document) -> bool:
        types = self._inferred.by_name
        return all(
            name in types and all(fits(types[name], record) for record in records)
            for name, records in extra.items()
        )

    def _infer(self, extra: Document) -> Schema:
        if not extra:
            return infer_schema(self._source, self._document, self._hints, bases=2)
        # Only the types that the run says more of; the others are as they were.
        part = infer_schema(
            self._source,
            {name: self._document.get(name, []) for name in extra},
            {name: self._hints.get(name, []) for name in extra},
            extra,
            bases=2,
        )
        types = {**self._inferred.by_name, **part.by_name}
        ordered = tuple(types[name] for name in sorted(types))
        return replace(
            self._inferred, types=ordered, sources=((self._source, tuple(sorted(types))),)
        )

    def _widen(self, inferred: Schema) -> State:
        state = self._wider.pop(inferred, None) or self._build(inferred)
        self._wider[inferred] = state
        if len(self._wider) > WIDER_KEPT:
            del self._wider[next(iter(self._wider))]
        return state

    def _build(self, inferred: Schema) -> State:
        schema = self._refine(self._keys.laid_over(inferred))
        store = MemoryChunks()
        tables = {
            t.name: _build(t, self._document.get(t.source_table, []), store) for t in schema.types
        }
        return State(schema, tables)


def _build(entity: EntityType, records: Iterable[Record], store: MemoryChunks) -> Table:
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


def capture_of(source: str, moment: str, state: State) -> Capture:
    """The state as it was seen `before` or `after` a run."""
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


def _edit_table(state: State, edits: Sequence[Edit]) -> State:
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
        change = _rewrite_rows if entity.is_keyless else _replace_rows
        tables[entity.name] = change(table, group)
    return State(state.schema, tables)


def _replace_rows(table: Table, edits: Sequence[Edit]) -> Table:
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
    store = LayeredChunks(table.store)
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


def _rewrite_rows(table: Table, edits: Sequence[Edit]) -> Table:
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
    return build_table(table.type, rows, LayeredChunks(table.store))


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


_IDENTIFIER: Final = re.compile(r"(.*[^_])(?:_id|_ID|Id|ID)")


@dataclass(frozen=True)
class InferredKeys:
    """Inferences from the base beyond kinds: keys by type, references by type and field."""

    keys: Mapping[str, tuple[str, ...]]
    associations: frozenset[str]
    references: Mapping[tuple[str, str], str]

    def laid_over(self, schema: Schema) -> Schema:
        """The schema with these keys and references in it."""
        return replace(schema, types=tuple(self._with_keys(entity) for entity in schema.types))

    def _with_keys(self, entity: EntityType) -> EntityType:
        key = self.keys.get(entity.name, ())
        if not key or any(part not in entity.by_name for part in key):
            key = entity.key
        order = {name: place for place, name in enumerate(key)}
        fields = tuple(
            replace(
                f,
                reference=self.references.get((entity.name, f.name), f.reference),
                is_nullable=f.is_nullable and f.name not in order,
            )
            for f in sorted(entity.fields, key=lambda f: (order.get(f.name, len(order)), f.name))
        )
        return replace(
            entity, key=key, fields=fields, is_association=entity.name in self.associations
        )


def infer(schema: Schema, document: Document) -> InferredKeys:
    """The keys and references that the records of the document show."""
    keys = {
        entity.name: found
        for entity in schema.types
        if (found := entity.key or _inferred_key(entity.name, document.get(entity.name, [])))
    }
    known: dict[str, set[object]] = {
        name: {record.get(key[0]) for record in document.get(name, [])}
        for name, key in keys.items()
        if len(key) == 1
    }
    associations = frozenset(
        entity.name
        for entity in schema.types
        if len(keys.get(entity.name, ())) > 1
        and {f.name for f in entity.fields} == set(keys[entity.name])
    )
    references = {
        (entity.name, f.name): target
        for entity in schema.types
        for f in entity.fields
        if keys.get(entity.name) != (f.name,)
        for target in _targets(f, document.get(entity.name, []), known)
    }
    return InferredKeys(keys, associations, references)


def _inferred_key(name: str, records: Sequence[Record]) -> tuple[str, ...]:
    if not records:
        return ()
    columns = [c for c in records[0] if all(isinstance(r.get(c), str | int) for r in records)]
    own = {word + end for word in _spellings(name) for end in ("_id", "Id")}
    for column in columns:
        if column in own and _is_unique(records, (column,)):
            return (column,)
    together = tuple(sorted(c for c in columns if _IDENTIFIER.fullmatch(c)))
    return together if len(together) > 1 and _is_unique(records, together) else ()


def _is_unique(records: Sequence[Record], columns: tuple[str, ...]) -> bool:
    return len({tuple(record[c] for c in columns) for record in records}) == len(records)


def _targets(
    field: Field, records: Sequence[Record], known: Mapping[str, set[object]]
) -> Iterator[str]:
    """The one type that the field refers to, or nothing."""
    stem = _IDENTIFIER.fullmatch(field.name)
    spelled = stem[1] if stem else field.name
    named = [name for name in known if spelled in _spellings(name)]
    if named:
        yield min(named)
    elif stem and field.kind is Kind.TEXT:
        values = {record[field.name] for record in records if record.get(field.name) is not None}
        holding = [name for name, there in known.items() if values and values <= there]
        if len(holding) == 1:
            yield holding[0]


def _spellings(name: str) -> set[str]:
    """A collection's name, and its singular."""
    ends = (("ies", "y"), ("ses", "s"), ("s", ""))
    return {name, *(name.removesuffix(end) + put for end, put in ends if name.endswith(end))}


_FIELD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")


def schema_yaml(name: str, schema: Schema) -> bytes:
    """The schema as a state schema file that says all it says: keys, kinds, references."""
    sources = {entity: source for source, names in schema.sources for entity in names}
    return compose_yaml(
        {"schema": re.sub(r"[^a-z0-9_-]+", "-", name.lower()) or "imported", "version": "1.0.0"},
        {"entities": {t.name: _entity_yaml(t, sources.get(t.name, "")) for t in schema.types}},
    )


def _entity_yaml(entity: EntityType, source: str) -> dict[str, Any]:
    found: dict[str, Any] = {"table": entity.source_table, "optional": True}
    if source:
        found["source"] = source
    found["key"] = list(entity.key) or "none"
    if entity.is_association:
        found["association"] = True
    if entity.deleted_when is not None:
        found["deleted_when"] = entity.deleted_when
    fields = {f.name: _field_yaml(f) for f in entity.fields if _FIELD.fullmatch(f.name)}
    return {**found, "fields": fields} if fields else found


def _field_yaml(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"type": field.kind.value, "nullable": field.is_nullable}
    if field.source_column != field.name:
        found["column"] = field.source_column
    if field.reference is not None:
        found["to"] = field.reference
    if field.kind is Kind.TIMESTAMP and field.zone is not None:
        found["zone"] = field.zone
    return found


def tables_json(capture: Capture) -> tuple[tuple[str, bytes], ...]:
    """The captured state of each source as plain JSON tables: (source, content)."""
    return tuple(
        (
            part.reading.source,
            _json(
                {
                    table.type.source_table: [
                        {
                            f.source_column: row[f.name]
                            for f in table.type.fields
                            if is_value(row[f.name])
                        }
                        for _, row in table.rows()
                    ]
                    for _, table in sorted(part.state.tables.items())
                }
            ).encode(),
        )
        for part in capture.parts
    )


def _json(value: Observed | dict[str, Any] | list[Any]) -> str:
    """The value as JSON; a decimal digit for digit, which no double would keep."""
    match value:
        case dict():
            inside = (f"{json.dumps(k)}: {_json(v)}" for k, v in value.items())
            return "{" + ", ".join(inside) + "}"
        case Map(items):
            return "{" + ", ".join(f"{json.dumps(k)}: {_json(v)}" for k, v in items) + "}"
        case list() | tuple():
            return "[" + ", ".join(_json(item) for item in value) + "]"
        case Decimal():
            return format(value, "f")
        case None | bool() | int() | str():
            return json.dumps(value)
        case _:
            return json.dumps(show(value, 10_000))
