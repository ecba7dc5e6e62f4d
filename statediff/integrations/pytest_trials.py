"""Contracts that pytest collects, its fixtures, and the sandboxes of one pytest process.

What the tests of a contract's file are follows from what there is:

1. With an agent (`--statediff-agent`, `--statediff-agent-cmd`): each trial of it is a test, in each
   of the contract's `cases:`.
2. Else, with states beside the contract (`NAME.before.json`, `NAME.after.json` of
   `NAME.contract.yaml`, or of any other suffix that can be read, folders too; several as
   `NAME.before.SOURCE.sqlite`; perhaps `NAME.answer.json`): they are judged.
3. Else, with `cases.yaml` in its folder: each case is a test, which passes with its verdict.
4. Else the contract is checked, as by `statediff check`, and against its sandbox; the test is
   counted as linted.

Every trial is made by the engine, `statediff.workspace.trials`, in a sandbox that nobody else uses
and that is kept for the next trial unless something failed in it.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from glob import escape
from pathlib import Path
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urlsplit

import pytest

from statediff import api
from statediff.agents.commandline import CommandLine
from statediff.agents.handover import as_answer
from statediff.agents.trial import Agent
from statediff.api import AnAgent, Judged
from statediff.contract.file import ContractFile, load_contract
from statediff.errors import ContractError, InputError, StatediffError, StorageError, UsageError
from statediff.harness import NO_HOOKS, Hooks
from statediff.integrations.verdicts import NoMatch, require
from statediff.meta.cases import ListedCase, list_cases
from statediff.model.trace import ENDED_BY_ITSELF, NoAnswer
from statediff.model.values import ABSENT
from statediff.packs import sandbox_of
from statediff.suite.campaign import SandboxPool
from statediff.workspace.agents import AgentOptions
from statediff.workspace.cases import Chosen, cases_of, load_cases
from statediff.workspace.contracts import contract_path
from statediff.workspace.trials import HeldTrial

Test: TypeAlias = Callable[["ContractTest"], None]
_SUFFIX: Final = ".contract.yaml"
_PARTS_OF_SQLITE: Final = ("-wal", "-shm", "-journal")
_NOTHING: Final = object()


# ---------------------------------------------------------------- collected contracts


class ContractTests(pytest.File):
    """One contract's file; the module says what its tests are."""

    def collect(self) -> Iterator[pytest.Item]:
        try:
            for name, test in self._tests():
                item: ContractTest = ContractTest.from_parent(self, name=name)
                item.test = test
                yield item
        except StatediffError as error:
            raise self.CollectError(str(error)) from None

    def _tests(self) -> Iterator[tuple[str, Test]]:
        if (agent := self._agent()) is not None:
            for case in _case_names(self.path):
                for number in range(1, self.config.getoption("--statediff-trials") + 1):
                    name = f"{'' if case is None else f'{case}, '}trial {number}"
                    yield name, partial(run_agent, agent=agent, case=case)
            return
        states = self._states()
        if states is not None:
            yield "states", partial(judge_states, states=states)
            return
        listed = list_cases(self.path.parent) if self.path.name == "contract.yaml" else ()
        for each in listed:
            yield f"{each.agent}{', unplugged' * bool(each.unplug)}", partial(run_case, case=each)
        if not listed:
            yield "lint", lint

    def _agent(self) -> Callable[[], Agent] | None:
        option, ini = self.config.getoption, self.config.getini
        command = option("--statediff-agent-cmd")
        named = option("--statediff-agent")
        folder = self.config.invocation_params.dir
        if not command and not named:
            command, named = ini("statediff_agent_cmd"), ini("statediff_agent")
            folder = self.config.rootpath
        if not command and not named:
            return None
        if command:
            line = CommandLine.parse(command, folder)
            options = AgentOptions(command=line.text, title=line.name, named=named or None)
        else:
            options = AgentOptions(named=named)
        return lambda: options.agent(self.path)

    def _states(self) -> States | None:
        if not self.path.name.endswith(_SUFFIX):
            return None
        stem = self.path.name.removesuffix(_SUFFIX)
        before, after = self._beside(f"{stem}.before"), self._beside(f"{stem}.after")
        for there, here, side in ((before, after, "after"), (after, before, "before")):
            for rest in there.keys() - here.keys():
                place = self.path.with_name(f"{stem}.{side}{rest}")
                raise InputError(f"{place}: expected it beside {there[rest].name}, found nothing")
        answers = self._beside(f"{stem}.answer")
        if len(answers) > 1:
            names = ", ".join(sorted(place.name for place in answers.values()))
            raise InputError(f"{self.path}: expected one answer beside it, found {names}")
        if not before:
            return None
        answer = next(iter(answers.values()), None)
        return States(_named(before), _named(after), answer)

    def _beside(self, name: str) -> dict[str, Path]:
        """The files and folders of that name beside the contract, by what follows it."""
        found = (each.name.removeprefix(name) for each in self.path.parent.glob(f"{escape(name)}*"))
        return {
            rest: self.path.with_name(name + rest)
            for rest in found
            if not rest or (rest.startswith(".") and not rest.endswith(_PARTS_OF_SQLITE))
        }


