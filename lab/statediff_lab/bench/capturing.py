"""Base captures of large tables: their time over reading the rows at all, and their memory.

The PostgreSQL server that measures share is here as well.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from statediff.capture.store import DiskChunks
from statediff.errors import StatediffError
from statediff.packs import PackSource
from statediff.systems.sqlite.source import SqliteSource
from statediff_lab.bench.orders import only_orders, sqlite_file
from statediff_lab.bench.registry import (
    BenchLimit,
    BenchPlan,
    BenchRow,
    NotRun,
    Wrong,
    measure,
    time_in_turn,
    time_row,
)

if TYPE_CHECKING:
    from statediff_lab.bench.servers import OrdersServer


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


def now() -> datetime:
    """The clock of the readings."""
    return datetime.now(UTC)


@measure("capture-sqlite", "capture")
def sqlite_capture(plan: BenchPlan) -> Iterator[BenchRow]:
    """A base capture of a SQLite database, over fetching all its rows with the standard library."""
    file = sqlite_file(plan.folder, plan.rows)
    source = SqliteSource("bench", file, only_orders)
    stores = iter(range(1_000_000))

    def fetch() -> int:
        with closing(sqlite3.connect(file)) as connection:
            rows = connection.execute("SELECT * FROM orders")
            return sum(len(found) for found in iter(lambda: rows.fetchmany(4096), []))

    def capture() -> int:
        store = DiskChunks(plan.folder / f"chunks-{next(stores)}")
        return source.read(store, now, None).state.entity_count

    taken = time_in_turn({"floor": fetch, "ours": capture}, plan.repeats, _all_of(plan.rows))
    note = f"{plan.rows:,} x 10 into a store on disk; the floor is fetching the rows in Python"
    yield time_row(
        "base capture, SQLite", "capture", taken["ours"], floor=taken["floor"], note=note
    )


@measure("memory-sqlite", "capture")
def sqlite_memory(plan: BenchPlan) -> Iterator[BenchRow]:
    """Peak memory of base capture of a large SQLite table, over that of a small one."""
    small, large = (
        peak(sqlite_file(plan.folder, rows), rows, plan.folder).bytes / 1e6
        for rows in (plan.rows, plan.large_rows)
    )
    yield BenchRow(
        "peak memory of base capture, SQLite",
        "capture",
        float(f"{large:.4g}"),
        "MB",
        floor=float(f"{small:.4g}"),
        ratio=float(f"{large / small:.4g}"),
        target=BenchLimit(1.5),
        note=f"{plan.large_rows:,} rows; the floor is the same at {plan.rows:,}; one run each",
    )


def _all_of(rows: int) -> Callable[[str, int], None]:
    def check(name: str, found: int) -> None:
        if found != rows:
            raise Wrong(f"{name} read {found:,} rows of {rows:,}")

    return check


_STATUS = Path("/proc/self/status")


@dataclass(frozen=True)
class Peak:
    """The memory that one base capture took."""

    rows: int
    bytes: int
    """The rise of peak resident memory over what the loaded program has."""


def peak(file: Path, rows: int, folder: Path) -> Peak:
    """The capture of a SQLite file in a process of its own."""
    if not _STATUS.exists():
        raise NotRun("peak memory is read from /proc, which this system does not have")
    with tempfile.TemporaryDirectory(dir=folder) as chunks:
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                f"from {__name__} import report_peak; report_peak()",
                str(file),
                chunks,
            ],
            check=False,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    if done.returncode:
        raise Wrong(f"the capture of {rows:,} rows failed: {done.stderr.strip()[-300:]}")
    found = Peak(**json.loads(done.stdout))
    if found.rows != rows:
        raise Wrong(f"the capture found {found.rows:,} rows of {rows:,}")
    return found


def _resident(line: str) -> int:
    (found,) = (x for x in _STATUS.read_text(encoding="ascii").splitlines() if x.startswith(line))
    return int(found.split()[1]) * 1024


def report_peak() -> None:
    """The whole program of the process that `peak` starts."""
    file, chunks = sys.argv[1:]
    source = SqliteSource("bench", file, only_orders)
    source.schema()  # loads all that has to be loaded
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # resets the peak
    before = _resident("VmRSS")
    part = source.read(DiskChunks(chunks), now, None)
    table = part.state.tables["order"]
    rows = table.row_count if table.enumeration.is_complete else -1
    found = {"rows": rows, "bytes": _resident("VmHWM") - before}
    sys.stdout.write(json.dumps(found))


@contextlib.contextmanager
def postgres(
    planned_changes: BenchPlan, rows: int, *, with_base: bool = False
) -> Iterator[OrdersServer]:
    """A server with so many orders, and the same in `orders_base`. `NotRun` without an engine."""
    try:
        from statediff_lab.bench.servers import OrdersServer  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise NotRun("needs `pip install 'statediff[docker]'`") from error
    folder = planned_changes.folder / f"postgres-{rows}"
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
