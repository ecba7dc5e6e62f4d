"""Somebody's own repository as the base of a sandbox: what of it is copied, and what stays behind.

Its index and work files are copied, the commit that `HEAD` names, what leads to it, and the
references to these. Later work stays behind, where the answer to a task may lie: other branches,
later tags, what remotes had, the stash, reflogs, and objects that nothing leads to; `keep` names
references that are copied all the same. Hooks and settings stay behind too: they could start
programs, and remotes would let an agent push to the real one. So does what git ignores.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

import pygit2

from statediff.contract.document.sandboxfile import ALL, Keep
from statediff.systems.files.leaves import Leaf
from statediff_git.testruns.process import BranchFiles, HeldFile

_SHOWN: Final = 5
_NOT_THEIRS: Final = frozenset({".git", ".statediff"})
_HOLDS: Final = (".git", "run.json")
"""What says of a folder that it is another repository, or a run of ours."""


def open_repository(path: Path) -> pygit2.Repository:
    """The repository at the path itself, not one around it. Raises `pygit2.GitError`."""
    return pygit2.Repository(str(path), pygit2.enums.RepositoryOpenFlag.NO_SEARCH)


def head_line(repository: pygit2.Repository) -> bytes:
    """The line that its `HEAD` holds: a branch, which need not exist, or a commit."""
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


@dataclass(frozen=True)
class Cut:
    """The references and objects of a repository that are copied."""

    refs: Mapping[str, str]
    """Reference → the id that it leads to."""
    objects: frozenset[pygit2.Oid]
    later: str
    """Which references lead to work that `HEAD` does not have, in words; empty where none do."""


def cut(repository: pygit2.Repository, keep: Keep) -> Cut:
    """Cut a repository to what leads to `HEAD`, and to the references that are kept.

    `LookupError` where a name means no reference, or `HEAD` is on a branch without a commit while
    there are others.
    """
    references = repository.references
    every = {name: pygit2.Oid(hex=str(references[name].resolve().target)) for name in references}
    named = set(every) if keep == ALL else {ref for name in keep for ref in _named(name, every)}
    head = None if repository.head_is_unborn else repository.head.peel(pygit2.Commit).id
    if head is None and every and not named:
        raise LookupError("HEAD is on a branch without a commit: name under `keep` what is copied")
    base = _leading_to(repository, [] if head is None else [head])
    later = {name for name in named if _peel(repository, every[name]) not in base}
    whole = base | _leading_to(repository, [every[name] for name in sorted(later)])
    refs = {
        name: str(target)
        for name, target in every.items()
        if name in named or _peel(repository, target) in whole
    }
    # What is staged may be in no commit yet.
    staged = [entry.id for entry in repository.index] if repository.workdir else []
    tips = [*(repository[target].id for target in refs.values()), *staged]
    return Cut(
        refs,
        whole | _leading_to(repository, tips),
        _later_references(repository, later, whole - base),
    )


def _named(name: str, refs: Mapping[str, pygit2.Oid]) -> list[str]:
    """The references that a name of `keep` means: a whole one, or one of a branch or tag."""
    ways = [name, *(f"refs/{kind}/{name}" for kind in ("heads", "tags", "remotes"))]
    found = [ref for ref in refs if any(fnmatchcase(ref, way) for way in ways)]
    if not found:
        raise LookupError(f"`keep` names {name!r}, which is no branch, tag or reference there")
    return found


def _peel(repository: pygit2.Repository, oid: pygit2.Oid) -> pygit2.Oid:
    """The id of what a tag, or a tag of a tag, is about; of anything else its own."""
    found = repository[oid]
    while isinstance(found, pygit2.Tag):
        found = repository[found.target]
    return found.id


def _leading_to(repository: pygit2.Repository, tips: Iterable[pygit2.Oid]) -> frozenset[pygit2.Oid]:
    """The objects that the tips lead to, as far as they are there: a clone may be shallow."""
    seen, left = set[pygit2.Oid](), list(tips)
    while left:
        oid = left.pop()
        if oid in seen or oid not in repository:
            continue
        seen.add(oid)
        found: Any = repository[oid]
        if isinstance(found, pygit2.Commit):
            left += [found.tree_id, *found.parent_ids]
        elif isinstance(found, pygit2.Tag):
            left.append(pygit2.Oid(hex=str(found.target)))
        elif isinstance(found, pygit2.Tree):
            left += [e.id for e in found if e.filemode != pygit2.enums.FileMode.COMMIT]
    return frozenset(seen)


def _later_references(
    repository: pygit2.Repository, later: Collection[str], more: Collection[pygit2.Oid]
) -> str:
    """The references that lead to later work; `more` are the objects that `HEAD` does not have."""
    if not later:
        return ""
    commits = sum(isinstance(repository[oid], pygit2.Commit) for oid in more)
    shown = ", ".join(sorted(later)[:_SHOWN])
    others = f" and {len(later) - _SHOWN} more" if len(later) > _SHOWN else ""
    verb = "leads" if len(later) == 1 else "lead"
    return f"later work can be read: {shown}{others} {verb} to {commits} commits that HEAD lacks"


def shallow_line(repository: pygit2.Repository, kept: Collection[pygit2.Oid]) -> bytes:
    """The commits that are kept and whose parents a shallow clone leaves out, one a line."""
    place = Path(repository.path)
    if (common := place / "commondir").is_file():  # the work tree of another checkout
        place /= common.read_text().strip()
    if not (shallow := place / "shallow").is_file():
        return b""
    ids = [line for line in shallow.read_text().split() if pygit2.Oid(hex=line) in kept]
    return "".join(f"{each}\n" for each in ids).encode()


def pack_files(repository: pygit2.Repository, kept: Collection[pygit2.Oid]) -> dict[str, Leaf]:
    """Objects as one pack with its index: two files instead of hundreds at every reset."""

    def add(builder: pygit2.PackBuilder) -> None:
        for oid in sorted(kept, key=str):
            builder.add(oid)

    with tempfile.TemporaryDirectory() as made:
        repository.pack(made, add, n_threads=1)
        return {f"objects/pack/{p.name}": Leaf.of(p.read_bytes()) for p in Path(made).iterdir()}


def subjects_of(repository: pygit2.Repository, kept: Iterable[pygit2.Oid]) -> dict[str, str]:
    """The first line of the message of each commit and tag among the objects, by its id."""
    objects = (repository[oid] for oid in kept)
    return {
        str(found.id): found.message.partition("\n")[0]
        for found in objects
        if isinstance(found, (pygit2.Commit, pygit2.Tag))
    }


def branches_of(repository: pygit2.Repository, refs: Container[str]) -> dict[str, BranchFiles]:
    """The files at the tip of each local branch among the references."""
    found: dict[str, BranchFiles] = {}
    executable = pygit2.enums.FileMode.BLOB_EXECUTABLE
    for name in repository.branches.local:
        if f"refs/heads/{name}" not in refs:
            continue
        repository.index.read_tree(repository.branches.local[name].peel(pygit2.Tree))
        found[name] = {
            entry.path: HeldFile(repository[entry.id].read_raw(), entry.mode == executable)
            for entry in repository.index
        }
    return found
