"""The Python API: about a dozen names, imported from `statediff`.

>>> import statediff
>>> before = {"ticket": [{"id": 7, "status": "open"}, {"id": 8, "status": "open"}]}
>>> after = {"ticket": [{"id": 7, "status": "closed"}, {"id": 8, "status": "open"}]}
>>> contract = statediff.load_contract('''
... contract: notes/close-ticket
... version: 1.0.0
... owner: support
... intent: Close ticket 7 and change nothing else.
... require:
...   - id: closed
...     update: ticket
...     where: it.id == 7
...     set: {status: closed}
... ''')
>>> judged = statediff.judge(contract, before, after)
>>> judged.verdict
<Verdict.MATCH: 'MATCH'>

A mistake that the caller can fix, or a failure around a trial, raises a `StatediffError`. Anything
odd about the run is a finding of its judgement.
"""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self, TypeAlias

from statediff.agents.function import FunctionAgent
from statediff.agents.trial import Agent, Trial
from statediff.contract.file import ContractFile
from statediff.errors import InputError, StatediffError, UsageError
from statediff.harness import NO_HOOKS, Hooks, TrialPlan
from statediff.kernel import TrialFacts, evaluate
from statediff.kernel import replay as decide_again
from statediff.model.state import State as ReadState
from statediff.model.trace import ENDED_BY_ITSELF, ENDED_IN_CRASH, NO_TRACE
from statediff.model.verdict import Decision, Verdict
from statediff.packs import EMBEDDED, find_sandbox, known_sandbox, sandbox_of
from statediff.scores import Score, Standing
from statediff.scoring import (
    NOT_GIVEN,
    Judge,
    Judged,
    answer_of,
    chosen_cases,
    contract_of,
    load_contract,
    schema_of,
)
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.workspace import inputs
from statediff.workspace import trials as engine
from statediff.workspace.agents import AgentOptions
from statediff.workspace.batches import Evidence
from statediff.workspace.bundles import load_bundle
from statediff.workspace.cases import Chosen, load_cases
from statediff.workspace.contracts import (
    States,
    check,
    contract_path,
    contract_paths,
)
from statediff.workspace.trials import TrialRequest, lend, make_trial
from statediff.workspace.warm import Place, State, captures, names_of, place_of
from statediff.workspace.watching import SETTLE_SECONDS, Watch

__all__ = [
    "Decision",
    "Evidence",
    "Judge",
    "Judged",
    "Score",
    "Standing",
    "StatediffError",
    "Trial",
    "Verdict",
    "changes",
    "judge",
    "lint",
    "load",
    "load_contract",
    "open_sandbox",
    "replay",
    "run",
    "state",
    "watch",
]

AnAgent: TypeAlias = Agent | Callable[[Trial], Any] | str | Sequence[str]


def judge(  # noqa: PLR0913 - all that is known of a run, given by name
    contract: ContractFile | str | Path,
    before: State,
    after: State,
    *,
    answer: Any = NOT_GIVEN,
    trace: str | Path | None = None,
    complete_trace: bool = False,
    during: Sequence[str | Path] = (),
    schema: str | Path | None = None,
    ended: str | None = None,
) -> Judged:
    """Two states judged under a contract, offline: the same inputs give the same bundle.

    `answer` is what the agent said, as JSON would hold it (a text where the contract says
    `form: text`), or a `Path` to the file that holds it;
    `trace` the file of its calls, which with `complete_trace` the caller vouches for: it holds
    every call, and no agent wrote it. `during` are the files of the states in between, in order.
    `ended` is how the run ended, e.g. `by-itself`, for clauses that ask `run.ended`. Without
    `schema` the state schema is the file `schema.yaml` beside the contract, where there is one.
    """
    file = contract_of(contract)
    beside = schema_of(contract, file, schema)
    captured = captures(before, after, beside, known_sandbox(file), during)
    done = evaluate(
        file,
        *captured,
        trace=inputs.trace_from(None if trace is None else Path(trace), complete_trace),
        answer=answer_of(answer, file.content.answer.form),
        facts=TrialFacts.offline(ended),
        packs_later=True,
    )
    return Judged.of(done)


