"""The state after by PostgreSQL's feed with its guard: how it grows, and beside reading every row.

Before each run a feed is attached; then one transaction changes as many rows as the plan says, far
from each other; then the state after is established. The state before comes from the formula that
fills the table, chunk by chunk, so that ten million rows need not be scanned to be watched. At the
smaller size a scan that reads every row, which is what whoever has no feed and no base pays, must
then show exactly what the feed told; and so must one that goes by the server's digests.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from statediff.meta.bench.capturing import now
from statediff.meta.bench.databases import postgres
from statediff.meta.bench.orders import columns
from statediff.meta.bench.registry import Limit, Plan, Row, Wrong, measure, times
from statediff.model.batches import batch_of, encode_rows, form_of
from statediff.model.schema import EntityType
from statediff.model.state import CHUNK_KEYS, ChunkRef, MemoryChunks, State, Table

if TYPE_CHECKING:
    from statediff.meta.bench.servers import OrdersServer

_TYPE: Final = "orders"


class Formula:
    """A chunk store that keeps no chunk of the base: it makes them anew, and keeps the others."""

    def __init__(self) -> None:
        self._kept = MemoryChunks()
        self._made: dict[str, tuple[EntityType, int, int]] = {}

    def base(self, entity_type: EntityType, rows: int) -> Table:
        """The orders as the server's seed makes them."""
        refs = []
        for start in range(0, rows, CHUNK_KEYS):
            stop = min(start + CHUNK_KEYS, rows)
            ref = MemoryChunks().put(_orders(entity_type, start, stop))
            self._made[ref.digest] = entity_type, start, stop
            refs.append(ref)
        cuts = tuple((2 * at,) for at in range(CHUNK_KEYS, rows, CHUNK_KEYS))
        return Table(entity_type, tuple(refs), cuts, self)

    def put(self, batch: pa.RecordBatch) -> ChunkRef:
        """Kept, unless the formula makes it."""
        return self._kept.put(batch)

    def get(self, ref: ChunkRef) -> pa.RecordBatch:
        """Made anew, or as it was put."""
        made = self._made.get(ref.digest)
        return self._kept.get(ref) if made is None else _orders(*made)


def _orders(entity_type: EntityType, start: int, stop: int) -> pa.RecordBatch:
    made, empty = columns(start, stop), encode_rows(entity_type, [])
    names = [field.name for field in empty.schema]
    return batch_of([(name, made[name], form_of(empty, at)) for at, name in enumerate(names)])


class Watched:
    """A server with so many orders, the state it is in, and what was spent on it."""

    def __init__(self, server: OrdersServer, rows: int) -> None:
        self._server, self._rows = server, rows
        self._source, self._feed = server.observed()
        self._store = Formula()
        self._state = self._base()
        self.spent: dict[str, list[float]] = {"feed": [], "all": [], "digests": []}

    def _base(self) -> State:
        """The table by its formula, all else as it is read."""
        from statediff.systems.postgres.source import Scan  # noqa: PLC0415 - an extra
        from statediff.systems.relational.schema import Shelf, with_types  # noqa: PLC0415 - beside it

        with self._source.session() as connection:
            held, catalogue = self._source.snapshot(connection)
            schema = self._source.schema_after(None, catalogue)
            scan = Scan(connection, catalogue, held, Shelf(self._store))
            tables = {
                t.name: self._store.base(t, self._rows) if t.name == _TYPE else scan.table(t, None)
                for t in schema.types
            }
        return State(with_types(schema, {n: t.type for n, t in tables.items()}), tables)

    def run(self, number: int, changes: int) -> None:
        """One run by feed; number 0 is not counted."""
        import psycopg  # noqa: PLC0415 - an extra

        self._feed.attach()
        try:
            with psycopg.connect(self._server.url) as agent:
                for at in range(changes):
                    key = 2 * ((2 * at + 1) * self._rows // (2 * changes) + number)
                    agent.execute(
                        "UPDATE orders SET customer = %s WHERE id = %s", (-1 - number, key)
                    )
            started = time.perf_counter()
            told = self._feed.establish(self._store, now, self._state)
            elapsed = time.perf_counter() - started
        finally:
            self._feed.detach()
        if told.doubts or told.seen.gap is not None or len(told.seen.transactions) != 1:
            raise Wrong(f"the feed does not vouch for one transaction: {told.doubts or told.seen}")
        before, self._state = self._state, told.part.state
        touched = zip(before.tables[_TYPE].chunks, self._state.tables[_TYPE].chunks, strict=True)
        if not 0 < sum(one != two for one, two in touched) <= changes:
            raise Wrong(f"the feed told of other chunks than those of the {changes} changes")
        if number:
            self.spent["feed"].append(elapsed)

    def scan(self, number: int) -> None:
        """Scans of both kinds, which must show what the feed told; number 0 is not counted."""
        if not number:
            self._source.read(self._store, now, None)  # its digests are known from then on
        for way, source in (("all", self._server.whole()), ("digests", self._source)):
            started = time.perf_counter()
            shown = source.read(self._store, now, self._state).state
            if number:
                self.spent[way].append(time.perf_counter() - started)
            if shown.digest() != self._state.digest():
                raise Wrong("the feed and a scan disagree")


@measure("feed-postgres", "delta")
def postgres_feed(plan: Plan) -> Iterator[Row]:
    """After-capture by feed at two sizes, and beside a scan at the smaller one."""
    with ExitStack() as stack:
        small, large = (
            Watched(stack.enter_context(postgres(plan, rows)), rows)
            for rows in (plan.rows, plan.large_rows)
        )
        for number in range(plan.repeats * 3 + 1):  # milliseconds each
            for watched in (small, large):
                watched.run(number, plan.changes)
            if number <= plan.repeats:
                small.scan(number)
    note = f"{plan.changes} changes in one transaction, the guard included"
    yield times(
        f"after-capture by feed, {plan.large_rows:,} rows", "delta", large.spent["feed"],
        floor=small.spent["feed"], target=Limit(1.5),
        note=f"the floor is the same at {plan.rows:,} rows; {note}",
    )  # fmt: skip
    yield times(
        f"after-capture by feed, {plan.rows:,} rows, beside a scan that reads every row", "delta",
        small.spent["feed"], peer=small.spent["all"], target=Limit(50, is_most=False),
        note=f"how many times faster than what is paid without a feed and a base; {note}",
    )  # fmt: skip
    yield times(
        f"after-capture by feed, {plan.rows:,} rows, beside a scan by the server's digests",
        "delta", small.spent["feed"], peer=small.spent["digests"],
        note=f"how many times faster than our authoritative scan of the trial's own base; {note}",
    )  # fmt: skip
