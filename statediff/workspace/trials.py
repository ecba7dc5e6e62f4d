"""How one trial is made, by whichever door it is asked for: `run`, the API, pytest, Inspect AI.

1. The contract is read and the agent made, unless the request holds them already.
2. A sandbox is leased: one of this process's pool, or the caller's own.
3. The harness resets it, runs the agent, captures, judges and writes the bundle.

What fails around a trial is a `HarnessError`; `statediff.suite.records.fault_kind` names its kind.
The caller decides what follows: a run records it and tries again, every other door raises it.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final, Self, TypeAlias

from statediff.agents.handover import read_answer, read_trace
from statediff.agents.recorder import Recorder, recording
from statediff.agents.tools import ToolTable, tool_table
from statediff.agents.trial import Agent, AgentRun, Haltable, Trial
from statediff.agents.turns import say_to
from statediff.capture.guard import NO_SCANS, Scans
from statediff.capture.source import Clock, clock
from statediff.capture.take import take
from statediff.contract.file import ContractFile, load_contract, parse_contract
from statediff.errors import AdapterError, UsageError
from statediff.evidence.package import Bundle
from statediff.harness import NO_HOOKS, Hooks, JudgedTrial, TrialPlan, run_trial
from statediff.kernel import Evaluated, evaluate
from statediff.model.readings import Capture, Timeline
from statediff.model.state import ChunkStore, MemoryChunks
from statediff.model.trace import NoAnswer, RunEnding, Trace
from statediff.model.values import ABSENT, Absent, Value
from statediff.packs import EMBEDDED, sandbox_of
from statediff.suite.campaign import POOL, SandboxPool
from statediff.systems.base.protocol import Sandbox
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.workspace.agents import AgentOptions
from statediff.workspace.inputs import EPOCH, offline_clock

AT_ONCE: Final = Timeline(EPOCH, EPOCH, EPOCH, EPOCH, EPOCH)
"""The timeline of a run in which nothing happened: every reading is fresh."""

Lease: TypeAlias = Callable[[str, str], AbstractContextManager[Sandbox]]
"""Sandbox name and variant → a running one that nobody else uses until the block ends."""


# ---------------------------------------------------------------- the engine


@dataclass(frozen=True, kw_only=True)
class TrialRequest:
    """All that a trial is made with. One of a file, options and no lease can be sent elsewhere."""

    contract: ContractFile | Path
    text: bytes | None = None
    """The contract's text where it is a case of the file's."""
    agent: Agent | AgentOptions
    variant: str = EMBEDDED
    lease: Lease | None = None
    """None: the sandboxes that this process keeps running."""
    sandbox_digest: str | None = None
    """The digest of the sandbox's files as a run began; None: it is not checked."""
    scans: Scans = NO_SCANS
    hooks: Hooks = NO_HOOKS


def make_trial(
    request: TrialRequest, plan: TrialPlan, store: ChunkStore | None = None
) -> JudgedTrial:
    """The trial, judged, with its bundle in its folder; states are in memory without a `store`.

    Raises `HarnessError` where it could not be made, and `UsageError` for a request that is wrong.
    """
    file, agent = read_contract(request), _agent(request)
    hooks = request.hooks
    if isinstance(request.agent, AgentOptions) and file.content.turns:
        hooks = replace(hooks, simulated=request.agent.user())
    own = partial(POOL.lease, expected=request.sandbox_digest)
    lease = own if request.lease is None else request.lease
    with lease(sandbox_of(file) or "", request.variant) as sandbox:
        return run_trial(
            sandbox,
            file,
            agent,
            plan,
            clock=clock,
            store=MemoryChunks() if store is None else store,
            hooks=hooks,
            scans=request.scans,
        )


def read_contract(request: TrialRequest) -> ContractFile:
    """The contract that the request holds or names; a file is read once in this process."""
    if isinstance(request.contract, ContractFile):
        return request.contract
    return _load(request.contract, request.text)


def contract_as_read(path: Path, text: bytes | None, file: ContractFile) -> ContractFile:
    """The contract of a file, or that of its case where there is a text."""
    return file if text is None else parse_contract(text, str(path))


def halt() -> None:
    """The agents that this process made from options are asked to end."""
    with _LOCK:
        for agent in _AGENTS.values():
            if isinstance(agent, Haltable):
                agent.halted.set()


def forget() -> None:
    """The next trial of this process makes its agent anew, and reads its contract again."""
    with _LOCK:
        _AGENTS.clear()
    _load.cache_clear()


_AGENTS: Final[dict[tuple[AgentOptions, Path], Agent]] = {}
_LOCK: Final = threading.Lock()


@lru_cache(maxsize=64)
def _load(path: Path, text: bytes | None) -> ContractFile:
    return load_contract(path) if text is None else parse_contract(text, str(path))


def _agent(request: TrialRequest) -> Agent:
    """One for all trials of this process with its options: they may share a limit on costs."""
    options, contract = request.agent, request.contract
    if not isinstance(options, AgentOptions):
        return options
    path = contract if isinstance(contract, Path) else Path()
    key = (options, path if options.is_of_contract else Path())
    with _LOCK:
        if key not in _AGENTS:
            _AGENTS[key] = options.agent(path)
        return _AGENTS[key]


# ---------------------------------------------------------------- sandboxes


@contextmanager
def open_sandbox(name: str, variant: str = EMBEDDED) -> Iterator[EmbeddedSandbox]:
    """The sandbox of a pack, running until the block ends; trials put it back by themselves."""
    with closing(SandboxPool()) as pool, pool.lease(name, variant) as sandbox:
        yield sandbox


