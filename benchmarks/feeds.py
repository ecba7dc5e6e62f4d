"""What the state after costs by feed, with its guard, against a whole scan of the same table.

    python benchmarks/feeds.py [--rows 1000000] [--against 10000000] [--runs 5] [--json]

A real PostgreSQL, one table of ten columns. Before each run a feed is attached; then one
transaction updates ten rows, far from each other; then the state after is established. The state
before is made from the formula that fills the table, chunk by chunk, and checked where a run
touches it, so that ten million rows need not be scanned to be watched. A scan must show what the
feed told.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.compute as pc

from statediff.model.schema import EntityType
from statediff.model.state import (
    CHUNK_KEYS,
    ChunkRef,
    MemoryChunks,
    State,
    Table,
    encode_rows,
)
from statediff.packs import PackSource
from statediff.sandbox.postgres import PostgresSystem
from statediff.sources.postgres import PostgresSource, Scan
from statediff.sources.postgres_catalogue import OBJECT_NAMES
from statediff.sources.postgres_feed import PostgresFeed
from statediff.sources.relational import Shelf, with_types

DDL = """
CREATE TABLE item (id int PRIMARY KEY, a int NOT NULL, b bigint, name text, code text, flag boolean,
  size float8, made date, price numeric, note text);
"""
SEED = """
INSERT INTO item SELECT n, n % 97, n::bigint * 7, 'item ' || n, 'c' || n % 1000, n % 2 = 0,
  n / 4.0::float8, date '2024-01-01' + n % 365, (n % 10000 || '.50')::numeric,
  CASE WHEN n % 3 > 0 THEN 'note of ' || n END FROM generate_series(0, {} - 1) n;
