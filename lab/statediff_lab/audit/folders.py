"""The state of a seeded run as a folder: each change is made as a program would make it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from statediff.model.values import ABSENT, Observed, printable
from statediff_lab.importers.recorded import SeededChange

_ROOT: Final = "."
_WRITTEN: Final = frozenset({"path", "kind", "mode", "size", "digest", "text", "target"})
"""Fields of an entry that a program writes, or that follow from what it writes."""
_ELSEWHERE: Final = 1_000_000_000
"""Seconds after the epoch: a time at which nothing of the state was written."""


class Unwritable(Exception):
    """The change cannot be made in a state: nobody could have made it there, or not like that."""


class Refused(Unwritable):
    """The system itself refuses the statement."""


def write_entries(root: Path, changes: Sequence[SeededChange]) -> None:
    """The folder holds the changes of its entries. Raises `Unwritable`."""
    gone = [change for change in changes if change.after is None]
    if len(gone) > 1:  # with all that is in it, the folder itself stays
        gone = [change for change in gone if change.key != (_ROOT,)]
    try:
        for change in sorted(gone, key=lambda each: str(each.key), reverse=True):
            _remove(root, change)
        for change in changes:
            if change.after is not None:
                _write(root, change)
    except OSError as error:
        raise Refused(f"the file system refuses it: {error.strerror}") from error


def write_again(root: Path) -> None:
    """Every entry was written at another time."""
    for path in sorted(root.rglob("*")):
        os.utime(path, (_ELSEWHERE, _ELSEWHERE), follow_symlinks=False)


def remove_entries(root: Path, *, from_middle: bool = False) -> None:
    """The folder is empty, or without the second half of its entries, by name."""
    entries = sorted(root.iterdir())
    for path in entries[len(entries) // 2 if from_middle else 0 :]:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _place(root: Path, change: SeededChange) -> Path:
    """The place of the entry; never outside the folder."""
    [name] = change.key
    parts = PurePosixPath(name).parts if isinstance(name, str) else ()
    if name == _ROOT and change.before is not None and change.after is not None:
        return root
    if not parts or name == _ROOT or ".." in parts or parts[0] == "/":
        raise Unwritable(f"{printable(str(name))} is no entry that a run could write")
    place = root.joinpath(*parts)
    if not place.parent.resolve().is_relative_to(root.resolve()):
        raise Unwritable(f"{printable(str(name))} leads out of the folder")
    return place


def _remove(root: Path, change: SeededChange) -> None:
    place = _place(root, change)
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink()


def _write(root: Path, change: SeededChange) -> None:
    place, old, new = _place(root, change), change.before, change.after or {}
    moved = {name for name, value in new.items() if old is None or value != old.get(name)}
    if old is None:
        _create(place, new)
    elif moved - _WRITTEN or "kind" in moved:
        raise Unwritable(f"a run does not write {', '.join(sorted(moved - _WRITTEN)) or 'kind'}")
    elif "target" in moved:
        place.unlink()
        place.symlink_to(str(new["target"]))
    elif "text" in moved:
        place.write_text(_text(new), encoding="utf-8", newline="")
    elif moved & {"digest", "size"}:
        with place.open("ab") as file:  # other content, whatever it is
            file.write(b"\x00")
    mode = new.get("mode", ABSENT)
    if "mode" in moved and isinstance(mode, str) and not place.is_symlink():
        if {*mode} - {*"01234567"}:
            raise Unwritable(f"there is no mode {printable(mode)}")
        place.chmod(int(mode, 8))


def _create(place: Path, new: Mapping[str, Observed]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    match new.get("kind"):
        case "directory":
            place.mkdir()
        case "link":
            place.symlink_to(str(new["target"]))
        case "file":
            with place.open("x", encoding="utf-8", newline="") as file:
                file.write(_text(new))
        case kind:
            raise Unwritable(f"a run makes no {printable(str(kind))}")


def _text(row: Mapping[str, Observed]) -> str:
    text = row.get("text")
    if not isinstance(text, str):
        raise Unwritable("what is in the file is not known as text")
    return text
