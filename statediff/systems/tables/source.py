"""Plain JSON tables as a source: `{type: [record, …]}`, the state of any system as it was exported.

What a contract can name is fixed by the state *before*, so that no run can make a contract invalid:
a type is keyed by `id` when every record before has one, else its records are a multiset; a type
without a record before is open, and any field of it may be named. A field that is called like a
type refers to it. A missing field is absent, which is not null. A record after that lacks its key
leaves the enumeration incomplete, and is a change of the source.

A state after that does not name a type says nothing of it: the type is unobserved, unless the state
schema says that it may be missing. An empty list says that there are none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import ClassVar, Final

from statediff.capture.source import Clock, SourceRuined, scanned
from statediff.errors import InputError
from statediff.model.batches import Row
from statediff.model.instants import NO_FORM, form_of_texts
from statediff.model.readings import SourceCapture
from statediff.model.schema import INSTANTS, EntityType, Field, Kind, Schema
from statediff.model.state import (
    COMPLETE,
    ChunkStore,
    Coverage,
    Enumeration,
    State,
    Table,
    build_table,
)
from statediff.model.values import (
    ABSENT,
    Key,
    Map,
    Observed,
    Unobserved,
    Value,
    key_order,
    printable,
    show_key,
)
from statediff.systems.base.rows import Convert, converter
from statediff.systems.tables.shape import (
    Document,
    Record,
    TablesAfter,
    is_list,
    parse_tables,
    read_document,
    tables_after,
)

ID: Final = "id"
Refine = Callable[[Schema], Schema]


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """One side, read; `cause` says why there is nothing where nothing could be read."""

    document: Document
    gaps: Mapping[str, Enumeration]
    schema: Schema
    cause: str | None
    spoiled: set[str] = dataclass_field(default_factory=set)
    """What is there after the run and is no record, or no record of its own."""


class TablesSource:
    """One JSON tables file, or its bytes, as a source.

    `companion` is the other side's bytes (`companion_file` is how messages name it): types and
    fields are inferred from both, so that before and after have one schema; `is_after` says that
    the companion is the state before. Where states in between are known too, `along` holds the name
    and the bytes of every state of the run, in order, instead. Every fault of a state before is an
    `InputError`, which the caller can fix. A run could have left the faults of a state after: what
    they keep from being read is unobserved, and that it was readable before is a change. Where the
    state before is a list of records, they are of the type `alone`.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "anything but the records of the file: it is taken for the whole state",
        "the order of records, and how numbers and texts are written in the file",
    )

    def __init__(
        self,
        name: str,
        content: Path | str | bytes,
        refine: Refine | None = None,
        companion: bytes | None = None,
        companion_file: str = "",
        *,
        is_after: bool = False,
        along: Sequence[tuple[str, bytes]] = (),
        alone: str | None = None,
    ) -> None:
        self._name = name
        self._content = content
        self._refine = refine
        self._companion = companion
        self._companion_file = companion_file
        self._is_after = is_after
        self._along = along
        self._alone = alone
        self._loaded: _Loaded | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def file(self) -> str:
        """How messages name the file: its path, or the source's name where there is none."""
        return self._name if isinstance(self._content, bytes) else str(self._content)

    def schema(self) -> Schema:
        return self._load().schema

    def read(self, store: ChunkStore, clock: Clock, like: State | None) -> SourceCapture:
        loaded = self._load()
        if loaded.cause is not None:
            raise SourceRuined(loaded.cause)
        as_of = clock()
        tables = {
            t.name: self._table(t, loaded, store, None if like is None else like.tables.get(t.name))
            for t in loaded.schema.types
        }
        state = State(loaded.schema, tables)
        gaps = [t.enumeration.cause or "" for t in tables.values() if not t.enumeration.is_complete]
        part = scanned(self._name, as_of, state, gaps=gaps[:1])
        return replace(part, spoiled=tuple(loaded.spoiled))

    def _load(self) -> _Loaded:
        if self._loaded is None:
            own, cause = self._own()
            sides = self._sides(own.document)
            schema = infer_schema(self._name, *sides)
            refined = schema if self._refine is None else self._refine(schema)
            stated = with_forms(refined, sides)
            self._loaded = _Loaded(document=own.document, gaps=own.gaps, schema=stated, cause=cause)
        return self._loaded

    def _own(self) -> tuple[TablesAfter, str | None]:
        """This side's tables, and why there are none where a run left none to read."""
        try:
            raw = self._content if isinstance(self._content, bytes) else read_document(self.file)
        except InputError as error:
            if not self._is_after:
                raise
            return TablesAfter({}), str(error)
        if not self._is_after:
            return TablesAfter(parse_tables(raw, self.file, self._alone)), None
        return _after(raw, self.file, self._alone_after())

    def _sides(self, own: Document) -> list[Document]:
        """The documents that make the schema, the state before first."""
        if self._along:
            (file, first), *rest = self._along
            alone = self._alone_after()
            after = [_after(content, name, alone)[0].document for name, content in rest]
            return [parse_tables(first, file, self._alone), *after]
        if self._companion is None:
            return [own]
        other = self._companion_file or f"the other side of {self.file}"
        if self._is_after:
            return [parse_tables(self._companion, other, self._alone), own]
        return [own, _after(self._companion, other, self._alone_after())[0].document]

    def _alone_after(self) -> str | None:
        """The type of a list that a run left: none where there was no list before it."""
        if self._along:
            first = self._along[0][1]
        elif self._is_after:
            first = self._companion or b""
        else:
            first = self._content if isinstance(self._content, bytes) else read_document(self.file)
        return self._alone if is_list(first) else None

    def _table(
        self, entity_type: EntityType, loaded: _Loaded, store: ChunkStore, like: Table | None
    ) -> Table:
        records = loaded.document.get(entity_type.source_table)
        if not self._is_after:
            return self._table_before(entity_type, records or [], store, like)
        known = loaded.gaps.get(entity_type.source_table, COMPLETE)
        if records is None and known is COMPLETE and not entity_type.is_optional:
            cause = f"{printable(self.file)} does not name {entity_type.source_table}"
            known = Enumeration(Coverage.UNOBSERVED, cause)
        elif not known.is_complete:
            loaded.spoiled.add(known.cause or "unread")
        if known.coverage is Coverage.UNOBSERVED:
            empty = build_table(entity_type, (), store, like=like)
            return empty.unobserved(known.cause or "unread")
        read = row_reader(entity_type)
        rows: list[Row] = [read(record) for record in records or []]
        lost = [i for i, row in enumerate(rows) if _lacks_key(entity_type, row)]
        if lost:
            rows = [row for i, row in enumerate(rows) if i not in set(lost)]
            cause = f"record {lost[0]} of {entity_type.name} has no {entity_type.key[0]}"
            known = Enumeration(Coverage.INCOMPLETE, cause)
            loaded.spoiled.add(cause)
        if not entity_type.is_keyless:
            rows, shared = _without_doubles(entity_type, rows, loaded.spoiled)
            if shared is not None:
                known = Enumeration(Coverage.INCOMPLETE, shared)
        return build_table(entity_type, rows, store, like=like, enumeration=known)

    def _table_before(
        self, entity_type: EntityType, records: list[Record], store: ChunkStore, like: Table | None
    ) -> Table:
        read = row_reader(entity_type)
        rows: list[Row] = [read(record) for record in records]
        if not entity_type.is_keyless:
            self._check_keys(entity_type, rows)
        return build_table(entity_type, rows, store, like=like)

    def _check_keys(self, entity_type: EntityType, rows: list[Row]) -> None:
        seen: dict[object, int] = {}
        for index, row in enumerate(rows):
            where = f'{printable(self.file)}: type "{printable(entity_type.name)}", record {index}'
            for part in entity_type.key:
                if row[part] is ABSENT:
                    raise InputError(f"{where}: the key field {part} is missing")
            key: Key = tuple(row[part] for part in entity_type.key)  # type: ignore[misc]  # values
            first = seen.setdefault(key_order(key), index)
            if first != index:
                named = ", ".join(entity_type.key)
                raise InputError(
                    f"{where}: duplicate {named} {show_key(key)}, first used by record {first}"
                )


