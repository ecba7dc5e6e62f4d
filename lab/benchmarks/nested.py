"""The diff of a table with a JSON column, beside that of the same table with the column as text.

    python -m lab.benchmarks.nested [--rows 100000] [--repeats 9]

Both tables are SQLite files with the same texts of about 1 kB, ten of them changed in one place
inside. The comparisons take turns in one process; printed are medians of processor time.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from statediff.kernel.canonicalize.rules import equality_of_types
from statediff.kernel.diff import diff
from statediff.model.state import MemoryChunks, State
from statediff.systems.sqlite.source import SqliteSource

CHANGES = 10


def now() -> datetime:
    """The clock of the readings."""
    return datetime.now(UTC)


def main() -> None:
    """Prints both medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=9)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        pairs = {kind: states(Path(folder), kind, asked.rows) for kind in ("TEXT", "JSON")}
    seconds: dict[str, list[float]] = {kind: [] for kind in pairs}
    for _ in range(asked.repeats):
        for kind, (before, after) in pairs.items():
            rules = equality_of_types(before.schema, after.schema)
            start = time.process_time()
            found = diff(before, after, rules)
            seconds[kind].append(time.process_time() - start)
            assert len(found.deltas) == CHANGES
            assert {delta.place for delta in found.deltas} == {
                "doc.settings.k3" if kind == "JSON" else "doc"
            }
    text, nested = (statistics.median(times) for times in seconds.values())
    print(f"text {text * 1000:.1f} ms, JSON {nested * 1000:.1f} ms: {nested / text:.2f} times")


def states(folder: Path, kind: str, rows: int) -> tuple[State, State]:
    """The table before and after, the column declared so."""
    store, file = MemoryChunks(), folder / f"{kind}.sqlite"
    draw = random.Random(7)
    texts = [document(draw, number) for number in range(rows)]
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, doc {kind})")
        made = ((number, f"n{number}", text) for number, text in enumerate(texts))
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", made)
        connection.commit()
        source = SqliteSource("db", file)
        before = source.read(store, now, None).state
        for number in range(0, rows, rows // CHANGES):
            changed = json.loads(texts[number])
            changed["settings"]["k3"] = "another"
            connection.execute(
                "UPDATE t SET doc = ? WHERE id = ?", (json.dumps(changed, indent=1), number)
            )
        connection.commit()
    return before, source.read(store, now, before).state


def document(draw: random.Random, number: int) -> str:
    """About 1 kB of JSON."""
    tags = [draw.random() for _ in range(20)]
    settings = {f"k{key}": "v" * 20 for key in range(15)}
    return json.dumps({"number": number, "tags": tags, "settings": settings})


if __name__ == "__main__":
    main()
