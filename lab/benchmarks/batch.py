"""The evidence of a batch: bytes of each rollout, and what recording, verifying and opening cost.

    python -m lab.benchmarks.batch [--rows 300 10000] [--rollouts 400] [--deltas 20] [--json]

Each rollout is a run of its own over the shop of `warm_tables`: it refunds order 7 and touches from
none to `--deltas` - 1 further orders: fields, new orders with a note, deleted ones. The bytes of a
rollout are those of its frame; beside them, all files of the batch but bundles that were kept
whole, the state before among them, divided by the rollouts. Milliseconds of processor time.
"""

from __future__ import annotations

import argparse
import copy
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from lab.benchmarks.warm_tables import CONTRACT, shop
from statediff import Evidence, Judge, Verdict
from statediff.evidence.keys import generate
from statediff.evidence.verify import Signer
from statediff.workspace.batches import WHOLE, open_batch

TARGET_BYTES = 2000
PIECE = 100


def run_of(before: dict[str, Any], number: int, deltas: int) -> dict[str, Any]:
    """What a run left: order 7 refunded, and so many further changes as its number says."""
    draw = random.Random(number)
    orders = copy.copy(before["order"])
    orders[7] = {**orders[7], "status": "refunded"}
    for change in range(number % (deltas or 1)):
        place = draw.randrange(8, len(orders))
        match draw.randrange(4):
            case 0:
                note = f"order {number}-{change} of {draw.getrandbits(64):x}, to be sent by mail"
                new = {"id": 10**6 + change, "status": "open", "total": draw.random(), "note": note}
                orders.append({**orders[place], **new})
            case 1:
                del orders[place]
            case _:
                orders[place] = {**orders[place], "lines": draw.randrange(10**6), "status": "open"}
    return {**before, "order": orders}


def measure(rows: int, rollouts: int, deltas: int) -> dict[str, Any]:
    """The figures of states of so many rows. `SystemExit` where a verdict is not the same."""
    before = shop(rows)
    runs = [run_of(before, number, deltas) for number in range(rollouts)]
    judge = Judge(CONTRACT, before)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        key = generate(folder / "key")
        trust = (Signer("Ada", key.public, ("evaluator",), None, None),)
        pairs = []
        for start in range(0, rollouts, PIECE):
            own = runs[start : start + PIECE]
            judge.score_many(own[:2])
            begin = time.process_time()
            plain = judge.score_many(own)
            middle = time.process_time()
            evidence = Evidence(folder=folder / str(start), key=folder / "key")
            if judge.score_many(own, evidence=evidence) != plain:
                raise SystemExit("another score")
            pairs.append((middle - begin, time.process_time() - middle))
        whole = Evidence(folder=folder / "whole", key=folder / "key")
        scores = judge.score_many(runs, evidence=whole)
        begin = time.process_time()
        opener = open_batch(folder / "whole", trust)
        verified = time.process_time() - begin
        begin = time.process_time()
        if [opener.judged(at).judgement.verdict for at in range(rollouts)] != [
            score.verdict for score in scores
        ]:
            raise SystemExit("another verdict")
        again = time.process_time() - begin
        sizes = [end - start for start, end, _ in opener.batch.records.places]
        written = sum(
            path.stat().st_size
            for path in (folder / "whole").rglob("*")
            if path.is_file() and WHOLE not in path.parts[len(folder.parts) + 1 :]
        )
    each = [[1000 * taken / PIECE for taken in pair] for pair in pairs]
    median = statistics.median(sizes)
    return {
        "measure": "evidence of a batch", "rows": rows, "rollouts": rollouts, "deltas": deltas,
        "matches": sum(score.verdict is Verdict.MATCH for score in scores),
        "median_bytes": median, "most_bytes": max(sizes),
        "all_bytes_by_rollouts": round(written / rollouts),
        "score_ms": round(statistics.median(pair[0] for pair in each), 3),
        "recorded_ms": round(statistics.median(pair[1] for pair in each), 3),
        "verified_ms": round(1000 * verified / rollouts, 3),
        "judged_again_ms": round(1000 * again / rollouts, 3),
        "target": TARGET_BYTES, "ok": median <= TARGET_BYTES,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]  # it has one
    options.add_argument("--rows", type=int, nargs="+", default=[300, 10_000])
    options.add_argument("--rollouts", type=int, default=400)
    options.add_argument("--deltas", type=int, default=20)
    options.add_argument("--json", action="store_true", help="JSON lines")
    asked = options.parse_args()
    for rows in asked.rows:
        found = measure(rows, asked.rollouts, asked.deltas)
        if asked.json:
            print(json.dumps(found))
            continue
        print(", ".join(f"{name} {value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
