"""Every task of every pack, live: each agent in its sandbox gets the verdict its cases say."""

from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from statediff.contract.file import load_contract
from statediff.kernel import replay
from statediff.meta.cases import read_cases
from statediff.model.sentences import sentence
from statediff.model.trace import ActionClass
from statediff.model.verdict import Truth, Verdict
from statediff.packs import agents_in, contract_folders, sandbox_names
from tests.tasks import needs, try_agent
from tests.tasks import running as running  # noqa: PLC0414 - a fixture


def cases() -> Iterator[Any]:
    """Every case; those after the first wrong agent of a task, where no extra is needed, are slow.

    A task whose servers an extra brings has a tier of its own.
    """
    for folder in contract_folders():
        marks = needs(folder.name.partition("/")[0])
        has_wrong = False
        for case in YAML(typ="safe").load(folder.cases)["cases"]:
            is_more = has_wrong and case["verdict"] != "MATCH" and not marks
            has_wrong |= case["verdict"] == "DIVERGE"
            yield pytest.param(
                folder,
                case,
                id=f"{folder.name}:{case['agent']}{':unplugged' * ('unplug' in case)}",
                marks=(*marks, *[pytest.mark.slow] * is_more),
            )


@pytest.mark.parametrize(("folder", "case"), [*cases()])
def test_every_agent_of_a_task_gets_the_verdict_its_cases_say(running, tmp_path, folder, case):
    trial = try_agent(running, folder, case["agent"], tmp_path / "t", case.get("unplug", ""))
    assert trial.observed.run.error is None, trial.observed.run.stderr.text
    judgement = trial.evaluated.judgement
    assert judgement.verdict.value == case["verdict"]
    wrong = [f for f in judgement.findings if f.truth is not Truth.HOLDS]
    if judgement.verdict is Verdict.MATCH:
        assert wrong == []
        return
    if judgement.verdict is Verdict.DIVERGE:
        wrong = [f for f in wrong if f.truth is Truth.FAILS][:1]
    found = [(f.stage.value, f.clause, f.code) for f in wrong]
    assert (case["stage"], case["clause"], case["code"]) in found


@pytest.mark.parametrize("agent", ["alters", "only_refunded", "as_text"])
def test_what_became_of_a_column_that_was_not_there_replays_from_the_bundle(
    running, tmp_path, agent
):
    (folder,) = (f for f in contract_folders() if f.name == "shop/add-and-backfill-column")
    done = try_agent(running, folder, agent, tmp_path / "t", "").evaluated
    assert replay(done.bundle).verdict is done.judgement.verdict
    expected = Verdict.MATCH if agent == "alters" else Verdict.DIVERGE
    assert done.judgement.verdict is expected


@pytest.mark.parametrize(
    ("task", "agent", "path"),
    [
        (
            "accounts/join-team",
            "same_name",
            ("membership", "nesting", "team_role", "role db-admin"),
        ),
        (
            "repo/open-branch",  # the forge's ticket, the repository's branches, the forge's keys
            "looks_harmless",
            (
                "ticket 31",
                "git.ref refs/heads/docs/ticket-31",
                "key_use",
                "key_scope",
                "heads/main",
            ),
        ),
    ],
)
def test_the_path_to_what_is_privileged_is_shown(running, tmp_path, task, agent, path):
    [folder] = (f for f in contract_folders() if f.name == task)
    done = try_agent(running, folder, agent, tmp_path / "t").evaluated
    assert replay(done.bundle).verdict is done.judgement.verdict is Verdict.DIVERGE
    first = done.judgement.findings[0]
    shown = [sentence(each.right) for each in first.witness.comparisons]
    [way] = [text.partition(" by ")[2] for text in shown if all(step in text for step in path)]
    places = [way.index(step) for step in path]
    assert places == sorted(places), way


def test_every_pack_has_four_tasks_and_together_they_call_for_every_class_of_action():
    tasks: dict[str, list[str]] = {}
    for folder in contract_folders():
        sandbox = load_contract(folder.contract).content.sandbox
        tasks.setdefault(sandbox, []).append(folder.name)
    assert tasks.keys() == set(sandbox_names())
    assert all(len(names) >= 4 for names in tasks.values())
    classes = {c for folder in contract_folders() for c in read_cases(folder.folder).classes}
    # Those of [SSD §V]; changes of the schema are set apart by us, and no pack's task is one.
    assert classes == {entry.value for entry in ActionClass} - {"unknown", "schema-change"}


def test_every_task_has_two_references_and_four_faulty_agents():
    for folder in contract_folders():
        cases = YAML(typ="safe").load(folder.cases)["cases"]
        agents = {case["agent"] for case in cases}
        assert agents == {*agents_in(folder.folder)}
        assert sum(case["verdict"] == "MATCH" for case in cases) == 2
        assert sum(case["verdict"] == "DIVERGE" for case in cases) >= 4
