"""An agent in a container of its own: it reaches the systems, and each test tries to reach more."""

import shlex
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("docker")

from statediff_containers.agent import ImageAgent
from statediff_containers.engine import LABEL, connect
from statediff_containers.images import image_tag

from statediff.agents.trial import AgentRun, Trial
from statediff.conformance import clock
from statediff.contract.file import load_contract
from statediff.errors import UsageError
from statediff.harness import TrialPlan, run_trial
from statediff.model.state import MemoryChunks
from statediff.model.trace import NoAnswer
from statediff.packs import contract_folder, sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox

pytestmark = pytest.mark.docker("git", "relay")


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    with EmbeddedSandbox(sandbox_pack("repo", "git"), tmp_path_factory.mktemp("repo")) as started:
        yield started


def agent(script: str, seconds: float = 60.0, image: str = "git") -> ImageAgent:
    return ImageAgent(image_tag(image), ("sh", "-c", script), seconds)


def run(sandbox: EmbeddedSandbox, script: str, seconds: float = 60.0) -> AgentRun:
    sandbox.reset()
    access = sandbox.access()
    folder = access.folder
    trial = Trial("do it", {}, access.urls, folder, folder / "answer.json", folder / "trace.jsonl")
    return agent(script, seconds).run(trial, clock)


def test_it_uses_the_systems_and_its_bundle_says_how_it_was_kept_apart(
    sandbox: EmbeddedSandbox, tmp_path: Path
) -> None:
    script = (
        "git clone -q $STATEDIFF_ORIGIN_URL clone && cd clone && git log --oneline | wc -l &&"
        " git -C ${STATEDIFF_CHECKOUT_URL#file://} status -s && cat README* | head -1 &&"
        " echo '{}' > $STATEDIFF_ANSWER"
    )
    task = "repo/clean-merged-branches"
    judged = run_trial(
        sandbox, load_contract(contract_folder(task).contract), agent(script),
        TrialPlan("t", tmp_path / "t"), clock=clock, store=MemoryChunks(),
    )  # fmt: skip
    done = judged.observed.run
    assert done.error is None, done.stderr.text
    assert int(done.stdout.text.split()[0]) > 3
    assert not isinstance(done.answer, NoAnswer)
    assert judged.observed.receipt.isolation == "container"
    assert judged.evaluated.bundle.document("trial.json")["isolation"] == "container"


def test_it_reaches_no_other_listener_of_this_machine_and_no_network(
    sandbox: EmbeddedSandbox,
) -> None:
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        listener.settimeout(0.2)
        places = ["127.0.0.1", "172.17.0.1", "host.docker.internal", "localhost"]
        tries = "; ".join(
            f'perl -MIO::Socket::INET -e \'print IO::Socket::INET->new(PeerAddr => "{place}",'
            f' PeerPort => {port}, Timeout => 2) ? "in\\n" : "out\\n"\''
            for place in places
        )
        said = run(sandbox, f"{tries}; cat /proc/net/dev | grep -c : ")
        assert said.stdout.text.split() == [*["out"] * len(places), "1"], said.stderr.text
        with pytest.raises(TimeoutError):
            listener.accept()


def test_it_has_no_right_no_engine_and_none_of_the_evaluators_files_or_processes(
    sandbox: EmbeddedSandbox,
) -> None:
    secret = sandbox.work.parent / "secret-of-the-evaluator"
    secret.write_text("mine")
    said = run(
        sandbox,
        "grep -E 'CapEff|NoNewPrivs' /proc/self/status | tr -d '\\n'; echo;"
        f"cat {shlex.quote(str(secret))}; cat /proc/1/root{shlex.quote(str(secret))};"
        f"ls {shlex.quote(str(Path(__file__).parent))};"
        "ls /var/run/docker.sock /run/docker.sock; touch /x /etc/x /usr/x;"
        "mount -t tmpfs none /mnt; mknod /tmp/d b 8 0; ls /proc | grep -cE '^[0-9]+$';"
        "env | grep -c PYTHONPATH; ls /run/statediff | wc -l",
    )
    lines = said.stdout.text.replace("\\t", " ").replace("NoNew", " NoNew").split("\n")
    assert lines[0].split() == ["CapEff:", "0000000000000000", "NoNewPrivs:", "1"]
    processes, variables, sockets = map(int, lines[1:4])
    assert processes < 10
    assert (variables, sockets) == (0, 0)
    assert "mine" not in said.stdout.text
    assert said.stderr.text.count("Read-only file system") == 3
    assert secret.exists()


def test_it_cannot_take_all_memory_or_processes(sandbox: EmbeddedSandbox) -> None:
    said = run(sandbox, "perl -e 'my @all; push @all, \"x\" x 1e8 while 1'")
    assert said.error is not None
    said = run(sandbox, "i=0; while [ $i -lt 900 ]; do sleep 60 & i=$((i+1)); done; echo all")
    assert "all" not in said.stdout.text.split()


def test_it_is_ended_when_its_time_is_over_and_nothing_of_it_stays(
    sandbox: EmbeddedSandbox,
) -> None:
    engine = connect()
    wanted = {"label": f"{LABEL}={engine.owner.label}"}
    before = {found["Id"] for found in engine.api.containers(all=True, filters=wanted)}
    said = run(sandbox, "echo begun; sleep 600", seconds=1.0)
    assert said.error == "the agent did not end within 1 s and was stopped"
    assert said.stdout.text == "begun\n"
    assert {f["Id"] for f in engine.api.containers(all=True, filters=wanted)} == before


def test_another_thread_can_end_it(sandbox: EmbeddedSandbox) -> None:
    sandbox.reset()
    access = sandbox.access()
    folder = access.folder
    trial = Trial("do it", {}, access.urls, folder, folder / "answer.json", folder / "trace.jsonl")
    endless = agent("sleep 600")
    threading.Timer(1.0, endless.halted.set).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        endless.run(trial, clock)
    assert time.monotonic() - began < 60


def test_an_image_that_is_not_there_is_the_users_to_get() -> None:
    with pytest.raises(UsageError, match="docker pull"):
        ImageAgent("statediff-no-such-image:1")


@pytest.mark.docker("postgres")
def test_it_reaches_a_database_through_its_port(tmp_path: Path) -> None:
    with EmbeddedSandbox(sandbox_pack("shop", "postgres"), tmp_path / "shop") as sandbox:
        access = sandbox.access()
        folder = access.folder
        trial = Trial("x", {}, access.urls, folder, folder / "answer.json", folder / "trace.jsonl")
        query = "SELECT count(*), current_user FROM customers"
        script = f'/usr/lib/postgresql/15/bin/psql -Atc "{query}" "$STATEDIFF_SHOP_DB_URL"'
        said = agent(script, image="postgres").run(trial, clock)
    assert said.stdout.text == "60|agent\n", said.stderr.text
