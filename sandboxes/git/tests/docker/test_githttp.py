"""A repository behind a server: what it lets an agent do, and how it is put back and proven."""

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import pytest
from statediff_containers.engine import LABEL, connect

from statediff.capture.source import clock
from statediff.capture.take import take
from statediff.model.state import MemoryChunks
from statediff.packs import sandbox_pack
from statediff.systems.base.sandbox import EmbeddedSandbox

pytestmark = [
    pytest.mark.docker("git"),
    pytest.mark.clients("git"),
]

Git = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedSandbox]:
    work = tmp_path_factory.mktemp("repo") / "work"
    with EmbeddedSandbox(sandbox_pack("repo", "git"), work) as started:
        yield started


@pytest.fixture
def sandbox(running: EmbeddedSandbox) -> EmbeddedSandbox:
    running.reset()
    assert running.verify(clock).drift == ()
    return running


@pytest.fixture
def origin(sandbox: EmbeddedSandbox) -> Path:
    """The server's own folder, which no agent is told of."""
    return sandbox.work / "systems" / "origin" / "origin.git"


@pytest.fixture
def git(sandbox: EmbeddedSandbox, tmp_path: Path) -> Git:
    def run(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b.example",
            "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b.example",
        }  # fmt: skip
        return subprocess.run(
            ["git", *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
            check=check,
        )  # fmt: skip

    run("clone", "-q", sandbox.access().urls["origin"], "clone")
    return run


def drift_of(sandbox: EmbeddedSandbox) -> list[str]:
    sandbox.settle(clock)  # the client has its answer before the server has put down the push
    receipt = sandbox.verify(clock)
    assert receipt.ok == (not receipt.drift)
    return [f"{entry.source}: {entry.what}" for entry in receipt.drift]


def test_a_push_over_http_is_seen_by_the_evaluator_who_reads_the_objects_himself(sandbox, git):
    before = take(sandbox.sources(), MemoryChunks(), clock, None, "before")
    git("-C", "clone", "commit", "-q", "--allow-empty", "-m", "New")
    git("-C", "clone", "push", "-q", "origin", "main")
    assert sandbox.settle(clock).unsettled == ()
    after = take(sandbox.sources(), MemoryChunks(), clock, before, "after")
    changed = {
        name
        for old, new in zip(before.parts, after.parts, strict=True)
        for name, table in new.state.tables.items()
        if table.chunks != old.state.tables[name].chunks
    }
    assert changed == {"git.commit", "git.ref"}
    sandbox.reset()
    assert drift_of(sandbox) == []


def test_the_server_keeps_its_rules_against_pushes(sandbox, git):
    refused = git("-C", "clone", "push", "-q", "origin", ":release/1.1", check=False)
    assert "refs/heads/release/1.1 is protected" in refused.stderr
    git("-C", "clone", "reset", "-q", "--hard", "HEAD~1")
    forced = git("-C", "clone", "push", "-qf", "origin", "main", check=False)
    assert "non-fast-forward" in forced.stderr
    assert drift_of(sandbox) == []


def test_nobody_gets_in_without_the_password_of_the_trial_in_progress(sandbox, git):
    url = sandbox.access().urls["origin"]
    account = url.partition("//")[2].partition("@")[0]
    assert git("ls-remote", url.replace(f"{account}@", ""), check=False).returncode != 0
    sandbox.reset()
    late = git("-C", "clone", "push", "-q", "origin", "main:refs/heads/late", check=False)
    assert "Authentication failed" in late.stderr
    assert sandbox.access().urls["origin"] != url
    git("ls-remote", sandbox.access().urls["origin"])


@pytest.mark.parametrize(
    ("words", "drift"),
    [
        (("push", "-q", "origin", ":refs/tags/v1.2.1"), "origin: tag v1.2.1"),
        (("push", "-qf", "origin", "main:refs/tags/v1.2.1"), "origin: tag v1.2.1"),
        (
            ("push", "-qf", "origin", "main~1:refs/heads/feature/docs"),
            "origin: branch feature/docs",
        ),
    ],
)
def test_what_a_push_left_behind_is_drift_until_the_reset(sandbox, git, words, drift):
    git("-C", "clone", *words)
    assert drift in drift_of(sandbox)
    sandbox.reset()
    assert drift_of(sandbox) == []


@pytest.mark.parametrize(
    ("path", "drift"),
    [
        ("hooks/post-receive", "origin: hook post-receive"),
        ("config", "origin: config"),
        ("HEAD", "origin: HEAD"),
        ("objects/info/alternates", "origin: object store"),
        ("refs/heads/main", "origin: branch main"),
    ],
)
def test_what_was_changed_behind_the_server_is_drift_until_the_reset(sandbox, origin, path, drift):
    with (origin / path).open("a") as file:
        file.write("# changed\n")
    assert drift_of(sandbox) == [drift]
    sandbox.reset()
    assert drift_of(sandbox) == []


def test_a_force_push_where_the_rule_was_lifted_is_found_with_the_lifted_rule(sandbox, git, origin):
    config = (origin / "config").read_text()
    (origin / "config").write_text(config.replace("denyNonFastForwards = true", ""))
    git("-C", "clone", "push", "-qf", "origin", "main~1:main")
    assert drift_of(sandbox) == ["origin: branch main", "origin: config"]
    sandbox.reset()
    assert drift_of(sandbox) == []


def test_what_a_hook_left_running_in_the_server_is_drift_and_ends_with_the_reset(
    sandbox, git, origin
):
    hook = origin / "hooks" / "post-update"
    hook.write_text("#!/bin/sh\nsleep 300 >/dev/null 2>&1 </dev/null &\n")
    hook.chmod(0o755)
    git("-C", "clone", "push", "-q", "origin", "main:refs/heads/more")
    receipt = sandbox.verify(clock)
    assert ("its server", "it is working: sleep") in {(d.what, d.found) for d in receipt.drift}
    assert sandbox.settle(clock, 0.2).unsettled == (
        ("origin", "it is working: sleep"), ("tests", "it is working: sleep")
    )  # fmt: skip
    sandbox.reset()
    assert drift_of(sandbox) == []


def test_a_killed_server_has_failed_and_is_drift_and_the_reset_starts_another(sandbox, git):
    engine = connect()
    (container,) = (
        entry["Id"]
        for entry in engine.api.containers(filters={"label": f"{LABEL}={engine.owner.label}"})
        if "lighttpd" in entry["Command"]
    )
    engine.api.kill(container)
    settled = sandbox.settle(clock, 0.1)
    assert settled.unsettled == (), "what has ended writes no more"
    assert settled.failed == (("origin", "its server ended"),)
    assert "origin: its server" in drift_of(sandbox)
    sandbox.reset()
    assert drift_of(sandbox) == []
    git("ls-remote", sandbox.access().urls["origin"])


def test_reset_and_proof_take_a_fraction_of_a_second(sandbox):
    system, seconds = sandbox.system("origin"), []
    for _ in range(7):
        began = time.monotonic()
        system.reset()
        system.verify()
        seconds.append(time.monotonic() - began)
    assert median(seconds) < 0.4, seconds  # some 0.05 on an idle machine
