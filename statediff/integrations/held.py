"""A trial whose agent is whoever holds it open: the body of a test, another framework's solver.

    with HeldTrial(sandbox, contract, folder, agent="test_refund") as held:
        …                                    # reset, proven, captured; act on held.trial.urls
        judged = held.judged(as_answer({"refunded_cents": 3900}))

The harness runs in a thread of its own and waits where its agent would act, so that a held trial
is made by the same steps as any other. A block that ends without asking for the verdict leaves
none, and no thread.
"""

from __future__ import annotations

import queue
import threading
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from statediff.agents.handover import read_answer, read_trace
from statediff.agents.recorder import Recorder, recording
from statediff.agents.tools import ToolTable, tool_table
from statediff.agents.trial import AgentRun, Trial
from statediff.api import Judged
from statediff.capture.source import Clock
from statediff.errors import UsageError
from statediff.evaluate import ContractFile
from statediff.harness import NO_HOOKS, Hooks, TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.model.trace import NoAnswer
from statediff.model.values import ABSENT, Absent, Value
from statediff.systems.base.protocol import Sandbox
from statediff.workspace.trials import clock


class _Abandoned(BaseException):
    """The holder went away without asking for a verdict."""


class HeldTrial:
    """A trial that has begun and waits; a context manager. Raises what the harness raises.

    Once entered, `trial` is what an agent gets and `tools` are the sandbox's tools, every call of
    which is recorded. Who acts past the tools says so with `missed`.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        contract: ContractFile,
        folder: Path,
        *,
        agent: str,
        seed: int = 0,
        hooks: Hooks = NO_HOOKS,
    ) -> None:
        self._agent = _Waiting(agent)
        self._plan = TrialPlan(folder.name, folder, seed)
        self._made: Future[Judged] = Future()
        self._thread = threading.Thread(
            target=self._make, args=(sandbox, contract, hooks), name="held-trial", daemon=True
        )

    @property
    def trial(self) -> Trial:
        """What an agent gets: the prompt, the inputs, where the systems are."""
        return self._agent.trial

    @property
    def tools(self) -> ToolTable:
        """The sandbox's tools. From the first look on, the trace is what they record."""
        return self._agent.tools

    @property
    def is_over(self) -> bool:
        """Whether it has a verdict, or will not have one."""
        return self._made.done()

    @property
    def calls(self) -> int:
        """How many calls the tools have recorded, while it is not over."""
        return len(self._agent.recorder.trace().actions)

    def missed(self, cause: str) -> None:
        """The record of calls is not complete: something was done past the tools."""
        self._agent.recorder.miss(cause)

    def judged(
        self, answer: Value | NoAnswer | Absent = ABSENT, *, agent: str | None = None
    ) -> Judged:
        """The verdict; nobody acts any more. Without `answer`, the answer file is read.

        `agent` is the name of who acted, if that was not known before.
        """
        if not self._made.done():
            self._agent.name = self._agent.name if agent is None else agent
            self._agent.end(answer)
        return self._made.result()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            if not self._agent.begun.get():
                self._made.result()  # raises what kept it from beginning
        except BaseException:
            self._agent.abandon()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._agent.abandon()
        self._thread.join()

    def _make(self, sandbox: Sandbox, contract: ContractFile, hooks: Hooks) -> None:
        try:
            done = run_trial(
                sandbox, contract, self._agent, self._plan, clock=clock, store=MemoryChunks(),
                hooks=hooks,
            )  # fmt: skip
            self._made.set_result(Judged(done.evaluated.bundle))
        except _Abandoned:
            self._made.set_exception(
                UsageError(f"the trial {self._plan.id} is over and was not judged; begin another")
            )
        except BaseException as error:  # noqa: BLE001 - it is raised where the holder waits
            self._made.set_exception(error)
        finally:
            self._agent.begun.put(False)


class _Waiting:
    """An agent that does nothing until it is told that it has done everything."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.begun: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.trial: Trial
        self.recorder: Recorder
        self._table: ToolTable | None = None
        self._ended: queue.SimpleQueue[Value | NoAnswer | Absent | _Abandoned] = queue.SimpleQueue()

    @property
    def tools(self) -> ToolTable:
        if self._table is None:
            self._table = tool_table(self.trial.urls, self.recorder)
            self.recorder.user(self.trial.prompt)
        return self._table

    def end(self, answer: Value | NoAnswer | Absent) -> None:
        self._ended.put(answer)

    def abandon(self) -> None:
        self._ended.put(_Abandoned())

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        self.trial, started_at = trial, clock()
        with recording(clock) as recorder:
            self.recorder = recorder
            self.begun.put(True)
            told = self._ended.get()
            if self._table is not None:
                self._table.close()
            if isinstance(told, _Abandoned):
                raise told
            answer = read_answer(trial.answer_path) if isinstance(told, Absent) else told
            if self._table is None:
                trace = read_trace(trial.trace_path)
            else:
                if not isinstance(answer, NoAnswer):
                    recorder.reply(answer)
                recorder.close()
                trace = recorder.trace()
            return AgentRun(answer, trace, started_at, clock())
