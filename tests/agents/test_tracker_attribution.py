"""Changes in the tracker have their maker, by tools and by curl, whoever writes past it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from statediff_trackers.roundup.sandbox import EmbeddedTracker

from hosts.tests.protocols.two_ways.by_mcp import Tooled
from hosts.tests.protocols.two_ways.native import CLIENTS, native
from hosts.tests.protocols.two_ways.steps import Hands
from statediff.agents.trial import Agent
from statediff.model.delta import Entity
from statediff.model.trace import Action, ActionClass
from statediff.packs import contract_folder
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.agents.by_tools import Toolsmith
from tests.tasks import Sandboxes, live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture

TASK = "helpdesk/reassign-with-comment"


@pytest.fixture(scope="module")
def helpdesk(running: Sandboxes) -> EmbeddedSandbox:
    return running("helpdesk")


def changed_by(
    sandbox: EmbeddedSandbox, way: str, folder: Path
) -> tuple[dict[tuple[str, str], Action | None], tuple[Action, ...]]:
    """(entity's type and what of it) → the call that made the change; and all calls.

    Two calls change one issue, and between them somebody else does, past the interface.
    """
    text = contract_folder(TASK).contract.read_text()
    decided = text.replace("tracker: {", "tracker: {authority: [comment, issue], ", 1)
    contract = folder / "contract.yaml"
    contract.write_text(decided)
    tracker = sandbox.system("tracker")
    assert isinstance(tracker, EmbeddedTracker)

    def foreign() -> None:
        with closing(sqlite3.connect(tracker.home / "db" / "db")) as connection, connection:
            connection.execute("UPDATE _issue SET _title = 'whose?' WHERE id = 11")

    def act(do: Hands, given: Mapping[str, Any]) -> Any:
        do.update(given["issue"], assignee=given["to"])
        foreign()
        return do.comment(given["issue"], "I am away from Monday.")

    agents: dict[str, Agent] = {
        "native": native(act),
        "tools": Toolsmith(lambda call, given: act(Tooled(call, ["tracker"]), given)),
    }
    done = live_trial(sandbox, contract, agents[way], folder / "out")
    assert done.observed.run.error is None, done.observed.run.error
    calls = done.observed.run.trace.actions
    by_id = {call.id: call for call in calls}
    found: dict[tuple[str, str], Action | None] = {}
    for delta in done.evaluated.judgement.deltas:
        what = delta.path
        if delta.type == "journal":
            assert isinstance(delta.after, Entity)
            row = delta.after.as_row()
            what = f"{row['on']} {row['field']}"
        found[delta.type, what] = None if delta.action is None else by_id[delta.action]
    return found, calls


@pytest.mark.slow
@pytest.mark.clients(*CLIENTS)
@pytest.mark.parametrize("way", ["native", "tools"])
def test_every_change_is_of_its_own_call_and_a_foreign_one_of_none(
    way: str, helpdesk: EmbeddedSandbox, tmp_path: Path
) -> None:
    found, calls = changed_by(helpdesk, way, tmp_path)
    assert found.pop(("issue", "title")) is None
    assert all(found.values()), found
    writes = [call for call in calls if call.action_class is not ActionClass.READ]
    assert all(mark.name for call in writes for mark in call.transactions or ())
    updated, *_ = writes
    made, linked = writes[1:] if way == "native" else (writes[1], writes[1])
    # Two calls within one second leave one time.
    assert found.pop(("issue", "updated_at")) in (updated, linked)
    assert found == {
        ("comment", ""): made,
        ("issue", "assignee"): updated,
        ("issue", "updated_by"): updated,
        ("journal", "comment None"): made,
        ("journal", "issue assignee"): updated,
        ("journal", "issue messages"): linked,
    }
