"""Whether a contract's compensations undo what right runs did, on any variant of its sandbox."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from statediff.contract.clauses.effects import Compensation
from statediff.errors import UsageError
from statediff.harness import TrialPlan, Undone, undo
from statediff.model.state import MemoryChunks
from statediff.workspace.agents import packed_agent
from statediff.workspace.trials import TrialRequest, clock, lend, make_trial

if TYPE_CHECKING:
    from statediff.evaluate import ContractFile
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
    for agent in agents:
        program = packed_agent(folder, agent, 60.0)
        with (
            tempfile.TemporaryDirectory(prefix="statediff-") as place,
            pool.lease(content.sandbox, variant) as sandbox,
        ):
            request = TrialRequest(
                contract=file, agent=program, variant=variant, lease=lend(sandbox)
            )
            observed = make_trial(request, TrialPlan(agent, Path(place) / "trial")).observed
            yield agent, undo(sandbox, file, observed, clock=clock, store=MemoryChunks())