def _after(raw: bytes, file: str, alone: str | None) -> tuple[TablesAfter, str | None]:
    """A state that a run left, and why it is none where it cannot be read at all."""
    try:
        return tables_after(raw, file, alone), None
    except InputError as error:
        return TablesAfter({}), str(error)


def _without_doubles(
    entity_type: EntityType, rows: list[Row], spoiled: set[str]
) -> tuple[list[Row], str | None]:
    """One row a key; of rows that share one, nothing else is known.

    That there is such an entity is known, and that no other is there, so that what a run deleted
    stays deleted. Where the key is all there is, the number of rows is not known: the cause.
    """
    by_key: dict[object, list[Row]] = {}
    for row in rows:
        key: Key = tuple(row[part] for part in entity_type.key)  # type: ignore[misc]  # values
        by_key.setdefault(key_order(key), []).append(row)
    single: list[Row] = []
    shared: str | None = None
    for same_key in by_key.values():
        row = same_key[0]
        if len(same_key) > 1:
            shown = show_key(tuple(row[part] for part in entity_type.key))  # type: ignore[misc]
            cause = f"{len(same_key)} records of {entity_type.name} are {shown}"
            spoiled.add(cause)
            row = {n: c if n in entity_type.key else Unobserved(cause) for n, c in row.items()}
            if len(row) == len(entity_type.key):
                shared = cause
        single.append(row)
    return single, shared