@dataclass(frozen=True)
class States:
    """The states beside a contract, as `judge` takes them, and the file of the answer."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    answer: Path | None


def _named(states: Mapping[str, Path]) -> tuple[str, ...]:
    """Each as `NAME=PATH` where its file says a name: `.orders.sqlite`."""
    named = []
    for rest, path in sorted(states.items()):
        source, dot, _ = rest.removeprefix(".").rpartition(".")
        json = "tables=" if len(states) == 1 and rest == ".json" else ""
        named.append(f"{source}={path}" if dot and source else f"{json}{path}")
    return tuple(named)


class ContractTest(pytest.Item):
    """One test of a contract."""

    test: Test

    def runtest(self) -> None:
        self.test(self)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        error = excinfo.value
        if isinstance(error, NoMatch | StatediffError):
            return str(error)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, 0, f"{self.path.name} {self.name}"


def _case_names(path: Path) -> tuple[str | None, ...]:
    """The contract's cases; None stands for a contract without any."""
    return tuple(case.name for case in cases_of(path, load_contract(path), Chosen())) or (None,)


def run_agent(item: ContractTest, agent: Callable[[], Agent], case: str | None) -> None:
    """The agent's trial matches."""
    Runner(trials_of(item.config), item)(agent(), item.path, case=case)


def run_case(item: ContractTest, case: ListedCase) -> None:
    """The agent of the case gets the verdict of the case."""
    hooks = NO_HOOKS
    if case.unplug:
        hooks = Hooks(before_capture_after=lambda sandbox: sandbox.unplug(case.unplug))
    run = Runner(trials_of(item.config), item)
    run(case.agent, item.path, expect=case.verdict, hooks=hooks)


def judge_states(item: ContractTest, states: States) -> None:
    """The states beside the contract match it."""
    given: dict[str, Any] = {} if states.answer is None else {"answer": states.answer}
    judged = api.judge(item.path, states.before, states.after, **given)
    trials_of(item.config).keep(item, judged)
    require(judged)


def lint(item: ContractTest) -> None:
    """The contract has no problem that is an error. Nothing was judged, and the report says so."""
    item.user_properties.append(("statediff_verdict", "linted"))
    problems = [problem for problem in api.lint(item.path) if problem.severity == "error"]
    if problems:
        raise ContractError(tuple(problems))


# ---------------------------------------------------------------- trials


