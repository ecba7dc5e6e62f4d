"""How the rows of one PostgreSQL table are read: the statement, and what a stored row becomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from statediff.model.schema import EntityType, Kind
from statediff.model.state import Row
from statediff.model.values import ABSENT, Unobserved, is_value
from statediff.sources.postgres_catalogue import TableEntry
from statediff.sources.postgres_values import (
    EXACT_SIZE_OIDS,
    MAX_VALUE_BYTES,
    ORDERED_OIDS,
    TEXT_OIDS,
    TIMESTAMP_OID,
    PgType,
    reader,
)
from statediff.sources.relational import MAX_KEY_LENGTH, quoted
from statediff.sources.typed import Convert, converter, instant, zone_named

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
        self.is_guarded = entry.relation.outside_bytes > OUTSIDE_BYTES
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
        for field, column in stored:
            is_identity = field.name in self.key or field.reference is not None
            read = _reader(field.kind, field.zone, column.type)
            refined = None if is_identity else converter(field)
            for step in (read, refined):
                if step is not None:
                    self._readers.append((field.name, step))
        types = {f.name: column.type for f, column in stored}
        self.is_sorted = bool(self.key) and all(
            types[k].oid in ORDERED_OIDS and not types[k].is_array and not types[k].is_own
            for k in self.key
        )
        expressions = {f.name: f"t.{quoted(column.name)}" for f, column in stored}
        columns = [
            _guarded(expressions[name], types[name]) if self.is_guarded else expressions[name]
            for name in self._names
        ]
        if self.is_guarded:
            columns += [_size(expressions[name], types[name]) for name in self._names]
        order = [
            expressions[k] + (' COLLATE "C"' if types[k].oid in TEXT_OIDS else "") for k in self.key
        ]
        self._order = f" ORDER BY {', '.join(order)}" if self.is_sorted else ""
        self._select = f"SELECT {', '.join(columns) or 'NULL'} FROM {entry.relation.only} AS t"  # noqa: S608 - names are quoted
        self.types = tuple(types.values())

    @property
    def text(self) -> str:
        """All rows, in the order of their keys where the server has that order."""
        return f"COPY ({self._select}{self._order}) TO STDOUT"

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
            for name, size in zip(self._names, stored[len(self._names) :], strict=True):
                if size is not None and int(size) > MAX_VALUE_BYTES:
                    row[name] = Unobserved(f"value of {size} bytes exceeds the capture limit")
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


def _guarded(column: str, pg_type: PgType) -> str:
    return f"CASE WHEN {_size(column, pg_type)} <= {MAX_VALUE_BYTES} THEN {column} END"
