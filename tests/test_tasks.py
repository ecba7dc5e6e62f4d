"""Every task of every pack, live: each agent in its sandbox gets the verdict its cases say."""

import sys
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest
from ruamel.yaml import YAML

from statediff.agents.command import CommandAgent
from statediff.evaluate import load_contract, replay
from statediff.harness import Hooks, TrialPlan, run_trial
from statediff.meta.cases import read_cases
from statediff.model.state import MemoryChunks
from statediff.model.trace import ActionClass
from statediff.model.verdict import Truth, Verdict
from statediff.packs import contract_folders, sandbox_names, sandbox_pack
from statediff.sandbox.embedded import EmbeddedSandbox

CASES = [
    pytest.param(
        folder, case, id=f"{folder.name}:{case['agent']}{':unplugged' * ('unplug' in case)}"
    )
    for folder in contract_folders()
    for case in YAML(typ="safe").load(folder.cases)["cases"]
]


def clock() -> datetime:
    return datetime.now(UTC)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory):
    """Sandboxes by name, each started when a task first needs it."""
    started: dict[str, EmbeddedSandbox] = {}
    with ExitStack() as stack:

        def sandbox(name: str) -> EmbeddedSandbox:
            if name not in started:
                work = tmp_path_factory.mktemp(name) / "work"
                started[name] = stack.enter_context(EmbeddedSandbox(sandbox_pack(name), work))
            return started[name]

        yield sandbox


def tried(running, tmp_path, folder, case):
    """The trial of one case, live."""
    contract = load_contract(folder.contract)
    sandbox = running(contract.content.sandbox)
    hooks = Hooks()
    if "unplug" in case:
        hooks = Hooks(before_capture_after=lambda unplugged: unplugged.unplug(case["unplug"]))
    agent = CommandAgent((sys.executable, str(folder.agent(case["agent"]))), 30.0)
    return run_trial(
        sandbox,
        contract,
        agent,
        TrialPlan("t", tmp_path / "t"),
        clock=clock,
        store=MemoryChunks(),
        hooks=hooks,
    )


@pytest.mark.parametrize(("folder", "case"), CASES)
def test_every_agent_of_a_task_gets_the_verdict_its_cases_say(running, tmp_path, folder, case):
    trial = tried(running, tmp_path, folder, case)
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
    done = tried(running, tmp_path, folder, {"agent": agent}).evaluated
    assert replay(done.bundle).verdict is done.judgement.verdict
    expected = Verdict.MATCH if agent == "alters" else Verdict.DIVERGE
    assert done.judgement.verdict is expected


def test_every_pack_has_four_tasks_and_together_they_call_for_every_class_of_action():
    tasks: dict[str, list[str]] = {}
    for folder in contract_folders():
        sandbox = load_contract(folder.contract).content.sandbox
        tasks.setdefault(sandbox, []).append(folder.name)
    assert tasks.keys() == set(sandbox_names())
    assert all(len(names) >= 4 for names in tasks.values())
    classes = {c for folder in contract_folders() for c in read_cases(folder.folder).classes}
    assert classes == {entry.value for entry in ActionClass} - {"unknown"}


def test_every_task_has_two_references_and_four_faulty_agents():
    for folder in contract_folders():
        cases = YAML(typ="safe").load(folder.cases)["cases"]
        agents = {case["agent"] for case in cases}
        assert agents == {path.stem for path in (folder.folder / "agents").glob("*.py")}
        assert sum(case["verdict"] == "MATCH" for case in cases) == 2
        assert sum(case["verdict"] == "DIVERGE" for case in cases) >= 4
