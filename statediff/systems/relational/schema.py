"""The common part of relational sources: names, tables read in part, a schema that goes on."""

from __future__ import annotations

import marshal
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, Protocol, TypeVar

import pyarrow as pa

from statediff.model.batches import Row
from statediff.model.bulk import Block, build_from_blocks
from statediff.model.schema import EntityType, Field, Schema
from statediff.model.state import ChunkStore, Coverage, Enumeration, State, Table, build_table
from statediff.model.values import (
    ABSENT,
    Digested,
    Key,
    Map,
    Unobserved,
    is_value,
    key_order,
    printable,
    same,
)
from statediff.systems.base.rows import distinct_rows
from statediff.systems.relational.runs import merged_table, part

Refine = Callable[[Schema], Schema]
MAY_WRITE: Final = "this account may write it and not read it"
"""Why nothing is read of a table that a run may have changed: no draft leaves that out."""
MAX_KEY_LENGTH = 1024 * 1024
"""Keys are repeated wherever an entity is spoken of: in deltas, findings and fragments."""


B = TypeVar("B", bound=Block)


class Bulk(Protocol[B]):
    """How one table is read in columns; see `postgres.rows` and `sqlite.scan`."""

    @property
    def type(self) -> EntityType: ...

    def blocks(self, read: Iterable[Any]) -> Iterator[B]: ...

    def encode(self, parts: Sequence[B]) -> pa.RecordBatch: ...


MAX_KNOWN_BYTES: Final = 1024 * 1024
"""Rows of one table that are not encoded twice; all of them take sixteen times as much at most."""


class Encoded:
    """The tables that rows became, by their place and their content, for this process.

    Most tables of a run are those of the state before it, and of the run before that.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, bytes], tuple[object, Any]] = {}
        self._size = 0

    def of(self, place: object, content: bytes | None, how: object) -> Any:
        """The rows that `keep` was given, where these are the same; None for nothing."""
        if content is None:
            return None
        found = self._found.get((place, content))
        return found[1] if found is not None and found[0] == how else None

    def keep(self, place: object, content: bytes | None, how: object, what: Any) -> None:
        """`what` became of these rows, which nothing but `how` decides beside them."""
        if content is None:
            return
        if self._size + len(content) > 16 * MAX_KNOWN_BYTES:
            self._found, self._size = {}, 0
        self._found[place, content] = how, what
        self._size += len(content)


_tables: Final = Encoded()


def plain_form(rows: Any) -> bytes | None:
    """A form that tells any two lists of rows apart; None for other than simple or few values."""
    try:
        content = marshal.dumps(rows, _PLAIN_FORM)
    except ValueError:
        return None
    return content if len(content) <= MAX_KNOWN_BYTES else None


_PLAIN_FORM: Final = 2
"""The version of `marshal` in which equal values have one form, whatever else refers to them."""


class Listed(Protocol):
    """The rows that a catalogue lists beside the tables, by type, and why some are missing."""

    @property
    def objects(self) -> Mapping[str, list[Row]]: ...

    @property
    def refused(self) -> Mapping[str, str]: ...


@dataclass
class Pass:
    """The findings of one pass over a table, beside its rows."""

    skipped_rows: int = 0
    cause: str | None = None
    """Why the rows are not all."""


class Shelf:
    """The place of one reading's tables; `failures` collects those that could not be read."""

    def __init__(self, store: ChunkStore) -> None:
        self.store = store
        self.failures: list[str] = []

    def build(
        self, entity_type: EntityType, rows: Iterable[Row], like: Table | None, *, is_sorted: bool
    ) -> Table:
        """The rows as a table; `ValueError` for a key that comes twice or out of order."""
        return build_table(entity_type, rows, self.store, like=like, is_sorted=is_sorted)

    def in_bulk(self, reader: Bulk[B], read: Iterable[Any], like: Table | None) -> Table:
        """The table of a reading in columns; `NotInBulk` where the rows must be looked at."""
        return build_from_blocks(reader.type, reader.blocks(read), reader.encode, self.store, like)

    def distinct(
        self,
        entity_type: EntityType,
        rows: list[Row],
        like: Table | None,
        *,
        may_be_keyless: bool = False,
    ) -> Table:
        """The rows as a table, without those that share a key: nobody can say which one it is.

        With `may_be_keyless`, where some do, an empty table of the type without its key.
        """
        content = plain_form(rows)
        place = entity_type.name, None if like is None else like.partition
        found = _tables.of(place, content, entity_type)
        if found is not None:
            partition, batches = found
            return Table(entity_type, tuple(map(self.store.put, batches)), partition, self.store)
        try:
            table = build_table(entity_type, rows, self.store, like=like)
            what = table.partition, tuple(map(self.store.get, table.chunks))
            _tables.keep(place, content, entity_type, what)
            return table
        except ValueError:
            if may_be_keyless:
                return self.empty(replace(entity_type, key=()), None)
        single = distinct_rows(entity_type, rows)
        table = build_table(entity_type, single, self.store, like=like)
        return self.fail(table, f"{len(rows) - len(single)} rows share keys with each other")

    def streamed(self, entity_type: EntityType, rows: Iterable[Row], like: Table | None) -> Table:
        """The same of rows of which no more than a part is ever held, in any order."""
        pending = iter(rows)
        first = part(pending)
        following = next(pending, None)
        if following is None:
            return self.distinct(entity_type, first, like)
        table, left_out = merged_table(
            entity_type, chain(first, [following], pending), self.store, like
        )
        if not left_out:
            return table
        return self.fail(table, f"{left_out} rows share keys with each other")

    def of_pass(
        self,
        entity_type: EntityType,
        rows: Iterable[Row],
        like: Table | None,
        met: Pass,
        skipped: str = "rows have a key beyond the capture limit",
    ) -> Table:
        """The rows of a pass as a table; `skipped` says which rows are not in it."""
        table = self.streamed(entity_type, rows, like)
        if met.skipped_rows and met.cause is None:
            met.cause = f"{met.skipped_rows} {skipped}"
        return table if met.cause is None else self.fail(table, met.cause)

    def listed(
        self, entity_type: EntityType, catalogue: Listed, like: Table | None
    ) -> Table | None:
        """The objects of the type that the catalogue lists; None where it is a table's."""
        rows = catalogue.objects.get(entity_type.name)
        if rows is None:
            return None
        table = self.distinct(entity_type, rows, like)
        refused = catalogue.refused.get(entity_type.name)
        return table if refused is None else self.fail(table, refused)

    def missing(
        self, entity_type: EntityType, like: Table | None, hidden: str | None = None
    ) -> Table:
        """The type whose table is not there: dropped since, with all its rows, or never seen.

        One that may be missing has no rows then, but where tables may be `hidden` from the reader.
        """
        empty = self.empty(entity_type, like)
        if like is not None and like.enumeration.is_complete:
            return empty
        if like is None and entity_type.is_optional and hidden is None:
            return empty
        cause = f"there is no table {printable(entity_type.source_table)}"
        return self.fail(empty, cause if hidden is None else f"{cause}, or {hidden}")

    def empty(self, entity_type: EntityType, like: Table | None) -> Table:
        """The type without any entity."""
        return build_table(entity_type, (), self.store, like=like)

    def fail(self, table: Table, cause: str) -> Table:
        """The table as far as it was read, which is not all, or nothing at all."""
        self.failures.append(f"{table.type.name}: {cause}")
        coverage = Coverage.INCOMPLETE if table.row_count else Coverage.UNOBSERVED
        return replace(table, enumeration=Enumeration(coverage, cause))


