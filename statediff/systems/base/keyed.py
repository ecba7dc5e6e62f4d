"""Rows as tables whose keys are the rows' own: a key that is missing or shared names nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from statediff.model.batches import Row
from statediff.model.schema import EntityType
from statediff.model.state import (
    ChunkStore,
    Coverage,
    Enumeration,
    Table,
    build_table,
)
from statediff.model.values import ABSENT, is_value, key_order


def keyed_table(
    entity_type: EntityType,
    rows: Iterable[Row],
    known: Enumeration,
    store: ChunkStore,
    like: Table | None,
) -> Table:
    """The rows, by source column, as a table; those without a key of their own are left out.

    `known` says how completely they were read. Where it says all, and some are left out, the table
    says how many.
    """
    if known.coverage is Coverage.UNOBSERVED:
        return build_table(entity_type, (), store, like=like).unobserved(known.cause or "unread")
    named = named_rows(entity_type, rows)
    own = distinct_rows(entity_type, [row for row in named if _has_key(entity_type, row)])
    if len(own) < len(named) and known.is_complete:
        cause = f"{len(named) - len(own)} rows have no key of their own"
        known = Enumeration(Coverage.INCOMPLETE, cause)
    return build_table(entity_type, own, store, like=like, enumeration=known)


def named_rows(entity_type: EntityType, rows: Iterable[Row]) -> list[Row]:
    """The rows under the names of the type's fields; a column that is not there is absent."""
    columns = [(field.name, field.source_column) for field in entity_type.fields]
    return [{name: row.get(column, ABSENT) for name, column in columns} for row in rows]


def distinct_rows(entity_type: EntityType, rows: Sequence[Row]) -> list[Row]:
    """The rows whose key no other has, in their order; all of them where the type has no key."""
    if not entity_type.key:
        return list(rows)
    orders: list[Any] = [key_order(tuple(row[name] for name in entity_type.key)) for row in rows]  # type: ignore[misc]  # keys are values
    counts = Counter(orders)
    return [row for row, order in zip(rows, orders, strict=True) if counts[order] == 1]


def _has_key(entity_type: EntityType, row: Row) -> bool:
    return all(row[name] is not None and is_value(row[name]) for name in entity_type.key)
