"""verifiers and prime-rl: the reward of a task is the verdict of a contract.

A task of your own names what is judged in its data, `contract` and `states`, and its hooks call
`before` and `after`; `ContractTask` does both. The reward is that of `ContractTask`, or is plugged
in by configuration:

    [env.taskset.task.rewards]
    statediff = {fn = "statediff_hosts.verifiers:reward"}

MATCH is 1.0 and DIVERGE 0.0. INCONCLUSIVE raises, so that the rollout has an error and no reward,
and is left out of training. The shares of clauses are metrics: a reward of verifiers is added to
the others, and no share may lift a DIVERGE.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final, Protocol

import verifiers.v1 as vf
from pydantic import Field

from statediff.integrations.verdicts import decided
from statediff_hosts.boxes import BoxedRun

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_READ: Final = 1024 * 1024 * 1024
_RUNS: Final[dict[str, BoxedRun]] = {}
"""What is judged of the rollouts that run, by the trace's id; it goes when the trace goes."""


class Named(Protocol):
    """Task data that says what is judged: `{source: path in the runtime, or URL}`."""

    contract: str
    states: Mapping[str, str]


class RuntimeBox:
    """The runtime of a rollout; paths are absolute, or relative to its folder."""

    def __init__(self, runtime: vf.Runtime) -> None:
        self._runtime = runtime

    async def run(self, *command: str) -> tuple[int, str]:
        done = await self._runtime.run(list(command), {})
        return done.exit_code, done.stdout

    async def read(self, path: str) -> bytes:
        return await self._runtime.read(path, max_bytes=MAX_READ)


async def before(task: Named, trace: vf.Trace, runtime: vf.Runtime) -> None:
    """The states are kept; for the end of `Task.setup`, when the task's own files are there."""
    run = BoxedRun(task.contract, task.states)
    await run.before(RuntimeBox(runtime))
    _RUNS[trace.id] = run
    weakref.finalize(trace, _RUNS.pop, trace.id, None)


async def after(task: Named, trace: vf.Trace, runtime: vf.Runtime) -> None:  # noqa: ARG001 - the host's signature
    """Copy what the agent left; for `Task.finalize`."""
    await _run_of(trace).after(RuntimeBox(runtime))


async def reward(task: Any, trace: vf.Trace, runtime: Any = None) -> float:  # noqa: ARG001 - the host's signature
    """1.0 or 0.0; `NoReward` where the verdict is INCONCLUSIVE. The shares become metrics."""
    score = await _run_of(trace).score(trace.last_reply)
    found = decided(score)
    trace.record_metrics({f"statediff/{name}": share for name, share in score.parts.items()})
    return found


def _run_of(trace: vf.Trace) -> BoxedRun:
    if trace.id not in _RUNS:
        raise RuntimeError(
            "the state before was not kept: await before(self.data, trace, runtime) of "
            "statediff_hosts.verifiers at the end of Task.setup, after(…) in Task.finalize"
        )
    return _RUNS[trace.id]


class ContractData(vf.TaskData):
    """A task that a contract judges."""

    contract: str
    states: dict[str, str]
    files: dict[str, str] = Field(default_factory=dict)
    """What is written into the runtime first: path → text."""


class ContractTask(vf.Task[ContractData, vf.State, vf.TaskConfig]):
    """A task whose reward is its contract's verdict."""

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        for path, text in self.data.files.items():
            await runtime.write(path, text.encode())
        await before(self.data, trace, runtime)

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        await after(self.data, trace, runtime)

    @vf.reward
    async def statediff(self, trace: vf.Trace) -> float:
        return await reward(self.data, trace)
