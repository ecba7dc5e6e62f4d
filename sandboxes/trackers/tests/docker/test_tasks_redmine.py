"""Every task of the pack `helpdesk` on Redmine: each agent gets the verdict its cases say."""

from datetime import UTC, datetime

import pytest

from sandboxes.containers.tests.docker.cases import cases_of, check
from statediff.contract.file import parse_contract
from statediff.harness import TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.model.verdict import Verdict
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.agents.by_tools import Toolsmith
from tests.tasks import try_agent

pytestmark = pytest.mark.docker("redmine")

_ONE_RECORD = (
    "in Redmine a comment is an entry of the history: who removes or moves one breaks the rule on "
    "the history, too, which stands first"
)
OTHER_REASON_FIRST = {
    ("helpdesk/merge-duplicates", "deletes"): _ONE_RECORD,
    ("helpdesk/merge-duplicates", "moves_comments"): _ONE_RECORD,
    ("helpdesk/refuse-forbidden", "withdraws_comment"): _ONE_RECORD,
}
"""Cases whose reason is found, but not as the first one."""
OTHER_VERDICT = {
    ("helpdesk/reassign-with-comment", "stale_list"): (
        "MATCH",
        "Redmine has no list of comments to be saved back: the same mistake changes nothing",
    ),
}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    work = tmp_path_factory.mktemp("helpdesk") / "work"
    with EmbeddedSandbox(sandbox_pack("helpdesk", "redmine"), work) as started:
        yield started


@pytest.mark.parametrize(("folder", "case"), cases_of("helpdesk"))
def test_every_agent_gets_the_verdict_of_its_case_on_redmine(running, tmp_path, folder, case):
    trial = try_agent(
        lambda _: running, folder, case["agent"], tmp_path / "t", case.get("unplug", "")
    )
    which = folder.name, case["agent"]
    verdict, _ = OTHER_VERDICT.get(which, (case["verdict"], ""))
    check(trial, {**case, "verdict": verdict}, is_first=which not in OTHER_REASON_FIRST)


def test_each_difference_from_roundup_is_about_a_case_there_is():
    known = {
        (entry.values[0].name, entry.values[1]["agent"])
        for entry in cases_of("helpdesk", every=True)
    }
    assert {*OTHER_REASON_FIRST, *OTHER_VERDICT} <= known


CLOSED_FOR_A_MOMENT = b"""contract: tests/between
version: 1.0.0
owner: tests
intent: No issue changes its title, not even for a moment.
sandbox: helpdesk
noop: true
forbid: [{id: c, update: issue, fields: [title], during: run}]
evidence: {tracker: {authority: [issue]}}
frame: {open: the test is about one clause}
"""


def test_what_calls_of_tools_did_and_undid_in_redmine_is_known(running, tmp_path):
    def act(call, _):
        title = call("tracker_get_issue", issue=7)["title"]
        call("tracker_update_issue", issue=7, title="Nothing to see here")
        call("tracker_update_issue", issue=7, title=title)

    def tried(name, does):
        return run_trial(
            running, parse_contract(CLOSED_FOR_A_MOMENT, "c.yaml"), Toolsmith(does),
            TrialPlan("t", tmp_path / name),
            clock=lambda: datetime.now(UTC), store=MemoryChunks(),
        ).evaluated.judgement  # fmt: skip

    undone = tried("undone", act)
    assert undone.verdict is Verdict.DIVERGE
    assert "call-2" in {delta.action for delta in undone.during}
    still = tried("still", lambda call, _: call("tracker_get_issue", issue=7))
    assert still.verdict is Verdict.MATCH