class Trials:
    """Sandboxes that run until `close`, each from the first test that needs it."""

    def __init__(self, out: Path | None) -> None:
        self._out = out
        self._stack = ExitStack()
        work = tempfile.TemporaryDirectory(prefix="statediff-", ignore_cleanup_errors=True)
        self._folder = Path(self._stack.enter_context(work))
        self.pool = self._stack.enter_context(closing(SandboxPool()))
        self._number = 0

    def new_folder(self) -> Path:
        """The name of a folder that is not there yet."""
        self._number += 1
        return self._folder / f"trial-{self._number}"

    def runner(self, item: pytest.Item) -> Runner:
        """The runner of agents for a test."""
        return Runner(self, item)

    @contextmanager
    def body(self, item: pytest.Item) -> Iterator[Body]:
        """A trial whose agent is the test."""
        contract, variant, case = contract_of(item)
        file = _one_case(contract, case, None)
        require_sandbox(file)
        with HeldTrial(
            file, self.new_folder(), agent=item.name, lease=self.pool.lease, variant=variant
        ) as held:
            yield Body(held, self, item)

    def keep(self, item: pytest.Item, judged: Judged) -> None:
        """The verdict is a property of the test; the bundle is kept if that was asked for."""
        item.user_properties.append(("statediff_verdict", judged.verdict.value))
        if self._out is not None:
            name = re.sub(r"[^A-Za-z0-9_.-]+", "-", item.nodeid)[-80:].strip("-.")
            # Names of tests may differ in what was left out, and a bundle is known by its digest.
            digits = hashlib.sha256(item.nodeid.encode()).hexdigest()[:8]
            place = self._out / f"{name}-{digits}-{judged.bundle.digest[:12]}"
            try:
                judged.save(place)
                item.user_properties.append(("statediff_bundle", str(place)))
            except StorageError as error:  # the verdict is there; only its bundle is not
                item.user_properties.append(("statediff_not_kept", str(error)))

    def close(self) -> None:
        """Nothing that was started here is running, and nothing is left of its files."""
        self._stack.close()


_KEY: Final = pytest.StashKey[Trials]()


def trials_of(config: pytest.Config) -> Trials:
    """The trials of this process; they end when pytest does, however it does."""
    if _KEY not in config.stash:
        chosen = config.getoption("--statediff-out")
        out = None if chosen is None else Path(config.invocation_params.dir, chosen)
        config.stash[_KEY] = Trials(out)
        config.add_cleanup(config.stash[_KEY].close)
    return config.stash[_KEY]


@dataclass(frozen=True)
class Runner:
    """The fixture `statediff_run`."""

    trials: Trials
    item: pytest.Item

    def __call__(
        self,
        agent: AnAgent,
        contract: str | Path | ContractFile | None = None,
        *,
        case: str | None = None,
        inputs: Mapping[str, Any] | None = None,
        expect: str = "MATCH",
        timeout_seconds: float | None = None,
        hooks: Hooks = NO_HOOKS,
    ) -> Judged:
        """One trial of the agent, judged; it has the verdict that is expected.

        The contract is the one of the test's marker unless another is given, in the case of that
        name; `inputs` replace the contract's.
        """
        __tracebackhide__ = True
        if expect not in ("MATCH", "DIVERGE", "INCONCLUSIVE"):
            raise UsageError(f"expect={expect!r}: expected MATCH, DIVERGE or INCONCLUSIVE")
        variant = "embedded"
        if contract is None:
            contract, variant, marked = contract_of(self.item)
            case = marked if case is None else case
        file = _one_case(contract, case, inputs)
        with self.trials.pool.lease(require_sandbox(file), variant) as sandbox:
            [judged] = api.run(
                contract,
                agent,
                case=case or (),
                inputs=inputs,
                sandbox=sandbox,
                timeout_seconds=timeout_seconds,
                out=self.trials.new_folder(),
                hooks=hooks,
            )
        self.trials.keep(self.item, judged)
        require(judged, expect)
        return judged


