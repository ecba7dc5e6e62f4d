"""Plain JSON tables as a source: `{type: [record, …]}`, the state of any system as it was exported.

What a contract can name is fixed by the state *before*, so that no run can make a contract invalid:
a type is keyed by `id` when every record before has one, else its records are a multiset; a type
without a record before is open, and any field of it may be named. A field that is called like a
type refers to it. A missing field is absent, which is not null. A record after that lacks its key
leaves the enumeration incomplete, and is a change of the source.

A state after that does not name a type has none of it: its records are gone. That the type itself
is gone is a change of the source, unless the state schema says that the exporter may leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from pathlib import Path
from typing import ClassVar

from statediff.capture.source import Clock, SourceRuined, scanned
from statediff.errors import InputError
from statediff.model.batches import Row
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Schema
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
    Unobserved,
    key_order,
    printable,
    show_key,
)
from statediff.systems.tables.columns import (
    Odd,
    columns_of,
    is_narrow,
    reader,
    table_of_columns,
)
from statediff.systems.tables.inference import infer_schema, with_forms
from statediff.systems.tables.shape import (
    Document,
    Given,
    Record,
    TablesAfter,
    is_list,
    parse_tables,
    read_document,
    tables_after,
)

Refine = Callable[[Schema], Schema]


@dataclass(frozen=True, kw_only=True)
class _Loaded:
    """One side, read; `cause` says why there is nothing where nothing could be read."""

    document: Document
    gaps: Mapping[str, Enumeration]
    schema: Schema
    cause: str | None
    spoiled: set[str] = dataclass_field(default_factory=set)
    """The things that are there after the run and are no record, or no record of their own."""


class Parsed:
    """The documents of a series of states, each parsed once whichever source asks.

    Where the state before is a list of records, they are of the type `alone`. A state that is given
    by its bytes is called by the `label` in messages.
    """

    def __init__(self, alone: str | None = None, label: str = "") -> None:
        self.alone = alone
        self.label = label
        self._before: dict[tuple[Given, str, str | None], Document] = {}
        self._after: dict[tuple[Given, str, str | None], tuple[TablesAfter, str | None]] = {}
        self._inferred: tuple[Sequence[Document], Schema] | None = None

    def before(self, raw: Given, file: str, alone: str | None) -> Document:
        """The tables of the state before; `InputError` where it is none."""
        key = raw, file, alone
        if key not in self._before:
            self._before[key] = parse_tables(raw, file, alone)
        return self._before[key]

    def schema(self, name: str, sides: Sequence[Document]) -> Schema:
        """The schema that `infer_schema` finds in the documents of all states."""
        known = self._inferred
        if known is None or list(map(id, known[0])) != list(map(id, sides)):
            known = self._inferred = sides, infer_schema(name, *sides)
        return known[1]

    def after(self, raw: Given, file: str, alone: str | None) -> tuple[TablesAfter, str | None]:
        """A state that a run left, and why it is none where it cannot be read at all."""
        key = raw, file, alone
        if key not in self._after:
            self._after[key] = _after(raw, file, alone)
        return self._after[key]


class TablesSource:
    """One JSON tables file, its bytes, or what an export says, as a source.

    `companion` is the other side's bytes (`companion_file` is how messages name it): types and
    fields are inferred from both, so that before and after have one schema; `is_after` says that
    the companion is the state before. Where states in between are known too, `along` holds the name
    and the bytes of every state of the run, in order, instead. Every fault of a state before is an
    `InputError`, which the caller can fix. A run could have left the faults of a state after: what
    they keep from being read is unobserved, and that it was readable before is a change. The
    sources of one series share what is `parsed`.
    """

    not_observed: ClassVar[tuple[str, ...]] = (
        "anything but the records of the file: it is taken for the whole state",
        "of JSON: the order of records, and how numbers and texts are written in the file",
    )

    def __init__(
        self,
        name: str,
        content: Path | str | Given,
        refine: Refine | None = None,
        companion: Given | None = None,
        companion_file: str = "",
        *,
        is_after: bool = False,
        along: Sequence[tuple[str, Given]] = (),
        parsed: Parsed | None = None,
    ) -> None:
        self._name = name
        self._content = content
        self._refine = refine
        self._companion = companion
        self._companion_file = companion_file
        self._is_after = is_after
        self._along = along
        self._parsed = parsed or Parsed()
        self._alone = self._parsed.alone
        self._loaded: _Loaded | None = None

    @property
    def name(self) -> str:
        return self._name

    @property
    def file(self) -> str:
        """How messages name the file: its path, or the source's name where there is none."""
        if isinstance(self._content, Given):
            return self._parsed.label or self._name
        return str(self._content)

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
        return scanned(self._name, as_of, state, gaps=gaps[:1], spoiled=tuple(loaded.spoiled))

    def _load(self) -> _Loaded:
        if self._loaded is None:
            own, cause = self._own()
            sides = self._sides(own.document)
            schema = self._parsed.schema(self._name, sides)
            refined = schema if self._refine is None else self._refine(schema)
            stated = with_forms(refined, sides)
            self._loaded = _Loaded(document=own.document, gaps=own.gaps, schema=stated, cause=cause)
            # What is called like no type that there is came in the run.
            stray = own.gaps.keys() - schema.by_name.keys()
            self._loaded.spoiled.update(own.gaps[name].cause or "unread" for name in stray)
        return self._loaded

    def _own(self) -> tuple[TablesAfter, str | None]:
        """This side's tables, and why there are none where a run left none to read."""
        try:
            raw = self._content if isinstance(self._content, Given) else read_document(self.file)
        except InputError as error:
            if not self._is_after:
                raise
            return TablesAfter({}), str(error)
        if not self._is_after:
            return TablesAfter(self._parsed.before(raw, self.file, self._alone)), None
        return self._parsed.after(raw, self.file, self._alone_after())

    def _sides(self, own: Document) -> list[Document]:
        """The documents that make the schema, the state before first."""
        if self._along:
            (file, first), *rest = self._along
            alone = self._alone_after()
            after = [self._parsed.after(content, name, alone)[0].document for name, content in rest]
            return [self._parsed.before(first, file, self._alone), *after]
        if self._companion is None:
            return [own]
        other = self._companion_file or f"the other side of {self.file}"
        if self._is_after:
            return [self._parsed.before(self._companion, other, self._alone), own]
        return [own, self._parsed.after(self._companion, other, self._alone_after())[0].document]

    def _alone_after(self) -> str | None:
        """The type of a list that a run left: none where there was no list before it."""
        return self._alone if is_list(self._first()) else None

    def _first(self) -> Given:
        """The state before."""
        if self._along:
            return self._along[0][1]
        if self._is_after:
            return self._companion or b""
        return self._content if isinstance(self._content, Given) else read_document(self.file)

    def _table(
        self, entity_type: EntityType, loaded: _Loaded, store: ChunkStore, like: Table | None
    ) -> Table:
        records = loaded.document.get(entity_type.source_table)
        if not self._is_after:
            return self._table_before(entity_type, records or [], store, like)
        known = loaded.gaps.get(entity_type.source_table, COMPLETE)
        if records is None and known is COMPLETE:
            if like is not None and like.row_count and not entity_type.is_optional:
                cause = f"{printable(self.file)} does not name {entity_type.source_table}"
                loaded.spoiled.add(cause)
        elif not known.is_complete:
            loaded.spoiled.add(known.cause or "unread")
        if known.coverage is Coverage.UNOBSERVED:
            empty = build_table(entity_type, (), store, like=like)
            return empty.unobserved(known.cause or "unread")
        table = _in_columns(entity_type, records or [], store, like)
        if table is not None:
            return replace(table, enumeration=known)
        read = row_reader(entity_type)
        rows: list[Row] = [read(record) for record in records or []]
        lost = [i for i, row in enumerate(rows) if lacks_key(entity_type, row)]
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
        table = _in_columns(entity_type, records, store, like)
        if table is not None:
            return table
        read = row_reader(entity_type)
        rows: list[Row] = [read(record) for record in records]
        if not entity_type.is_keyless:
            self._check_keys(entity_type, rows)
        return build_table(entity_type, rows, store, like=like)

    def _check_keys(self, entity_type: EntityType, rows: list[Row]) -> None:
        seen: dict[object, int] = {}
        for index, row in enumerate(rows):
            key: Key = tuple(row[part] for part in entity_type.key)  # type: ignore[misc]  # values
            lacking = next((p for p in entity_type.key if row[p] is ABSENT), None)
            first = index if lacking is not None else seen.setdefault(key_order(key), index)
            if lacking is None and first == index:
                continue
            where = f'{printable(self.file)}: type "{printable(entity_type.name)}", record {index}'
            if lacking is not None:
                raise InputError(f"{where}: the key field {lacking} is missing")
            named = ", ".join(entity_type.key)
            raise InputError(
                f"{where}: duplicate {named} {show_key(key)}, first used by record {first}"
            )


