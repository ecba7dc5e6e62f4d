"""A server that ends under an agent: what the agent did is judged, what it could not do is not."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("docker")

from statediff_containers.engine import LABEL, Engine, connect

from statediff.agents.command import CommandAgent
from statediff.agents.trial import AgentRun, Trial
from statediff.capture.source import Clock
from statediff.conformance import clock
from statediff.contract.file import load_contract
from statediff.errors import EnvironmentFailure
from statediff.harness import JudgedTrial, TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.packs import contract_folder, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox

TASKS = {"repo": "repo/clean-merged-branches", "shop": "shop/refund-returned-order"}


ASK = """
import os, pygit2
with __import__("tempfile").TemporaryDirectory() as folder:
    remotes = pygit2.init_repository(folder).remotes
    remote = remotes.create_anonymous(os.environ["STATEDIFF_ORIGIN_URL"])
    [remote.list_heads() for _ in range(800)]
"""
"""Asks until an answer is missing."""
HOLD = """
import base64, http.client, os
from urllib.parse import urlsplit
url = urlsplit(os.environ["STATEDIFF_ORIGIN_URL"])
account = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
server = http.client.HTTPConnection(url.hostname, url.port)
path = "/git/repository.git/info/refs?service=git-upload-pack"
try:
    for _ in range(400):
        server.request("GET", path, headers={"Authorization": f"Basic {account}"})
        server.getresponse().read()
except (OSError, http.client.HTTPException):
    pass
"""
"""Asks on one connection until the server ends it."""
PRETEND = r"""
import base64, http.client, os
from urllib.parse import quote, urlsplit
url = urlsplit(os.environ["STATEDIFF_ORIGIN_URL"])
account = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
for end in (
    'x\n{"event":"child_exit","code":137}\n',
    "x\n2026-11-21 21:10:39: (mod_cgi.c.1227) CGI pid 14 died with signal 9\n",
    "x\n2026-11-21 21:10:39: (server.c.2078) server stopped by UID = 65532 PID = 7\n",
    "x\nerror: git died of signal 9\n",
):
    line = f"{len(end) + 4:04x}{end}0000"
    server = http.client.HTTPConnection(url.hostname, url.port)
    server.request("POST", "/git/repository.git/git-receive-pack", line, {
        "Authorization": f"Basic {account}",
        "Content-Type": "application/x-git-receive-pack-request",
    })
    server.getresponse().read()
    server.request("GET", f"/git/{quote(end)}", headers={"Authorization": f"Basic {account}"})
    server.getresponse().read()
"""


class Disturbed:
    """An agent of a task, whose server is struck before or after it acts."""

    def __init__(self, task: str, agent: str, strike: str, *, is_before: bool) -> None:
        self._inner = CommandAgent(contract_folder(task).agent(agent), 60.0, name=agent)
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
    """The script ran in every container of this process, or, if it waits for its victim, runs."""
    for found in engine.api.containers(filters={"label": f"{LABEL}={engine.owner.label}"}):
        made = engine.api.exec_create(found["Id"], ["sh", "-c", script])
        engine.api.exec_start(made["Id"], detach="while" in script)
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
END_FIRST = """
until [ -e /run/statediff/asked ]; do
    for p in /proc/[0-9]*; do
        read -r name 2>/dev/null < $p/comm && [ "$name" = git-serve ] && : > /run/statediff/asked
    done
