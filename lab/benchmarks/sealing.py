"""Build, sign, verify and replay a sealed bundle of so many fragments.

    python -m lab.benchmarks.sealing [--fragments 1000 100000] [--rounds 5] [--json]

The bundle is a real one: a contract ranges over a table of that many rows, so that each row is a
fragment the decision read, and a leaf of its own. What counts is the process's own work (CPU), for
the machine it is measured on is never quiet; replay is shown beside it and has no target. The
floor, in the same run, is what nobody can do without: reading the JSON of the leaves twice with the
standard library, writing it twice and hashing it twice, with nothing checked.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import statistics
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from statediff.contract.file import parse_contract
from statediff.evidence.keys import SigningKey
from statediff.evidence.package import Bundle
from statediff.evidence.seal import SEED_BYTES, opened, seal
from statediff.evidence.verify import Signer, verify
from statediff.kernel import TrialFacts, evaluate, replay
from statediff.model.readings import Capture, Reading, ReadingKind, SourceCapture
from statediff.model.schema import EntityType, Field, Kind, Schema
from statediff.model.state import COMPLETE, MemoryChunks, State, build_table
from statediff.model.trace import NoAnswer, Trace

TARGETS_MS = {1_000: 50.0, 100_000: 3_000.0}
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONTRACT = b"""\
contract: bench/sealing
version: 1.0.0
owner: benchmarks
intent: Leave every amount positive and change nothing.
noop: true
require:
  - {id: positive, that: "all(line.amount > 0 and line.note != line.to for line in after.line)"}
"""
LINE = EntityType(
    "line",
    ("id",),
    (
        Field("id", Kind.INT, is_nullable=False),
        Field("amount", Kind.INT),
        Field("note", Kind.TEXT),
        Field("to", Kind.TEXT),
    ),
)


@cache
def bundle(fragments: int) -> Bundle:
    """The bundle of a trial whose decision read so many rows of one table."""
    schema = Schema("ledger", "1", (LINE,), (("db", ("line",)),))
    rows = [
        {"id": n, "amount": n % 997 + 1, "note": f"line {n}", "to": f"{n:08x}@example.org"}
        for n in range(fragments)
    ]
    state = State(schema, {"line": build_table(LINE, rows, MemoryChunks(), enumeration=COMPLETE)})
    sides = [
        Capture(
            (
                SourceCapture(
                    Reading(
                        f"{side}/db",
                        "db",
                        ReadingKind.SCAN,
                        as_of=NOON,
                        clock="trial",
                        is_complete=True,
                        digest=state.digest(),
                    ),
                    state,
                ),
            )
        )
        for side in ("before", "after")
    ]
    file = parse_contract(CONTRACT, "contract.yaml")
    found = evaluate(
        file, sides[0], sides[1], answer=NoAnswer("none was asked"), timeline=None,
        facts=TrialFacts("bench"), trace=Trace(),
    )  # fmt: skip
    return found.bundle


def once(fragments: int) -> dict[str, float]:
    """Milliseconds of CPU of each step over a bundle of so many fragments."""
    made = bundle(fragments)
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes(32)))
    trust = (Signer("Ada", key.public, ("evaluator",), None, None),)
    start = time.process_time()
    sealed = seal(made, bytes(SEED_BYTES), NOON, key.public, key.sign)
    built = time.process_time()
    found = verify(sealed.files, trust)
    verified = time.process_time()
    again = opened(found)
    joined = time.process_time()
    replay(again)
    done = time.process_time()
    floor = _floor(sealed.files["leaves.json"])
    if again != made or len(found.leaves) < fragments:
        raise SystemExit("the sealed bundle is not the one that was sealed")
    steps = {
        "build_and_sign": built - start, "verify": verified - built, "open": joined - verified,
        "replay": done - joined, "floor": floor,
    }  # fmt: skip
    return {name: 1000 * seconds for name, seconds in steps.items()}


def _floor(leaves: bytes) -> float:
    gc.disable()
    start = time.process_time()
    for _ in range(2):
        data = json.dumps(json.loads(leaves), separators=(",", ":"), ensure_ascii=False).encode()
        hashlib.sha256(data).digest()
    seconds = time.process_time() - start
    gc.enable()
    return seconds


def measure(fragments: int, rounds: int = 5) -> dict[str, Any]:
    """The least of so many rounds for each step; whether build, sign and verify keep in time."""
    found = [once(fragments) for _ in range(rounds)]
    steps = {name: round(min(each[name] for each in found), 1) for name in found[0]}
    both = [each["build_and_sign"] + each["verify"] for each in found]
    target = TARGETS_MS.get(fragments)
    return {
        "measure": "build, sign and verify a bundle", "unit": "ms of CPU", "fragments": fragments,
        "rounds": rounds, "value": round(statistics.median(both), 1), "least": round(min(both), 1),
        "target": target, "ok": target is None or min(both) <= target, "steps": steps,
    }  # fmt: skip


def results(sizes: Sequence[int] = tuple(TARGETS_MS), rounds: int = 5) -> list[dict[str, Any]]:
    """The results of `measure` for each size."""
    return [measure(size, rounds) for size in sizes]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]  # it has one
    parser.add_argument("--fragments", type=int, nargs="+", default=list(TARGETS_MS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="JSON lines")
    arguments = parser.parse_args()
    for found in results(arguments.fragments, arguments.rounds):
        if arguments.json:
            print(json.dumps(found))
            continue
        steps = ", ".join(f"{name.replace('_', ' ')} {ms}" for name, ms in found["steps"].items())
        print(
            f"{found['fragments']} fragments: build, sign and verify {found['value']} ms of CPU "
            f"(least {found['least']}), target {found['target']}; {steps}"
        )


if __name__ == "__main__":
    main()
