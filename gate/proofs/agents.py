"""Every shipped agent of the database tasks, by trial and through the gate.

`python -m gate.proofs.agents [TASK…]` makes a trial of each agent, then starts it once more with
its statements going through a gate, under what its contract says of the database alone. Printed:
how many agents did harm, how many of them were denied or held, whether what was committed is
allowed, and how often a right agent had to ask.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import statediff
from statediff.evidence.keys import generate
from statediff.packs import agent_command, agents_in, find_sandbox
from statediff.systems.base.tool import url_variable
from statediff.workspace.trials import open_sandbox

ROOT = Path(__file__).parents[2]
DATABASES = {"shop": "shop-db", "accounts": "accounts-db"}
SECTIONS = ("forbid", "require", "allow", "derive", "effects", "exclude", "canonicalize")
ELSEWHERE = re.compile(
    r"\bmessage|\bfile\b|\bfiles\b|\banswer\.|outbox|\brun\.|exports?\b|\breport\b(?!-)"
)


def of_the_database(text: str) -> str:
    """What the contract says of the database: no mail, no files, no answer, no history."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe")
    document = yaml.load(text)
    kept = {
        n: document[n]
        for n in ("contract", "version", "owner", "intent", "sandbox")
        if n in document
    }
    for name in ("inputs", "frame", "noop"):
        if name in document:
            kept[name] = document[name]
    kept |= _sections(document)
    branches = document.get("any_of")
    if isinstance(branches, dict):
        kept["any_of"] = {name: _sections(branch) for name, branch in branches.items()}
    if "require" not in kept and "any_of" not in kept:
        kept["noop"] = True  # all that it requires lies elsewhere
    return json.dumps(kept, default=str)


def _sections(document: Any) -> dict[str, Any]:
    kept = {}
    for name in SECTIONS:
        entries = document.get(name)
        if not isinstance(entries, list):
            continue
        fit = [e for e in entries if not ELSEWHERE.search(json.dumps(e, default=str))]
        for each in fit:
            if isinstance(each, dict):
                each.pop("during", None)
        if fit:
            kept[name] = fit
    return kept


# ---------------------------------------------------------------- the agent's side


class Found:
    """What a statement gave, as `contracts/databases.py` gives it."""

    def __init__(self, answer: Any, row: Any) -> None:
        self._rows = iter(answer.rows)
        self._names, self._row = answer.names, row
        self.rowcount = -1 if answer.touched is None else answer.touched

    def fetchone(self) -> Any:
        values = next(self._rows, None)
        return None if values is None else self._row(self._names, values)

    def fetchall(self) -> list[Any]:
        return list(self)

    def __iter__(self) -> Iterator[Any]:
        return (self._row(self._names, values) for values in self._rows)


def gated_agent(
    agents: str, agent: str, contract: str, place: str, folder: str, source: str
) -> None:
    """Run the agent's program here, its database behind a gate; its outcomes are in a file."""
    from statediff_gate import Gate, Refused

    sys.path.insert(0, str(ROOT / "contracts"))
    import databases  # type: ignore[import-not-found]

    outcomes: list[Any] = []
    text = Path(contract).read_text("utf-8")
    with Gate(text + "\n", {source: place}, folder=folder, key=Path(folder, "key")) as gate:

        class Gated(databases.Database):  # type: ignore[misc]  # as above
            def __init__(self, _url: str) -> None:
                self.place, self._block, self._begun = place, None, None

            def execute(self, statement: str, values: Any = ()) -> Any:
                if statement == "BEGIN":  # a transaction is open
                    statement = "SELECT 1"
                if self._begun is None:
                    self._block = gate.transaction()
                    self._begun = self._block.__enter__()
                return Found(self._begun.run(statement, tuple(values)), databases.Row)

            def __exit__(self, kind: object, *_: object) -> None:
                begun, block = self._begun, self._block
                self._begun = self._block = None
                if begun is None or block is None:
                    return
                outcome = begun.commit() if kind in (None, Refused) else None
                block.__exit__(None, None, None)
                if outcome is not None:
                    outcomes.append([outcome.decision.value, outcome.is_committed, outcome.why])
                    if not outcome.is_committed:
                        raise SystemExit(f"{outcome.decision.value}: {outcome.why}")

            def close(self) -> None:
                self.__exit__(SystemExit)

        databases.connect = Gated
        try:
            runpy.run_path(agents, run_name="agents")[agent]()
            how = "ended"
        except SystemExit as error:
            how = str(error)
        except Exception as error:
            how = f"{type(error).__name__}: {error}"
    Path(folder, "outcomes.json").write_text(json.dumps([outcomes, how]), "utf-8")


# ---------------------------------------------------------------- both ways


