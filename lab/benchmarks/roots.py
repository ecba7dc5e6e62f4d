"""The state roots of a table of so many rows, and of what it is after a few changes.

    python -m lab.benchmarks.roots [--rows 1000000] [--changes 10] [--rounds 5] [--json]

The first root is of the whole; the second has the row digests of the first, and what it costs
follows the change. Milliseconds of CPU, the least of the rounds. `by_scan` says whether the state
after was read anew, so that the rows that changed are found by comparing chunks.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from statediff.evidence.roots import Roots
from statediff.model.patch import patched
from statediff.model.readings import Capture, Reading, ReadingKind, SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import MemoryChunks, State, Table, build_table

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TARGET_MS = 5.0
COLUMNS = 10
LINE = EntityType(
    "line",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        *(Field(f"n{at}", Kind.INT) for at in range(COLUMNS // 2)),
        *(Field(f"t{at}", Kind.TEXT) for at in range(COLUMNS - COLUMNS // 2 - 1)),
    ),
)


def table(rows: int) -> Table:
    """A table of so many rows of ten columns."""
    made = (
        {
            field.name: number * at if field.kind is Kind.INT else f"text {at} of {number:08x}"
            for at, field in enumerate(LINE.fields, start=1)
        }
        for number in range(rows)
    )
    return build_table(LINE, made, MemoryChunks(), is_sorted=True)


def capture(side: str, of: Table) -> Capture:
    """What one source delivered."""
    state = State(Schema("ledger", "1", (LINE,), (("db", ("line",)),)), {"line": of})
    reading = Reading(
        f"{side}/db", "db", ReadingKind.SCAN, as_of=NOON, clock="trial", is_complete=True,
        digest=None,
    )  # fmt: skip
    return Capture((SourceCapture(reading, state),))


def measure(rows: int, changes: int, rounds: int) -> dict[str, Any]:
    """The cost of the first root and of the root after so many changes."""
    before = table(rows)
    draw = random.Random(rows)
    first, by_feed, by_scan = [], [], []
    start = time.process_time()
    left = capture("before", before)
    root = Roots.of(left, left).by_side["before"]
    first.append(1000 * (time.process_time() - start))
    for number in range(rounds):
        keys = sorted(draw.sample(range(1, rows + 1), changes))
        gone = [row for key in keys if (row := before.row((key,))) is not None]
        after = patched(before, gone, [{**row, "t0": f"changed {number}"} for row in gone])
        for kept, made in ((by_feed, after), (by_scan, replace(after, origin=None))):
            right = capture("after", made)
            start = time.process_time()
            found = Roots.of(left, right).by_side["after"]
            kept.append(1000 * (time.process_time() - start))
            if found == root:
                raise SystemExit("what changed does not change the root")
    return {
        "measure": "the root of a state after", "unit": "ms of CPU", "rows": rows,
        "changes": changes, "rounds": rounds, "first": round(min(first), 1),
        "value": round(min(by_feed), 2), "by_scan": round(min(by_scan), 2), "target": TARGET_MS,
        "ok": max(min(by_feed), min(by_scan)) <= TARGET_MS,
    }  # fmt: skip


def results(sizes: Sequence[int] = (1_000_000,), changes: int = 10, rounds: int = 5) -> list[Any]:
    """What `measure` finds for each size."""
    return [measure(size, changes, rounds) for size in sizes]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]  # it has one
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="JSON lines")
    arguments = parser.parse_args()
    for found in results(arguments.rows, arguments.changes, arguments.rounds):
        if arguments.json:
            print(json.dumps(found))
            continue
        print(
            f"{found['rows']} rows: first root {found['first']} ms of CPU, after "
            f"{found['changes']} changes {found['value']} ms, found by a scan "
            f"{found['by_scan']} ms, target {found['target']} ms"
        )


if __name__ == "__main__":
    main()