def _lacks_key(entity_type: EntityType, row: Row) -> bool:
    # A null, list or map identifies nothing.
    return any(
        row[part] is ABSENT or row[part] is None or isinstance(row[part], (tuple, Map))
        for part in entity_type.key
    )


def _is_identity(entity_type: EntityType, field: Field) -> bool:
    # Two spellings of one instant or number must stay two keys.
    return field.name in entity_type.key or field.reference is not None


def row_reader(entity_type: EntityType) -> Callable[[Record], Row]:
    """How a record becomes a row of the type: its fields by name, read as the kinds they have."""
    readers = [
        (f.name, f.source_column, None if _is_identity(entity_type, f) else converter(f))
        for f in entity_type.fields
    ]
    return lambda record: dict(_fields(record, readers))


def _fields(
    record: Record, readers: list[tuple[str, str, Convert | None]]
) -> Iterator[tuple[str, Observed]]:
    for name, column, convert in readers:
        stored = record.get(column, ABSENT)
        yield name, stored if convert is None or stored is ABSENT else convert(stored)


def infer_schema(name: str, *documents: Document) -> Schema:
    """One schema for all the documents, the base first: types and fields by name, `id` in front.

    A field's kind is the one kind all its values have (integers beside decimals are decimals); null
    says nothing. Where values of several kinds stand, it is the one kind of the first document that
    has any: what a run wrote in another kind is a value, and no reason to type the field anew. A
    mixture in that document is `any`.
    """
    names = sorted({type_name for document in documents for type_name in document})
    found = [_infer_type(n, [d.get(n, []) for d in documents]) for n in names]
    keyed = {entity.name for entity in found if entity.key}
    types = tuple(replace(entity, fields=_referring(entity, keyed)) for entity in found)
    return Schema(name, "0", types, ((name, tuple(names)),))


def with_forms(schema: Schema, documents: Sequence[Document]) -> Schema:
    """The schema whose instants all have a form: the stated one, else that of all texts.

    It is that of the first document in which the field has a text, the state before; where there
    is no text at all, or no one form, the field holds texts.
    """
    return replace(schema, types=tuple(_with_forms(t, documents) for t in schema.types))