def changes(
    before: State, after: State, *, schema: str | Path | None = None
) -> tuple[Mapping[str, Any], ...]:
    """The changes between two states, without a contract: every delta as plain JSON.

    >>> [delta] = changes({"user": [{"id": 1, "name": "Ada"}]}, {"user": []})
    >>> delta["op"], delta["type"], delta["key"]
    ('delete', 'user', 1)
    """
    from statediff.kernel import comparison  # noqa: PLC0415 - few who import this need it
    from statediff.reports.plain import plain_diff  # noqa: PLC0415 - as above

    found = comparison(*captures(before, after, schema, None, alike=True)).diff
    if found.doubts:
        doubt = found.doubts[0]
        raise InputError(
            f"{doubt.type}: {doubt.cause}; what changed there is not known. Give whole states, or "
            "use `judge`, which says what is not known"
        )
    return tuple(plain_diff(found)["deltas"])


def state(named: State, *, schema: str | Path | None = None) -> ReadState:
    """A state, read: `state(…).graph()` is all of it as a `networkx.MultiDiGraph`.

    >>> graph = state({"user": [{"id": 1, "name": "Ada"}]}).graph()
    >>> graph.nodes["user[1]"]["fields"]["name"]
    'Ada'
    """
    from statediff.kernel import state_of  # noqa: PLC0415 - few who import this need it

    if isinstance(named, Mapping):
        return state_of(captures(named, named, schema, None)[0])
    refined = inputs.refinements(None if schema is None else Path(schema))
    return state_of(inputs.one_capture(names_of(named), refined))


class Watching:
    """A block whose effect on states at hand is seen, from `watch`.

    Inside the block `answer` may be set to what the agent said. After it, `changes` are the deltas
    as plain JSON, `judged` is the judged run where a contract was given, and `others` are sessions
    of others on the systems, whose work a change may be.
    """

    answer: Any = NOT_GIVEN
    changes: tuple[Mapping[str, Any], ...]
    judged: Judged | None = None
    others: tuple[str, ...]

    def __init__(
        self,
        states: Mapping[str, Place],
        contract: ContractFile | None,
        schema: str | Path | None,
        settle_seconds: float,
    ) -> None:
        self._places = states  # a function is a state for as long as somebody has it
        self._states = [f"{name}={place_of(place)}" for name, place in states.items()]
        self._contract = contract
        sandbox = None if contract is None else known_sandbox(contract)
        self._refined = inputs.refinements(None if schema is None else Path(schema), sandbox)
        self._settle_seconds = settle_seconds
        self._watch: Watch | None = None

    def __enter__(self) -> Self:
        self._watch = Watch(self._states, self._refined, self._contract)
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        from statediff.reports.plain import plain_diff  # noqa: PLC0415 - as above

        if self._watch is None:
            raise UsageError("the watch has not begun; use it as `with statediff.watch(…) as run:`")
        watched = self._watch.finish(self._settle_seconds)
        self.others = watched.others
        self.changes = tuple(plain_diff(watched.diff())["deltas"])
        if self._contract is not None:
            said = answer_of(self.answer, self._contract.content.answer.form)
            ending = ENDED_BY_ITSELF if raised is None else ENDED_IN_CRASH
            done = watched.judge(
                self._contract, agent="watched", answer=said, trace=NO_TRACE, ending=ending
            )
            self.judged = Judged(done.bundle)

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(self, raised: type[BaseException] | None, *_: object) -> None:
        await asyncio.to_thread(self.__exit__, raised)


def watch(
    contract: ContractFile | str | Path | None = None,
    *,
    schema: str | Path | None = None,
    settle_seconds: float = SETTLE_SECONDS,
    **states: Place,
) -> Watching:
    """A block of code is watched: what it changes in your own systems, and whether it may.

    States are paths or URLs by name. Nothing is reset: the state before is what is there.

        with statediff.watch(db="postgresql://localhost/app") as run:
            agent("Rename user 2 to Robert")
        run.changes
    """
    file = None if contract is None else contract_of(contract)
    if contract is not None and file is not None:
        schema = schema_of(contract, file, schema)
    return Watching(states, file, schema, settle_seconds)


def lint(
    contract: str | Path,
    *,
    state: str | Path | Sequence[str | Path] = (),
    schema: str | Path | None = None,
) -> tuple[Any, ...]:
    """The problems of a contract, or of all in a folder, by line; none if they are sound.

    They are checked against the state's files, the state schema file, or else their sandbox.
    """
    known = States(None if schema is None else Path(schema), names_of(state))
    paths = contract_paths([str(contract)])
    return tuple(problem for path in paths for problem in check(path, known).problems)