@dataclass
class Body:
    """The fixture `statediff_sandbox`: what an agent gets, for the body of a test."""

    held: HeldTrial
    trials: Trials
    item: pytest.Item
    answer: Any = _NOTHING
    """The agent's answer at the end, as JSON would hold it; may be set."""

    @property
    def prompt(self) -> str:
        """The task, as an agent gets it."""
        return self.held.trial.prompt

    @property
    def inputs(self) -> Mapping[str, Any]:
        """The inputs that the task names."""
        return self.held.trial.inputs

    @property
    def urls(self) -> Mapping[str, str]:
        """Source → where it is reached."""
        return self.held.trial.urls

    @property
    def folder(self) -> Path:
        """The agent's own folder."""
        return self.held.trial.folder

    def path(self, source: str) -> Path:
        """The file or folder of a source on this machine."""
        if source not in self.urls:
            raise UsageError(f"no source {source!r}; there are: {', '.join(sorted(self.urls))}")
        parts = urlsplit(self.urls[source])
        if parts.scheme not in ("file", "sqlite"):
            raise UsageError(f"{source}: is reached by {parts.scheme}://, it has no path; see urls")
        place = unquote(parts.path)
        return Path(place[1:] if parts.scheme == "sqlite" else place)

    def call(self, tool: str, **arguments: Any) -> str:
        """The result of a tool of the sandbox; the call is recorded, as an agent's would be."""
        reply = self.held.tools.call(tool, arguments)
        if reply.is_error:
            raise UsageError(f"{tool}: {reply.text}")
        return reply.text

    def end(self) -> None:
        """The trial is judged, and matches."""
        __tracebackhide__ = True
        said = ABSENT if self.answer is _NOTHING else as_answer(self.answer)
        if isinstance(said, NoAnswer):
            raise UsageError(f"{self.item.nodeid}: the answer that it sets: {said.cause}")
        judged = Judged(self.held.finish(said, ending=ENDED_BY_ITSELF))
        self.trials.keep(self.item, judged)
        require(judged)


def _one_case(
    contract: str | Path | ContractFile, case: str | None, inputs: Mapping[str, Any] | None
) -> ContractFile:
    """The contract in the one case that is meant; `UsageError` where it has several."""
    if isinstance(contract, ContractFile) or "\n" in str(contract):
        return contract if isinstance(contract, ContractFile) else api.load_contract(contract)
    chosen = Chosen(names=() if case is None else (case,), inputs=inputs or {})
    files = load_cases(contract_path(str(contract)), chosen)
    if len(files) != 1:
        raise UsageError(
            f"{contract} has {len(files)} cases, and a test tries one: say case=NAME, here or in "
            "the marker; pytest.mark.parametrize makes a test of each"
        )
    return files[0]


def contract_of(item: pytest.Item) -> tuple[str, str, str | None]:
    """The contract of the test's marker, the variant of its sandbox, and the case.

    A path is relative to the test's folder, if it is there; else to the current one.
    """
    marker = item.get_closest_marker("statediff")
    given = () if marker is None else marker.args
    options = {} if marker is None else marker.kwargs
    if (
        len(given) != 1
        or not isinstance(given[0], (str, Path))
        or options.keys() - {"variant", "case"}
    ):
        raise UsageError(
            f"{item.nodeid}: expected @pytest.mark.statediff(CONTRACT) with a path or a pack's "
            "task, and perhaps variant=NAME and case=NAME; found "
            f"{'no marker' if marker is None else given}"
        )
    beside = item.path.parent / given[0]
    contract = str(beside if beside.exists() else given[0])
    return contract, str(options.get("variant", "embedded")), options.get("case")


def require_sandbox(file: ContractFile) -> str:
    """The sandbox that the contract names; `UsageError` if it names none."""
    named = sandbox_of(file)
    if named is None:
        raise UsageError(
            f"{file.content.contract} names no sandbox to run in; add `sandbox:`, or judge states "
            "with statediff.judge"
        )
    return named
