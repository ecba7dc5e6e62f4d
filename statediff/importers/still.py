"""What an agent that does nothing gets, on every task of a benchmark.

It must be MATCH nowhere but where the contract says `noop: true`. A contract that would match it
without saying so is refused by `evaluate`, and is a fault here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from statediff.errors import StatediffError
from statediff.evaluate import TrialFacts, evaluate
from statediff.importers.recorded import Half, Suite, TaskId
from statediff.importers.rejudge import Wanted
from statediff.importers.workers import Workers
from statediff.model.verdict import Verdict

TASKS_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Still:
    """One task, and what doing nothing gets."""

    task: TaskId
    half: Half
    is_noop: bool
    """The contract declares that the null transition is right."""
    verdict: Verdict | None
    """None where the contract is refused; `fault` says why."""
    fault: str = ""

    @property
    def is_right(self) -> bool:
        """Whether nothing passes that was not declared to."""
        return self.verdict is not None and (self.is_noop or self.verdict is not Verdict.MATCH)


def stills(workers: Workers, wanted: Wanted) -> Iterator[Still]:
    """Every task that is wanted, run or not, in order."""
    suite = workers.suite
    tasks = iter(
        [
            task
            for task in suite.tasks()
            if wanted.domain in (None, task.domain) and wanted.half in (None, suite.half(task))
        ]
    )
    pieces = iter(lambda: tuple(islice(tasks, TASKS_AT_ONCE)), ())
    for found in workers.in_order(_stills, pieces):
        yield from found


def _stills(suite: Suite, tasks: Sequence[TaskId]) -> list[Still]:
    return [_still(suite, task) for task in tasks]


def _still(suite: Suite, task: TaskId) -> Still:
    half, is_noop = suite.half(task), False
    try:
        trial = suite.still(task)
        is_noop = trial.contract.content.noop
        verdict = evaluate(
            trial.contract, trial.before, trial.after, trace=trial.trace, answer=trial.answer,
            facts=TrialFacts(str(task)),
        ).judgement.verdict  # fmt: skip
    except StatediffError as error:
        return Still(task, half, is_noop, None, str(error))
    return Still(task, half, is_noop, verdict)
