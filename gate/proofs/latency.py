"""A gated transaction beside a plain commit, on a table of a million rows.

`python -m gate.proofs.latency [ROWS] [TIMES]` measures both in turns, on PostgreSQL and on SQLite,
and prints the 50th and the 95th part of a hundred in milliseconds, their ratio, and the processor
time that a gated transaction takes in its own process.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from statediff_gate import Gate

from gate.tests.servers import programs, server
from statediff.evidence.keys import generate

CONTRACT = """
contract: gate/latency
version: 1.0.0
owner: us
intent: Notes of orders may be written, and nothing else.
noop: true
forbid: [{id: kept, delete: [orders, customer]}]
allow: [{id: note, update: orders, fields: [note]}]
"""
MADE = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, cents INTEGER, note TEXT)",
    "CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT)",
    "INSERT INTO customer VALUES (1, 'Ada')",
)
FILL = "INSERT INTO orders SELECT n, 'paid', n * 10, NULL FROM generate_series(1, {rows}) n"
RUN = 10
"""Transactions of one run, whose changes are judged together."""
UPDATE = "UPDATE orders SET note = 'n{n}' WHERE id = {id}"


def measured(gate: Gate, plain: Callable[[str], None], rows: int, times: int, what: str) -> None:
    """One line: both ways in turns, on ends that never repeat."""
    gated, alone, own = [], [], []
    for n in range(times):
        if n % RUN == 0:
            gate.begin_run()
            gate.execute([UPDATE.format(n=n, id=rows)])
        at = 1 + (n * 7919) % rows
        begun = time.perf_counter()
        plain(UPDATE.format(n=n, id=1 + (at + rows // 2) % rows))
        alone.append(time.perf_counter() - begun)
        begun, used = time.perf_counter(), time.process_time()
        outcome = gate.execute([UPDATE.format(n=n, id=at)])
        own.append(time.process_time() - used)
        gated.append(time.perf_counter() - begun)
        assert outcome.is_committed, outcome.why
    first, last = (statistics.quantiles(each, n=100) for each in (alone, gated))
    ms = [1e3 * each for each in (first[49], first[94], last[49], last[94])]
    used_ms = [1e3 * each for each in (statistics.median(own), statistics.quantiles(own, n=20)[-1])]
    print(
        f"{what}, {rows} rows, {times} times: plain p50 {ms[0]:.1f} p95 {ms[1]:.1f} ms,"
        f" gated p50 {ms[2]:.1f} p95 {ms[3]:.1f} ms, {ms[3] / ms[1]:.1f} times at p95;"
        f" own processor time median {used_ms[0]:.1f} ms, p95 {used_ms[1]:.1f} ms",
        flush=True,
    )


def on_sqlite(rows: int, times: int, home: Path) -> None:
    path = home / "shop.sqlite"
    with sqlite3.connect(path) as made:
        made.execute("PRAGMA journal_mode = wal")
        for each in MADE:
            made.execute(each)
        made.executemany(
            "INSERT INTO orders VALUES (?, 'paid', ?, NULL)",
            ((n, n * 10) for n in range(1, rows + 1)),
        )
    made.close()
    beside = home / "beside.sqlite"
    beside.write_bytes(path.read_bytes())
    alone = sqlite3.connect(beside)
    alone.execute("PRAGMA synchronous = FULL")

    def plain(statement: str) -> None:
        alone.execute("BEGIN IMMEDIATE")
        alone.execute(statement)
        alone.commit()

    with Gate(CONTRACT, {"db": path}, folder=home / "s", key=home / "key") as gate:
        measured(gate, plain, rows, times, "SQLite")


def on_postgres(rows: int, times: int, home: Path) -> None:
    import psycopg

    with server() as url:
        with psycopg.connect(url, autocommit=True) as made:
            for each in MADE:
                made.execute(each)
            made.execute(FILL.format(rows=rows))
            made.execute("CREATE DATABASE other")
            made.execute("CREATE ROLE agent LOGIN")
            made.execute("GRANT ALL ON orders, customer TO agent")
            made.execute("VACUUM ANALYZE")
            made.execute("CHECKPOINT")
        account = url.replace("owner@", "agent@")
        other = url.replace("/shop", "/other")  # what the gate does not follow
        with psycopg.connect(other, autocommit=True) as made:
            made.execute(MADE[0])
            made.execute(FILL.format(rows=rows))
        with (
            psycopg.connect(other) as alone,
            Gate(
                CONTRACT, {"db": url}, accounts={"db": account}, folder=home / "p", key=home / "key"
            ) as gate,
        ):

            def plain(statement: str) -> None:
                alone.execute(statement)
                alone.commit()

            measured(gate, plain, rows, times, "PostgreSQL")


def main(rows: int = 1_000_000, times: int = 300) -> None:
    with tempfile.TemporaryDirectory(prefix="statediff-proof-") as folder:
        home = Path(folder)
        generate(home / "key")
        on_sqlite(rows, times, home)
        if programs() is not None:
            on_postgres(rows, times, home)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
