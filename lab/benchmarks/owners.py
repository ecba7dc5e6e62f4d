"""Two owners answer the questions of one draft, each by a rule, and their contracts are compared.

    python -m lab.benchmarks.owners [TASK ...] [--jobs N]        # in .packs: needs all servers

Ada is careful, Ben is easy; their rules were written before any draft was asked about. Of every
third shipped task in the order of names a contract is drafted from a run of each right agent. Both
answer the same questions, at most six. What they end with is compared as `statediff agree` does: on
the runs of all the task's agents, and on faults seeded into the right ones.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from lab.benchmarks.drafts import live_runs, shipped
from statediff.contract.file import ContractFile, parse_contract
from statediff.errors import UsageError
from statediff.meta.agree import compare_contracts, with_faults
from statediff.reports.interview import Question
from statediff.workspace import drafts
from statediff.workspace.interview import Answers, interview

SAMPLE: Final = 20
FOLDER: Final = Path("contracts")


def ada(_question: Question) -> bool:
    """Leaves everything as it was drafted: no to whatever is asked."""
    return False


def ben(question: Question) -> bool:
    """Does not mind what a field holds, but who may do what, and which rows come and go."""
    is_privilege = question.weight[0] > 0
    is_field = "." in question.id.rpartition(" ")[2].rpartition("]")[2]
    return not is_privilege and (is_field or not question.closing)


def compared(task: str) -> tuple[tuple[int, ...], list[str]]:
    """How many answers differ of how many, how many runs agree of how many, and the other runs."""
    known = live_runs(FOLDER / task / "contract.yaml", 1)
    seen = (each.run for each in known if each.is_example)
    runs = tuple(drafts.SeenRun(run.before, run.after, run.timeline) for run in seen)
    try:
        drafted = drafts.draft_of("drafts/first", drafts.Examples(runs))
    except UsageError as error:
        return (0, 0, 0, 1), [str(error)]
    (first, one), (second, other) = (_answered(drafted, rule) for rule in (ada, ben))
    asked = one.keys() & other.keys()
    found = compare_contracts(first, second, with_faults([each.run for each in known], 0, SAMPLE))
    differing = [f"{c.sentence}: {c.a.said}, {c.b.said}" for c in found.differing]
    otherwise, of = sum(one[each] is not other[each] for each in asked), len(found.cases)
    return (otherwise, len(asked), of - len(differing), of), differing


def _answered(
    drafted: drafts.Drafted, rule: Callable[[Question], bool]
) -> tuple[ContractFile, dict[str, bool]]:
    own: dict[str, bool] = {}

    def ask(_number: int, _count: int, question: Question) -> bool:
        return own.setdefault(question.id, rule(question))

    end = interview(drafted, Answers(), ask)[0]
    return parse_contract(end.draft.text.encode(), "the draft"), own


def tasks() -> list[str]:
    """Every third shipped task in which something is to be done."""
    return [path.parent.relative_to(FOLDER).as_posix() for path in shipped(FOLDER)[::3]]


def main() -> None:
    """The table, and each run on which the owners' contracts differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", nargs="*", default=tasks())
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    total = [0, 0, 0, 0]
    with ProcessPoolExecutor(asked.jobs) as pool:
        every = pool.map(compared, asked.task)
        for task, (counts, differing) in zip(asked.task, every, strict=True):
            total = [n + more for n, more in zip(total, counts, strict=True)]
            sys.stdout.write(_said(task, counts))
            sys.stdout.writelines(f"  {each}\n" for each in differing)
            sys.stdout.flush()
    sys.stdout.write(_said("all", total))


def _said(task: str, counts: Sequence[int]) -> str:
    return "{}: {} of {} answers differ, {} of {} runs agree\n".format(task, *counts)


if __name__ == "__main__":
    main()
