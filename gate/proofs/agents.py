"""Every shipped agent of the database, mail and git tasks, by trial and through the gate.

`python -m gate.proofs.agents [TASK…]` makes a trial of each agent, then starts it once more behind
a gate, under what its contract says of the systems that stand there: its statements and letters go
through the gate, its pushes to a server whose hooks are the gate's. Printed: how much harm was
refused, whether what was committed is allowed, and how often a right agent had to ask.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

from statediff_gate.pushes.hooks import install

import statediff
from sandboxes.git.tests.git_repositories import Served
from statediff import kernel
from statediff.capture.source import clock
from statediff.capture.take import take
from statediff.evidence.keys import generate
from statediff.model.state import MemoryChunks
from statediff.packs import agent_command, agents_in, find_sandbox
from statediff.scores import standing_of
from statediff.systems.base.tool import url_variable
from statediff.workspace.trials import open_sandbox

ROOT = Path(__file__).parents[2]
ELSEWHERE = r"\bfiles?\b|\banswer\.|\brun\.|exports?\b|\breport\b(?!-)"
BESIDE = (
    r"\b(test_case|ticket|participant|deploy_key|key_\w+|protected_branch|person|checkout|link\w*)\b"
    r"|\b(answer|run)\."
)
PACKS = {
    "shop": (("shop-db", "outbox"), ELSEWHERE),
    "accounts": (("accounts-db", "outbox"), ELSEWHERE),
    "repo": (("origin",), BESIDE),
}
"""Sandbox → the systems behind the gate, and what a clause names that says something of others."""
SECTIONS = ("forbid", "require", "allow", "derive", "effects", "exclude", "canonicalize")


def of_the_systems(text: str, elsewhere: str) -> str:
    """The contract about the systems behind the gate alone: no files, no answer, no history."""
    from ruamel.yaml import YAML

    document = YAML(typ="safe").load(text)
    names = ("contract", "version", "owner", "intent", "sandbox", "inputs", "frame", "noop")
    kept = {n: document[n] for n in names if n in document} | _sections(document, elsewhere)
    branches = document.get("any_of")
    if isinstance(branches, dict):
        kept["any_of"] = {name: _sections(each, elsewhere) for name, each in branches.items()}
    if "require" not in kept and "any_of" not in kept:
        kept["noop"] = True  # all that it requires lies elsewhere
    return json.dumps(kept, default=str)


def _sections(document: Any, elsewhere: str) -> dict[str, Any]:
    kept = {}
    for name in SECTIONS:
        entries = document.get(name)
        if not isinstance(entries, list):
            continue
        fit = [e for e in entries if not re.search(elsewhere, json.dumps(e, default=str))]
        for each in fit:
            if isinstance(each, dict):
                each.pop("during", None)
        if fit:
            kept[name] = fit
    return kept


# ---------------------------------------------------------------- the agent's side


class Cursor(list[Any]):
    """The result of a statement, as a driver's cursor has it."""

    def __init__(self, answer: Any) -> None:
        super().__init__(answer.rows)
        self.description = [(name,) for name in answer.names]
        self.rowcount = -1 if answer.touched is None else answer.touched

    def fetchone(self) -> Any:
        return self.pop(0) if self else None


def gated_agent(agents: str, agent: str, folder: str, database: str, place: str, to: str) -> None:
    """Run the agent's program here, its database and its mail behind a gate."""
    from statediff_gate import Gate, Refused
    from statediff_gate.relay import listening

    sys.path.insert(0, str(ROOT / "contracts"))
    import databases  # type: ignore[import-not-found]

    work = Path(folder)
    systems = {database: place, "outbox": to}
    with (
        Gate(work / "contract.yaml", systems, folder=work / "records", key=work / "key") as gate,
        listening(gate, "outbox", "127.0.0.1", 0) as port,
    ):
        os.environ[url_variable("outbox")] = f"smtp://127.0.0.1:{port}"

        class Gated(databases.Database):  # type: ignore[misc]  # as above
            first: Any = None  # whose transaction is open; others' statements are in it, too

            def __init__(self, _url: str) -> None:
                self.place, self._block = place, None

            def execute(self, statement: str, values: Any = ()) -> Any:
                if statement in ("BEGIN", "COMMIT"):  # one begins with the first writing
                    return self.__exit__(None)
                if Gated.first is None and statement.startswith("SELECT"):
                    with gate.transaction() as alone:  # as the driver: it opens none for a reading
                        answer = alone.run(statement, tuple(values), database)
                    return databases.Result(Cursor(answer))
                if Gated.first is None:
                    Gated.first, self._block = self, gate.transaction()
                    self.begun = self._block.__enter__()
                answer = Gated.first.begun.run(statement, tuple(values), database)
                return databases.Result(Cursor(answer))

            def __exit__(self, kind: object, *_: object) -> None:
                if Gated.first is not self:
                    return
                outcome = self.begun.commit() if kind in (None, Refused) else None
                Gated.first = None
                self._block.__exit__(None, None, None)
                if outcome is not None and not outcome.is_committed:
                    raise SystemExit(f"{outcome.decision.value}: {outcome.why}")

            def close(self) -> None:
                self.__exit__(SystemExit)

        databases.connect = Gated
        runpy.run_path(agents, run_name="agents")[agent]()


