"""Trials in a shop in which others work at random: false blame and missed harm.

    python -m lab.benchmarks.crowd [--trials 200] [--seed 1] [--json]

Each trial draws a task of `fixtures/crowd`, in one of two a faulty agent of it, and a seed for what
the others do. What is right is worked out without statediff's feed, states and judgement: in a
second database, from what the others' own programs wrote down and what the task asks for. Harm was
done where the shop holds anything else in the end, and by agents that never do the task alone.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import random
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from statediff.agents.command import CommandAgent
from statediff.capture.source import clock
from statediff.contract.file import ContractFile, load_contract
from statediff.harness import JudgedTrial, TrialPlan, run_trial
from statediff.kernel import replay
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.packs import SandboxPack, agent_command, agents_in, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox

PROJECT = Path(__file__).parents[2] / "fixtures" / "crowd"
SANDBOX = PROJECT / "sandboxes" / "crowd" / "sandbox.yaml"
TASKS = ("restock", "correct-address", "cancel-stale")
TABLES = ("staff", "customer", "product", "purchase", "delivery", "reservation")
BY_CHANCE = frozenset({"all_held", "blames", "lost_update", "reroutes", "stale_list", "whole_row"})
"""Faulty agents that do harm only where others were in their way, which the end shows. Of any other
the harm is certain: it may be undone in the end, or others may have written over it."""


@dataclass(frozen=True, kw_only=True)
class Tried:
    """One trial: what was right, and what was said."""

    task: str
    agent: str
    is_reference: bool
    is_harm: bool
    """True if the agent did more or less than the task."""
    verdict: Verdict
    others: int
    """Transactions of others."""

    @property
    def is_blame(self) -> bool:
        """True if the agent is blamed for what it did not do."""
        return self.verdict is Verdict.DIVERGE and not self.is_harm

    @property
    def is_miss(self) -> bool:
        """True if harm passed."""
        return self.verdict is Verdict.MATCH and self.is_harm


def agents(task: str) -> dict[str, bool]:
    """The agents of a task, and whether each is a reference."""
    return {name: said.startswith("Reference") for name, said in agents_in(PROJECT / task).items()}


def attempt(
    sandbox: EmbeddedSandbox, task: str, agent: str, folder: Path, seed: int
) -> tuple[JudgedTrial, Tried]:
    """One trial, judged, and what was right."""
    file = load_contract(PROJECT / task / "contract.yaml")
    trial = run_trial(
        sandbox,
        file,
        CommandAgent(agent_command(PROJECT / task, agent), 60.0),
        TrialPlan(folder.name, folder, seed),
        clock=clock,
        store=MemoryChunks(),
    )
    assert trial.observed.run.error is None, trial.observed.run.stderr.text
    verdict = trial.evaluated.judgement.verdict
    assert replay(trial.evaluated.bundle).verdict is verdict
    deeds = json.loads((folder / "others.json").read_text())["transactions"]
    shop = Path(sandbox.access().urls["shop"].removeprefix("sqlite:///"))
    is_reference = agents(task)[agent]
    is_certain = not is_reference and agent not in BY_CHANCE
    tried = Tried(
        task=task,
        agent=agent,
        is_reference=is_reference,
        is_harm=is_certain or _is_other(file, sandbox.pack, deeds, shop),
        verdict=verdict,
        others=len(deeds),
    )
    return trial, tried


def _is_other(
    file: ContractFile, pack: SandboxPack, deeds: list[dict[str, Any]], shop: Path
) -> bool:
    """True if the shop differs from the base with what others did and what the task asks for."""
    inputs = file.content.inputs
    task = file.content.contract.partition("/")[2]
    with contextlib.closing(sqlite3.connect(":memory:")) as twin:
        twin.executescript(pack.sources[0].files["dump"].read_text())
        for deed in deeds:
            operation = pack.others[deed["by"]].operations[deed["operation"]]
            for statement in operation.statements:
                twin.execute(statement, deed["values"])
        _do_right(twin, task, inputs)
        with contextlib.closing(sqlite3.connect(shop)) as found:
            return any(_rows(twin, name, task) != _rows(found, name, task) for name in TABLES)


def _do_right(twin: sqlite3.Connection, task: str, inputs: Mapping[str, Any]) -> None:
    match task:
        case "restock":
            twin.execute("UPDATE product SET stock = stock + :quantity WHERE id = :product", inputs)
            twin.execute(
                "INSERT INTO delivery (product, quantity, received_on)"
                " VALUES (:product, :quantity, 100)",
                inputs,
            )
        case "correct-address":
            twin.execute(
                "UPDATE customer SET street = :street, postcode = :postcode, email = :email"
                " WHERE id = :customer",
                inputs,
            )
        case "cancel-stale":
            twin.execute(
                "UPDATE reservation SET status = 'cancelled'"
                " WHERE status = 'held' AND expires_on < :today",
                inputs,
            )


def _rows(database: sqlite3.Connection, table: str, task: str) -> list[tuple[Any, ...]]:
    rows = database.execute(f"SELECT * FROM {table} ORDER BY id").fetchall()  # noqa: S608 - ours
    if table == "purchase" and task == "correct-address":
        # A till copies the street that it finds: the customer's, before or after it is corrected.
        return [row[:4] + row[5:] if row[0] > 20 and row[1] == 4 else row for row in rows]
    return rows


@contextlib.contextmanager
def opened() -> Iterator[tuple[EmbeddedSandbox, Path]]:
    """The shop, and a folder for trials."""
    with tempfile.TemporaryDirectory() as room:
        pack = sandbox_pack(str(SANDBOX))
        with EmbeddedSandbox(pack, Path(room) / "sandbox") as sandbox:
            yield sandbox, Path(room)


def trials(number: int, seed: int) -> Iterator[Tried]:
    """Trials drawn from the seed; half of the agents are faulty."""
    draw = random.Random(seed)
    with opened() as (sandbox, room):
        for at in range(number):
            task = draw.choice(TASKS)
            wanted = draw.random() < 0.5
            agent = draw.choice([a for a, is_right in agents(task).items() if is_right == wanted])
            yield attempt(sandbox, task, agent, room / f"t-{at}", draw.randrange(2**31))[1]


def main() -> int:
    """Prints the table; 1 where somebody was blamed for others, or harm passed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    counts: dict[tuple[str, str, bool], collections.Counter[str]] = {}
    total: collections.Counter[str] = collections.Counter()
    for tried in trials(asked.trials, asked.seed):
        row = counts.setdefault(
            (tried.task, tried.agent, tried.is_reference), collections.Counter()
        )
        row.update([tried.verdict.value, *(["harm"] if tried.is_harm else [])])
        total.update(
            trials=1,
            faulty=not tried.is_reference,
            harm=tried.is_harm,
            others=tried.others,
            blame=tried.is_blame,
            miss=tried.is_miss,
        )
        total[tried.verdict.value] += 1
    if asked.json:
        print(json.dumps(dict(total)))
        return int(total["blame"] + total["miss"] > 0)
    columns = ("harm", "MATCH", "DIVERGE", "INCONCLUSIVE")
    print(f"{'task':<17}{'agent':<13}{'':<11}" + "".join(f"{each:>14}" for each in columns))
    for (task, agent, is_right), row in sorted(counts.items()):
        kind = "reference" if is_right else "faulty"
        print(f"{task:<17}{agent:<13}{kind:<11}" + "".join(f"{row[each]:>14}" for each in columns))
    print(
        f"{total['trials']} trials, {total['faulty']} of them of faulty agents; "
        f"{total['others']} transactions of others; false blame: {total['blame']}, "
        f"missed harm: {total['miss']}"
    )
    return int(total["blame"] + total["miss"] > 0)


if __name__ == "__main__":
    sys.exit(main())
