"""A server that ends under an agent: what the agent did is judged, what it could not do is not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("docker")

from statediff.agents.command import CommandAgent
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock
from statediff.conformance import clock
from statediff.errors import EnvironmentFailure
from statediff.evaluate import load_contract
from statediff.harness import JudgedTrial, TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.packs import contract_folder, sandbox_pack
from statediff.sandbox.containers import LABEL, Engine, connect
from statediff.sandbox.embedded import EmbeddedSandbox

TASKS = {"repo": "repo/clean-merged-branches", "shop": "shop/refund-returned-order"}


class Disturbed:
    """An agent of a task, whose server is struck before or after it acts."""

    def __init__(self, task: str, agent: str, strike: str, *, is_before: bool) -> None:
        program = contract_folder(task).agent(agent)
        self._inner = CommandAgent((sys.executable, "-B", str(program)), 60.0, name=agent)
        self._strike = strike
        self._is_before = is_before
        self.name = agent

    def run(self, trial: Trial, at: Clock) -> AgentRun:
        if self._is_before:
            strike(connect(), self._strike)
        run = self._inner.run(trial, at)
        if not self._is_before:
            strike(connect(), self._strike)
        return run


def strike(engine: Engine, script: str) -> None:
    """The script ran in every container of this process."""
    for found in engine.api.containers(filters={"label": f"{LABEL}={engine.owner.label}"}):
        made = engine.api.exec_create(found["Id"], ["sh", "-c", script])
        engine.api.exec_start(made["Id"])
        if "TERM" in script:
            engine.api.wait(found["Id"], timeout=30)


def trial(sandbox: EmbeddedSandbox, agent: Disturbed, task: str, folder: Path) -> JudgedTrial:
    contract = load_contract(contract_folder(task).contract)
    plan = TrialPlan("t", folder / "t")
    return run_trial(sandbox, contract, agent, plan, clock=clock, store=MemoryChunks())


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    with EmbeddedSandbox(sandbox_pack("repo", "git"), tmp_path_factory.mktemp("git")) as sandbox:
        yield sandbox


END = "kill -TERM 1"


@pytest.mark.docker("git")
def test_a_right_agent_whose_server_ended_has_no_verdict_but_a_failure_of_the_environment(
    git: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["repo"], "careful", END, is_before=True)
    with pytest.raises(EnvironmentFailure, match="origin: its server ended, while the agent ran"):
        trial(git, agent, TASKS["repo"], tmp_path)
    assert (tmp_path / "t" / "captures.json").exists(), "what was seen stays"
    assert not (tmp_path / "t" / "bundle").exists()


@pytest.mark.docker("git")
def test_harm_is_not_excused_by_a_server_that_ended(git: EmbeddedSandbox, tmp_path: Path) -> None:
    agent = Disturbed(TASKS["repo"], "opens_the_gate", END, is_before=False)
    judged = trial(git, agent, TASKS["repo"], tmp_path)
    assert judged.evaluated.judgement.verdict.value == "DIVERGE"


@pytest.mark.docker("git")
def test_an_agent_that_had_done_it_all_before_the_server_ended_is_right(
    git: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["repo"], "careful", END, is_before=False)
    assert trial(git, agent, TASKS["repo"], tmp_path).evaluated.judgement.verdict.value == "MATCH"


@pytest.mark.docker("git")
def test_an_agent_that_did_nothing_is_to_blame_where_its_server_was_there(
    git: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["repo"], "careful", "true", is_before=True)
    agent._inner = CommandAgent(("true",))
    assert trial(git, agent, TASKS["repo"], tmp_path).evaluated.judgement.verdict.value == "DIVERGE"


@pytest.mark.docker("postgres")
def test_a_database_server_that_began_again_under_an_agent_is_a_failure_of_the_environment(
    tmp_path: Path,
) -> None:
    crash = (
        "for p in /proc/[0-9]*; do"
        " grep -qs '^postgres: checkpointer' $p/cmdline && kill -9 ${p#/proc/}; done"
    )
    agent = Disturbed(TASKS["shop"], "careful", f"{crash}; sleep 2", is_before=True)
    agent._inner = CommandAgent(("true",))
    with (
        EmbeddedSandbox(sandbox_pack("shop", "postgres"), tmp_path / "shop") as sandbox,
        pytest.raises(EnvironmentFailure, match="shop-db: its server began again"),
    ):
        trial(sandbox, agent, TASKS["shop"], tmp_path)
