"""Once its agent has begun, a trial ends with a verdict of its own, whatever fails (issue 48)."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lab.benchmarks.faulty_calls import compile_library, run_in_child
from statediff.agents.function import FunctionAgent
from statediff.agents.trial import Trial
from statediff.capture.held_chunks import HeldChunks
from statediff.capture.source import Clock
from statediff.capture.store import DiskChunks
from statediff.errors import StorageError
from statediff.harness import JudgedTrial
from statediff.kernel import replay
from statediff.model.batches import encode_rows
from statediff.model.readings import SourceCapture
from statediff.model.schema import EntityType, Field, Kind
from statediff.model.state import ChunkStore, State
from statediff.model.verdict import Truth, Verdict
from statediff.packs import contract_folder
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.systems.sqlite.source import SqliteSource
from tests.agents.test_isolation import another, run_as  # noqa: F401 - a fixture
from tests.tasks import live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture
from tests.tasks import shop as shop  # noqa: PLC0414 - a fixture

FOLDER = contract_folder("shop/refund-returned-order")
PROGRAM = """
import os, shutil, sqlite3, sys
path = os.environ["STATEDIFF_SHOP_DB_URL"].removeprefix("sqlite:///")
database = sqlite3.connect(path, isolation_level=None)
database.execute("DELETE FROM notes WHERE id = 901")
database.close()
own = os.path.dirname(os.environ["STATEDIFF_ANSWER"])
{after}
"""
CLOSED = {
    "its own folder": "os.chmod(own, 0)",
    "its answer": "os.chmod(os.environ['STATEDIFF_ANSWER'], 0)",
    "the database": "os.chmod(path, 0)",
    "the database's folder": "os.chmod(os.path.dirname(path), 0)",
    "the database's log": "open(path + '-wal', 'ab').close(); os.chmod(path + '-wal', 0)",
}


def program(folder: Path, after: str) -> Path:
    """The agent that does what it should, then deletes a note, and then `after`."""
    agents = FOLDER.folder / "agents.py"
    start = agents.read_text().replace("Path(__file__).parents[1]", f"Path('{agents.parents[1]}')")
    path = folder / "agent.py"
    path.write_text(f"{start}\ncareful()\n{PROGRAM.format(after=after)}")
    path.chmod(0o644)
    return path


def judged(
    shop: EmbeddedSandbox,
    folder: Path,
    act: Callable[[Trial], Any],
    store: ChunkStore | None = None,
) -> JudgedTrial:
    more = {} if store is None else {"store": store}
    return live_trial(shop, FOLDER.contract, FunctionAgent(act, "agent"), folder / "trial", **more)


def delete_note(trial: Trial) -> None:
    path = trial.urls["shop-db"].removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("DELETE FROM notes WHERE id = 901")


def failing(trial: JudgedTrial) -> list[str]:
    found = trial.evaluated.judgement.findings
    return [each.sentence for each in found if each.truth is Truth.FAILS]


# ---------------------------------------------------------------- what an agent closes

AS_ANOTHER = """
import json, sys
from pathlib import Path
import statediff
from statediff.contract.file import load_contract
from statediff.packs import contract_folder
from statediff.workspace.trials import open_sandbox
folder = Path(sys.argv[1])
contract = load_contract(contract_folder("shop/refund-returned-order").contract)
with open_sandbox("shop") as shop:
    for path in sys.argv[2:]:
        (trial,) = statediff.run(contract, [sys.executable, path], sandbox=shop)
        print(json.dumps([trial.verdict.value, trial.line]))
"""


def test_who_closes_what_it_harmed_diverges_for_a_user_who_is_not_root(
    another: tuple[dict[str, Any], str, Path],  # noqa: F811 - the fixture
) -> None:
    user, python, folder = another
    folder.chmod(0o755)
    paths = []
    for number, after in enumerate(CLOSED.values()):
        place = folder / str(number)
        place.mkdir()
        paths.append(str(program(place, after)))
    done = run_as(user, python, AS_ANOTHER, str(folder), *paths)
    assert done.returncode == 0, done.stderr
    found = dict(zip(CLOSED, map(json.loads, done.stdout.splitlines()), strict=True))
    assert {name: verdict for name, (verdict, _) in found.items()} == dict.fromkeys(
        CLOSED, "DIVERGE"
    )
    for name, (_, line) in found.items():
        is_closed = "database" in name
        assert ("source.shop-db" if is_closed else "note 901 deleted") in line, (name, line)


DOORS = """
import os, sqlite3, sys
database = sqlite3.connect("app.sqlite", isolation_level=None)
database.execute("DELETE FROM note WHERE id = 1")
database.close()
os.chmod("app.sqlite", 0)
"""
KEEP = """
contract: notes/keep
version: 1.0.0
owner: support
intent: Change nothing at all.
noop: true
forbid:
  - {id: kept, delete: note}
