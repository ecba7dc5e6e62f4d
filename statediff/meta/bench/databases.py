"""The orders as databases: a SQLite file, and a PostgreSQL server in a container.

Both are filled by their own SQL from the formulas of `orders`, so that ten million rows need no
loop of ours.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from statediff.errors import StatediffError
from statediff.meta.bench.orders import NEW, plan
from statediff.meta.bench.registry import NotRun, Plan
from statediff.packs import PackSource

if TYPE_CHECKING:
    from statediff.meta.bench.servers import OrdersServer

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
_DDL: Final = """
CREATE TABLE {name} (id bigint PRIMARY KEY, customer int, quantity int, weight float8,
  discount float8, price numeric(12, 2), status text, email text, paid boolean,
  updated_at timestamptz);
"""
_SEED: Final = """
INSERT INTO orders SELECT 2 * i, h % 50000, h % 9 + 1, (h % 1000) / 8.0,
  CASE WHEN h % 5 = 0 THEN NULL ELSE (h % 7) / 7.0::float8 END,
  (h % 90000 + 100) / 100.0,
  (ARRAY['new', 'paid', 'packed', 'shipped', 'returned'])[1 + h % 5],
  'customer' || (h % 50000) || '@example.org', h % 3 = 0,
  to_timestamp(1767225600 + h / 1000.0)
FROM (SELECT i, (i * 2654435761) % 4294967296 AS h
  FROM generate_series({first}, {last}::bigint) AS i) AS m;
"""
_AT_ONCE: Final = 500_000
"""Rows of one statement: no statement of a seed may take too long."""
_COPY: Final = "INSERT INTO orders_base SELECT * FROM orders;"


def statements(rows: int, changes: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """The changes as SQL, with `?` for what is bound."""
    for operation, at, field in plan(rows, changes):
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


@contextlib.contextmanager
def postgres(plan: Plan, rows: int, *, with_base: bool = False) -> Iterator[OrdersServer]:
    """A server with so many orders, and the same in `orders_base`. `NotRun` without an engine."""
    try:
        from statediff.meta.bench.servers import OrdersServer  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise NotRun("needs `pip install 'statediff[docker]'`") from error
    folder = plan.folder / f"postgres-{rows}"
    folder.mkdir(exist_ok=True)
    ddl, seed = folder / "ddl.sql", folder / "seed.sql"
    ddl.write_text("".join(_DDL.format(name=n) for n in ("orders", "orders_base")[: 1 + with_base]))
    parts = (
        _SEED.format(first=at, last=min(at + _AT_ONCE, rows) - 1) for at in range(0, rows, _AT_ONCE)
    )
    seed.write_text("".join(parts) + (_COPY if with_base else ""))
    files = {"ddl": ddl, "seed": seed}
    system = OrdersServer(PackSource("bench", "postgres", None, files), (), folder / "own")
    try:
        try:
            system.start()
            system.reset()
        except StatediffError as error:
            raise NotRun(str(error)) from error
        yield system
    finally:
        system.stop()
