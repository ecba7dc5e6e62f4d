"""What capturing a SQLite file after a run costs beside a kept file before it.

    python lab/benchmarks/warm_sqlite.py [--rows 300 10000 1000000] [--changes 1 10] [--json]

Processor time, all in one run: the capture by pages, a judgement of a warm `statediff.Judge`, a
capture by a scan, `EXCEPT` both ways of every table, and as the floor reading both files and
comparing their pages. Each capture by pages must be, digest by digest, that of the scan.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import statediff
from statediff.capture.take import take
from statediff.model.state import LayeredChunks, MemoryChunks
from statediff.systems.sqlite.source import SqliteSource

PAGE = 4096
CONTRACT = """
contract: shop/refund
version: 1.0.0
owner: support
intent: Refund orders 1 to {changes}, and change nothing else.
require:
  - id: refunded
    update: orders
    where: it.id <= {changes}
    set: {{status: refunded}}
    count: {changes}
"""


def now() -> datetime:
    """The clock of the readings."""
    return datetime(2024, 5, 1, tzinfo=UTC)


def made(path: Path, rows: int) -> None:
    """A shop: a tenth of the rows are customers, the others orders, with an index."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.executescript(
            f"""CREATE TABLE customer (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT);
            CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INT REFERENCES customer (id),
              status TEXT, amount REAL);
            BEGIN;
            WITH RECURSIVE s (n) AS
              (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < {rows // 10})
            INSERT INTO customer SELECT n, 'name ' || n, 'user' || n || '@example.org' FROM s;
            WITH RECURSIVE s (n) AS
              (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < {rows - rows // 10})
            INSERT INTO orders SELECT n, n % {max(1, rows // 10)} + 1, 'paid', n * 1.5 FROM s;
            CREATE INDEX by_customer ON orders (customer);
            COMMIT;"""  # noqa: S608 - numbers
        )


def processor_seconds(function: Callable[[], object]) -> float:
    """The least of three means."""
    start = time.process_time()
    function()
    count = max(1, min(200, int(0.3 / (time.process_time() - start + 1e-6))))
    means = []
    for _ in range(3):
        start = time.process_time()
        for _ in range(count):
            function()
        means.append((time.process_time() - start) / count)
    return min(means)


def compare_pages(before: Path, after: Path) -> list[int]:
    """The pages that differ, and nothing else: what nobody can do without."""
    one, other = before.read_bytes(), after.read_bytes()
    if one == other:
        return []
    return [at for at in range(0, len(one), PAGE) if one[at : at + PAGE] != other[at : at + PAGE]]


def excepted(before: Path, after: Path) -> int:
    """Rows that only one of the two has, found by SQL."""
    with closing(sqlite3.connect(before)) as db:
        db.execute("ATTACH ? AS other", (str(after),))
        queries = [
            f"SELECT * FROM {one}.{table} EXCEPT SELECT * FROM {two}.{table}"  # noqa: S608 - ours
            for table in ("customer", "orders")
            for one, two in (("main", "other"), ("other", "main"))
        ]
        return sum(len(db.execute(query).fetchall()) for query in queries)


def measure(folder: Path, rows: int, changes: int) -> dict[str, float]:
    """Processor seconds of each way."""
    before, after = folder / "before.db", folder / "after.db"
    for path in (before, after):
        path.unlink(missing_ok=True)
    made(before, rows)
    shutil.copy(before, after)
    with closing(sqlite3.connect(after)) as db:
        db.execute("UPDATE orders SET status = 'refunded' WHERE id <= ?", (changes,))
        db.commit()
    store = MemoryChunks()
    reader, source = SqliteSource("db", before).by_pages(), SqliteSource("db", after)
    kept = take([reader], store, now, None, "before")

    def by_pages() -> str:
        layer = LayeredChunks(store)
        return take([reader.beside(source)], layer, now, kept, "after").parts[0].state.digest()

    def by_scan() -> str:
        return take([source], LayeredChunks(store), now, kept, "after").parts[0].state.digest()

    contract = statediff.load_contract(CONTRACT.format(changes=changes))
    judge = statediff.Judge(contract, f"db={before}")

    def judged() -> None:
        assert judge.score(f"db={after}").reward == 1.0

    def once() -> None:
        found = statediff.judge(contract, f"db={before}", f"db={after}")
        assert found.verdict is statediff.Verdict.MATCH

    assert by_pages() == by_scan()
    assert excepted(before, after) == 2 * changes
    ways: dict[str, Callable[[], object]] = {
        "comparing pages": lambda: compare_pages(before, after),
        "after by pages": by_pages,
        "warm judge": judged,
        "after by a scan": by_scan,
        "judge, once": once,
        "EXCEPT both ways": lambda: excepted(before, after),
    }
    return {name: processor_seconds(way) for name, way in ways.items()}


def main() -> None:
    """A table of milliseconds, and what each is of the floor."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[300, 10_000, 1_000_000])
    parser.add_argument("--changes", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            for changes in options.changes:
                spent = measure(Path(folder), rows, changes)
                found.append({"rows": rows, "changes": changes, **spent})
                if options.json:
                    continue
                print(f"{rows} rows, {changes} changed")
                for name, seconds in spent.items():
                    ratio = seconds / spent["comparing pages"]
                    print(
                        f"  {name:18} {seconds * 1000:10.3f} ms {1 / seconds:10.0f}/s {ratio:8.1f}"
                    )
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
