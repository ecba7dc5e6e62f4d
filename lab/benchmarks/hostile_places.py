"""Families of what may be done to a place, and how a place is kept and put back.

A family is a function of a place and a seeded generator. It does one thing, where and how the
generator says, and returns what it did; `NoPlace` where there is nothing to do it to.
"""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

Family = Callable[[Path, random.Random], str]


class NoPlace(Exception):
    """The place has nothing that this could be done to."""


def pick(listed: list[Any], rng: random.Random) -> Any:
    """One of them. Raises `NoPlace`."""
    if not listed:
        raise NoPlace
    return rng.choice(listed)


ASIDE: Final = ("aside", "elsewhere", "copy")
"""Names that families use beside a place."""
_SIDES: Final = ("", "-wal", "-shm", "-journal")


def keep(path: Path, kept: Path) -> None:
    """A copy of what is at the path, for `restore`."""
    kept.mkdir()
    for name in (path.name + side for side in _SIDES):
        if path.with_name(name).exists():
            subprocess.run(["cp", "-a", path.with_name(name), kept / name], check=True)


def restore(path: Path, kept: Path) -> None:
    """The kept files are at the path, and nothing else."""
    for place in (path.with_name(name) for name in (*(path.name + s for s in _SIDES), *ASIDE)):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
    for each in kept.iterdir():
        subprocess.run(["cp", "-a", each, path.with_name(each.name)], check=True)
