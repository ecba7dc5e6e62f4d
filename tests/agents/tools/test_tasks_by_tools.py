"""Every kind of system can be worked on by its tools alone, as the packs' tasks want it."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from statediff.evaluate import load_contract
from statediff.harness import TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.model.trace import ActionClass
from statediff.model.verdict import Verdict
from statediff.packs import contract_folder
from tests.agents.tools.by_tools import TASKS, Toolsmith
from tests.tasks import Sandboxes, sandboxes


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandboxes]:
    with sandboxes(tmp_path_factory.mktemp) as started:
        yield started


@pytest.mark.parametrize("task", TASKS)
def test_the_task_is_done_by_tools_alone_and_the_trace_is_complete(task, running, tmp_path):
    contract = load_contract(contract_folder(task).contract)
    done = run_trial(
        running(contract.content.sandbox), contract, Toolsmith(TASKS[task]),
        TrialPlan("t", tmp_path / "t"),
        clock=lambda: datetime.now(UTC), store=MemoryChunks(),
    )  # fmt: skip
    found = [f.message for f in done.evaluated.judgement.findings if f.truth.name != "HOLDS"]
    assert done.evaluated.judgement.verdict is Verdict.MATCH, found
    trace = done.observed.run.trace
    assert trace.gap is None
    for action in trace.actions:
        made = action.transactions
        assert made is not None
        assert (made == ()) == (action.action_class is ActionClass.READ)
