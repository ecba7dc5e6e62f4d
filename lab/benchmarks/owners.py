"""Two owners answer the questions of one draft, each by a rule, and their contracts are compared.

    python -m lab.benchmarks.owners [TASK ...] [--jobs N]

Ada is careful, Ben is easy; their rules were written before any draft was asked about. Of each
shipped task a contract is drafted from two right runs, two ways where it has two right agents. Both
answer the same questions, at most six. What they end with is compared as `statediff agree` does: on
the runs of all the task's agents, and on faults seeded into the right ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from typing import Final, NamedTuple

from statediff.contract.file import ContractFile, load_contract, parse_contract
from statediff.meta.agree import compare_contracts, with_faults
from statediff.meta.cases import read_cases
from statediff.packs import contract_folder, packs_folders
from statediff.reports.interview import Question
from statediff.suite.campaign import SandboxPool
from statediff.workspace import drafts
from statediff.workspace.interview import Answers, interview
from statediff.workspace.references import live_references

SAMPLE: Final = 20
PACKS: Final = ("accounts", "helpdesk", "payments", "shop")


def ada(_question: Question) -> bool:
    """Leaves everything as it was drafted: no to whatever is asked."""
    return False


def ben(question: Question) -> bool:
    """Does not mind what a field holds, but who may do what, and which rows come and go."""
    is_privilege = question.weight[0] > 0
    is_field = "." in question.id.rpartition(" ")[2].rpartition("]")[2]
    return not is_privilege and (is_field or not question.closing)


class Compared(NamedTuple):
    """One task: how many questions, on how many the owners differ, and on how many runs."""

    task: str
    questions: int
    otherwise: int
    runs: int
    differing: tuple[str, ...]
    error: str = ""


def compared(task: str) -> Compared:
    """What the two owners end with, compared."""
    folder = contract_folder(task)
    file, cases = load_contract(folder.contract), read_cases(folder.contract.parent)
    with closing(SandboxPool()) as pool:
        runs = [*live_references(file, folder.contract, cases.agents, pool)]
        right = [run for run in runs if run.name in cases.references[:2]]
        if len(right) == 1:
            right += live_references(file, folder.contract, cases.references[:1], pool)
    seen = tuple(drafts.SeenRun(run.before, run.after, run.timeline) for run in right)
    try:
        drafted = drafts.draft_of(f"drafts/{folder.contract.parent.name}", drafts.Examples(seen))
    except Exception as error:  # noqa: BLE001 - any is a row of the table
        return Compared(task, 0, 0, 0, (), f"{type(error).__name__}: {error}")
    said: list[dict[str, bool]] = []
    first, second = (_answered(drafted, rule, said) for rule in (ada, ben))
    asked = said[0].keys() & said[1].keys()
    found = compare_contracts(first, second, with_faults(runs, 0, SAMPLE))
    return Compared(
        task,
        len(asked),
        sum(said[0][each] is not said[1][each] for each in asked),
        len(found.cases),
        tuple(f"{c.sentence}: {c.a.said}, {c.b.said}" for c in found.differing),
    )


def _answered(
    drafted: drafts.Drafted, rule: Callable[[Question], bool], said: list[dict[str, bool]]
) -> ContractFile:
    own: dict[str, bool] = {}
    said.append(own)

    def ask(_number: int, _count: int, question: Question) -> bool:
        own[question.id] = rule(question)
        return own[question.id]

    end = interview(drafted, Answers(), ask)[0]
    return parse_contract(end.draft.text.encode(), "the draft")


def tasks() -> list[str]:
    """The shipped tasks of some packs, but those that ask for nothing to be done."""
    [root] = packs_folders("contracts")
    found = (path.parent for pack in PACKS for path in (root / pack).glob("*/contract.yaml"))
    return sorted(f"{f.parent.name}/{f.name}" for f in found if not f.name.startswith("refuse"))


def main() -> None:
    """The table, and each run on which the owners' contracts differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="*", default=tasks())
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    every = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        for one in pool.map(compared, asked.task):
            every.append(one)
            agreed = one.runs - len(one.differing)
            line = (
                f"{one.otherwise} of {one.questions} answers differ, {agreed} of {one.runs} agree"
            )
            lines = [f"{one.task}: {one.error or line}", *(f"  {each}" for each in one.differing)]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.stdout.flush()
    runs, same = sum(e.runs for e in every), sum(e.runs - len(e.differing) for e in every)
    questions = sum(e.questions for e in every)
    otherwise = sum(e.otherwise for e in every)
    sys.stdout.write(f"{otherwise} of {questions} answers differ; {same} of {runs} runs agree\n")


if __name__ == "__main__":
    main()