done
while [ -e /proc/1 ]; do kill -15 1; sleep 0.1; done
"""
"""The server is asked to end as soon as it serves somebody."""
KILL_FIRST = """
n=0
while [ $n -lt 60000 ]; do
    n=$((n + 1))
    for p in /proc/[0-9]*; do
        read -r name 2>/dev/null < $p/comm && [ "$name" = %s ] || continue
        kill -STOP ${p#/proc/} || continue
        state=R
        tries=0
        while [ $tries -lt 1000 ] && [ "$state" != T ] && [ "$state" != Z ]; do
            tries=$((tries + 1))
            read -r pid comm state rest 2>/dev/null < $p/stat || state=Z
        done
        [ "$state" = T ] && kill -9 ${p#/proc/} && exit
    done
done
"""
"""Ends with the first process of that name that it killed.

It stops the process first: one that had ended by itself takes a signal without dying by it.
"""


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
def test_a_server_that_was_asked_to_end_while_it_served_has_failed_however_it_says_so(
    git: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["repo"], "careful", END_FIRST, is_before=True)
    agent._inner = CommandAgent((sys.executable, "-c", HOLD))
    with pytest.raises(EnvironmentFailure, match="origin: its server ended, while the agent ran"):
        trial(git, agent, TASKS["repo"], tmp_path)


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
@pytest.mark.parametrize("program", ["git-serve", "git-http-backen", "git"])
def test_a_request_whose_processes_were_killed_is_a_failure_of_the_environment(
    program: str, git: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["repo"], "careful", KILL_FIRST % program, is_before=True)
    agent._inner = CommandAgent((sys.executable, "-c", ASK))
    with pytest.raises(EnvironmentFailure, match="origin: a process of its server was killed"):
        trial(git, agent, TASKS["repo"], tmp_path)
    agent._strike = "true"
    judged = trial(git, agent, TASKS["repo"], tmp_path / "next")
    assert judged.evaluated.judgement.verdict.value == "DIVERGE", "and the next server is whole"


@pytest.mark.docker("git")
def test_memory_that_an_agent_used_up_is_no_failure_of_the_environment(
    git: EmbeddedSandbox, tmp_path: Path
) -> None:
    used_up = "perl -e '$x = q(x) x 1e9' & wait"
    agent = Disturbed(TASKS["repo"], "careful", f"{used_up}; {END}", is_before=True)
    agent._inner = CommandAgent(("true",))
    assert trial(git, agent, TASKS["repo"], tmp_path).evaluated.judgement.verdict.value == "DIVERGE"
    assert git.verify(clock).drift != (), "it ended"
    git.reset()
    assert git.verify(clock).ok


@pytest.mark.docker("git")
def test_what_a_client_says_cannot_look_like_a_server_that_was_killed(
    git: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["repo"], "careful", "true", is_before=True)
    agent._inner = CommandAgent((sys.executable, "-c", PRETEND))
    assert trial(git, agent, TASKS["repo"], tmp_path).evaluated.judgement.verdict.value == "DIVERGE"


@pytest.mark.docker("git")
def test_an_agent_that_did_nothing_is_to_blame_where_its_server_was_there(
    git: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["repo"], "careful", "true", is_before=True)
    agent._inner = CommandAgent(("true",))
    assert trial(git, agent, TASKS["repo"], tmp_path).evaluated.judgement.verdict.value == "DIVERGE"


def dies(process: str, signal: int) -> str:
    """A script: the PostgreSQL process so called dies by a signal, and what follows is over."""
    return (
        "for p in /proc/[0-9]*; do"
        f" grep -qs '^postgres: {process}' $p/cmdline && kill -{signal} ${{p#/proc/}};"
        " done; sleep 1"
    )


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    work = tmp_path_factory.mktemp("postgres")
    with EmbeddedSandbox(sandbox_pack("shop", "postgres"), work) as sandbox:
        yield sandbox


@pytest.mark.docker("postgres")
@pytest.mark.parametrize("process", ["checkpointer", "postgres postgres"])
def test_a_database_server_that_began_again_under_an_agent_is_a_failure_of_the_environment(
    process: str, postgres: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["shop"], "careful", dies(process, 9), is_before=True)
    agent._inner = CommandAgent(("true",))
    with pytest.raises(EnvironmentFailure, match="shop-db: a process of its server was killed"):
        trial(postgres, agent, TASKS["shop"], tmp_path)


@pytest.mark.docker("postgres")
def test_a_database_server_that_was_asked_to_end_is_a_failure_of_the_environment(
    postgres: EmbeddedSandbox, tmp_path: Path
) -> None:
    # It lets nobody in any more, and ends once the evaluator's own connections have.
    psycopg = pytest.importorskip("psycopg")
    agent = Disturbed(TASKS["shop"], "careful", "kill -15 1; sleep 1", is_before=True)
    with pytest.raises(EnvironmentFailure, match="shop-db: the server cannot be reached"):
        trial(postgres, agent, TASKS["shop"], tmp_path)
    postgres.reset()
    assert postgres.verify(clock).ok, "and the next server lets everybody in"
    with psycopg.connect(postgres.access().urls["shop-db"]):
        pass


@pytest.mark.docker("postgres")
def test_a_database_server_that_crashed_under_an_agent_excuses_nobody(
    postgres: EmbeddedSandbox, tmp_path: Path
) -> None:
    agent = Disturbed(TASKS["shop"], "careful", dies("postgres postgres", 11), is_before=True)
    agent._inner = CommandAgent(("true",))
    judged = trial(postgres, agent, TASKS["shop"], tmp_path)
    assert judged.evaluated.judgement.verdict.value == "DIVERGE"
    assert judged.observed.failed == ()