def open_sandbox(name: str, variant: str = EMBEDDED) -> AbstractContextManager[EmbeddedSandbox]:
    """The sandbox of that name or path, running until the block ends; trials put it back.

    A name is looked for in `sandboxes/` of the working folder and of those above it first.
    """
    return engine.open_sandbox(find_sandbox(name), variant)


def run(  # noqa: PLR0913 - a public door, whose options are all given by name
    contract: ContractFile | str | Path,
    agent: AnAgent,
    *,
    trials: int = 1,
    sandbox: EmbeddedSandbox | None = None,
    variant: str = "embedded",
    timeout_seconds: float | None = None,
    out: str | Path | None = None,
    hooks: Hooks = NO_HOOKS,
    cases: str | Path | None = None,
    case: str | Sequence[str] = (),
    inputs: Mapping[str, Any] | None = None,
) -> tuple[Judged, ...]:
    """An agent's trials under a contract, each in a sandbox whose reset was proven.

    A contract given by its path or name is tried in each of its cases, `trials` times each: those
    of the file `cases` or of its own `cases:`, or only those named by the patterns `case`; `inputs`
    replace those of every case. One that was loaded is tried as it is.

    An agent is a function from a `Trial` to its answer, a program as a list of arguments, or, by
    name, `module:function` or one of the contract's folder. `out` keeps the trials' folders.
    Raises `HarnessError` where a trial could not be made: it has no verdict then.
    """
    chosen = chosen_cases(case, cases, inputs)
    if isinstance(contract, ContractFile):
        if chosen != Chosen():
            raise UsageError("cases are of a contract's file: give its path, or load the case")
        files: tuple[ContractFile, ...] = (contract,)
    elif "\n" in str(contract):
        files = (contract_of(contract),)
    else:
        files = load_cases(contract_path(str(contract)), chosen)
    file = files[0]
    actor = _agent(contract, agent, timeout_seconds)
    if sandbox is None and file.content.sandbox is None:
        raise UsageError(
            f"{file.content.contract} names no sandbox to run in; add `sandbox:`, or judge states "
            "that you captured yourself with `judge`"
        )
    with ExitStack() as stack:
        running = sandbox
        if running is None:
            running = stack.enter_context(engine.open_sandbox(sandbox_of(file) or "", variant))
        folder = stack.enter_context(_folder(out))
        made = []
        for each in files:
            request = TrialRequest(contract=each, agent=actor, lease=lend(running), hooks=hooks)
            name = each.content.contract.replace("/", "-")
            for number in range(1, trials + 1):
                plan = TrialPlan(f"{name}-{number}", folder / f"{name}-{number}", seed=number)
                made.append(Judged(make_trial(request, plan).evaluated.bundle))
        return tuple(made)


def load(bundle: str | Path) -> Judged:
    """The judged trial in a bundle's folder, or a trial's; `BundleError` if it is damaged."""
    return Judged(load_bundle(Path(bundle))[0])


def replay(judged: Judged | str | Path) -> Verdict:
    """The verdict, decided again from the bundle alone; `BundleError` if it is not the same."""
    found = judged if isinstance(judged, Judged) else load(judged)
    return decide_again(found.bundle).verdict


def _agent(contract: ContractFile | str | Path, agent: AnAgent, seconds: float | None) -> Agent:
    if isinstance(agent, str):
        if ":" not in agent and isinstance(contract, ContractFile):
            raise UsageError(
                f"the agent {agent!r} is of a contract's folder: give the contract by its path or "
                "its pack's name; a program is a list of arguments"
            )
        place = Path() if isinstance(contract, ContractFile) else contract_path(str(contract))
        return AgentOptions(named=agent, timeout_seconds=seconds).agent(place)
    if isinstance(agent, Sequence):
        return AgentOptions(command=shlex.join(agent), timeout_seconds=seconds).agent(Path())
    if callable(agent):
        return FunctionAgent(agent, getattr(agent, "__qualname__", type(agent).__name__))
    return agent


@contextmanager
def _folder(out: str | Path | None) -> Iterator[Path]:
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="statediff-", ignore_cleanup_errors=True) as work:
        yield Path(work)
