"""A gate before a git repository: the kit on real pushes, and the hooks as a server has them."""

import contextlib
import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from statediff_gate.conformance import AdapterSuite
from statediff_gate.participant import Answer, Participant, Prepared, Refused
from statediff_gate.records import read_decisions
from statediff_gate.repository import GitGate, process
from statediff_git.source import GitSource

from gate.tests.test_adapters import now
from sandboxes.git.tests.git_repositories import git, repository
from statediff.cli.main import run
from statediff.model.readings import SourceCapture
from statediff.model.state import MemoryChunks, State

HOOK = """#!/bin/sh
cat > {at}/lines
echo "$(basename "$GIT_QUARANTINE_PATH") $PPID" > {at}/said && mv {at}/said {at}/ready
while kill -0 "$(cat {at}/pid)" && [ ! -e {at}/go ]; do sleep 0.02; done 2> /dev/null
exit "$(cat {at}/go)"
"""
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
  - id: branch
    create: git.ref
    where: it.name == "refs/heads/release"
    that: any(t.name == "refs/tags/v2" for t in after.git.ref)
  - {id: its-files, create: git.file, where: it.branch == "release"}
effects:
  - on: create git.ref
    reversibility: irreversible
    authorized_by: it.name != "refs/tags/v3"
"""


class Pushed:
    """A participant whose transaction is a push by git, which waits in a hook of the test's."""

    is_durable, product, counters = False, None, ()

    def __init__(self, place: Path) -> None:
        self.name, self._place, self._work = "origin", place, place.parent / "work"
        while quarantine(place):  # of a push whose gate was killed
            time.sleep(0.05)
        self._gate = GitGate("origin", place, None, place.parent / "kept")
        self._push: subprocess.Popen[bytes] | None = None

    def require_account(self) -> None:
        self._gate.require_account()

    def begin_run(self) -> None:
        self._gate.begin_run()

    def begin(self, transaction: str) -> None:
        self._specs: list[str] = []
        git(self._place.parent, "clone", "-q", str(self._place), str(self._work))

    def run(self, statement: str, values: object = ()) -> Answer:
        words = shlex.split(statement)
        try:
            if words[0] == "push":
                self._specs += words[1:]
            else:
                git(self._work, *words)
        except AssertionError as error:
            raise Refused(str(error)) from error
        return Answer()

    def prepare(self) -> Prepared:
        at = self._work / ".git" / "hook"
        at.mkdir()
        (at / "pid").write_text(str(os.getpid()))
        words = ["git", "-C", str(self._work), "push", "-q", "--atomic", "origin"]
        self._push = subprocess.Popen([*words, *(self._specs or ["main"])])
        while self._push.poll() is None and not (at / "ready").exists():
            time.sleep(0.01)
        incoming, owner, lines = "", process(os.getpid()), ""
        if (at / "ready").exists():
            incoming, _, pid = (at / "ready").read_text().partition(" ")
            owner, lines = process(int(pid)), (at / "lines").read_text()
        kept = self._place.parent / "kept"
        self._gate = GitGate("origin", self._place, None, kept, incoming.encode(), owner)
        for old, new, name in (line.split() for line in lines.splitlines()):
            self._gate.run(f"{name} {old} {new}")
        return self._gate.prepare()

    def world(self, moment: str) -> SourceCapture:
        return self._gate.world(moment)

    def look_again(self) -> Prepared | None:
        return self._gate.look_again()

    def commit(self) -> None:
        self._gate.commit()
        assert self._end(0) == 0

    def abort(self) -> None:
        self._gate.abort()
        self._end(1)

    def _end(self, code: int) -> int:
        ended = 0
        if self._push is not None:
            (self._work / ".git" / "hook" / "go").write_text(str(code))
            ended = self._push.wait(60)
            self._push = None
        subprocess.run(["rm", "-rf", str(self._work)], check=True)
        return ended

    def close(self) -> None:
        self.abort()


def quarantine(place: Path) -> list[str]:
    return [each.name for each in (place / "objects").glob("*objdir*")]


class TestGit(AdapterSuite):
    transactions: ClassVar = {
        "commits": ("switch -q topic", "commit -q --allow-empty -m more", "push topic"),
        "files": ("switch -q topic", "mv README READ", "commit -qm moved", "push topic"),
        "a branch": ("push main~1:refs/heads/new",),
        "a branch less": ("push :new",),
        "a tag": ("tag -am text v9", "push v9"),
        "a tag moves": ("push +main:refs/tags/light",),
        "history anew": ("switch -q topic", "commit -q --amend -m other", "push +topic"),
        "a note": ("notes add -m text main", "push refs/notes/commits"),
        "many": ("push main:refs/heads/a", "push v1:refs/tags/b", "push :light"),
        "nothing": ("status",),
    }
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


# ---------------------------------------------------------------- the hooks


@pytest.fixture
def clone(keys: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A clone of a repository whose pushes are judged; the records are in `records`."""
    monkeypatch.chdir(keys)
    served(keys)
    (keys / "c.yaml").write_text(CONTRACT)
    assert installed() == 0
    yield keys / "clone"
    with contextlib.suppress(FileNotFoundError):
        list(read_decisions(keys / "records"))


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
    code, said = push(clone, "topic:main")
    assert code
    assert "denied: main-stays" in said
    code, said = push(clone, "topic", ":v1")  # nothing of a push holds alone
    assert code
    assert git(clone, "ls-remote", "origin") == before
    assert not quarantine(clone.parent / "served.git")
    assert push(clone, "topic") == (0, "")
    kept = [each["decision"] for each in read_decisions(clone.parent / "records")]
    assert kept == ["deny", "deny", "allow"]


def test_a_push_that_is_held_passes_once_with_an_approval(clone: Path) -> None:
    code, said = push(clone, "main:refs/tags/v3")
    assert code
    assert "held" in said
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
    code, said = push(clone, *specs)
    assert code
    assert "not all that was judged" in said
    assert "release" not in git(clone, "ls-remote", "origin")
    update.unlink()
    code, said = push(clone, *specs[::-1])  # the branch alone would be against the contract
    assert "--atomic" in said
    assert "release" not in git(clone, "ls-remote", "origin")
    assert push(clone, "--atomic", *specs[::-1]) == (0, "")


def test_what_others_push_belongs_to_the_world(clone: Path, monkeypatch) -> None:
    assert installed("--account", "origin=agent") == 0
    commit(clone, "theirs")
    monkeypatch.setenv("REMOTE_USER", "ada")
    assert push(clone, "topic:main") == (0, "")
    monkeypatch.setenv("REMOTE_USER", "agent")
    git(clone, "commit", "-q", "--allow-empty", "-m", "mine")
    assert push(clone, "topic:main")[0]
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
