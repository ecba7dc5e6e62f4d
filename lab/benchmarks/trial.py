"""A trial's own work on `shop`: reset, verify, two captures, settle, judge, bundle.

    python -m lab.benchmarks.trial [--trials 15] [--json]

The agent is a real one; its own time is left out, everything else counts. Every trial must MATCH.
The floor, in the same run, is what no evaluator can avoid: copying the database file and reading
all rows of it once with the standard library.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from statediff.agents.command import CommandAgent
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock, clock
from statediff.capture.store import DiskChunks
from statediff.contract.file import ContractFile, load_contract
from statediff.harness import TrialPlan, run_trial
from statediff.model.verdict import Verdict
from statediff.packs import contract_folder, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox

TARGET_MS = 100.0


class Timed:
    """The careful agent, with the time it took kept apart."""

    name = "careful"

    def __init__(self, command: tuple[str, ...]) -> None:
        self._agent = CommandAgent(command, name=self.name)
        self.seconds = 0.0

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        """The run of the real agent, timed."""
        start = time.perf_counter()
        found = self._agent.run(trial, clock)
        self.seconds = time.perf_counter() - start
        return found


def one(
    sandbox: EmbeddedSandbox, contract: ContractFile, agent: Timed, work: Path, n: int
) -> float:
    """Milliseconds of our own work in one trial."""
    start = time.perf_counter()
    judged = run_trial(
        sandbox, contract, agent, TrialPlan(f"bench-{n}", work / f"trial-{n}"),
        clock=clock, store=DiskChunks(work / "chunks"),
    )  # fmt: skip
    spent = time.perf_counter() - start - agent.seconds
    if judged.evaluated.judgement.verdict is not Verdict.MATCH:
        raise SystemExit(f"trial {n} is {judged.evaluated.judgement.verdict.value}, not MATCH")
    return 1000 * spent


def floor(database: Path, work: Path) -> Callable[[], float]:
    """Milliseconds to copy the database and to read every row of it twice."""

    def run() -> float:
        start = time.perf_counter()
        copy = work / "floor.db"
        shutil.copyfile(database, copy)
        for _ in range(2):
            connection = sqlite3.connect(copy)
            names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (name,) in names.fetchall():
                connection.execute(f'SELECT * FROM "{name}"').fetchall()  # noqa: S608  (our file)
            connection.close()
        return 1000 * (time.perf_counter() - start)

    return run


def measure(trials: int) -> dict[str, Any]:
    """Medians of interleaved runs; the first of each is thrown away."""
    folder = contract_folder("shop/refund-returned-order")
    contract = load_contract(folder.contract)
    agent = Timed(folder.agent("careful"))
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        with EmbeddedSandbox(sandbox_pack("shop"), work / "sandbox") as sandbox:
            ours: list[float] = []
            least: list[float] = []
            for n in range(trials + 1):
                ours.append(one(sandbox, contract, agent, work, n))
                url = sandbox.access().urls["shop-db"]
                least.append(floor(Path(url.removeprefix("sqlite:///")), work)())
    milliseconds = statistics.median(ours[1:])
    return {
        "measure": "own work of a trial on shop",
        "unit": "ms", "trials": trials, "value": round(milliseconds, 1),
        "least": round(min(ours[1:]), 1), "most": round(max(ours[1:]), 1),
        "floor": round(statistics.median(least[1:]), 1), "target": TARGET_MS,
        "ok": milliseconds <= TARGET_MS,
    }  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]  # it has one
    parser.add_argument("--trials", type=int, default=15)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    found = measure(arguments.trials)
    if arguments.json:
        print(json.dumps(found))
        return
    print(
        f"{found['measure']}: median {found['value']} ms of {found['trials']} trials "
        f"({found['least']} to {found['most']}); target {found['target']} ms; "
        f"floor (copy the file, read all rows twice) {found['floor']} ms"
    )


if __name__ == "__main__":
    main()