def _in_columns(
    entity_type: EntityType, records: Sequence[Record], store: ChunkStore, like: Table | None
) -> Table | None:
    """The records as a table; None where one has no key of its own, or they are wide."""
    columns = columns_of(records)
    if like is None and not is_narrow(columns.values()):
        return None
    try:
        return table_of_columns(entity_type, len(records), columns, store, like)
    except Odd:
        return None


def _after(raw: Given, file: str, alone: str | None) -> tuple[TablesAfter, str | None]:
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
            shown = show_key(tuple(row[part] for part in entity_type.key))  # type: ignore[misc]  # keys are values
            cause = f"{len(same_key)} records of {entity_type.name} are {shown}"
            spoiled.add(cause)
            row = {n: c if n in entity_type.key else Unobserved(cause) for n, c in row.items()}
            if len(row) == len(entity_type.key):
                shared = cause
        single.append(row)
    return single, shared


def lacks_key(entity_type: EntityType, row: Row) -> bool:
    """True if a part of the row's key is missing."""
    # A null, list or map identifies nothing.
    return any(
        row[part] is ABSENT or row[part] is None or isinstance(row[part], (tuple, Map))
        for part in entity_type.key
    )


def row_reader(entity_type: EntityType) -> Callable[[Record], Row]:
    """How a record becomes a row of the type: its fields by name, read as the kinds they have."""
    readers = [(f.name, f.source_column, reader(entity_type, f)) for f in entity_type.fields]

    def read(record: Record) -> Row:
        row: Row = {}
        for name, column, convert in readers:
            stored = record.get(column, ABSENT)
            row[name] = stored if convert is None or stored is ABSENT else convert(stored)
        return row

    return read
