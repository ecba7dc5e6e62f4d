"""True if a contract's compensations undo what right runs did, on any variant of its sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from statediff.agents.recorder import recording
from statediff.agents.tools import tool_table
from statediff.capture.source import Clock, clock
from statediff.capture.take import take
from statediff.contract.clauses.effects import Compensation
from statediff.contract.file import ContractFile
from statediff.errors import UsageError
from statediff.harness import ObservedTrial
from statediff.kernel import Undoing, UndoingCall
from statediff.model.delta import Delta
from statediff.model.state import ChunkStore, MemoryChunks
from statediff.systems.base.protocol import Sandbox
from statediff.trial_folder import save_trace
from statediff.workspace.references import live_trial

if TYPE_CHECKING:
    from statediff.suite.campaign import SandboxPool


def undone_runs(
    file: ContractFile, folder: Path, agents: Sequence[str], variant: str, pool: SandboxPool
) -> Iterator[tuple[str, Undone]]:
    """Each agent of the contract's `folder` and what became of undoing its run.

    `UsageError` where the contract has no sandbox, no agent or nothing that undoes.
    """
    content = file.content
    is_said = any(isinstance(effect.compensation, Compensation) for effect in content.effects)
    if content.sandbox is None or not agents or not is_said:
        raise UsageError(
            f"{content.contract}: undoing needs a sandbox, an agent of the contract's folder and a "
            "compensation with arguments under `effects`"
        )
    for each in agents:
        with live_trial(file, folder, each, pool, variant) as (sandbox, observed, agent):
            yield agent, undo(sandbox, file, observed, clock=clock, store=MemoryChunks())


@dataclass(frozen=True, kw_only=True)
class Undone:
    """A trial whose effects were undone: the calls that did it, and what is left."""

    calls: tuple[tuple[UndoingCall, str], ...]
    """Each call, and why it failed; empty where it did not."""
    left: tuple[Delta, ...]


def undo(
    sandbox: Sandbox,
    contract: ContractFile,
    observed: ObservedTrial,
    *,
    clock: Clock,
    store: ChunkStore,
) -> Undone:
    """The contract's compensations, run with the agent's own access after a trial.

    The sandbox is as the trial left it. The calls are recorded in `undoing.jsonl` of its folder.
    `UsageError` where others worked in it: what is left could be theirs.
    """
    if observed.receipt.others:
        raise UsageError(f"others worked in {sandbox.name}: what is left could be theirs")
    undoing = Undoing(contract, observed.before, observed.after)
    made = []
    with recording(clock, principal=None) as recorder:
        access = sandbox.access()
        table = tool_table(access.urls, recorder, offered=access.tools)
        for call in undoing.calls():
            reply = None if call.problem else table.call(call.tool, dict(call.arguments))
            failed = reply.text if reply is not None and reply.is_error else call.problem
            made.append((call, failed))
        table.close()
    save_trace(observed.folder / "undoing.jsonl", recorder.trace())
    sandbox.settle(clock)
    final = take(sandbox.sources(), store, clock, observed.before, "after")
    return Undone(calls=tuple(made), left=undoing.left(final))
