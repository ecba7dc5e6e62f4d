"""verifiers and prime-rl: the tasks of packs and of your own contracts, as a taskset.

A module of yours exports it, and its name is the taskset's id:

    from statediff_hosts.verifiers_packs import ContractTasks
    __all__ = ["ContractTasks"]

`contracts` of its configuration names packs, tasks, files or folders. A rollout is one trial: its
sandbox is reset and proven in `setup`, the model has the sandbox's tools by MCP, which record every
call, and its last message holds the answer. The trial is judged in `finalize`. MATCH has the reward
1.0 and DIVERGE 0.0; INCONCLUSIVE raises, so that the rollout is left out of training.

The sandbox and its tools are in this process and reached on this machine's loopback: the harness
runs on this machine too.
"""

from __future__ import annotations

import contextvars
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import verifiers.v1 as vf
from anyio import to_thread
from pydantic import Field
from verifiers.v1.mcp import Toolset, ToolsetConfig
from verifiers.v1.utils.loaders import harness_class

from statediff.agents.handover import PAST_THE_TOOLS
from statediff.errors import UsageError
from statediff.integrations.verdicts import decided
from statediff.scores import Score
from statediff.workspace.contracts import tasks_of
from statediff_hosts.held import OpenTrial
from statediff_hosts.protocols.loop import SYSTEM
from statediff_hosts.protocols.mcp_server import mcp_server, serving_http

_OPEN: Final[dict[str, OpenTrial]] = {}
_SCORES: Final[dict[str, Score]] = {}
"""The trials that run and how others ended, by the trace's id; they go when the trace goes."""
_TOOLS: Final[contextvars.ContextVar[str | None]] = contextvars.ContextVar("_TOOLS", default=None)
"""Where the tools of the rollout of this asyncio task are; `setup` runs in it before `toolsets`."""


class PackTools(Toolset[ToolsetConfig, vf.State]):
    """The tools of a rollout's sandbox, which are served already."""

    TOOL_PREFIX = None


class ContractTaskData(vf.TaskData):
    """A contract, by the path of its file, and one of its cases."""

    contract: str
    case: str | None = None


class ContractTaskConfig(vf.TaskConfig):
    """Settings of every task."""

    bundles: Path | None = None
    """A folder in which each rollout's bundle is kept."""


class PackTask(vf.Task[ContractTaskData, vf.State, ContractTaskConfig]):
    """A task in a sandbox, whose reward is its contract's verdict."""

    @classmethod
    def toolsets(cls, config: ContractTaskConfig) -> list[Toolset]:  # noqa: ARG003 - verifiers' signature
        return [PackTools(ToolsetConfig(url=_TOOLS.get()))]

    async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        if not runtime.is_local:
            raise UsageError("the harness runs on another machine, where the sandbox is not")
        opened = await to_thread.run_sync(
            OpenTrial, self.data.contract, self.data.case, "verifiers"
        )
        _OPEN[trace.id] = opened
        weakref.finalize(trace, _forget, trace.id)
        agent = trace.agent
        harness = None if agent is None else agent.config.harness
        if harness is None or harness_class(harness.id).EXECUTES_CODE:
            opened.held.tools.recorder.miss(PAST_THE_TOOLS)
        server = mcp_server("statediff", opened.held.tools)
        _TOOLS.set(await to_thread.run_sync(opened.stack.enter_context, serving_http(server)))

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        opened = _OPEN[trace.id]
        asked = sum(len(message.tool_calls or ()) for message in trace.assistant_messages)
        agent = trace.agent
        model = "verifiers" if agent is None else f"verifiers/{agent.name}"
        try:
            judged, score = await to_thread.run_sync(opened.finish, trace.last_reply, asked, model)
            if self.config.bundles is not None:
                judged.save(self.config.bundles / trace.id)
        finally:
            await to_thread.run_sync(_close, trace.id)
        _SCORES[trace.id] = score

    @vf.reward
    async def statediff(self, trace: vf.Trace) -> float:
        score = _SCORES[trace.id]
        found = decided(score)
        trace.record_metrics({f"statediff/{name}": share for name, share in score.parts.items()})
        return found


class ContractTasksConfig(vf.TasksetConfig):
    """The tasks that are trained on."""

    contracts: list[str] = Field(default_factory=lambda: ["shop"])
    """Packs, tasks of packs, contract files, and folders of them."""
    task: ContractTaskConfig = ContractTaskConfig()


class ContractTasks(vf.Taskset[PackTask, ContractTasksConfig]):
    """A task for each case of each contract."""

    def load(self) -> Iterator[PackTask]:
        """Every contract is read."""
        for each in tasks_of(self.config.contracts):
            data = ContractTaskData(
                name=each.name,
                prompt=each.prompt,
                system_prompt=SYSTEM,
                contract=each.contract,
                case=each.case,
            )
            yield PackTask(data, self.config.task)


def trial_of(trace: vf.Trace) -> OpenTrial:
    """The running trial of a rollout, for a harness that acts by the systems' URLs."""
    return _OPEN[trace.id]


def _close(trace: str) -> None:
    opened = _OPEN.pop(trace, None)
    if opened is not None:
        opened.close()


def _forget(trace: str) -> None:
    _close(trace)
    _SCORES.pop(trace, None)
