"""Somebody's own repository as the base of a sandbox: what of it is copied, and what stays behind.

Its objects, references, index and work files are copied. Hooks and settings stay behind: they could
start programs, and remotes would let an agent push to the real one. So does what git ignores.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pygit2

from statediff.systems.files.tree import Leaf

_NOT_THEIRS: Final = frozenset({".git", ".statediff"})
_HOLDS: Final = (".git", "run.json")
"""What says of a folder that it is another repository, or a run of ours."""


def open_repository(path: Path) -> pygit2.Repository:
    """The repository at the path itself, not one around it. Raises `pygit2.GitError`."""
    return pygit2.Repository(str(path), pygit2.enums.RepositoryOpenFlag.NO_SEARCH)


def head_line(repository: pygit2.Repository) -> bytes:
    """What its `HEAD` holds: a branch, which need not exist, or a commit."""
    target = repository.lookup_reference("HEAD").target
    return f"ref: {target}\n".encode() if isinstance(target, str) else f"{target}\n".encode()


def work_files(repository: pygit2.Repository, work: Path) -> Iterator[tuple[str, Leaf]]:
    """Path → what is there, of every file and link of the work tree that git does not ignore."""
    tracked = {entry.path for entry in repository.index}
    for folder, names, files in os.walk(work):
        at = Path(folder)
        for name in list(names):
            path = (at / name).relative_to(work).as_posix()
            if (at / name).is_symlink():
                files.append(name)
            is_other = name in _NOT_THEIRS or any((at / name / n).exists() for n in _HOLDS)
            if is_other or _is_ignored(repository, f"{path}/", tracked):
                names.remove(name)
        for name in files:
            path = (at / name).relative_to(work).as_posix()
            if name == ".git" or (path not in tracked and repository.path_is_ignored(path)):
                continue
            status = (at / name).lstat()
            if stat.S_ISLNK(status.st_mode):
                yield path, Leaf.of(os.fsencode((at / name).readlink()), is_link=True)
            elif stat.S_ISREG(status.st_mode):
                is_executable = bool(status.st_mode & stat.S_IXUSR)
                yield path, Leaf.of((at / name).read_bytes(), is_executable)


def _is_ignored(repository: pygit2.Repository, folder: str, tracked: set[str]) -> bool:
    return repository.path_is_ignored(folder) and not any(p.startswith(folder) for p in tracked)


def pack_files(repository: pygit2.Repository) -> dict[str, Leaf]:
    """All objects as one pack with its index: two files instead of hundreds at every reset."""
    with tempfile.TemporaryDirectory() as made:
        repository.pack(made, n_threads=1)
        return {f"objects/pack/{p.name}": Leaf.of(p.read_bytes()) for p in Path(made).iterdir()}
