"""Inspect AI: what an agent changed in any sandbox, judged by a contract or an allowed frame.

    Task(dataset=…, sandbox="docker",
         solver=[watched(frame(allowed=["ticket.status"]), {"db": "/app/app.db"}), generate()],
         scorer=[own_scorer(), state_scorer()])

`watched` keeps the state before, and goes before the solvers that act. `state_scorer` copies what
they left and judges it. Nothing of statediff is in the sandbox.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from weakref import WeakKeyDictionary

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import OutputLimitExceededError, SandboxEnvironment, sandbox

from statediff.contract.file import ContractFile, parse_contract
from statediff.errors import UsageError
from statediff.model.verdict import Verdict
from statediff_hosts.boxes import BoxedRun, TooLarge
from statediff_hosts.inspect_provider import VERDICTS, verdict_score

SECONDS: Final = 600
_RUNS: Final[WeakKeyDictionary[SandboxEnvironment, BoxedRun]] = WeakKeyDictionary()
"""What is judged of the samples that run, by their sandbox."""


class SandboxBox:
    """A sandbox of Inspect."""

    def __init__(self, environment: SandboxEnvironment) -> None:
        self._environment = environment

    async def run(self, *command: str) -> tuple[int, str]:
        done = await self._environment.exec(list(command), timeout=SECONDS)
        return done.returncode, done.stdout

    async def read(self, path: str) -> bytes:
        try:
            return await self._environment.read_file(path, text=False)
        except OutputLimitExceededError as error:
            raise TooLarge(f"{path} in the sandbox: Inspect reads no more: {error}") from error


def frame(allowed: Sequence[str | Mapping[str, Any]]) -> ContractFile:
    """A contract without a file: nothing may change but what is allowed.

    `"ticket"` allows every change of a type, `"ticket.status"` changes of a field; a mapping is a
    pattern as `allow:` of a contract has it. `ContractError` where one cannot be read.
    """
    patterns: list[dict[str, Any]] = []
    for number, each in enumerate(allowed, 1):
        if isinstance(each, str):
            entity, _, field = each.partition(".")
            pattern = {"update": entity, "fields": [field]} if field else {"any": [entity]}
        else:
            pattern = dict(each)
        patterns.append({"id": f"allowed-{number}", **pattern})
    document = {
        "contract": "inspect/frame",
        "version": "1.0.0",
        "owner": "inspect",
        "intent": "Change nothing but what is allowed.",
        "noop": True,
        **({"allow": patterns} if patterns else {}),
    }
    return parse_contract(json.dumps(document).encode(), "the frame")


@solver
def watched(
    contract: ContractFile | str | Path, states: Mapping[str, str], box: str | None = None
) -> Solver:
    """The state before is kept: `{source: path in the sandbox, or URL}`."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:  # noqa: ARG001 - Inspect's signature
        environment = sandbox(box)
        run = BoxedRun(contract, states)
        await run.before(SandboxBox(environment))
        _RUNS[environment] = run
        return state

    return solve


@scorer(metrics={verdict: [mean()] for verdict in VERDICTS})
def state_scorer(out: str | None = None, box: str | None = None, unscored: bool = False) -> Scorer:
    """The verdict on what `watched` keeps, as `statediff_scorer` gives it.

    With `unscored`, an INCONCLUSIVE sample has no score, and is in no mean; without, it is counted.
    """

    async def score(state: TaskState, target: Target) -> Score:  # noqa: ARG001 - Inspect's signature
        environment = sandbox(box)
        run = _RUNS.get(environment)
        if run is None:
            raise UsageError("the state before was not kept: put the solver watched(…) first")
        await run.after(SandboxBox(environment))
        judged = await run.judge(state.output.completion)
        found = verdict_score(judged, out)
        if unscored and judged.verdict is Verdict.INCONCLUSIVE:
            return Score.unscored(
                answer=found.answer, explanation=found.explanation, metadata=found.metadata
            )
        return found

    return score
