"""The orders that every measure is taken over: in memory, as SQL, and in a SQLite file.

The orders have ten columns; changes are spread evenly over them.

The base and the changes follow from the number of rows and of changes alone, so that every
contender, whatever form it wants its input in, can be checked against `wanted`.

Databases are filled by their own SQL from the same formulas, so that ten million rows need no loop
of ours.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from statediff.model.batches import Row, encode_rows
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import CHUNK_KEYS, MemoryChunks, State, Table

ORDER: Final = EntityType(
    "order",
    ("id",),
    (
        Field("id", Kind.INT),
        Field("customer", Kind.INT),
        Field("quantity", Kind.INT),
        Field("weight", Kind.FLOAT),
        Field("discount", Kind.FLOAT),
        Field("price", Kind.DECIMAL),
        Field("status", Kind.TEXT),
        Field("email", Kind.TEXT),
        Field("paid", Kind.BOOL),
        Field("updated_at", Kind.TIMESTAMP),
    ),
)
NAMES: Final = tuple(field.name for field in ORDER.fields)
_STATUSES: Final = np.array(["new", "paid", "packed", "shipped", "returned"])
NEW: Final[dict[str, Any]] = {
    "customer": -1,
    "quantity": -1,
    "weight": -1.5,
    "price": "-1.00",
    "status": "changed",
    "updated_at": datetime(2031, 1, 1, tzinfo=UTC),
}
_UPDATED: Final = tuple(NEW)
Changes: TypeAlias = frozenset[tuple[str, int, str]]
"""(operation, id, field or empty)."""


def planned_changes(rows: int, changes: int) -> Iterator[tuple[str, int, str]]:
    """(operation, number of the row, field): of ten changes six update, two delete, two create."""
    for at in range(changes):
        place = rows * (2 * at + 1) // (2 * changes)
        operation = "update" if at % 10 < 6 else "delete" if at % 10 < 8 else "create"
        yield operation, place, _UPDATED[at % 10] if operation == "update" else ""


def wanted_changes(rows: int, changes: int) -> Changes:
    """The changes to find. Ids are even; a created order follows another with the odd id."""
    return frozenset(
        (op, 2 * at + (op == "create"), name) for op, at, name in planned_changes(rows, changes)
    )


def columns(start: int, stop: int) -> dict[str, pa.Array]:
    """Rows `start` to `stop` of the base, freshly allocated."""
    n = np.arange(start, stop, dtype=np.int64)
    mixed = (n * 2654435761) % 4294967296
    cents = (mixed % 90000 + 100).tolist()
    return {
        "id": pa.array(n * 2),
        "customer": pa.array(mixed % 50000),
        "quantity": pa.array(mixed % 9 + 1),
        "weight": pa.array((mixed % 1000) / 8),
        "discount": pa.array((mixed % 7) / 7, mask=mixed % 5 == 0),
        "price": pa.array([f"{c // 100}.{c % 100:02d}" for c in cents]),
        "status": pa.array(_STATUSES[mixed % 5]),
        "email": pa.array([f"customer{m}@example.org" for m in (mixed % 50000).tolist()]),
        "paid": pa.array(mixed % 3 == 0),
        "updated_at": pa.array(
            1_767_225_600_000_000 + mixed * 1000, type=pa.timestamp("us", tz="UTC")
        ),
    }


def parts(rows: int, changes: int) -> Iterator[dict[str, pa.Array]]:
    """One state, chunk by chunk; with 0 changes the base."""
    planned = list(planned_changes(rows, changes))
    for start in range(0, rows, CHUNK_KEYS):
        stop = min(start + CHUNK_KEYS, rows)
        part = columns(start, stop)
        here = [change for change in planned if start <= change[1] < stop]
        yield _apply(part, start, here) if here else part


def _apply(
    part: dict[str, pa.Array], start: int, changes: list[tuple[str, int, str]]
) -> dict[str, pa.Array]:
    lists = {name: array.to_pylist() for name, array in part.items()}
    for operation, at, field in sorted(changes, key=lambda change: -change[1]):
        for name, values in lists.items():
            if operation == "update" and name == field:
                values[at - start] = NEW[name]
            elif operation == "create":
                values.insert(at - start + 1, 2 * at + 1 if name == "id" else values[at - start])
            elif operation == "delete":
                del values[at - start]
    return {name: pa.array(values, part[name].type) for name, values in lists.items()}


def state(rows: int, changes: int) -> State:
    """One state in our form, in memory."""
    store = MemoryChunks()
    sample: Row = {
        "id": 1,
        "customer": 1,
        "quantity": 1,
        "weight": 1.0,
        "discount": 1.0,
        "price": Decimal("1.00"),
        "status": "",
        "email": "",
        "paid": True,
        "updated_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    form = encode_rows(ORDER, [((1,), sample)]).schema
    chunks = tuple(
        store.put(pa.RecordBatch.from_arrays([part[name] for name in NAMES], schema=form))
        for part in parts(rows, changes)
    )
    cuts = tuple((2 * at,) for at in range(CHUNK_KEYS, rows, CHUNK_KEYS))
    table = Table(ORDER, chunks, cuts, store)
    return State(Schema("bench", "1", (ORDER,)), {"order": table})


def only_orders(schema: Schema) -> Schema:
    """The schema with the one type that is measured, called `order`."""
    types = tuple(
        replace(t, name="order") for t in schema.types if t.source_table.endswith("orders")
    )
    return replace(schema, types=types, sources=tuple((s, ("order",)) for s, _ in schema.sources))


def table(rows: int, changes: int) -> pa.Table:
    """One state as one Arrow table."""
    return pa.concat_tables([pa.table(part) for part in parts(rows, changes)]).combine_chunks()


def records(rows: int, changes: int) -> dict[str, dict[str, Any]]:
    """One state as dictionaries by id, as JSON documents have it."""
    found = {}
    for part in parts(rows, changes):
        part["updated_at"] = part["updated_at"].cast(pa.int64())
        for row in pa.table(part).to_pylist():
            found[str(row["id"])] = row
    return found


_SQLITE: Final = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, quantity INTEGER, weight REAL,
  discount REAL, price TEXT, status TEXT, email TEXT, paid INTEGER, updated_at TEXT);
WITH RECURSIVE n(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {rows}),
  m(i, h) AS (SELECT i, (i * 2654435761) % 4294967296 FROM n)
INSERT INTO orders SELECT 2 * i, h % 50000, h % 9 + 1, (h % 1000) / 8.0,
  CASE WHEN h % 5 = 0 THEN NULL ELSE (h % 7) / 7.0 END,
  printf('%d.%02d', (h % 90000 + 100) / 100, h % 90000 % 100),
  substr('new     paid    packed  shipped returned', 1 + 8 * (h % 5), 8),
  'customer' || (h % 50000) || '@example.org', h % 3 = 0,
  strftime('%Y-%m-%dT%H:%M:%SZ', 1767225600 + h / 1000, 'unixepoch') FROM m;
"""


def statements(rows: int, changes: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The changes as SQL, with `?` for what is bound."""
    for operation, at, field in planned_changes(rows, changes):
        key = 2 * at
        if operation == "update":
            value = NEW[field]
            bound = value.isoformat() if field == "updated_at" else value
            yield f"UPDATE orders SET {field} = ? WHERE id = ?", (bound, key)  # noqa: S608 - our names
        elif operation == "delete":
            yield "DELETE FROM orders WHERE id = ?", (key,)
        else:
            columns = "customer, quantity, weight, discount, price, status, email, paid, updated_at"
            yield (
                f"INSERT INTO orders SELECT id + 1, {columns} FROM orders WHERE id = ?",  # noqa: S608 - our own names
                (key,),
            )


def sqlite_file(folder: Path, rows: int) -> Path:
    """A database file with so many orders, in WAL mode and with an empty log."""
    file = folder / f"orders-{rows}.sqlite"
    if not file.exists():
        with closing(sqlite3.connect(file, isolation_level=None)) as connection:
            connection.executescript(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;" + _SQLITE.format(rows=rows)
            )
            connection.execute("PRAGMA journal_mode = WAL")
    return file
