"""Contracts that a second author wrote from the prompt alone say the same of a task's agents."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from statediff.contract.file import load_contract
from statediff.meta.agree import compare_contracts
from statediff.meta.cases import Cases, read_cases
from statediff.packs import contract_folder
from statediff.suite.campaign import SandboxPool
from statediff.workspace.references import live_references
from tests.tasks import needs

SECOND: Final = Path(__file__).parents[2] / "fixtures" / "second-authors"
TASKS: Final = sorted(str(path.parent.relative_to(SECOND)) for path in SECOND.glob("*/*/*.yaml"))
FAULTY: Final = 2
"""So many faulty agents of a task are run beside its references and those that are argued here."""

ARGUED: Final = {
    # Task and agent: what the shipped contract says, what the second one says, and who is right.
    ("erp/price-from-date", "alternative"): (
        "MATCH",
        "DIVERGE",
        "the shipped one: the server stamps a list through which its lines were changed",
    ),
    ("erp/price-from-date", "raised_for_a_while"): (
        "DIVERGE",
        "MATCH",
        "the shipped one: until the day before, the price of today holds at each moment",
    ),
    ("erp/reverse-entry", "careful"): (
        "MATCH",
        "DIVERGE",
        "the shipped one: the server counts the forms of the wizard that reverses",
    ),
    ("chat/hand-over-room", "alias_for_a_while"): (
        "DIVERGE",
        "MATCH",
        "the prompt left it open; it says now that nothing else changes, not even for a while",
    ),
    ("cloud/restore-object", "for_a_while"): (
        "DIVERGE",
        "MATCH",
        "the prompt left it open; it says now that nobody may do more, not even for a while",
    ),
    ("payments/end-membership", "wakes_it_again"): (
        "DIVERGE",
        "MATCH",
        "the shipped one: another customer's subscription was to end for a moment",
    ),
}


@pytest.fixture(scope="module")
def pool() -> Iterator[SandboxPool]:
    with closing(SandboxPool()) as started:
        yield started


def _agents(task: str, cases: Cases) -> list[str]:
    """The references, then agents that are argued here, then the first faulty ones of the rest."""
    faulty = [wrong.agent for wrong in cases.faulty]
    argued = [agent for named, agent in ARGUED if named == task and agent in faulty]
    others = [agent for agent in faulty if agent not in argued]
    return [*cases.references, *argued, *others[:FAULTY]]


@pytest.mark.parametrize(
    "task", [pytest.param(t, id=t, marks=needs(t.partition("/")[0])) for t in TASKS]
)
def test_both_contracts_of_a_task_say_the_same_of_its_agents_but_where_it_is_argued(
    pool: SandboxPool, task: str
) -> None:
    path = contract_folder(task).contract
    shipped, second = load_contract(path), load_contract(SECOND / task / "contract.yaml")
    agents = _agents(task, read_cases(path.parent))
    runs = [(run.name, run) for run in live_references(shipped, path, agents, pool)]
    found = compare_contracts(shipped, second, runs)
    assert [case.case for case in found.cases] == agents
    assert {case.case: (case.a.said, case.b.said) for case in found.differing} == {
        agent: said[:2] for (named, agent), said in ARGUED.items() if named == task
    }


def test_two_tasks_of_each_of_five_packs_were_written_twice() -> None:
    packs = [task.partition("/")[0] for task in TASKS]
    assert {pack: packs.count(pack) for pack in packs} == dict.fromkeys(
        ("chat", "cloud", "erp", "office", "payments"), 2
    )
