"""A gate before a folder and a checkout: the kit on copies, and runs of a program on one."""

import re
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from statediff_gate import folders
from statediff_gate.conformance import AdapterSuite
from statediff_gate.course import Prepared
from statediff_gate.participant import Answer, Participant, Refused
from statediff_gate.records import read_decisions

from gate.tests.conftest import approve_and_commit
from statediff.cli.main import run
from statediff.evidence.package import load
from statediff.model.state import State

PERSON = ("-c", "user.name=Ada", "-c", "user.email=ada@x.org")
CONTRACT = """
contract: gate/notes
version: 1.0.0
owner: us
intent: Write b.txt; c.txt where a person says so.
require: [{id: written, create: file, where: it.path == "b.txt"}]
allow:
  - {id: top, update: file, where: it.path == "."}
  - {id: another, create: file, where: it.path == "c.txt", count: {min: 0, max: 1}}
effects:
  - on: create file
    reversibility: irreversible
    authorized_by: it.path == "b.txt"
"""


def shell(folder: Path, text: str) -> None:
    done = subprocess.run(["sh", "-ec", text], cwd=folder, check=False, capture_output=True)
    if done.returncode:
        raise Refused(done.stderr.decode())


class Copied(folders.FolderGate):
    """The adapter, whose statements are a shell's in a copy."""

    def begin(self, transaction: str) -> None:
        super().begin(transaction)
        self._copy, self._held = folders.copied(self._path, self._path)

    def run(self, statement: str, values: object = ()) -> Answer:
        shell(self._copy, statement)
        return Answer()

    def prepare(self) -> Prepared:
        super().run(f"adopt {self._root} {self._copy}")
        return super().prepare()

    def abort(self) -> None:
        super().abort()
        if hasattr(self, "_copy"):
            folders.drop(self._copy, self._held)
            del self._copy

    close = abort


class FolderSuite(AdapterSuite):
    refused: ClassVar = ("echo 1 > a.txt", "no-such-program")
    killed: ClassVar = ("echo 71 > a.txt",)

    def open(self, place: Path) -> Participant:
        return Copied("out", place)

    def look(self, place: Path, like: State | None) -> State:
        is_checkout = (place / ".git").is_dir()
        return folders.read("out", place, None, is_checkout=is_checkout).state

    def make(self, tmp_path: Path) -> Path:
        place = tmp_path / "out"
        place.mkdir()
        shell(place, "echo one > a.txt; mkdir -p sub/deep; echo x > sub/deep/x; ln -s a.txt l")
        return place


class TestFolder(FolderSuite):
    transactions: ClassVar = {
        "a file": ("echo two > b.txt",), "its content": ("echo 2 >> a.txt", "echo 3 >> a.txt"),
        "its mode": ("chmod 700 a.txt",), "a link": ("ln -sf sub l",), "two names": ("ln a.txt h",),
        "moved": ("mv sub other",), "a kind": ("rm l; mkdir l",), "gone": ("rm -rf sub other",),
        "made and gone": ("touch z; rm z",), "nothing": ("true",),
    }  # fmt: skip

    def is_written(self, state: State) -> bool:
        return bool(dict(state.tables["file"].rows())["a.txt",]["text"] == "71\n")


class TestCheckout(FolderSuite):
    transactions: ClassVar = {
        "a file": ("echo two > b.txt",), "staged": ("touch b.txt; git add b.txt",),
        "committed": (f"git {' '.join(PERSON)} commit -qam two --allow-empty",),
        "a branch": ("git checkout -qb side", "echo 3 > a.txt"), "a setting": ("git config a.b c",),
        "a hook": ("mkdir -p .git/hooks; echo x > .git/hooks/pre-commit",), "nothing": ("true",),
    }  # fmt: skip

    def make(self, tmp_path: Path) -> Path:
        place = super().make(tmp_path)
        shell(place, f"git init -qb main; git add .; git {' '.join(PERSON)} commit -qm one")
        return place

    def is_written(self, state: State) -> bool:
        tables = state.tables.values()
        return any("71\n" in row.values() for table in tables for _, row in table.rows())


