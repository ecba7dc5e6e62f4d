"""Base captures of large tables: their time over reading the rows at all, and their memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from statediff.capture.store import DiskChunks
from statediff.meta.bench.databases import postgres, sqlite_file, statements
from statediff.meta.bench.memory import peak
from statediff.meta.bench.orders import only_orders, wanted
from statediff.meta.bench.registry import Limit, Plan, Row, Wrong, measure, timed, times
from statediff.model.state import MemoryChunks, State
from statediff.systems.sqlite.source import SqliteSource


def now() -> datetime:
    """The clock of the readings."""
    return datetime.now(UTC)


def captured(source: Any, folder: Path) -> State:
    """A capture into a store of its own."""
    found: State = source.read(DiskChunks(folder), now, None).state
    return found


@measure("capture-sqlite", "capture")
def sqlite_capture(plan: Plan) -> Iterator[Row]:
    """A base capture of a SQLite database, over fetching all its rows with the standard library."""
    file = sqlite_file(plan.folder, plan.rows)
    source = SqliteSource("bench", file, only_orders)
    stores = iter(range(1_000_000))

    def fetch() -> int:
        with closing(sqlite3.connect(file)) as connection:
            rows = connection.execute("SELECT * FROM orders")
            return sum(len(found) for found in iter(lambda: rows.fetchmany(4096), []))

    def capture() -> int:
        return captured(source, plan.folder / f"chunks-{next(stores)}").entity_count

    taken = timed({"floor": fetch, "ours": capture}, plan.repeats, _all_of(plan.rows))
    note = f"{plan.rows:,} x 10 into a store on disk; the floor is fetching the rows in Python"
    yield times("base capture, SQLite", "capture", taken["ours"], floor=taken["floor"], note=note)


@measure("memory-sqlite", "capture")
def sqlite_memory(plan: Plan) -> Iterator[Row]:
    """Peak memory of base capture of a large SQLite table, over that of a small one."""
    yield _memory(
        "SQLite",
        plan,
        lambda rows: peak("sqlite", str(sqlite_file(plan.folder, rows)), rows, plan.folder).bytes,
    )


@measure("memory-postgres", "capture")
def postgres_memory(plan: Plan) -> Iterator[Row]:
    """Peak memory of base capture of a large PostgreSQL table, over that of a small one."""

    def taken(rows: int) -> int:
        with postgres(plan, rows) as server:
            return peak("postgres", server.reader_url, rows, plan.folder).bytes

    yield _memory("PostgreSQL", plan, taken)


def _memory(system: str, plan: Plan, taken: Callable[[int], int]) -> Row:
    small, large = (taken(rows) / 1e6 for rows in (plan.rows, plan.large_rows))
    return Row(
        f"peak memory of base capture, {system}",
        "capture",
        float(f"{large:.4g}"),
        "MB",
        floor=float(f"{small:.4g}"),
        ratio=float(f"{large / small:.4g}"),
        target=Limit(1.5),
        note=f"{plan.large_rows:,} rows; the floor is the same at {plan.rows:,}; one run each",
    )


def _all_of(rows: int) -> Callable[[str, int], None]:
    def check(name: str, found: int) -> None:
        if found != rows:
            raise Wrong(f"{name} read {found:,} rows of {rows:,}")

    return check


@measure("delta-sqlite", "delta")
def sqlite_delta(plan: Plan) -> Iterator[Row]:
    """The state after, from the write-ahead log and base, beside scanning everything again."""
    from statediff.meta.bench.diffing import found_by_us  # noqa: PLC0415 - siblings
    from statediff.systems.sqlite.feed import SqliteFeed  # noqa: PLC0415 - Linux only

    seconds: dict[str, list[float]] = {"feed": [], "scan": []}
    for round_ in range(plan.repeats + 1):
        file = plan.folder / f"delta-{round_}.sqlite"
        file.write_bytes(sqlite_file(plan.folder, plan.rows).read_bytes())
        source = SqliteSource("bench", file, only_orders)
        feed, store = SqliteFeed("bench", file, only_orders), MemoryChunks()
        feed.attach()
        before = source.read(store, now, None).state
        with closing(sqlite3.connect(file, isolation_level=None)) as writer:
            for text, bound in statements(plan.rows, plan.changes):
                writer.execute(text, bound)

        def by_feed() -> State:
            seen = feed.finish(store, now, before)  # noqa: B023 - called in this round
            if seen.gap is not None:
                raise Wrong(f"the feed has a gap: {seen.gap}")
            return seen.transactions[-1].state

        def by_scan() -> State:
            return source.read(store, now, before).state  # noqa: B023 - called in this round

        found: dict[str, State] = {}

        def right(name: str, state: State) -> None:
            if found_by_us(before, state, trust_digests=True) != wanted(plan.rows, plan.changes):  # noqa: B023 - called at once
                raise Wrong(f"the {name} did not find the changes that were made")
            if found.setdefault("first", state) != state:  # noqa: B023 - called at once
                raise Wrong("feed and scan disagree")

        for name, taken in timed({"feed": by_feed, "scan": by_scan}, 1, right).items():
            seconds[name] += taken if round_ else []
        feed.detach()
        file.unlink()
    yield times(
        "after-capture by feed, SQLite", "delta", seconds["feed"], peer=seconds["scan"],
        note=f"{plan.rows:,} x 10, {plan.changes} commits; how many times faster than our scan",
    )  # fmt: skip
