"""What watching a SQLite database costs: attach and finish, against one scan of it.

    python lab/benchmarks/sqlite_feed.py [--rows 0] [--commits 10] [--runs 7] [--json]

Without `--rows` the database is that of `shop`; with it, a table of so many rows. Each commit
updates one row. The feed's last state must equal the scan. Medians; the first run is thrown away.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from statediff.model.state import MemoryChunks
from statediff.packs import sandbox_pack
from statediff.systems.sqlite.feed import SqliteFeed
from statediff.systems.sqlite.sandbox import EmbeddedDatabase
from statediff.systems.sqlite.source import SqliteSource


def now() -> datetime:
    """The clock of the readings."""
    return datetime.now(UTC)


def made(folder: Path, rows: int) -> tuple[Path, str]:
    """A database with an empty log, and a statement that changes one row of it."""
    if not rows:
        (source,) = (each for each in sandbox_pack("shop").sources if each.kind == "sqlite")
        system = EmbeddedDatabase(source, (), folder / "shop")
        system.reset()
        return system.file, "UPDATE notes SET body = ? WHERE id = 901"
    file = folder / "large.sqlite"
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, pad TEXT)")
        connection.execute(
            "WITH RECURSIVE s(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < ?)"
            " INSERT INTO item SELECT n, printf('item %d', n), printf('%.60c', 'x') FROM s",
            (rows,),
        )
    return file, "UPDATE item SET name = ? WHERE id = 7"


def timed(spent: dict[str, list[float]], name: str, work: Callable[[], Any]) -> Any:
    """What `work` gives; its milliseconds are noted under `name`."""
    start = time.perf_counter()
    found = work()
    spent.setdefault(name, []).append(1000 * (time.perf_counter() - start))
    return found


def one(spent: dict[str, list[float]], rows: int, commits: int) -> None:
    """One watched run."""
    with tempfile.TemporaryDirectory() as name:
        file, statement = made(Path(name), rows)
        source, feed, store = SqliteSource("db", file), SqliteFeed("db", file), MemoryChunks()
        timed(spent, "attach", feed.attach)
        before = source.read(store, now, None).state
        with closing(sqlite3.connect(file, isolation_level=None)) as writer:
            for n in range(commits):
                writer.execute(statement, (f"value {n}",))
            after = timed(spent, "scan", lambda: source.read(store, now, before)).state
            seen = timed(spent, "finish", lambda: feed.finish(store, now, before))
        feed.detach()
        assert seen.gap is None, seen.gap
        assert len(seen.transactions) == commits
        assert seen.transactions[-1].state == after


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]  # it has one
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--commits", type=int, default=10)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    spent: dict[str, list[float]] = {}
    for _ in range(arguments.runs + 1):
        one(spent, arguments.rows, arguments.commits)
    found = {name: round(statistics.median(each[1:]), 1) for name, each in spent.items()}
    found["ratio"] = round((found["attach"] + found["finish"]) / found["scan"], 2)
    if arguments.json:
        print(json.dumps({"rows": arguments.rows, "commits": arguments.commits, **found}))
        return
    print(
        f"attach {found['attach']} ms, finish {found['finish']} ms for {arguments.commits} commits;"
        f" one scan {found['scan']} ms: {found['ratio']} scans"
    )


if __name__ == "__main__":
    main()
