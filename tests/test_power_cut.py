"""A power cut at any moment leaves what was there before, or what is there now, and no part.

What a disk holds is followed beside the evaluator: the content of a file once the file was synced,
the names in a folder once the folder was. Before each call that changes or syncs something the
power is cut twice: once nothing is left that was not synced, and once all names are left and no
unsynced content is. What is found there is what the next process would find. What SQLite itself
writes (the store) is its own to prove: it is told to sync each commit.
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from statediff_lab.labels import keep_signed

from statediff.agents.function import FunctionAgent
from statediff.agents.trial import Trial
from statediff.atomic import write_atomically
from statediff.errors import BundleError
from statediff.evidence.package import load
from statediff.packs import contract_folder
from statediff.suite.records import attempt_folder, keep_attempt, set_aside
from statediff.systems.base.sandbox import EmbeddedSandbox
from statediff.workspace.folders import keep_bundle
from tests.tasks import live_trial
from tests.tasks import running as running  # noqa: PLC0414 - a fixture
from tests.tasks import shop as shop  # noqa: PLC0414 - a fixture

CONTRACT = contract_folder("shop/refund-returned-order").contract
_CALLS = ("fsync", "replace", "rename", "link", "unlink", "rmdir", "mkdir")


@dataclass
class Disk:
    """Knows what of the folder `top` has been synced, and what each power cut leaves."""

    top: Path
    into: Path
    look: Callable[[Path], object]
    content: dict[int, bytes] = field(default_factory=dict)
    names: dict[int, dict[str, int]] = field(default_factory=dict)
    found: list[object] = field(default_factory=list)
    _lock: Any = field(default_factory=threading.RLock)
    _is_looking: bool = False

    def sync(self, descriptor: int) -> None:
        """Put the file or folder of the descriptor on the disk."""
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        number = os.fstat(descriptor).st_ino
        with self._lock:
            if place.is_dir():
                self.names[number] = {e.name: e.inode() for e in os.scandir(place)}
            elif place.is_file():
                self.content[number] = place.read_bytes()

    def keep_all(self) -> None:
        """All that is there is on the disk."""
        for folder, _, files in os.walk(self.top):
            place = Path(folder)
            self.names[place.stat().st_ino] = {e.name: e.inode() for e in os.scandir(place)}
            for name in files:
                path = place / name
                if path.is_file() and not path.is_symlink():
                    self.content[path.stat().st_ino] = path.read_bytes()

    def cut(self) -> None:
        """The power is cut now, both ways."""
        with self._lock:
            if self._is_looking:
                return
            self._is_looking = True
            try:
                for number, has_names in enumerate((False, True)):
                    place = self.into / f"{len(self.found)}-{number}"
                    self._restore(place, has_names)
                    self.found.append(self.look(place))
                    shutil.rmtree(place)
            finally:
                self._is_looking = False

    def _restore(self, place: Path, has_names: bool) -> None:
        kinds: dict[int, Path] = {self.top.stat().st_ino: self.top}
        now: dict[int, dict[str, int]] = {}
        for folder, folders, files in os.walk(self.top):
            at = Path(folder)
            now[at.stat().st_ino] = {e.name: e.inode() for e in os.scandir(at)}
            for name in (*folders, *files):
                kinds[(at / name).lstat().st_ino] = at / name

        def make(number: int, to: Path) -> None:
            names = now.get(number, {}) if has_names else self.names.get(number, {})
            if number in now or number in self.names:
                to.mkdir()
                for name, below in names.items():
                    make(below, to / name)
            else:
                to.write_bytes(self.content.get(number, b""))

        make(self.top.stat().st_ino, place)


@contextmanager
def followed(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every call that changes or syncs something is followed; the power is cut before each."""
    disk.keep_all()
    with monkeypatch.context() as patch:
        for name in _CALLS:
            plain = getattr(os, name)

            def call(*given: Any, plain: Any = plain, name: str = name, **named: Any) -> Any:
                disk.cut()
                if name == "unlink" and not named:
                    with suppress(OSError):
                        if (gone := os.lstat(given[0])).st_nlink == 1:
                            disk.content.pop(gone.st_ino, None)
                result = plain(*given, **named)
                if name == "fsync":
                    disk.sync(given[0])
                return result

            patch.setattr(os, name, call)
        opened, stream = os.open, io.open

        def create(path: Any, flags: int, *more: Any, **named: Any) -> int:
            descriptor = opened(path, flags, *more, **named)
            if flags & (os.O_CREAT | os.O_TRUNC):
                disk.content.pop(os.fstat(descriptor).st_ino, None)
                disk.cut()
            return descriptor

        def begin(file: Any, mode: str = "r", *more: Any, **named: Any) -> Any:
            made = stream(file, mode, *more, **named)
            if "w" in mode or "x" in mode:
                disk.content.pop(os.fstat(made.fileno()).st_ino, None)
                disk.cut()
            return made

        patch.setattr(os, "open", create)
        patch.setattr(io, "open", begin)
        yield
    disk.cut()