def _with_forms(entity_type: EntityType, documents: Sequence[Document]) -> EntityType:
    open_ = [f for f in entity_type.fields if f.kind in INSTANTS and f.form is None]
    if not open_:
        return entity_type
    forms = {f.name: _form_in(entity_type.source_table, f.source_column, documents) for f in open_}
    return replace(
        entity_type,
        fields=tuple(replace(f, form=forms.get(f.name, f.form)) for f in entity_type.fields),
    )


def _form_in(table: str, column: str, documents: Sequence[Document]) -> str:
    for document in documents:
        texts = [r[column] for r in document.get(table, ()) if isinstance(r.get(column), str)]
        if texts:
            return form_of_texts(str(text) for text in texts)
    return NO_FORM


def fits(entity_type: EntityType, record: Record) -> bool:
    """Whether a type that was inferred without the record would be the same inferred with it."""
    known = entity_type.by_name
    return (
        not entity_type.is_open
        and record.keys() <= known.keys()
        and all(part in record for part in entity_type.key)
        and all(
            f.is_nullable
            if (value := record.get(f.name)) is None
            else _one_kind({f.kind, _kind_of(value)}) is f.kind
            for f in entity_type.fields
            if f.name not in entity_type.key or f.name in record
        )
    )


def _infer_type(type_name: str, sides: list[list[Record]]) -> EntityType:
    kinds: dict[str, set[Kind | None]] = {}
    by_side: list[dict[str, set[Kind | None]]] = [{} for _ in sides]
    present: dict[str, int] = {}
    total = 0
    for records, here in zip(sides, by_side, strict=True):
        total += len(records)
        for record in records:
            for field, value in record.items():
                kind = _kind_of(value)
                kinds.setdefault(field, set()).add(kind)
                here.setdefault(field, set()).add(kind)
                present[field] = present.get(field, 0) + 1
    basis = next((records for records in sides if records), [])
    # A null, list or map identifies nothing.
    keyed = all(
        ID in record and _kind_of(record[ID]) not in (None, Kind.LIST, Kind.MAP) for record in basis
    )
    if keyed:
        kinds.setdefault(ID, {None})
    fields = tuple(
        Field(
            field,
            _kind_on_sides(kinds[field], [here.get(field, set()) for here in by_side]),
            is_nullable=None in kinds[field] or present.get(field, 0) < total,
        )
        for field in sorted(kinds, key=lambda f: (f != ID, f))
    )
    return EntityType(type_name, (ID,) if keyed else (), fields, is_open=not sides[0], is_json=True)


def _referring(entity: EntityType, keyed: set[str]) -> tuple[Field, ...]:
    """The fields, those that are called like a keyed type referring to it."""
    return tuple(
        replace(f, reference=f.name) if f.name in keyed and f.name not in entity.key else f
        for f in entity.fields
    )


def _kind_on_sides(kinds: set[Kind | None], by_side: list[set[Kind | None]]) -> Kind:
    """The one kind of all, else that of the first side on which the field has a value."""
    whole = _one_kind(kinds)
    if whole is not Kind.ANY:
        return whole
    return next((_one_kind(here) for here in by_side if here - {None}), Kind.ANY)


def _one_kind(kinds: set[Kind | None]) -> Kind:
    known = kinds - {None}
    if known == {Kind.INT, Kind.DECIMAL}:
        return Kind.DECIMAL
    one = next(iter(known)) if len(known) == 1 else None
    return Kind.ANY if one is None else one


def _kind_of(value: Value) -> Kind | None:
    match value:
        case None:
            return None
        case bool():
            return Kind.BOOL
        case int():
            return Kind.INT
        case str():
            return Kind.TEXT
        case tuple():
            return Kind.LIST
        case Map():
            return Kind.MAP
        case bytes():
            return Kind.BYTES
        case _:
            return Kind.DECIMAL
