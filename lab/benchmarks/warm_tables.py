"""What a judge kept warm costs on tables that are handed over as plain objects.

    python -m lab.benchmarks.warm_tables [--rows 300 10000] [--rollouts 8192] [--workers 2] [--json]

Processor time, the least of several, beside Python's own work on the same objects in the same run:
`==` of every row without short circuit, and `json.loads` of both states. Each run of an agent is
its own: half of them close one other order, half also change another row. Each verdict is checked.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import random
import time
from collections.abc import Callable
from typing import Any, Final

from statediff import Judge, Verdict, judge

CONTRACT: Final = """
contract: notes/refund-order
version: 1.0.0
owner: support
intent: Refund order 7 and change nothing else.
require:
  - id: refunded
    update: order
    where: it.id == 7
    set: {status: refunded}
"""
_REPEATS: Final = 7
_SHORT: Final = 0.2
"""Seconds that one figure is taken over, at least."""


def shop(rows: int) -> dict[str, Any]:
    """Orders and customers."""
    some = random.Random(7)
    customers = rows // 10
    return {
        "customer": [{"id": at, "name": f"Customer {at}"} for at in range(customers)],
        "order": [
            {
                "id": at,
                "customer_id": at % customers,
                "status": some.choice(["open", "paid"]),
                "total": at * 1.25,
                "note": None,
                "lines": at % 7,
            }
            for at in range(rows - customers)
        ],
    }


def run_of(before: dict[str, Any], number: int) -> tuple[dict[str, Any], Verdict]:
    """What a run left: right where the number is even."""
    after = json.loads(json.dumps(before))
    after["order"][7]["status"] = "refunded"
    if number % 2 == 0:
        return after, Verdict.MATCH
    after["order"][8 + number % (len(after["order"]) - 8)]["lines"] = 9 + number
    return after, Verdict.DIVERGE


def least(work: Callable[[], object]) -> float:
    """Milliseconds of processor time that it takes."""
    work()
    found = []
    for _ in range(_REPEATS):
        start, times = time.process_time(), 0
        while time.process_time() - start < _SHORT / _REPEATS:
            work()
            times += 1
        found.append((time.process_time() - start) / times)
    return 1000 * min(found)


def measure(rows: int) -> dict[str, Any]:
    """The figures of states of so many rows."""
    before = shop(rows)
    after, verdict = run_of(before, 0)
    other, texts = copy.deepcopy(before), [json.dumps(each) for each in (before, after)]
    kept = Judge(CONTRACT, before)
    if not kept.score(after).verdict is judge(CONTRACT, before, after).verdict is verdict:
        raise AssertionError("another verdict")

    def compare() -> None:
        [one == two for name in after for one, two in zip(after[name], other[name], strict=True)]

    found = {
        "warm": least(lambda: kept.score(after)),
        "compare": least(compare),
        "one_shot": least(lambda: judge(CONTRACT, before, after)),
        "loads": least(lambda: [json.loads(text) for text in texts]),
    }
    return {
        "rows": rows,
        **{f"{name}_ms": round(taken, 3) for name, taken in found.items()},
        "warm_per_second": round(1000 / found["warm"]),
        "warm_by_compare": round(found["warm"] / found["compare"], 2),
        "one_shot_by_loads": round(found["one_shot"] / found["loads"], 2),
    }


def measure_many(rollouts: int, rows: int, workers: int) -> dict[str, Any]:
    """The time of many rollouts, each its own, the start of the processes included."""
    before = shop(rows)
    runs = [run_of(before, number) for number in range(rollouts)]
    kept = Judge(CONTRACT, before)
    start, used = time.perf_counter(), _processor_seconds()
    found = kept.score_many([after for after, _ in runs], workers=workers)
    seconds, used = time.perf_counter() - start, _processor_seconds() - used
    if [score.verdict for score in found] != [verdict for _, verdict in runs]:
        raise AssertionError("another verdict")
    return {
        "rollouts": rollouts,
        "rows": rows,
        "workers": workers,
        "seconds": round(seconds, 2),
        "processor_seconds": round(used, 2),
    }


def _processor_seconds() -> float:
    """Of this process and of those it waited for."""
    each = os.times()
    return each.user + each.system + each.children_user + each.children_system


def main() -> None:
    """Prints every figure."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, nargs="*", default=[300, 10_000])
    options.add_argument("--rollouts", type=int, default=8192)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--json", action="store_true")
    asked = options.parse_args()
    figures = [measure(rows) for rows in asked.rows]
    if asked.rollouts:
        figures.append(measure_many(asked.rollouts, 300, asked.workers))
    if asked.json:
        print(json.dumps(figures))
        return
    for figure in figures:
        print(", ".join(f"{name} {value}" for name, value in figure.items()))


if __name__ == "__main__":
    main()
