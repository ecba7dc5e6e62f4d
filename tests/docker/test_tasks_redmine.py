"""Every task of the pack `helpdesk` on Redmine: each agent gets the verdict its cases say."""

import pytest

from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox
from tests.docker.cases import cases_of, check
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
