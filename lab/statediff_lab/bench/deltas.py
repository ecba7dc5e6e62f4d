"""The state after a run on PostgreSQL: by feed, by scans, and beside reladiff's hash method.

By feed: before each run a feed is attached; then one transaction changes as many rows as
the plan says, far from each other; then the state after is established, with its guard. The state
before comes from the formula that fills the table, chunk by chunk, so that ten million rows need
not be scanned to be watched. At the smaller size a scan that reads every row, which is the cost
without a feed and a base, must show exactly what the feed showed; and so must one that goes by the
server's digests.

By scan: ours is taken twice, as a trial takes it (with the server's digests of the
chunks, after the base was read) and reading every row. Beside the time of the clock stands the
processor time of both sides, the server's and the reader's together: on a busy machine it says
more.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from statediff.capture.store import DiskChunks
from statediff.model.batches import batch_of, encode_rows, form_of
from statediff.model.schema import EntityType
from statediff.model.state import CHUNK_KEYS, ChunkRef, MemoryChunks, State, Table
from statediff_lab.bench.capturing import now, postgres
from statediff_lab.bench.diffing import check_changes, our_changes
from statediff_lab.bench.orders import (
    NAMES,
    Changes,
    columns,
    statements,
    wanted_changes,
)
from statediff_lab.bench.registry import (
    BenchLimit,
    BenchPlan,
    BenchRow,
    NotRun,
    Wrong,
    import_peer,
    measure,
    time_in_turn,
    time_row,
)

if TYPE_CHECKING:
    from statediff_lab.bench.servers import OrdersServer

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
        from statediff_postgres.source import Scan  # noqa: PLC0415 - an extra

        from statediff.systems.relational.schema import Shelf, state_of  # noqa: PLC0415 - beside it

        with self._source.session() as connection:
            held, catalogue = self._source.snapshot(connection)
            schema = self._source.schema_after(None, catalogue)
            scan = Scan(connection, catalogue, held, Shelf(self._store))
            tables = {
                t.name: self._store.base(t, self._rows) if t.name == _TYPE else scan.table(t, None)
                for t in schema.types
            }
        return state_of(schema, tables)

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
            raise Wrong(f"the feed reported other chunks than those of the {changes} changes")
        if number:
            self.spent["feed"].append(elapsed)

    def scan(self, number: int) -> None:
        """Scans of both kinds, which must show what the feed reported; number 0 is not counted."""
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
def postgres_feed(plan: BenchPlan) -> Iterator[BenchRow]:
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
    yield time_row(
        f"after-capture by feed, {plan.large_rows:,} rows",
        "delta",
        large.spent["feed"],
        floor=small.spent["feed"],
        target=BenchLimit(1.5),
        note=f"the floor is the same at {plan.rows:,} rows; {note}",
    )
    yield time_row(
        f"after-capture by feed, {plan.rows:,} rows, beside a scan that reads every row",
        "delta",
        small.spent["feed"],
        peer=small.spent["all"],
        target=BenchLimit(50, is_most=False),
        note=f"how many times faster than what is paid without a feed and a base; {note}",
    )
    yield time_row(
        f"after-capture by feed, {plan.rows:,} rows, beside a scan by the server's digests",
        "delta",
        small.spent["feed"],
        peer=small.spent["digests"],
        note=f"how many times faster than our authoritative scan of the trial's own base; {note}",
    )


T = TypeVar("T")
_WAYS = {
    "digests": "authoritative scan, PostgreSQL",
    "all": "the same, every row read",
}


@measure("scan-postgres", "delta")
def beside_reladiff(plan: BenchPlan) -> Iterator[BenchRow]:
    """All find the changes in the same table of the same server."""
    import psycopg  # noqa: PLC0415 - an extra

    with postgres(plan, plan.rows, with_base=True) as server:
        with psycopg.connect(server.url, autocommit=True) as agent:
            agent.execute("ANALYZE")
        store = DiskChunks(plan.folder / "scan-chunks")
        before = server.orders().read(store, now, None).state
        with psycopg.connect(server.url, autocommit=True) as agent:
            for text, bound in statements(plan.rows, plan.changes):
                agent.execute(text.replace("?", "%s").encode(), bound)

        def scan(*, reads_all: bool) -> Changes:
            after = server.orders(reads_all=reads_all).read(store, now, before).state
            return our_changes(before, after, trust_digests=True)

        contenders: dict[str, Callable[[], Changes]] = {
            "digests": lambda: scan(reads_all=False),
            "all": lambda: scan(reads_all=True),
        }
        note = "reladiff is not installed; `pip install 'statediff[bench]'`"
        try:
            contenders["reladiff"], driver = _reladiff(server.reader_url)
            note = (
                "the ratio is how many times faster than reladiff's hashdiff of this table and its "
                f"copy in the same database ({driver}); ours diffs the one table with the base"
            )
        except NotRun:
            pass
        used: dict[str, list[float]] = {name: [] for name in contenders}
        metered = {n: _metered(server, each, used[n]) for n, each in contenders.items()}
        taken = time_in_turn(
            metered, plan.repeats, check_changes(wanted_changes(plan.rows, plan.changes))
        )
    note = f"{plan.rows:,} x 10, {plan.changes} changes; {note}"
    for way, title in _WAYS.items():
        for what, spent in (
            ("", taken),
            (", processor time of server and reader", {n: u[1:] for n, u in used.items()}),
        ):
            yield time_row(
                title + what,
                "delta",
                spent[way],
                peer=spent.get("reladiff"),
                target=BenchLimit(5, is_most=False),
                note=note,
            )


def _metered(
    server: OrdersServer, contender: Callable[[], T], used: list[float]
) -> Callable[[], T]:
    """The contender; what it used of any core, in the server or here, is appended to `used`."""

    def run_metered() -> T:
        theirs, own = server.processor_seconds(), time.process_time()
        found = contender()
        own = time.process_time() - own
        used.append(own + server.processor_seconds() - theirs)
        return found

    return run_metered


def _reladiff(url: str) -> tuple[Callable[[], Changes], str]:
    """Reladiff's hash method between the two tables, and the driver it used."""
    reladiff = import_peer("reladiff")
    driver = _psycopg2()
    where = {"driver": "postgresql", "dsn": url}

    def compare() -> Changes:
        tables = [
            reladiff.connect_to_table(where, name, "id", extra_columns=NAMES[1:])
            for name in ("orders_base", "orders")
        ]
        rows: dict[str, dict[int, tuple[Any, ...]]] = {"-": {}, "+": {}}
        with reladiff.diff_tables(*tables, algorithm="hashdiff") as found:
            for sign, row in found:
                rows[sign][int(row[0])] = row
        changes = {("delete", key, "") for key in rows["-"].keys() - rows["+"].keys()}
        changes |= {("create", key, "") for key in rows["+"].keys() - rows["-"].keys()}
        for key in rows["-"].keys() & rows["+"].keys():
            pairs = zip(NAMES, rows["-"][key], rows["+"][key], strict=True)
            changes |= {("update", key, name) for name, left, right in pairs if left != right}
        return frozenset(changes)

    return compare, driver


def _psycopg2() -> str:
    """The driver that reladiff finds as psycopg2: the package, or psycopg 3 under that name."""
    try:
        import psycopg2  # type: ignore[import-untyped,unused-ignore]  # noqa: PLC0415 - a peer; mostly not there

        return f"psycopg2 {psycopg2.__version__}"
    except ImportError:
        import psycopg  # noqa: PLC0415 - an extra

        module: Any = types.ModuleType("psycopg2")
        module.extras = types.ModuleType("psycopg2.extras")
        module.extensions = types.ModuleType("psycopg2.extensions")
        module.extras.wait_select = None
        module.extensions.set_wait_callback = lambda _: None
        module.OperationalError = psycopg.OperationalError
        module.connect = lambda dsn: psycopg.connect(dsn)  # noqa: PLW0108 - named otherwise
        for name in ("psycopg2", "psycopg2.extras", "psycopg2.extensions"):
            sys.modules[name] = (
                module if name == "psycopg2" else getattr(module, name.split(".")[1])
            )
        return f"psycopg {psycopg.__version__} in psycopg2's place"
