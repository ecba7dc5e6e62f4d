"""Every shipped agent of the database, mail and git tasks, by trial and through the gate.

`python -m gate.proofs.agents [TASK…]` makes a trial of each agent, then starts it once more behind
a gate, under what its contract says of the systems that stand there: its statements and letters go
through the gate, its pushes to a server whose hooks are the gate's. Printed: how many agents did
harm, how many of them were denied or held, whether what was committed is allowed, and how often a
right agent had to ask.
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
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import statediff
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
            def __init__(self, _url: str) -> None:
                self.place, self._block, self._begun = place, None, None

            def execute(self, statement: str, values: Any = ()) -> Any:
                if statement == "BEGIN":  # a transaction is open
                    statement = "SELECT 1"
                if self._begun is None:
                    self._block = gate.transaction()
                    self._begun = self._block.__enter__()
                answer = self._begun.run(statement, tuple(values), database)
                return databases.Result(Cursor(answer))

            def __exit__(self, kind: object, *_: object) -> None:
                begun, block = self._begun, self._block
                self._begun = self._block = None
                if begun is None or block is None:
                    return
                outcome = begun.commit() if kind in (None, Refused) else None
                block.__exit__(None, None, None)
                if outcome is not None and not outcome.is_committed:
                    raise SystemExit(f"{outcome.decision.value}: {outcome.why}")

            def close(self) -> None:
                self.__exit__(SystemExit)

        databases.connect = Gated
        runpy.run_path(agents, run_name="agents")[agent]()


class Served(BaseHTTPRequestHandler):
    """Git's own server side, as a web server starts it."""

    protocol_version = "HTTP/1.1"
    root: Path

    def log_message(self, *_: Any) -> None:
        """Nothing is printed of a request."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        while self.headers.get("Transfer-Encoding") == "chunked":
            part = self.rfile.read(int(self.rfile.readline().split(b";")[0], 16))
            self.rfile.readline()
            if not part:
                break
            body += part
        path, _, query = self.path.partition("?")
        asked = {
            "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "agent",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }  # fmt: skip
        done = subprocess.run(
            ["git", "http-backend"], input=body, stdout=subprocess.PIPE, check=False,
            env={**os.environ, **asked},
        )  # fmt: skip
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        status = next((int(v.split()[0]) for n, v in lines if n == "Status"), 200)
        self.send_response(status)
        for name, value in lines:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - as above


@contextmanager
def served(repository: Path, work: Path) -> Iterator[str]:
    """The URL of the repository behind the gate's hooks, for as long as the block."""
    from statediff_gate.pushes.hooks import install

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
                    line = both(sandbox, pack, contract, agent, counts)
                    if line:
                        print(f"{task} {agent}: {line}", flush=True)
                print(task, json.dumps(dict(sorted(counts.items()))), flush=True)


def both(sandbox: Any, pack: str, contract: Path, agent: str, counts: Counter[str]) -> str:
    """A line about this agent, where it is worth one; the counts go on."""
    file = statediff.load_contract(contract)
    [trial] = statediff.run(file, agent_command(contract.parent, agent), sandbox=sandbox)
    counts[f"trials {trial.verdict.value}"] += 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as work:
        return _through(sandbox, pack, contract, agent, trial, Path(work), counts)


def _through(
    sandbox: Any, pack: str, contract: Path, agent: str, trial: Any, work: Path,
    counts: Counter[str],
) -> str:  # fmt: skip
    from statediff_gate.records import read_decisions

    systems, elsewhere = PACKS[pack]
    text = of_the_systems(contract.read_text("utf-8"), elsewhere) + "\n"
    (work / "contract.yaml").write_text(text, "utf-8")
    generate(work / "key")
    sandbox.reset()
    urls = sandbox.access().urls
    given = {
        "STATEDIFF_INPUTS": json.dumps(dict(statediff.load_contract(contract).content.inputs),
                                       default=str),
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
                url = left.enter_context(served(repository, work))
                given[url_variable("origin")] = url
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
    decided = list(read_decisions(work / "records"))
    refused = [each for each in decided if not each["commits"]]
    counts["transactions"] += len(decided)
    counts["held"] += sum(each["decision"] == "hold" for each in refused)
    counts["denied"] += sum(each["decision"] == "deny" for each in refused)
    is_beyond = after.decision is statediff.Decision.DENY
    counts["committed beyond the contract"] += is_beyond
    by_state = _breaks_the_systems(trial, elsewhere)
    if by_state:
        counts["harm to these systems by trial"] += 1
        counts["of it denied or held"] += bool(refused)
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
    for finding in trial.findings:
        if finding["truth"] != "FAILS" or finding["stage"] not in ("forbid", "frame", "effects"):
            continue
        if "/" in finding["clause"]:
            continue  # of one branch of several: the run may still take another
        if re.search(elsewhere, json.dumps([finding.get("deltas", []), finding["clause"]])):
            continue
        return str(finding["clause"])
    return ""


if __name__ == "__main__":
    if sys.argv[1:2] == ["--agent"]:
        gated_agent(*sys.argv[2:])
    else:
        main(sys.argv[1:])