"""


def now() -> datetime:
    """The clock of the readings."""
    return datetime.now(UTC)


def rows_from(entity_type: EntityType, first: int, count: int) -> pa.RecordBatch:
    """The rows as SEED makes them, in the form in which a scan stores them."""
    ids = pa.array(range(first, first + count), pa.int64())
    text = pc.cast(ids, pa.string())

    def rest(by: int) -> pa.Array:
        return pc.subtract(ids, pc.multiply(pc.divide(ids, by), by))

    def joined(*parts: Any) -> pa.Array:
        return pc.binary_join_element_wise(*parts, "")

    days = pa.array([19723 + n % 365 for n in range(first, first + count)], pa.int32())
    noted = pc.greater(rest(3), 0)
    columns = {
        "id": ids, "a": rest(97), "b": pc.multiply(ids, 7), "name": joined("item ", text),
        "code": joined("c", pc.cast(rest(1000), pa.string())),
        "flag": pa.array(pc.equal(rest(2), 0).to_pylist()),
        "size": pc.divide(pc.cast(ids, pa.float64()), 4.0),
        "made": days.cast(pa.date32()),
        "price": joined(pc.cast(rest(10000), pa.string()), ".50"),
        "note": pc.if_else(noted, joined("note of ", text), None),
    }  # fmt: skip
    schema = encode_rows(entity_type, []).schema
    return pa.RecordBatch.from_arrays([columns[f.name] for f in schema], schema=schema)


class Formula:
    """A chunk store that keeps no chunk of the base: it makes them anew, and keeps the others."""

    def __init__(self) -> None:
        self._kept = MemoryChunks()
        self._made: dict[str, tuple[EntityType, int, int]] = {}

    def base(self, entity_type: EntityType, rows: int) -> Table:
        """The table as SEED fills it."""
        refs = []
        for first in range(0, rows, CHUNK_KEYS):
            count = min(CHUNK_KEYS, rows - first)
            ref = MemoryChunks().put(rows_from(entity_type, first, count))
            self._made[ref.digest] = entity_type, first, count
            refs.append(ref)
        cuts = tuple((first,) for first in range(CHUNK_KEYS, rows, CHUNK_KEYS))
        return Table(entity_type, tuple(refs), cuts, self)

    def put(self, batch: pa.RecordBatch) -> ChunkRef:
        """Kept, unless the formula makes it."""
        return self._kept.put(batch)

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        """Made anew, or as it was put."""
        made = self._made.get(ref.digest)
        return self._kept.get(ref) if made is None else rows_from(*made)


@contextmanager
def server(rows: int) -> Iterator[PostgresSystem]:
    """A PostgreSQL with so many rows."""
    with tempfile.TemporaryDirectory() as folder:
        files = {"ddl": Path(folder, "ddl.sql"), "seed": Path(folder, "seed.sql")}
        files["ddl"].write_text(DDL)
        files["seed"].write_text(SEED.format(rows))
        system = PostgresSystem(PackSource("bench", "postgres", None, files), (), Path(folder, "s"))
        system.start()
        try:
            system.reset()  # gives the agent its password
            yield system
        finally:
            system.stop()


def base_of(system: PostgresSystem, rows: int, store: Formula) -> State:
    """The state before: the table by its formula, all else as it is read."""
    (source,) = system.sources()
    assert isinstance(source, PostgresSource)
    with source.session() as connection:
        held, catalogue = source.snapshot(connection)
        schema = source.schema_after(None, catalogue)
        scan = Scan(connection, catalogue, held, Shelf(store))
        tables = {
            t.name: scan.table(t, None) if t.name in OBJECT_NAMES else store.base(t, rows)
            for t in schema.types
        }
    return State(with_types(schema, {n: t.type for n, t in tables.items()}), tables)


def watched(system: PostgresSystem, store: Formula, before: State, number: int) -> tuple[Any, ...]:
    """(seconds to attach, seconds to establish, what was established) of ten changes."""
    (feed,) = system.feeds()
    assert isinstance(feed, PostgresFeed)
    start = time.perf_counter()
    feed.attach()
    attached = time.perf_counter() - start
    try:
        rows = before.tables["item"].row_count
        with psycopg.connect(system.url) as agent:
            for at in range(10):
                agent.execute(
                    "UPDATE item SET note = %s WHERE id = %s",
                    (f"changed {number}", (at * rows) // 10 + number),
                )
        start = time.perf_counter()
        told = feed.establish(store, now, before)
        return attached, time.perf_counter() - start, told
    finally:
        feed.detach()


class Bench:
    """A running server with so many rows, and what it spent."""

    def __init__(self, system: PostgresSystem, rows: int) -> None:
        self._system = system
        self._store = Formula()
        self._before = base_of(system, rows, self._store)
        self.spent: dict[str, list[float]] = {"attach": [], "feed": [], "scan": []}

    def run(self, number: int) -> None:
        """One run by feed; the first is not counted."""
        attached, established, told = watched(self._system, self._store, self._before, number)
        assert not told.doubts, told.doubts
        assert len(told.seen.transactions) == 1, told.seen
        assert told.seen.gap is None
        self._before = told.part.state
        if number:
            self.spent["attach"].append(attached)
            self.spent["feed"].append(established)

    def scan(self) -> None:
        """A whole scan; it must show what the feed told."""
        (source,) = self._system.sources()
        start = time.perf_counter()
        shown = source.read(self._store, now, self._before).state
        self.spent["scan"].append(time.perf_counter() - start)
        assert shown.digest() == self._before.digest()

    def milliseconds(self) -> dict[str, float]:
        """Medians."""
        return {
            name: round(statistics.median(seconds) * 1000, 2)
            for name, seconds in self.spent.items()
            if seconds
        }


def after_by_feed(sizes: tuple[int, ...], runs: int = 5, scans: int = 1) -> list[dict[str, float]]:
    """For each size the median milliseconds of attaching, and of the state after by feed.

    Runs of the sizes take turns. Of the first size also those of so many whole scans. Raises
    `AssertionError` if a scan shows something else than the feed told.
    """
    with ExitStack() as stack:
        benches = [Bench(stack.enter_context(server(rows)), rows) for rows in sizes]
        for number in range(runs + 1):
            for bench in benches:
                bench.run(number)
        for _ in range(scans):
            benches[0].scan()
        return [
            {"rows": rows, **bench.milliseconds()}
            for rows, bench in zip(sizes, benches, strict=True)
        ]


def main() -> None:
    """The figures and their ratios, as text or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--against", type=int, default=0, help="a larger table, not scanned")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--scans", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    sizes = (given.rows, given.against) if given.against else (given.rows,)
    small, *larger = after_by_feed(sizes, given.runs, given.scans)
    found: dict[str, Any] = {**small}
    if given.scans:
        found["scan_over_feed"] = round(small["scan"] / small["feed"], 1)
    for large in larger:
        found["against"] = large
        found["growth"] = round(large["feed"] / small["feed"], 2)
    print(json.dumps(found) if given.json else "\n".join(f"{k}: {v}" for k, v in found.items()))


if __name__ == "__main__":
    main()