def lend(sandbox: Sandbox) -> Lease:
    """The caller's own sandbox is leased, whatever is asked for; the caller ends it."""
    return lambda _name, _variant: nullcontext(sandbox)


def base_state(sandbox: EmbeddedSandbox) -> Capture:
    """The state of a sandbox that was just reset."""
    return take(sandbox.sources(), MemoryChunks(), offline_clock, None, "before")


def require_sound(file: ContractFile, base: Capture) -> None:
    """The contract fits the state, and a run in which nothing happens does not match it unasked.

    `ContractError` with every problem found.
    """
    evaluate(file, base, base, timeline=AT_ONCE)


# ---------------------------------------------------------------- trials that stay open


class _Abandoned(AdapterError):
    """The holder of an open trial went away without asking for a verdict."""


class HeldTrial:
    """A trial whose agent holds it open: a test's body, another framework's solver.

        with HeldTrial(contract, folder, agent="test_refund", lease=lend(sandbox)) as held:
            …                                    # reset, proven, captured; act on held.trial.urls
            bundle = held.finish(as_answer({"refunded_cents": 3900}))

    The engine makes it in a thread of its own, with this object for an agent: `run` waits there
    until the holder is done. Entering raises what kept the trial from beginning. A block that ends
    without `finish` leaves no verdict and no thread.
    """

    trial: Trial
    """Once entered, what an agent gets: the prompt, the inputs, where the systems are."""
    _recorder: Recorder

    def __init__(
        self,
        contract: ContractFile,
        folder: Path,
        *,
        agent: str,
        lease: Lease,
        variant: str = EMBEDDED,
        keeps_log: bool = False,
    ) -> None:
        """With `keeps_log`, an agent that called no tool may have kept a log of its own."""
        self.name = agent
        self._keeps_log = keeps_log
        self._request = TrialRequest(contract=contract, agent=self, lease=lease, variant=variant)
        self._plan = TrialPlan(folder.name, folder)
        self._table: ToolTable | None = None
        self._ending: RunEnding | None = None
        self._begins: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._ends: queue.SimpleQueue[Value | NoAnswer | Absent | _Abandoned] = queue.SimpleQueue()
        self._done: Future[Evaluated] = Future()
        self._thread = threading.Thread(target=self._make, name="held-trial", daemon=True)

    @property
    def tools(self) -> ToolTable:
        """The sandbox's tools. From the first look on, the trace is what they record."""
        if self._table is None:
            self._table = tool_table(
                self.trial.urls,
                self._recorder,
                offered=self.trial.tools,
                looks=self.trial.looks,
            )
            self._recorder.user(self.trial.prompt)
        return self._table

    @property
    def is_over(self) -> bool:
        """True if it has a verdict, or will not have one."""
        return self._done.done()

    @property
    def calls(self) -> int:
        """How many calls the tools have recorded, while it is not over."""
        return self._recorder.calls

    def miss(self, cause: str) -> None:
        """The record of calls is not complete: something was done past the tools."""
        self._recorder.miss(cause)

    def finish(
        self,
        answer: Value | NoAnswer | Absent = ABSENT,
        *,
        agent: str | None = None,
        ending: RunEnding | None = None,
    ) -> Bundle:
        """The bundle with the verdict; nobody acts any more.

        Without `answer`, the answer file is read. `agent` is the name of who acted, if that was not
        known before, `ending` how it ended, if the caller knows. Raises what the engine raises.
        """
        if not self._done.done():
            self._ending = ending
            self.name = self.name if agent is None else agent
            self._ends.put(answer)
        return self.evaluated.bundle

    @property
    def evaluated(self) -> Evaluated:
        """The judgement and its bundle, once it is over; until then this waits."""
        return self._done.result()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            if not self._begins.get():
                self._done.result()  # raises what kept it from beginning
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._abandon()
        self._thread.join()

    def _abandon(self) -> None:
        self._ends.put(_Abandoned("nobody asked for its verdict"))

    def _so_far(self) -> Trace:
        """The calls until now: those of the tools, or what the agent's own log says."""
        if self._table is None:
            return read_trace(self.trial.trace_path)
        return self._recorder.so_far()

    # ---------------------------------------------------------------- in the engine's thread

    def _make(self) -> None:
        try:
            self._done.set_result(make_trial(self._request, self._plan).evaluated)
        except _Abandoned:
            self._done.set_exception(
                UsageError(f"the trial {self._plan.id} is over and was not judged; begin another")
            )
        except BaseException as error:  # noqa: BLE001 - it is raised where the holder waits
            self._done.set_exception(error)
        finally:
            self._begins.put(False)

    def run(self, trial: Trial, clock: Clock) -> AgentRun:
        """The run of the agent's holder, until it was done; the engine calls it."""
        started_at = clock()
        with recording(clock) as recorder:
            self._recorder = recorder
            self.trial = replace(trial, say=say_to(trial.user, self._so_far))
            self._begins.put(True)
            end = self._ends.get()
            if self._table is not None:
                self._table.close()
            if isinstance(end, _Abandoned):
                raise end
            answer = (
                read_answer(trial.answer_path, trial.answer_form)
                if isinstance(end, Absent)
                else end
            )
            if self._table is None or (self._keeps_log and not recorder.calls):
                trace = read_trace(trial.trace_path)
            else:
                if not isinstance(answer, NoAnswer):
                    recorder.reply(answer)
                recorder.close()
                trace = recorder.trace()
            return AgentRun(answer, trace, started_at, clock(), ending=self._ending)
