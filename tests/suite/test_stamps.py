"""Runs that another process looks at: it can confirm what the store knows, nothing else."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from statediff.evidence.package import save
from statediff.suite import file_stamps as stamps
from statediff.suite import indexing
from statediff.suite.indexing import index_run
from statediff.suite.records import Ended, Trial
from statediff.suite.store import Store, file_url, open_store
from statediff.workspace.runfolders import run_facts
from statediff.workspace.stores import look
from tests.suite.folders import Folders

ENDS = ["MATCH", "DIVERGE", "MATCH"]


@pytest.fixture(autouse=True)
def any_number_is_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stamps, "MANY_LINKS", 0)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)


def indexed(store: Store, folder: Path, ahead: stamps.AheadLook | None = None) -> dict[str, Trial]:
    run = index_run(store, folder, run_facts(folder), look, ahead)
    return {trial.name: trial for trial in store.trials(run.id, with_findings=True)}


def refuse(*given: object) -> None:
    raise AssertionError(f"looked again: {given}")


def test_what_is_confirmed_is_not_looked_at_again(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = folders.run("one", {"notes/close": ENDS})
    two = folders.run("two", {"notes/close": ENDS[:2], "notes/other": ENDS})
    with open_store(file_url(tmp_path / "s.db")) as store:
        first = [indexed(store, folder) for folder in (one, two)]
        monkeypatch.setattr(indexing, "_changed_names", refuse)
        with stamps.look_ahead((two, one)) as ahead:
            assert [indexed(store, folder, ahead) for folder in (one, two)] == first


def touched(folder: Path, _: Folders) -> None:
    os.utime(folder / "trials" / "notes-close-1" / "bundle" / "manifest.json", ns=(1, 1))


def of_another_length(folder: Path, _: Folders) -> None:
    manifest = folder / "trials" / "notes-close-1" / "bundle" / "manifest.json"
    manifest.write_text(manifest.read_text() + " ")


def replaced_at_the_same_time(folder: Path, _: Folders) -> None:
    manifest = folder / "trials" / "notes-close-1" / "bundle" / "manifest.json"
    other = manifest.with_name("other")
    other.write_bytes(manifest.read_bytes().replace(b"MATCH", b"match"))
    was = manifest.stat()
    os.utime(other, ns=(was.st_atime_ns, was.st_mtime_ns))
    other.rename(manifest)


def gone(folder: Path, _: Folders) -> None:
    (folder / "trials" / "notes-close-2").rename(folder / "aside")


def without_a_bundle(folder: Path, _: Folders) -> None:
    (folder / "trials" / "notes-close-2" / "bundle").rename(folder / "aside")


def exchanged(folder: Path, _: Folders) -> None:
    trials = folder / "trials"
    (trials / "notes-close-1").rename(trials / "aside")
    (trials / "notes-close-2").rename(trials / "notes-close-1")
    (trials / "aside").rename(trials / "notes-close-2")


def one_more(folder: Path, folders: Folders) -> None:
    folders.end(folder, "notes/close", 4, "DIVERGE")


def one_that_nobody_scheduled(folder: Path, folders: Folders) -> None:
    save(folders.bundle("notes/close", "MATCH"), folder / "trials" / "stranger" / "bundle")


def no_folder(folder: Path, _: Folders) -> None:
    (folder / "trials").rename(folder / "aside")


CHANGES = [
    touched, of_another_length, replaced_at_the_same_time, gone, without_a_bundle, exchanged,
    one_more, one_that_nobody_scheduled, no_folder,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_any_change_is_seen_as_if_nobody_had_looked_ahead(
    folders: Folders, tmp_path: Path, change: Callable[[Path, Folders], None]
) -> None:
    folder = folders.run("r", {"notes/close": ENDS}, times=4)
    with (
        open_store(file_url(tmp_path / "one.db")) as store,
        open_store(file_url(tmp_path / "two.db")) as beside,
    ):
        before = indexed(store, folder)
        assert indexed(beside, folder) == before
        change(folder, folders)
        with stamps.look_ahead((folder,)) as ahead:
            after = indexed(store, folder, ahead)
        assert after == indexed(beside, folder) != before


def test_what_ended_and_was_indexed_since_is_not_forgotten(
    folders: Folders, tmp_path: Path
) -> None:
    folder = folders.run("r", {"notes/close": ENDS}, times=4)
    with open_store(file_url(tmp_path / "s.db")) as store:
        indexed(store, folder)
        with stamps.look_ahead((folder,)) as ahead:
            assert ahead._process is not None
            ahead._process.wait()
            folders.end(folder, "notes/close", 4, "DIVERGE")
            indexed(store, folder)
            assert indexed(store, folder, ahead)["notes-close-4"].ended is Ended.DIVERGE


def killed(ahead: stamps.AheadLook) -> None:
    assert ahead._process is not None
    ahead._process.kill()


@pytest.mark.parametrize("program", [None, "/nowhere/python", "/bin/false"])
def test_without_an_answer_everybody_looks_for_himself(
    folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None
) -> None:
    folder = folders.run("r", {"notes/close": ENDS})
    if program is not None:
        monkeypatch.setattr(sys, "executable", program)
    with open_store(file_url(tmp_path / "s.db")) as store:
        first = indexed(store, folder)
        with stamps.look_ahead((folder, tmp_path / "none")) as ahead:
            if program is None:
                killed(ahead)
            assert indexed(store, folder, ahead) == first


def test_few_trials_and_one_core_are_looked_at_without_a_process(
    folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folders.run("r", {"notes/close": ENDS})
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    with stamps.look_ahead((folder,)) as ahead:
        assert ahead._process is None
    monkeypatch.undo()
    with stamps.look_ahead((folder, "s3://bucket/run", "a\0b")) as ahead:
        assert ahead._process is None
