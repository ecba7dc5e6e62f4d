"""Contracts as pytest collects them: what is tested follows from what there is.

1. With an agent (`--statediff-agent`, `--statediff-agent-cmd`): each trial of it is a test.
2. Else, with states beside the contract (`NAME.before.json`, `NAME.after.json` of
   `NAME.contract.yaml`; perhaps `NAME.answer.json`): they are judged.
3. Else, with `cases.yaml` in its folder: each case is a test, which passes with its verdict.
4. Else the contract is checked, as by `statediff lint`, and against its sandbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from statediff import api
from statediff.agents.trial import Agent
from statediff.errors import ContractError, InputError, StatediffError
from statediff.harness import NO_HOOKS, Hooks
from statediff.integrations.pytest_trials import Runner, trials_of
from statediff.integrations.verdicts import NoMatch, require
from statediff.meta.cases import Case, listed_cases
from statediff.workspace.trials import agent_of

_SUFFIX: Final = ".contract.yaml"


Test: TypeAlias = Callable[["ContractTest"], None]


class ContractTests(pytest.File):
    """One contract's file; what its tests are is said above."""

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
            for number in range(1, self.config.getoption("--statediff-trials") + 1):
                yield f"trial {number}", partial(run_agent, agent=agent)
            return
        states = self._states()
        if states is not None:
            yield "states", partial(judge_states, states=states)
            return
        cases = listed_cases(self.path.parent) if self.path.name == "contract.yaml" else ()
        for case in cases:
            yield f"{case.agent}{', unplugged' * bool(case.unplug)}", partial(run_case, case=case)
        if not cases:
            yield "lint", lint

    def _agent(self) -> Callable[[], Agent] | None:
        option, ini = self.config.getoption, self.config.getini
        command = option("--statediff-agent-cmd")
        named = option("--statediff-agent")
        if not command and not named:
            command, named = ini("statediff_agent_cmd"), ini("statediff_agent")
        if not command and not named:
            return None
        return lambda: agent_of(self.path, command or None, named or None, None)

    def _states(self) -> tuple[Path, Path, Path] | None:
        if not self.path.name.endswith(_SUFFIX):
            return None
        stem = self.path.name.removesuffix(_SUFFIX)
        before, after, answer = (
            self.path.with_name(f"{stem}.{side}.json") for side in ("before", "after", "answer")
        )
        if before.exists() != after.exists():
            one, other = (before, after) if before.exists() else (after, before)
            raise InputError(f"{other}: expected it beside {one.name}, found nothing")
        return (before, after, answer) if before.exists() else None


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


def run_agent(item: ContractTest, agent: Callable[[], Agent]) -> None:
    """The agent's trial matches."""
    Runner(trials_of(item.config), item)(agent(), item.path)


def run_case(item: ContractTest, case: Case) -> None:
    """The agent of the case gets the verdict of the case."""
    hooks = NO_HOOKS
    if case.unplug:
        hooks = Hooks(before_capture_after=lambda sandbox: sandbox.unplug(case.unplug))
    run = Runner(trials_of(item.config), item)
    run(case.agent, item.path, expect=case.verdict, hooks=hooks)


def judge_states(item: ContractTest, states: tuple[Path, Path, Path]) -> None:
    """The states beside the contract match it."""
    before, after, answer = states
    judged = api.judge(
        item.path, f"tables={before}", f"tables={after}",
        **({"answer": answer} if answer.exists() else {}),
    )  # fmt: skip
    trials_of(item.config).keep(item, judged)
    require(judged)


def lint(item: ContractTest) -> None:
    """The contract has no problem that is an error."""
    problems = [problem for problem in api.lint(item.path) if problem.severity == "error"]
    if problems:
        raise ContractError(tuple(problems))
