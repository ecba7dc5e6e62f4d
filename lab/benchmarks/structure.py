"""What following the structure of a large SQLite file costs, against a scan of the same run.

    python lab/benchmarks/structure.py [--rows 1000000] [--changes 1 10 1000] [--json]

A table of ten columns with two indexes. The first reading is the whole scan with the whole check;
after each number of changed rows the file is read by its changed pages, and the structure part of
that is timed apart. A scan of the end must give the same state.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from unittest import mock

from statediff.model.state import MemoryChunks
from statediff.systems.sqlite import replay, scan
from statediff.systems.sqlite.source import SqliteSource


def now() -> datetime:
    """The clock of the readings."""
    return datetime.now(UTC)


def made(file: Path, rows: int) -> Path:
    """A database of one table with two indexes."""
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        db.executescript(
            f"""CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT, n INT,
              price REAL, at TEXT, state TEXT, a INT, b INT, note TEXT);
            BEGIN;
            WITH RECURSIVE s (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM s WHERE n < {rows})
            INSERT INTO item
              SELECT n, 'item ' || n, 'user' || n || '@example.org', n * 7919 % 99991,
              n / 7.0, '2026-01-01T00:00:00', 'open', n, n % 10, 'a note of row ' || n FROM s;
            CREATE INDEX by_email ON item (email);
            CREATE INDEX by_n ON item (n, state);
            COMMIT;"""  # noqa: S608 - a number
        )
    return file


@contextmanager
def timing(spent: dict[str, float], name: str, place: object, function: str) -> Iterator[None]:
    """The seconds in `function` of `place` are added to `spent[name]`."""
    inner = getattr(place, function)

    def timed(*given: object, **named: object) -> object:
        start = time.perf_counter()
        try:
            return inner(*given, **named)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - start

    with mock.patch.object(place, function, timed):
        yield


def measure(file: Path, rows: int, changes: list[int]) -> dict[str, float]:
    """Seconds of each part."""
    source, store = SqliteSource("db", file), MemoryChunks()
    spent: dict[str, float] = {}
    with closing(source.by_pages()) as reader:
        with timing(spent, "whole check", scan, "check"):
            start = time.perf_counter()
            before = reader.read(store, now, None).state
            spent["scan and check"] = time.perf_counter() - start
        spent["scan"] = spent["scan and check"] - spent["whole check"]
        after = before
        for count in changes:
            step = rows // count
            with closing(sqlite3.connect(file, isolation_level=None)) as db:
                db.execute(
                    "UPDATE item SET email = email || ?, n = n + 1, note = ? WHERE id % ? = 0",
                    (count, f"of {count}", step),
                )
            with (
                timing(spent, f"structure of {count}", replay.Replay, "_preservation"),
                timing(spent, f"structure of {count}", replay.Replay, "_structure"),
            ):
                start = time.perf_counter()
                after = reader.read_changed(store, now, before).state
                spent[f"pages of {count}"] = time.perf_counter() - start
        assert source.read(store, now, before).state.digest() == after.digest()
    return spent


def main() -> None:
    """Seconds, and the ratio of each to the scan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, nargs="+", default=[1, 1, 10, 1000])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spent = measure(made(Path(folder) / "a.db", options.rows), options.rows, options.changes)
    if options.json:
        print(json.dumps(spent))
        return
    for name, seconds in spent.items():
        print(f"{name:20} {seconds:8.3f} s  {seconds / spent['scan']:7.3f} of the scan")


if __name__ == "__main__":
    main()
