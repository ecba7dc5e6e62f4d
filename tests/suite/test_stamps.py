"""A trial is read again where its file is another one: any change is seen as by a new store."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from statediff.evidence.package import save
from statediff.suite.store import file_url, open_store
from tests.suite.folders import Folders, indexed


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
def test_any_change_is_seen_as_by_a_new_store(
    folders: Folders, tmp_path: Path, change: Callable[[Path, Folders], None]
) -> None:
    folder = folders.run("r", {"notes/close": ["MATCH", "DIVERGE", "MATCH"]}, times=4)
    with open_store(file_url(tmp_path / "one.db")) as store:
        before = indexed(store, folder)
        change(folder, folders)
        after = indexed(store, folder)
    with open_store(file_url(tmp_path / "two.db")) as new:
        assert after == indexed(new, folder) != before