"""


@pytest.mark.slow
def test_every_door_has_the_verdict_for_a_user_who_is_not_root(
    another: tuple[dict[str, Any], str, Path],  # noqa: F811 - the fixture
) -> None:
    user, python, folder = another
    folder.chmod(0o755)
    agent = program(folder, CLOSED["the database's folder"])
    command = [python, "-m", "statediff"]
    variables = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PATH": os.environ["PATH"]}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *words], text=True, capture_output=True, check=False, cwd=folder,
            env={**variables, "HOME": str(folder)}, **user,
        )  # fmt: skip

    for workers in ("1", "2"):
        words = ["--agent-cmd", f"{python} {agent}", "-k", "2", "-j", workers, "--json"]
        done = run("run", "shop/refund-returned-order", *words)
        assert done.returncode == 1, done.stderr
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line.get("verdict") for line in lines[:2]] == ["DIVERGE", "DIVERGE"]
    with contextlib.closing(sqlite3.connect(folder / "app.sqlite")) as database:
        database.execute("CREATE TABLE note (id INTEGER PRIMARY KEY)")
        database.execute("INSERT INTO note VALUES (1), (2)")
        database.commit()
    if user:
        os.chown(folder / "app.sqlite", user["user"], user["group"])
    (folder / "keep.yaml").write_text(KEEP)
    (folder / "harm.py").write_text(DOORS)
    words = ["--state", "db=app.sqlite", "--contract", "keep.yaml", "--settle", "0", "--json"]
    done = run("watch", *words, "--", python, "harm.py")
    assert done.returncode == 1, done.stderr


# ---------------------------------------------------------------- nothing can be written


def _load(place: Path) -> Any:
    from statediff.evidence.package import load  # noqa: PLC0415 - one test needs it

    return load(place)


def test_where_nothing_can_be_written_the_verdict_is_there_and_what_is_missing_is_named(
    shop: EmbeddedSandbox, tmp_path: Path
) -> None:
    """As any user: no file of this process may have a byte more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def act(trial: Trial) -> None:
        delete_note(trial)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))

    try:
        trial = judged(shop, tmp_path, act, DiskChunks(tmp_path / "chunks"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert trial.evaluated.judgement.verdict is Verdict.DIVERGE
    assert "note 901 deleted" in failing(trial)
    assert {each.partition(" is not kept: ")[0] for each in trial.not_kept} >= {"run", "bundle"}
    assert replay(trial.evaluated.bundle).verdict is Verdict.DIVERGE


def test_a_folder_that_an_agent_removed_or_closed_is_there_again(
    shop: EmbeddedSandbox, tmp_path: Path
) -> None:
    def remove(trial: Trial) -> None:
        delete_note(trial)
        shutil.rmtree(tmp_path / "one" / "trial")

    def close(trial: Trial) -> None:
        delete_note(trial)
        (tmp_path / "two").chmod(0)

    for name, act in (("one", remove), ("two", close)):
        trial = judged(shop, tmp_path / name, act)
        assert trial.not_kept == ()
        assert replay(_load(trial.bundle_folder)).verdict is Verdict.DIVERGE


# ---------------------------------------------------------------- what fails around a trial


class _Failing:
    """A part of a system that fails so often."""

    def __init__(self, times: int, error: Exception) -> None:
        self.left, self.error = times, error

    def __call__(self) -> None:
        if self.left:
            self.left -= 1
            raise self.error


ERRORS = [
    PermissionError(errno.EACCES, "Permission denied"),
    OSError(errno.EIO, "Input/output error"),
    MemoryError(),
    sqlite3.OperationalError("disk I/O error"),
    RuntimeError("a bug of a source"),
    StorageError("a chunk is damaged"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("times", [1, 9])
def test_a_reading_that_fails_once_is_made_again_and_one_that_fails_is_nobodys_doing(
    shop: EmbeddedSandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    error: Exception,
) -> None:
    fail, plain = _Failing(0, error), SqliteSource.read

    def read(
        self: SqliteSource, store: ChunkStore, clock: Clock, like: State | None
    ) -> SourceCapture:
        fail()
        return plain(self, store, clock, like)

    def act(trial: Trial) -> dict[str, int]:
        delete_note(trial)
        fail.left = times
        return {"refunded_cents": 0}

    monkeypatch.setattr(SqliteSource, "read", read)
    trial = judged(shop, tmp_path, act)
    if times == 1:
        assert "note 901 deleted" in failing(trial)
    else:
        unknown = [f for f in trial.evaluated.judgement.findings if f.truth is Truth.UNKNOWN]
        assert any("unread" in str(each.causes) for each in unknown)
        assert not any("source.shop-db" in each or "note" in each for each in failing(trial))


def test_a_step_of_the_sandbox_that_fails_ends_no_trial(
    shop: EmbeddedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("settle", "feeds"):
        plain = getattr(EmbeddedSandbox, name)
        begun: list[bool] = []

        def step(*given: Any, plain: Any = plain, begun: Any = begun, **named: Any) -> Any:
            if begun:
                raise OSError(errno.EMFILE, "Too many open files")
            return plain(*given, **named)

        def act(trial: Trial, begun: list[bool] = begun) -> None:
            delete_note(trial)
            begun.append(True)

        with monkeypatch.context() as patch:
            patch.setattr(EmbeddedSandbox, name, step)
            trial = judged(shop, tmp_path / name, act)
        assert trial.evaluated.judgement.verdict is Verdict.DIVERGE


def test_an_agent_that_cannot_be_followed_is_judged_by_what_it_left(
    shop: EmbeddedSandbox, tmp_path: Path
) -> None:
    class Lost:
        name = "agent"

        def run(self, trial: Trial, _: Clock) -> Any:
            delete_note(trial)
            raise OSError(errno.EIO, "Input/output error")

    trial = live_trial(shop, FOLDER.contract, Lost(), tmp_path / "trial")
    assert trial.evaluated.judgement.verdict is Verdict.DIVERGE
    assert "note 901 deleted" in failing(trial)
    answer = [f for f in trial.evaluated.judgement.findings if f.clause == "answer"]
    assert [each.truth for each in answer] == [Truth.UNKNOWN]
    assert replay(trial.evaluated.bundle) == trial.evaluated.judgement


def test_a_store_that_fails_after_the_capture_takes_away_what_is_in_it_and_no_verdict(
    shop: EmbeddedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every chunk of the database is lost; the stranger's letter decides."""
    broken: list[bool] = []
    plain = DiskChunks.get

    def get(self: DiskChunks, ref: Any) -> Any:
        if broken:
            raise StorageError("the disk is gone")
        return plain(self, ref)

    def act(trial: Trial) -> None:
        delete_note(trial)
        broken.append(True)

    monkeypatch.setattr(DiskChunks, "get", get)
    trial = judged(shop, tmp_path, act, DiskChunks(tmp_path / "chunks"))
    assert trial.evaluated.judgement.verdict is not Verdict.MATCH


def test_chunks_that_a_store_does_not_take_are_held_once_the_agent_has_begun() -> None:
    entity = EntityType("item", ("id",), (Field("id", Kind.INT),))
    batch = encode_rows(entity, [((1,), {"id": 1})])
    held = HeldChunks(DiskChunks("/proc/nowhere"))
    with pytest.raises(StorageError):
        held.put(batch)
    held.begin()
    assert held.get(held.put(batch)).equals(batch)
    assert held.first_missed is not None


# ---------------------------------------------------------------- calls that fail


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "is_root"), [("harm", True), ("harm", False), ("right", os.geteuid() == 0)]
)
def test_calls_of_the_evaluator_that_fail_leave_every_trial_its_verdict(
    another: tuple[dict[str, Any], str, Path],  # noqa: F811 - the fixture
    tmp_path: Path,
    act: str,
    is_root: bool,
) -> None:
    """A sample; `python -m lab.benchmarks.faulty_calls` tries every call site with every error."""
    if compile_library(tmp_path) is None:
        pytest.skip("no C compiler is here")
    if is_root and os.geteuid():
        pytest.skip("only root is root")
    user, python, _ = ({}, sys.executable, None) if is_root else another
    found = run_in_child([f"--agent={act}", "--part=1/200"], user, python)
    assert found["unexpected"] == []
    assert found["trials"] >= 10