@pytest.fixture
def gated(keys: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    monkeypatch.chdir(keys)
    (keys / "contract.yaml").write_text(CONTRACT)
    (keys / "out").mkdir()
    (keys / "out" / "a.txt").write_text("one\n")

    def called(text: str) -> int:
        script = f'cd "${{STATEDIFF_FILES_URL#file://}}"\n{text}\n'
        return run(["gate", "contract.yaml", "--state", "files=out", "--key", "gate.pem",
                    "--", "sh", "-ec", script])  # fmt: skip

    return called


def copies(folder: Path) -> list[Path]:
    return sorted(folder.glob(".out.*"))


def test_a_right_run_takes_the_place_and_a_wrong_one_leaves_all(gated, keys: Path) -> None:
    before = (keys / "out").stat().st_ino
    assert gated("rm a.txt; echo hi > b.txt") == 1
    assert (keys / "out").stat().st_ino == before
    assert gated("echo hi > b.txt") == 0
    assert sorted(each.name for each in (keys / "out").iterdir()) == ["a.txt", "b.txt"]
    assert copies(keys) == []


def test_work_that_a_run_leaves_behind_does_not_come_along(gated, keys: Path) -> None:
    assert gated("echo hi > b.txt\n(sleep 3; echo later > a.txt) > /dev/null 2>&1 &") == 0
    left = [each.read_text() for each in (keys / "out" / "a.txt",)]
    threading.Event().wait(4)
    assert [(keys / "out" / "a.txt").read_text()] == left == ["one\n"]


@pytest.mark.parametrize("text", ["touch .", "ln -s / .", ":"])
def test_a_copy_that_its_run_destroyed_is_the_runs_change(gated, keys: Path, text: str) -> None:
    before = (keys / "out").stat().st_ino
    at = '"$PWD"'
    assert gated(f"echo hi > b.txt; rm -rf {at}; {text.replace('.', at, 1)}") == 1
    assert (keys / "out").stat().st_ino == before
    [line] = read_decisions(keys / ".statediff" / "gate")
    assert (line["decision"], "source.files" in line["why"]) == ("deny", True)
    assert load(keys / ".statediff" / "gate" / "decisions" / line["name"]).manifest["verdict"]
    assert copies(keys) == []


def test_a_hold_is_committed_where_the_folder_is_as_it_was(gated, keys: Path, capsys: Any) -> None:
    for others in (True, False):
        assert gated("echo hi > b.txt; echo hi > c.txt") == 3
        [name] = re.findall(r"HOLD .* (\S+)\n", capsys.readouterr().out)
        if others:
            (keys / "out" / "mine.txt").write_text("mine")
        code = approve_and_commit(name, "files=out", "contract.yaml", ".statediff/gate")
        assert code == (1 if others else 0)
        assert (keys / "out" / "c.txt").exists() != others
    assert len(copies(keys)) == 1  # that of the hold to which others wrote


@pytest.mark.parametrize(("make", "said"), [
    ("ln -s /tmp linked", "a link"),
    ("mkdir linked; echo gitdir: x > linked/.git", "lies elsewhere"),
])  # fmt: skip
@pytest.mark.usefixtures("gated")
def test_what_cannot_be_exchanged_is_refused(
    keys: Path, capsys: pytest.CaptureFixture[str], make: str, said: str
) -> None:
    shell(keys, make)
    assert run(["gate", "contract.yaml", "--state", "files=linked", "--key", "gate.pem",
                "--", "true"]) == 2  # fmt: skip
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("place", ["{0}/out", "{0}/.out.statediff-run-x/../out", "/etc", ""])
def test_nothing_but_a_copy_takes_the_place(keys: Path, place: str) -> None:
    (keys / "out").mkdir()
    gate = folders.FolderGate("files", keys / "out")
    gate.begin("one")
    with pytest.raises(Refused, match="a copy of it alone"):
        gate.run(f"adopt {gate._root} {place.format(keys)}")
    gate.close()