def bundle_at(place: Path) -> str | None:
    """The verdict of the bundle there; `torn` of what is none, None where nothing claims to be."""
    if not place.is_dir():
        return None
    try:
        return str(load(place).manifest["verdict"])
    except BundleError:
        return "torn"


def made(shop: EmbeddedSandbox, folder: Path) -> Any:
    def agent(_: Trial) -> object:
        return {}

    return live_trial(shop, CONTRACT, FunctionAgent(agent, "a"), folder)


def ends(disk: Disk) -> list[object]:
    """The states that were found, each once, in their order."""
    return [key for key, _ in itertools.groupby(disk.found)]


def test_a_trial_counts_whole_or_not_at_all(
    shop: EmbeddedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    disk = Disk(run, tmp_path, lambda place: bundle_at(place / "trials" / "t" / "bundle"))
    with followed(disk, monkeypatch):
        folder = attempt_folder(run, "t")
        verdict = made(shop, folder).evaluated.judgement.verdict.value
        assert keep_attempt(folder, run, "t")
    assert set(disk.found) == {None, verdict}
    assert disk.found[-2:] == [verdict, verdict]  # once it counts, no power cut takes it
    assert len(disk.found) > 40

    disk.found.clear()
    with followed(disk, monkeypatch):
        assert set_aside(run, "t") == 1
        folder = attempt_folder(run, "t")
        made(shop, folder)
        assert keep_attempt(folder, run, "t")
    assert set(disk.found) == {verdict, None}
    assert disk.found[-2:] == [verdict, verdict]


def test_a_bundle_that_is_asked_for_is_there_whole_or_not_at_all(
    shop: EmbeddedSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = made(shop, tmp_path / "t").evaluated.bundle
    top = tmp_path / "top"
    top.mkdir()
    disk = Disk(top, tmp_path, lambda place: bundle_at(place / "out"))
    with followed(disk, monkeypatch):
        keep_bundle(bundle, top / "out")
    verdict = bundle.manifest["verdict"]
    assert set(disk.found) == {None, verdict}
    assert disk.found[-2:] == [verdict, verdict]


def test_a_label_is_there_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = tmp_path / "trial"
    trial.mkdir()

    def look(place: Path) -> frozenset[bytes]:
        return frozenset(path.read_bytes() for path in place.glob("labels/*.json"))

    disk = Disk(trial, tmp_path, look)
    with followed(disk, monkeypatch):
        keep_signed(trial, b"one")
        keep_signed(trial, b"two")
    one, both = frozenset({b"one\n"}), frozenset({b"one\n", b"two\n"})
    assert set(disk.found) == {frozenset(), one, both}
    assert disk.found[-2:] == [both, both]


def test_without_a_sync_the_same_cuts_find_a_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk that is followed is one that forgets: what is not synced may be empty or gone."""
    top = tmp_path / "top"
    top.mkdir()
    (top / "file").write_bytes(b"old")
    disk = Disk(top, tmp_path, lambda place: (place / "file").read_bytes())
    with followed(disk, monkeypatch):
        write_atomically(top / "file", b"new")
    assert b"" in disk.found
    disk = Disk(top, tmp_path, lambda place: (place / "file").read_bytes())
    with followed(disk, monkeypatch):
        write_atomically(top / "file", b"newer", durable=True)
    assert set(disk.found) == {b"new", b"newer"}
    assert disk.found[-2:] == [b"newer", b"newer"]