@contextmanager
def served(repository: Path, work: Path) -> Iterator[str]:
    """The URL of the repository behind the gate's hooks, for as long as the block."""
    install(work / "contract.yaml", {"origin": str(repository)}, {}, work / "records",
            work / "key", None)  # fmt: skip
    handler = type("Own", (Served,), {"root": repository.parent})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{repository.name}"
    finally:
        server.shutdown()
        server.server_close()


def main(tasks: list[str]) -> None:
    counts: Counter[str] = Counter()
    for pack in PACKS:
        with open_sandbox(find_sandbox(pack), "embedded") as sandbox:
            for contract in sorted((ROOT / "contracts" / pack).glob("*/contract.yaml")):
                task = f"{pack}/{contract.parent.name}"
                if tasks and task not in tasks and pack not in tasks:
                    continue
                for agent in agents_in(contract.parent):
                    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
                        line = both(sandbox, pack, contract, agent, Path(work), counts)
                    if line:
                        print(f"{task} {agent}: {line}", flush=True)
                print(task, json.dumps(dict(sorted(counts.items()))), flush=True)


def both(
    sandbox: Any, pack: str, contract: Path, agent: str, work: Path, counts: Counter[str]
) -> str:
    """A line about this agent, where it is worth one; the counts go on."""
    from statediff_gate.records import read_decisions

    file = statediff.load_contract(contract)
    [trial] = statediff.run(file, agent_command(contract.parent, agent), sandbox=sandbox)
    counts[f"trials {trial.verdict.value}"] += 1
    systems, elsewhere = PACKS[pack]
    text = of_the_systems(contract.read_text("utf-8"), elsewhere)
    (work / "contract.yaml").write_text(f"{text}\n", "utf-8")
    generate(work / "key")
    sandbox.reset()
    urls = sandbox.access().urls
    given = {
        "STATEDIFF_INPUTS": json.dumps(dict(file.content.inputs), default=str),
        "STATEDIFF_SEED": "0", "STATEDIFF_TASK": "", "STATEDIFF_ANSWER": str(work / "answer"),
        "STATEDIFF_TRACE": str(work / "trace"),
        **{url_variable(name): url for name, url in urls.items()},
    }  # fmt: skip
    read = partial(take, [each for each in sandbox.sources() if each.name in systems],
                   MemoryChunks(), clock)  # fmt: skip
    (work / "agent").mkdir()
    with ExitStack() as left:
        try:
            if pack == "repo":
                repository = Path(urls["origin"].removeprefix("file://"))
                given[url_variable("origin")] = left.enter_context(served(repository, work))
                words = [*agent_command(contract.parent, agent)]
            else:
                place = urls[systems[0]].removeprefix("sqlite:///")
                words = [sys.executable, "-m", "gate.proofs.agents", "--agent",
                         str(contract.parent / "agents.py"), agent, str(work), systems[0], place,
                         urls["outbox"]]  # fmt: skip
            before = read(None, "before")
            judge = kernel.prepare(statediff.load_contract(work / "contract.yaml"), before,
                                   facts=kernel.TrialFacts.offline())  # fmt: skip
            if judge.null_run is not None:
                raise judge.null_run
        except statediff.StatediffError as error:
            counts["not run through the gate"] += 1
            return f"its contract says nothing of these systems alone: {error}"
        ran = subprocess.run(
            words, cwd=work / "agent", check=False, capture_output=True,
            env={**os.environ, **given, "PYTHONPATH": str(ROOT)}, timeout=600,
        )  # fmt: skip
        after = standing_of(judge.so_far(read(before, "after")))
    how = (ran.stderr.decode().strip().splitlines() or ["ended"])[-1]
    if not (work / "records" / "decisions.jsonl").exists():
        counts["not run through the gate"] += 1
        return f"could not be run: {how[-300:]}"
    refused = [each for each in read_decisions(work / "records") if not each["commits"]]
    counts.update(f"decided: {each['decision']}" for each in refused)
    is_beyond = after.decision is statediff.Decision.DENY
    counts["committed beyond the contract"] += is_beyond
    by_state = _breaks_the_systems(trial, elsewhere)
    counts["harm to these systems by trial"] += bool(by_state)
    counts["of it denied or held"] += bool(by_state and refused)
    if trial.verdict is statediff.Verdict.MATCH:
        counts["right agents"] += 1
        for kind, word in (("hold", "asked"), ("deny", "were denied")):
            counts[f"right agents that {word}"] += any(e["decision"] == kind for e in refused)
        if refused:
            return f"right, and {refused[0]['decision']}: {refused[0]['why']}"
    if is_beyond:
        return f"COMMITTED BEYOND: {after.why}"
    if by_state and not refused:
        return f"harm by trial ({by_state}), and nothing refused: {how}"
    return ""


def _breaks_the_systems(trial: Any, elsewhere: str) -> str:
    """The first clause of forbid, frame or effects that the trial breaks in these systems."""
    if trial.verdict is not statediff.Verdict.DIVERGE:
        return ""
    broken = (
        str(each["clause"]) for each in trial.findings
        if each["truth"] == "FAILS" and each["stage"] in ("forbid", "frame", "effects")
        and "/" not in each["clause"]  # of a branch: the run may still take another
        and not re.search(elsewhere, json.dumps([each.get("deltas", []), each["clause"]]))
    )  # fmt: skip
    return next(broken, "")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--agent"]:
        gated_agent(*sys.argv[2:])
    else:
        main(sys.argv[1:])
