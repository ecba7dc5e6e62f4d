"""How the rows of one PostgreSQL table are read: the statement, and what a stored row becomes.

`TableQuery` reads rows one by one; `BulkReader` reads whole columns. For it the rows arrive as
`COPY … (FORMAT csv)`, in blocks of whole rows. Per chunk, Arrow converts each column of a plain
type. A column of another type, or one with a value that its type's native form cannot hold
(`infinity`, NaN among decimals, years before Christ), goes value by value through the functions
that row-wise reading uses. Either way gives the same chunk, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from statediff.model.batches import Row, batch_of, encode_column
from statediff.model.bulk import NotInBulk
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.values import ABSENT, Digested, Key
from statediff.systems.base.rows import Convert, converter, instant, zone_named
from statediff.systems.relational.schema import MAX_KEY_LENGTH, quoted, unread_value
from statediff_postgres.catalogue import TableEntry
from statediff_postgres.values import (
    BYTES_OID,
    EXACT_SIZE_OIDS,
    INTEGER_OIDS,
    MAX_VALUE_BYTES,
    ORDERED_OIDS,
    SENT_OIDS,
    TEXT_OIDS,
    TIMESTAMP_OID,
    PgType,
    kind_of,
    reader,
)

_NATIVE: Final[Mapping[Kind, pa.DataType]] = {
    Kind.INT: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOL: pa.bool_(),
}
_CAST: Final[Mapping[Kind, pa.DataType]] = {
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    Kind.LOCAL_TIMESTAMP: pa.timestamp("us"),
}
_ODD_DECIMAL: Final = r"^-?0\.0{6}|[^-.0-9]"
"""Not a number, or one that the normal form of a decimal writes with an exponent."""
_ROW_KINDS: Final = frozenset({Kind.INT, Kind.FLOAT, Kind.BOOL, Kind.TEXT, Kind.DECIMAL, *_CAST})


@dataclass(frozen=True)
class Column:
    """How one stored column is read: as its own kind in Arrow, else by `steps`, value by value."""

    field: Field
    steps: tuple[Convert, ...]
    is_plain: bool

    @staticmethod
    def of(field: Field, pg_type: PgType, steps: tuple[Convert, ...]) -> Column:
        """The column of one field; it is plain where the schema has not given it another kind."""
        is_plain = (
            not pg_type.is_array
            and field.kind is kind_of(pg_type)
            and field.kind in _ROW_KINDS
            and (field.kind is not Kind.LOCAL_TIMESTAMP or field.zone is None)
        )
        return Column(field, steps, is_plain)

    @property
    def read_as(self) -> pa.DataType:
        return _NATIVE.get(self.field.kind, pa.string()) if self.is_plain else pa.string()

    def normal(self, read: pa.Array) -> tuple[pa.Array, str]:
        """The column in normal form, and the name of the form."""
        kind = self.field.kind
        if self.is_plain:
            found = _native(kind, read)
            if found is not None:
                return found, kind.value
        return encode_column(kind, [self._value(text) for text in _texts(read)])

    def _value(self, text: Any) -> Any:
        if text is None:
            return None
        for step in self.steps:
            text = step(text)
        return text


def _native(kind: Kind, read: pa.Array) -> pa.Array | None:
    if kind in _CAST:
        try:
            return pc.cast(read, _CAST[kind])
        except pa.ArrowInvalid:
            return None
    if kind is Kind.DECIMAL and pc.any(pc.match_substring_regex(read, _ODD_DECIMAL)).as_py():
        return None
    return read


def _texts(read: pa.Array) -> list[Any]:
    texts: list[Any] = read.to_pylist()
    return texts


@dataclass(frozen=True)
class TextBlock:
    """Rows as they were parsed: keys native, the other columns native or text."""

    keys: tuple[str, ...]
    batch: pa.RecordBatch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @property
    def nbytes(self) -> int:
        return int(self.batch.nbytes)

    def key(self, at: int) -> Key:
        return tuple(self.batch.column(name)[at].as_py() for name in self.keys)

    def is_ascending(self) -> bool:
        """True if the keys ascend. Raises `NotInBulk` for one that is null or too long."""
        columns = [self.batch.column(name) for name in self.keys]
        for column in columns:
            if column.null_count or (
                column.type == pa.string()
                and (pc.max(pc.utf8_length(column)).as_py() or 0) > MAX_KEY_LENGTH
            ):
                raise NotInBulk("a row has no key, or one beyond the capture limit")
        rows = len(self) - 1
        ascends: Any = None
        for column in reversed(columns):
            left, right = column.slice(0, rows), column.slice(1, rows)
            less = pc.less(left, right)
            tied = None if ascends is None else pc.and_(pc.equal(left, right), ascends)
            ascends = less if tied is None else pc.or_(less, tied)
        return rows < 1 or bool(pc.all(ascends).as_py())

    def part(self, start: int, stop: int) -> TextBlock:
        return TextBlock(self.keys, self.batch.slice(start, stop - start))


@dataclass(frozen=True)
class BulkReader:
    """How the text of one table becomes blocks, and the rows of a chunk its batch."""

    type: EntityType
    columns: tuple[Column, ...]
    is_guarded: bool = False
    """Behind the values the text has the size of each, and the digest of each that is left out."""

    @property
    def is_possible(self) -> bool:
        """True if the keys can be ordered and distinguished in columns."""
        plain = {c.field.name for c in self.columns if c.is_plain}
        kinds = {self.type.by_name[k].kind for k in self.type.key}
        return set(self.type.key) <= plain and kinds <= {Kind.INT, Kind.TEXT} and bool(kinds)

    def blocks(self, texts: Iterable[bytes | bytearray]) -> Iterator[TextBlock]:
        """The rows in blocks. Raises `NotInBulk` where the text is not what the types promise."""
        return map(self._parse, texts)

    def _parse(self, text: bytes | bytearray) -> TextBlock:
        types = [c.read_as for c in self.columns]
        if self.is_guarded:
            count = len(types)
            types += [pa.int64()] * count + [pa.string()] * count
        names = [str(at) for at in range(len(types))]
        try:
            table = csv.read_csv(
                pa.BufferReader(text),
                csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
                csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
                csv.ConvertOptions(
                    column_types=dict(zip(names, types, strict=True)),
                    null_values=[""],
                    true_values=["t"],
                    false_values=["f"],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except pa.ArrowException as error:
            raise NotInBulk(str(error).partition("\n")[0]) from error
        stored = names[: len(self.columns)]
        sizes, digests = names[len(stored) : 2 * len(stored)], names[2 * len(stored) :]
        if any((pc.max(table[name]).as_py() or 0) > MAX_VALUE_BYTES for name in sizes) or any(
            table[name].null_count < len(table) for name in digests
        ):
            raise NotInBulk("a value exceeds the capture limit")
        table = table.select(stored).rename_columns([c.field.name for c in self.columns])
        (batch,) = table.to_batches()
        return TextBlock(self.type.key, batch)

    def encode(self, parts: Sequence[TextBlock]) -> pa.RecordBatch:
        """The rows of one chunk as a batch in normal form, in memory of its own."""
        batch = pa.concat_batches([part.batch for part in parts])
        stored = {c.field.name: c for c in self.columns}
        absent = (ABSENT,) * batch.num_rows
        found = batch_of(
            [
                (f.name, *stored[f.name].normal(batch.column(f.name)))
                if f.name in stored
                else (f.name, *encode_column(f.kind, absent))
                for f in self.type.fields
            ]
        )
        return pa.ipc.read_record_batch(found.serialize(), found.schema)


OUTSIDE_BYTES: Final = MAX_VALUE_BYTES // 256
"""Less than this outside its rows, and no value of a table can unpack to `MAX_VALUE_BYTES`."""


class TableQuery:
    """How one table is read: the statement, and how a stored row becomes a `Row`."""

    def __init__(self, entity_type: EntityType, entry: TableEntry) -> None:
        self.key = entity_type.key
        self.relation = entry.relation
        self._is_planned = not entry.relation.runs_functions
        self.is_guarded = self._is_planned and (
            entry.relation.outside_bytes > OUTSIDE_BYTES
            or any(f.digest_above_bytes is not None for f in entity_type.fields)
        )
        stored = [
            (f, column)
            for f in entity_type.fields
            if (column := entry.column(f.source_column)) is not None
        ]
        types = {f.name: column.type for f, column in stored}
        self._names = tuple(types)
        self._absent = dict.fromkeys(
            (f.name for f in entity_type.fields if f.name not in types), ABSENT
        )
        self._readers: list[tuple[str, Convert]] = []
        columns_read: list[Column] = []
        for field, column in stored:
            is_identity = field.name in self.key or field.reference is not None
            read = _reader(field.kind, field.zone, column.type)
            refined = None if is_identity else converter(field)
            steps = tuple(step for step in (read, refined) if step is not None)
            self._readers.extend((field.name, step) for step in steps)
            columns_read.append(Column.of(field, column.type, steps))
        self.bulk = BulkReader(entity_type, tuple(columns_read), self.is_guarded)
        self.is_sorted = (
            self._is_planned and bool(self.key) and all(_is_ordered(types[k]) for k in self.key)
        )
        self._stored = ", ".join(quoted(column.name) for _, column in stored)
        expressions = {f.name: f"t.{quoted(column.name)}" for f, column in stored}
        columns = list(expressions.values())
        self._most = {
            f.name: entity_type.kept_bytes(f, MAX_VALUE_BYTES)
            if _digestible(types[f.name])
            else MAX_VALUE_BYTES
            for f, _ in stored
        }
        if self.is_guarded:
            each = [(expressions[n], types[n], self._most[n]) for n in self._names]
            columns = [
                *(_guard(*one) for one in each),
                *(_size(column, pg_type) for column, pg_type, _ in each),
                *(_digest(*one) for one in each),
            ]
        order = ", ".join(_sort_key(expressions[k], types[k]) for k in self.key)
        self._order = f" ORDER BY {order}" if self.is_sorted else ""
        self._from = f"FROM {entry.relation.only} AS t"
        self._select = f"SELECT {', '.join(columns) or 'NULL'} {self._from}"  # names are quoted
        self._key_columns = ", ".join(expressions[k] for k in self.key)
        self.columns = tuple(columns)
        """What is selected, as SQL."""
        self.types = tuple(types.values())
        self.is_digestible = self._can_be_digested(entity_type, entry, types)
        """Whether equal binary forms of its rows are equal rows, and its key's index orders them as
        its chunks are cut; see `postgres.digests`."""

    def _can_be_digested(
        self, entity_type: EntityType, entry: TableEntry, types: Mapping[str, PgType]
    ) -> bool:
        return (
            self.is_sorted
            and self.bulk.is_possible
            and entry.key == tuple(entity_type.by_name[k].source_column for k in self.key)
            and all(types[k].oid in INTEGER_OIDS for k in self.key)
            and all(t.oid in SENT_OIDS and not t.is_own for t in self.types)
        )

    @property
    def text(self) -> str:
        """All rows, in the order of their keys where the server has that order.

        Of a table whose planning would run functions, by the form of `COPY` that is not planned.
        """
        if not self._is_planned:
            return f"COPY {self.relation.quoted} ({self._stored}) TO STDOUT"
        return f"COPY ({self._select}{self._order}) TO STDOUT"

    def between(self, low: Sequence[str] | None, high: Sequence[str] | None) -> str:
        """SQL: from the rows of the keys not below `low` and below `high`, in their order."""
        bounds = [
            f"({self._key_columns}) OPERATOR(pg_catalog.{than}) ({', '.join(key)})"
            for than, key in ((">=", low), ("<", high))
            if key is not None
        ]
        return f"{self._from} WHERE {' AND '.join(bounds)}{self._order}"

    def run(self, low: Key | None, high: Key | None) -> str:
        """The rows of these keys, all whole numbers, in their order."""
        ends = (
            None if k is None else [f"'{n!r}'::pg_catalog.int8" for n in k] for k in (low, high)
        )
        return f"COPY (SELECT {', '.join(self.columns)} {self.between(*ends)}) TO STDOUT"

    def where(self, conditions: Sequence[str]) -> str:
        """The rows for which one of the conditions on `t` holds; they must exclude each other."""
        parts = " UNION ALL ".join(f"({self._select} WHERE {each})" for each in conditions)
        return f"COPY ({parts}) TO STDOUT"

    def row(self, stored: tuple[Any, ...]) -> Row:
        row: Row = dict(zip(self._names, stored, strict=False))
        for name, read in self._readers:
            text = row[name]
            if text is not None:
                row[name] = read(text)
        if self.is_guarded:
            count = len(self._names)
            sizes, digests = stored[count : 2 * count], stored[2 * count :]
            for name, size, digest in zip(self._names, sizes, digests, strict=True):
                if size is not None and int(size) > self._most[name]:
                    row[name] = unread_value(size, digest)
        else:  # nothing was left out: what the schema wants as digests is made so here
            for name, most in self._most.items():
                if most < MAX_VALUE_BYTES and isinstance(value := row[name], str | bytes):
                    digest = Digested.of(value)
                    row[name] = digest if digest.size_bytes > most else value
        if self._absent:
            row.update(self._absent)
        return row


def _reader(kind: Kind, zone: str | None, pg_type: PgType) -> Convert | None:
    if pg_type.oid == TIMESTAMP_OID and not pg_type.is_array:
        where = zone_named(zone) if zone is not None and kind is Kind.TIMESTAMP else None
        return lambda text: instant(text, where)
    return reader(pg_type)


def _size(column: str, pg_type: PgType) -> str:
    if pg_type.oid in EXACT_SIZE_OIDS and not pg_type.is_array:
        return f"octet_length({column})"
    # A cast of a type that the server did not come with could be the agent's.
    packed = f"pg_column_size({column})::int8 * 255"
    unpacked = packed if pg_type.is_own else f"octet_length({column}::text)"
    plain = f"pg_column_size({column})"
    return f"CASE WHEN pg_column_compression({column}) IS NULL THEN {plain} ELSE {unpacked} END"


def _guard(column: str, pg_type: PgType, most: int) -> str:
    return f"CASE WHEN {_size(column, pg_type)} <= {most} THEN {column} END"


def _is_ordered(pg_type: PgType) -> bool:
    """True if the server orders the type's values as a state does."""
    return pg_type.oid in ORDERED_OIDS and not pg_type.is_array and not pg_type.is_own


def _sort_key(expression: str, pg_type: PgType) -> str:
    return expression + (' COLLATE "C"' if pg_type.oid in TEXT_OIDS else "")


def _digestible(pg_type: PgType) -> bool:
    return pg_type.oid in (BYTES_OID, *TEXT_OIDS) and not pg_type.is_array


def _digest(column: str, pg_type: PgType, most: int) -> str:
    """SQL: `KIND SIZE SHA-256` of a value that is left in the server; null of all others."""
    if not _digestible(pg_type):
        return "NULL::text"
    is_bytes = pg_type.oid == BYTES_OID
    content = column if is_bytes else f"convert_to({column}::text, 'UTF8')"
    told = f"octet_length({content}) || ' ' || encode(sha256({content}), 'hex')"
    kind = "bytes" if is_bytes else "text"
    return f"CASE WHEN {_size(column, pg_type)} > {most} THEN '{kind} ' || {told} END"
