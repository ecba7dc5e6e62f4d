"""An agent that speaks the systems' own protocols, and the same agent through MCP: one result."""

import pytest

from hosts.tests.protocols.two_ways.compare import both_ways
from hosts.tests.protocols.two_ways.native import CLIENTS
from hosts.tests.protocols.two_ways.steps import TASKS
from statediff.packs import contract_folders
from tests.tasks import Sandboxes, packs_of_the_core
from tests.tasks import running as running  # noqa: PLC0414 - a fixture


def test_every_contract_of_the_packs_of_the_core_is_here() -> None:
    core = packs_of_the_core()
    assert TASKS.keys() == {
        folder.name for folder in contract_folders() if folder.name.partition("/")[0] in core
    }


@pytest.mark.slow
@pytest.mark.clients(*CLIENTS)
@pytest.mark.parametrize("task", TASKS)
def test_both_ways_leave_the_same_changes_by_the_same_doing_and_one_verdict(
    task: str, running: Sandboxes, tmp_path
) -> None:
    pack = task.partition("/")[0]
    shown = both_ways(running(pack), task, tmp_path)
    if pack == "helpdesk":  # of its journal the tracker alone tells
        made = [what for place in shown if place is not None for what in shown[place]]
        assert any("'journal'" in what for what in made)
        assert not any("'journal'" in what for what in shown.get(None, ()))
