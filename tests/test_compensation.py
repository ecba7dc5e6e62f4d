"""Every `compensation` of the packs is run after a right run, and undoes what it is for."""

import pytest

from statediff.capture.source import clock
from statediff.contract.file import load_contract
from statediff.meta.cases import read_cases
from statediff.model.state import MemoryChunks
from statediff.packs import contract_folders
from statediff.workspace.undoing import undo
from tests.tasks import needs, try_agent
from tests.tasks import running as running  # noqa: PLC0414 - a fixture

CLAIMED = {
    folder.name: {
        effect.on
        for effect in load_contract(folder.contract).content.effects
        if effect.compensation is not None
    }
    for folder in contract_folders()
}
CASES = [
    pytest.param(
        folder, agent, id=f"{folder.name}:{agent}", marks=needs(folder.name.partition("/")[0])
    )
    for folder in contract_folders()
    if CLAIMED[folder.name]
    for agent in read_cases(folder.folder).references
]


def test_at_least_ten_tasks_say_how_an_effect_is_undone():
    assert sum(map(bool, CLAIMED.values())) >= 10


@pytest.mark.parametrize(("folder", "agent"), CASES)
def test_every_compensation_of_a_task_runs_and_undoes_its_effect(running, tmp_path, folder, agent):
    trial = try_agent(running, folder, agent, tmp_path / "t")
    contract = load_contract(folder.contract)
    undone = undo(
        running(contract.content.sandbox or ""),
        contract,
        trial.observed,
        clock=clock,
        store=MemoryChunks(),
    )
    assert [failed for _, failed in undone.calls if failed] == []
    assert undone.left == ()
    done = {" ".join(call.effect.split()[:2]) for call, _ in undone.calls}
    if folder.name != "accounts/access-review" or done:  # its report is left to the agent
        assert done == CLAIMED[folder.name]
