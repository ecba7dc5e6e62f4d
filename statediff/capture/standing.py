"""Facts about the path of a source, which say who keeps it from being read.

A run that takes the rights from a file, or from a folder above it, has changed the place; a disk
that fails has not. `look_at` notes kind, rights and owners of a path and of every folder above it,
and follows no link. `losses` names what was lost since.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from statediff.model.readings import PathFact, PathFacts
from statediff.model.values import printable
from statediff.total import twice


def look_at(*paths: Path) -> PathFacts:
    """The facts of the paths and of the folders above them, from the top."""
    found = {}
    for path in map(Path.absolute, paths):
        for each in (*reversed(path.parents), path):
            if str(each) not in found:
                found[str(each)] = _fact(each)
    return tuple(found.items())


def look_again(before: PathFacts) -> PathFacts:
    """The facts of the same paths as they are now."""
    return tuple((path, _fact(Path(path))) for path, _ in before)


def _fact(path: Path) -> PathFact:
    try:
        found = twice(lambda: os.lstat(path))
    except (OSError, ValueError):
        return None
    return found.st_mode, found.st_uid, found.st_gid


def losses(before: PathFacts, now: PathFacts) -> tuple[str, ...]:
    """The changes that now keep the paths from being read, in words, from the top."""
    gone: set[str] = set()
    found = []
    for (path, was), (_, fact) in zip(before, now, strict=True):
        lost = None if os.path.dirname(path) in gone else _loss(was, fact)  # noqa: PTH120 - text
        if lost is not None:
            found.append(lost.format(printable(os.path.basename(path) or path)))  # noqa: PTH119 - text
        if fact is None:
            gone.add(path)  # nor is what lies below it
    return tuple(found)


def _loss(was: PathFact, now: PathFact) -> str | None:
    if was is None:
        is_closed = now is not None and not now[0] & stat.S_IRUSR and now[1] == os.geteuid()
        return f"{{}} is there, with the mode {_mode(now)}" if is_closed else None
    if now is None:
        return "{} is not there, or cannot be reached"
    if stat.S_IFMT(was[0]) != stat.S_IFMT(now[0]):
        return "{} is another kind of file"
    if was[0] & ~now[0] & 0o777:
        return f"the mode of {{}} was {_mode(was)} and is {_mode(now)}"
    return "{} has another owner" if was[1:] != now[1:] else None


def _mode(fact: PathFact) -> str:
    return "" if fact is None else f"{stat.S_IMODE(fact[0]):04o}"


def closed_by(path: Path) -> str | None:
    """The path, or folder above it, whose mode keeps its owner, this process, from the path."""
    for name, fact in look_at(path):
        if fact is None or fact[1] != os.geteuid():
            continue
        needed = stat.S_IXUSR if stat.S_ISDIR(fact[0]) else stat.S_IRUSR
        if not fact[0] & needed:
            return f"the mode of {printable(os.path.basename(name))} is {stat.S_IMODE(fact[0]):04o}"  # noqa: PTH119 - text
    return None


def can_be_opened(before: PathFacts) -> bool:
    """True where this process may read the files that were there, or else list the folder."""
    files = [path for path, was in before if was is not None and stat.S_ISREG(was[0])]
    return all(map(_can_be_opened, files or [before[-1][0]]))


def _can_be_opened(path: str) -> bool:
    try:
        os.close(twice(lambda: os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)))
    except (OSError, ValueError):
        return False
    return True


def give_back(before: Iterable[PathFacts]) -> None:
    """Folders of ours have the rights back that they had, from the top, as far as that can be."""
    for facts in before:
        for path, was in facts:
            if was is None or not stat.S_ISDIR(was[0]) or was[1] != os.geteuid():
                continue
            now = _fact(Path(path))
            if now is not None and now[0] != was[0] and stat.S_ISDIR(now[0]):
                with contextlib.suppress(OSError):
                    os.chmod(path, stat.S_IMODE(was[0]))  # noqa: PTH101 - text