def quoted(name: str) -> str:
    """The name as a standard SQL identifier, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def is_key(part: Any) -> bool:
    """True if the value may be part of a key: known, not null, and of bounded length."""
    if part is None or not is_value(part):
        return False
    whole = part.items if isinstance(part, Map) else (("", part),)
    return all(not isinstance(p, str | bytes) or len(p) <= MAX_KEY_LENGTH for _, p in whole)


def unread_value(size: Any, digest: str | None) -> Unobserved:
    """A value that stays on its server: `digest` has kind, size and SHA-256, if it was asked."""
    if digest is None:
        return Unobserved(f"value of {size} bytes exceeds the capture limit")
    kind, length, sha256 = digest.split(" ")
    return Digested(kind, int(length), sha256)


def with_types(schema: Schema, types: dict[str, EntityType]) -> Schema:
    """The schema with these types in place of their namesakes; itself where they are its own."""
    merged = {**schema.by_name, **types}
    found = tuple(merged[name] for name in sorted(merged))
    if len(found) == len(schema.types) and all(map(operator.is_, found, schema.types)):
        return schema
    return replace(schema, types=found)


def state_of(schema: Schema, tables: Mapping[str, Table]) -> State:
    """The tables as a state, whose schema has the types that they were read as."""
    return State(with_types(schema, {name: t.type for name, t in tables.items()}), tables)


def continued(
    before: Schema,
    catalogue: Schema,
    object_names: frozenset[str],
    prefix: str = "new.",
    fold: Callable[[str], str] = str,
) -> Schema:
    """The schema before, with every table and column of the catalogue that it does not know.

    What was refined before stays as it was, whatever the run did to the tables: a schema file is
    not applied twice, and a new table never takes the name of a type (it gets `prefix`).
    `fold` brings names into the form in which the system compares them.
    """
    known = {fold(t.source_table): t for t in before.types if t.name not in object_names}
    found = {fold(t.source_table): t for t in catalogue.types if t.name not in object_names}
    names = {raw.name: known[table].name for table, raw in found.items() if table in known}
    for table, raw in found.items():
        if table not in known:
            names[raw.name] = f"{prefix}{raw.name}" if raw.name in before.by_name else raw.name
    types = {t.name: t for t in before.types}
    for table, raw in found.items():
        fields = tuple(
            f if names.get(f.reference or "") == f.reference else _referring(f, names)
            for f in raw.fields
        )
        if table not in known:
            name = names[raw.name]
            new = raw.with_names({}, {}, names)
            types[name] = replace(new, name=name, table=raw.source_table, fields=fields)
            continue
        own = known[table]
        columns = {fold(f.source_column) for f in own.fields}
        added = tuple(
            replace(f, name=f"{prefix}{f.name}", column=f.source_column)
            if f.name in own.by_name
            else f
            for f in fields
            if fold(f.source_column) not in columns
        )
        if added:
            types[own.name] = replace(own, fields=own.fields + added)
    ordered = tuple(types[name] for name in sorted(types))
    delivered = tuple(t.name for t in ordered)
    return replace(before, types=ordered, sources=tuple((s, delivered) for s, _ in before.sources))


def _referring(field: Field, names: Mapping[str, str]) -> Field:
    return replace(field, reference=names.get(field.reference) if field.reference else None)


def moved_rows(earlier: Table, later: Table) -> list[Key]:
    """The keys that both tables have, with different rows."""
    if earlier.chunks == later.chunks:
        return []
    after = {key_order(key): row for key, row in later.rows()}
    return [
        key
        for key, row in earlier.rows()
        if key_order(key) in after
        and not all(same(row[n], after[key_order(key)].get(n, ABSENT)) for n in row)
    ]
