"""A gate before a git repository: the kit on real pushes, and the hooks as a server has them."""

import os
import subprocess
from pathlib import Path
from typing import ClassVar

import pytest
from statediff_gate.conformance import AdapterSuite
from statediff_gate.participant import Participant
from statediff_gate.pushes.conformance import HOOK, Pushed, quarantine
from statediff_gate.records import read_decisions
from statediff_git.source import GitSource

from gate.tests.test_adapters import now
from sandboxes.git.tests.git_repositories import git, repository
from statediff.cli.main import run
from statediff.model.state import MemoryChunks, State

CONTRACT = """
contract: gate/push
version: 1.0.0
owner: us
intent: Work on topic, and leave main as it is.
noop: true
forbid: [{id: main-stays, update: git.ref, where: it.name == "refs/heads/main"}]
allow:
  - {id: topic, update: git.ref, where: it.name == "refs/heads/topic", fields: [target, commit]}
  - {id: commits, create: git.commit}
  - {id: files, any: git.file, where: it.branch == "topic"}
  - {id: tag, create: git.ref, where: it.kind == "tag"}
  - {id: branch, create: git.ref, where: it.name == "refs/heads/release",
     that: any(t.name == "refs/tags/v2" for t in after.git.ref)}
  - {id: its-files, create: git.file, where: it.branch == "release"}
effects:
  - on: create git.ref
    reversibility: irreversible
    authorized_by: it.name != "refs/tags/v3"
"""


class TestGit(AdapterSuite):
    transactions: ClassVar = {
        "commits": ("switch -q topic", "commit -q --allow-empty -m more", "push topic"),
        "files": ("switch -q topic", "mv README READ", "commit -qm moved", "push topic"),
        "a branch": ("push main~1:refs/heads/new",), "a branch less": ("push :new",),
        "a tag": ("tag -am text v9", "push v9"), "a tag moves": ("push +main:refs/tags/light",),
        "history anew": ("switch -q topic", "commit -q --amend -m other", "push +topic"),
        "a note": ("notes add -m text main", "push refs/notes/commits"),
        "many": ("push main:refs/heads/a", "push v1:refs/tags/b", "push :light"),
        "nothing": ("status",),
    }  # fmt: skip
    refused: ClassVar = ("branch here", "no-such-command")
    killed: ClassVar = ("switch -q topic", "commit -q --allow-empty -m killed", "push topic")

    def is_written(self, state: State) -> bool:
        return any(row["message"] == "killed\n" for _, row in state.tables["git.commit"].rows())

    def make(self, tmp_path: Path) -> Path:
        made = served(tmp_path)
        (made / "hooks").mkdir(exist_ok=True)
        at = tmp_path / "work" / ".git" / "hook"
        (made / "hooks" / "pre-receive").write_text(HOOK.format(at=at))
        (made / "hooks" / "pre-receive").chmod(0o755)
        return made

    def open(self, place: Path) -> Participant:
        return Pushed(place)

    def look(self, place: Path, like: State | None) -> State:
        incoming = map(os.fsencode, quarantine(place))
        source = GitSource("origin", place, is_bare=True, incoming=b"".join(incoming))
        return source.read(MemoryChunks(), now, like).state


def served(folder: Path) -> Path:
    """A bare repository, and a clone of it in `clone`."""
    repository(folder / "made")
    git(folder, "clone", "-q", "--bare", "made", "served.git")
    git(folder, "clone", "-q", "served.git", "clone")
    return folder / "served.git"


