"""How the rows of one PostgreSQL table are read: the statement, and what a stored row becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from statediff.model.batches import Row
from statediff.model.schema import EntityType, Kind
from statediff.model.values import ABSENT, Digested, Key, Unobserved, is_value
from statediff.systems.base.typed import Convert, converter, instant, zone_named
from statediff.systems.postgres.bulk import BulkReader, Column
from statediff.systems.postgres.catalogue import TableEntry
from statediff.systems.postgres.values import (
    BYTES_OID,
    EXACT_SIZE_OIDS,
    INTEGER_OIDS,
    MAX_VALUE_BYTES,
    ORDERED_OIDS,
    SENT_OIDS,
    TEXT_OIDS,
    TIMESTAMP_OID,
    PgType,
    reader,
)
from statediff.systems.relational.schema import MAX_KEY_LENGTH, quoted

OUTSIDE_BYTES: Final = MAX_VALUE_BYTES // 256
"""Less than this outside its rows, and no value of a table can unpack to `MAX_VALUE_BYTES`."""


def is_key(part: Any) -> bool:
    """Whether the value may be part of a key: known, not null, and of bounded length."""
    if part is None or not is_value(part):
        return False
    return not (isinstance(part, str | bytes) and len(part) > MAX_KEY_LENGTH)


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
        self._names = tuple(f.name for f, _ in stored)
        self._absent = dict.fromkeys(
            (f.name for f in entity_type.fields if f.name not in self._names), ABSENT
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
        types = {f.name: column.type for f, column in stored}
        self.is_sorted = (
            self._is_planned
            and bool(self.key)
            and all(
                types[k].oid in ORDERED_OIDS and not types[k].is_array and not types[k].is_own
                for k in self.key
            )
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
                *(_guarded(*one) for one in each),
                *(_size(column, pg_type) for column, pg_type, _ in each),
                *(_digest(*one) for one in each),
            ]
        order = [
            expressions[k] + (' COLLATE "C"' if types[k].oid in TEXT_OIDS else "") for k in self.key
        ]
        self._order = f" ORDER BY {', '.join(order)}" if self.is_sorted else ""
        self._from = f"FROM {entry.relation.only} AS t"
        self._select = f"SELECT {', '.join(columns) or 'NULL'} {self._from}"  # names are quoted
        self._key_columns = ", ".join(expressions[k] for k in self.key)
        self.columns = tuple(columns)
        """What is selected, as SQL."""
        self.types = tuple(types.values())
        self.is_digestible = (
            self.is_sorted
            and self.bulk.is_possible
            and entry.key == tuple(entity_type.by_name[k].source_column for k in self.key)
            and all(types[k].oid in INTEGER_OIDS for k in self.key)
            and all(t.oid in SENT_OIDS and not t.is_own for t in self.types)
        )
        """Whether equal binary forms of its rows are equal rows, and its key's index orders them as
        its chunks are cut; see `postgres_digests`."""

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
                    row[name] = _left(size, digest)
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


def _guarded(column: str, pg_type: PgType, most: int) -> str:
    return f"CASE WHEN {_size(column, pg_type)} <= {most} THEN {column} END"


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


def _left(size: str, digest: str | None) -> Unobserved:
    if digest is None:
        return Unobserved(f"value of {size} bytes exceeds the capture limit")
    kind, told, sha256 = digest.split(" ")
    return Digested(kind, int(told), sha256)