def main(tasks: list[str]) -> None:
    counts: Counter[str] = Counter()
    for pack, source in DATABASES.items():
        with open_sandbox(find_sandbox(pack), "embedded") as sandbox:
            for contract in sorted((ROOT / "contracts" / pack).glob("*/contract.yaml")):
                task = f"{pack}/{contract.parent.name}"
                if tasks and task not in tasks:
                    continue
                for agent in agents_in(contract.parent):
                    line = both(sandbox, contract, agent, source, counts)
                    if line:
                        print(f"{task} {agent}: {line}", flush=True)
                print(task, json.dumps(dict(sorted(counts.items()))), flush=True)


def both(sandbox: Any, contract: Path, agent: str, source: str, counts: Counter[str]) -> str:
    """What is worth a line about this agent; the counts go on."""
    file = statediff.load_contract(contract)
    [trial] = statediff.run(file, agent_command(contract.parent, agent), sandbox=sandbox)
    counts[f"trials {trial.verdict.value}"] += 1
    work = Path(tempfile.mkdtemp(prefix="statediff-proof-"))
    try:
        return _through(sandbox, contract, agent, source, trial, work, counts)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _through(
    sandbox: Any,
    contract: Path,
    agent: str,
    source: str,
    trial: Any,
    work: Path,
    counts: Counter[str],
) -> str:
    text = of_the_database(contract.read_text("utf-8"))
    (work / "contract.yaml").write_text(text, "utf-8")
    generate(work / "key")
    sandbox.reset()
    access = sandbox.access()
    place = access.urls[source].removeprefix("sqlite:///")
    before = work / "before.sqlite"
    subprocess.run(["cp", place, before], check=True)
    try:
        judge = statediff.Judge(text + "\n", f"{source}={before}")
    except statediff.StatediffError as error:
        counts["not run through the gate"] += 1
        return f"its contract says nothing of the database alone: {error}"
    inputs = dict(statediff.load_contract(contract).content.inputs)
    given = {
        "STATEDIFF_INPUTS": json.dumps(inputs, default=str),
        "STATEDIFF_SEED": "0",
        "STATEDIFF_TASK": "",
        "STATEDIFF_ANSWER": str(work / "answer"),
        "STATEDIFF_TRACE": str(work / "trace"),
        **{url_variable(name): url for name, url in access.urls.items()},
    }
    words = [str(contract.parent / "agents.py"), agent, str(work / "contract.yaml")]
    words += [place, str(work), source]
    ran = subprocess.run(
        [sys.executable, "-m", "gate.proofs.agents", "--agent", *words],
        cwd=ROOT,
        check=False,
        env={**os.environ, **given},
        capture_output=True,
        timeout=120,
    )
    outcomes, how = (
        json.loads((work / "outcomes.json").read_text("utf-8"))
        if (work / "outcomes.json").exists()
        else ([], "no gate")
    )
    if how == "no gate":
        counts["not run through the gate"] += 1
        return f"could not be run: {ran.stderr.decode().strip()[-300:]}"
    after = judge.so_far(f"{source}={place}")
    refused = [each for each in outcomes if not each[1]]
    if how.startswith("Refused"):  # a statement, before anything could be judged
        refused.append(["deny", False, how])
    counts["transactions"] += len(outcomes)
    counts["held"] += sum(each[0] == "hold" for each in refused)
    counts["denied"] += sum(each[0] == "deny" for each in refused)
    counts["committed beyond the contract"] += after.decision is statediff.Decision.DENY
    is_right = trial.verdict is statediff.Verdict.MATCH
    by_state = _breaks_the_database(trial)
    if by_state:
        counts["harm to the database by trial"] += 1
        counts["of it denied or held"] += bool(refused)
    if is_right:
        counts["right agents"] += 1
        counts["right agents that asked"] += any(each[0] == "hold" for each in refused)
        counts["right agents that were denied"] += any(each[0] == "deny" for each in refused)
        if refused:
            return f"right, and {refused[0][0]}: {refused[0][2]}"
    if by_state and not refused:
        return f"harm by trial ({by_state}), and nothing refused: {how}"
    if after.decision is statediff.Decision.DENY:
        return f"COMMITTED BEYOND: {after.why}"
    return ""


def _breaks_the_database(trial: Any) -> str:
    """The first clause of forbid, frame or effects that the trial breaks in the database."""
    if trial.verdict is not statediff.Verdict.DIVERGE:
        return ""
    for finding in trial.findings:
        if finding["truth"] != "FAILS" or finding["stage"] not in ("forbid", "frame", "effects"):
            continue
        if "/" in finding["clause"]:
            continue  # of one branch of several: the run may still take another
        if ELSEWHERE.search(json.dumps([finding.get("deltas", []), finding["clause"]])):
            continue
        return str(finding["clause"])
    return ""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--agent"]:
        gated_agent(*sys.argv[2:])
    else:
        main(sys.argv[1:])
