"""Our authoritative scan of a PostgreSQL table beside reladiff's hash method on the same table.

Ours is taken twice: as a trial takes it, with the server's digests of the chunks (the base was read
before), and reading every row. Beside the time of the clock the processor time of both sides is
told, the server's and the reader's together: on a busy machine it says more.
"""

from __future__ import annotations

import sys
import time
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from statediff.capture.store import DiskChunks
from statediff.meta.bench.capturing import now
from statediff.meta.bench.databases import postgres, statements
from statediff.meta.bench.diffing import checked, found_by_us
from statediff.meta.bench.orders import NAMES, Changes, wanted
from statediff.meta.bench.registry import Limit, NotRun, Plan, Row, measure, need, timed, times

if TYPE_CHECKING:
    from statediff.meta.bench.servers import OrdersServer

T = TypeVar("T")
_WAYS = {
    "digests": "authoritative scan, PostgreSQL",
    "all": "the same, every row read",
}


@measure("scan-postgres", "delta")
def beside_reladiff(plan: Plan) -> Iterator[Row]:
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
            return found_by_us(before, after, trust_digests=True)

        contenders: dict[str, Callable[[], Changes]] = {
            "digests": lambda: scan(reads_all=False), "all": lambda: scan(reads_all=True),
        }  # fmt: skip
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
        taken = timed(metered, plan.repeats, checked(wanted(plan.rows, plan.changes)))
    note = f"{plan.rows:,} x 10, {plan.changes} changes; {note}"
    for way, title in _WAYS.items():
        for what, spent in (
            ("", taken),
            (", processor time of server and reader", {n: u[1:] for n, u in used.items()}),
        ):
            yield times(
                title + what, "delta", spent[way], peer=spent.get("reladiff"),
                target=Limit(5, is_most=False), note=note,
            )  # fmt: skip


def _metered(
    server: OrdersServer, contender: Callable[[], T], used: list[float]
) -> Callable[[], T]:
    """The contender; what it used of any core, in the server or here, is appended to `used`."""

    def metered() -> T:
        theirs, own = server.processor_seconds(), time.process_time()
        found = contender()
        own = time.process_time() - own
        used.append(own + server.processor_seconds() - theirs)
        return found

    return metered


def _reladiff(url: str) -> tuple[Callable[[], Changes], str]:
    """Reladiff's hash method between the two tables, and the driver it used."""
    reladiff = need("reladiff")
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
    """What reladiff finds as psycopg2: the package, or psycopg 3 under that name."""
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
