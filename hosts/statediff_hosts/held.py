"""The tasks of contracts in a program that brings its own model: one trial each, held open.

The host's model acts by the sandbox's tools, which record every call, and its last message holds
the answer. A trial is reset, proven and captured when it is begun, and judged when it is finished.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

from statediff.errors import UsageError
from statediff.model.values import ABSENT
from statediff.packs import sandbox_of
from statediff.scores import Score, score_of
from statediff.scoring import Judged, load_contract
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.workspace.trials import HeldTrial, lend, open_sandbox
from statediff_hosts.protocols.loop import as_reply


class OpenTrial:
    """One trial in a sandbox of its own; `close` ends all that it began."""

    def __init__(
        self, contract: str, case: str | None, agent: str, *, keeps_log: bool = False
    ) -> None:
        """Reset, proven and captured; `keeps_log` as of `HeldTrial`. Raises what kept it so."""
        file = load_contract(contract, case=case)
        sandbox = sandbox_of(file)
        if sandbox is None:
            raise UsageError(f"{file.content.contract} names no sandbox; add `sandbox:`")
        with ExitStack() as stack:
            self.running: EmbeddedSandbox = stack.enter_context(open_sandbox(sandbox))
            work = stack.enter_context(
                tempfile.TemporaryDirectory(prefix="statediff-", ignore_cleanup_errors=True)
            )
            self.held = HeldTrial(
                file,
                Path(work) / "trial",
                agent=agent,
                lease=lend(self.running),
                keeps_log=keeps_log,
            )
            stack.enter_context(self.held)
            self.stack = stack.pop_all()

    def finish(
        self, said: str | None = None, asked: int = 0, agent: str | None = None
    ) -> tuple[Judged, Score]:
        """The verdict; `said` is the model's last message, `asked` the calls that it wanted.

        The answer is in the answer file where there is one, else in the message.
        """
        held = self.held
        if not held.is_over:
            if asked > held.calls:
                # The host itself refuses unknown tools and wrong arguments; no tool learns of them.
                held.miss(f"{asked - held.calls} calls never came to the sandbox's tools")
            is_said = said is not None and not held.trial.answer_path.exists()
            answer = as_reply(said or "", held.trial.answer_form) if is_said else ABSENT
            held.finish(answer, agent=agent)
        done = held.evaluated
        return Judged(done.bundle), score_of(done.judgement)

    def close(self) -> None:
        """Nothing that the trial started is running."""
        self.stack.close()