@pytest.fixture
def clone(keys: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone of a repository whose pushes are judged; the records are in `records`."""
    monkeypatch.chdir(keys)
    served(keys)
    (keys / "c.yaml").write_text(CONTRACT)
    assert installed() == 0
    return keys / "clone"


def installed(*more: str) -> int:
    return run([
        "gate", "c.yaml", "--state", "origin=served.git", "--key", "gate.pem", "--trust",
        "trust.json", "--records", "records", "--hook", *more,
    ])  # fmt: skip


def push(clone: Path, *specs: str) -> tuple[int, str]:
    words = ["git", "-C", str(clone), "push", "-q", "origin", *specs]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def commit(clone: Path, text: str) -> None:
    git(clone, "switch", "-q", "topic")
    git(clone, "commit", "-q", "--allow-empty", "-m", text)


def test_a_push_moves_refs_where_its_contract_allows_it_and_nowhere_else(clone: Path) -> None:
    commit(clone, "more")
    before = git(clone, "ls-remote", "origin")
    assert "denied: main-stays" in push(clone, "topic:main")[1]
    assert push(clone, "topic", ":v1")[0]  # nothing of a push holds alone
    assert git(clone, "ls-remote", "origin") == before
    assert not quarantine(clone.parent / "served.git")
    assert push(clone, "topic") == (0, "")
    kept = [each["decision"] for each in read_decisions(clone.parent / "records")]
    assert kept == ["deny", "deny", "allow"]


def test_a_push_that_is_held_passes_once_with_an_approval(clone: Path) -> None:
    assert "held" in push(clone, "main:refs/tags/v3")[1]
    records = clone.parent / "records"
    [hold] = [each.stem for each in (records / "holds").iterdir()]
    signed = str(records / "approvals" / "a.json")
    wanted = ("--key", "ada.pem", "--out", signed, "--records", "records")
    assert run(["approve", hold, *wanted]) == 0
    assert push(clone, "main~1:refs/tags/v3")[0]  # another effect
    assert push(clone, "main:refs/tags/v3") == (0, "")
    assert push(clone, ":refs/tags/v3") == (0, "")
    assert push(clone, "main:refs/tags/v3")[0]  # a second use


def test_what_git_would_do_of_a_push_in_part_was_judged_too(clone: Path) -> None:
    update = clone.parent / "served.git" / "hooks" / "update"
    update.write_text('#!/bin/sh\n[ "$1" != refs/tags/v2 ]\n')
    update.chmod(0o755)
    specs = "main:refs/tags/v2", "main:refs/heads/release"
    assert "not all that was judged" in push(clone, *specs)[1]
    assert "release" not in git(clone, "ls-remote", "origin")
    update.unlink()
    assert "--atomic" in push(clone, *specs[::-1])[1]  # the branch alone is against the contract
    assert "release" not in git(clone, "ls-remote", "origin")
    assert push(clone, "--atomic", *specs[::-1]) == (0, "")


@pytest.mark.slow
def test_what_others_push_belongs_to_the_world(clone: Path, monkeypatch) -> None:
    assert installed("--account", "origin=agent") == 0
    commit(clone, "theirs")
    monkeypatch.setenv("REMOTE_USER", "ada")
    assert push(clone, "topic:main") == (0, "")
    monkeypatch.setenv("REMOTE_USER", "agent")
    git(clone, "commit", "-q", "--allow-empty", "-m", "mine")
    assert push(clone, "topic:main")[0]
    for same in ("", " ", "AGENT", "Agent@EXAMPLE.ORG", "EXAMPLE\\agent"):
        monkeypatch.setenv("REMOTE_USER", same)
        assert "main-stays" in push(clone, "topic:main")[1], same
    assert push(clone, "topic") == (0, "")
    monkeypatch.setenv("REMOTE_USER", "ada")
    git(clone, "commit", "-q", "--allow-empty", "-m", "theirs on it")
    assert push(clone, "topic") == (0, "")
    monkeypatch.setenv("REMOTE_USER", "agent")
    assert "in turns" in push(clone, "main:refs/tags/v2")[1]


def test_hooks_that_are_there_stay_and_a_work_tree_gets_none(keys: Path, monkeypatch) -> None:
    monkeypatch.chdir(keys)
    served(keys)
    (keys / "c.yaml").write_text(CONTRACT)
    (keys / "served.git" / "hooks").mkdir(exist_ok=True)
    (keys / "served.git" / "hooks" / "pre-receive").write_text("#!/bin/sh\n")
    assert installed() == 2
    git(keys, "-C", "served.git", "config", "core.hooksPath", "elsewhere")
    assert installed() == 2
    (keys / "served.git").rename(keys / "other")
    (keys / "made").rename(keys / "served.git")
    assert installed() == 2
