"""The files of one branch, read from a repository's objects; nothing of the repository is run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from statediff.systems.files.tree import Folder, NotRead, shown
from statediff.systems.git.objects import Objects
from statediff.systems.git.records import TreeEntry, tree_entries
from statediff.systems.git.refs import read_refs

MAX_FILES: Final = 5_000
MAX_BYTES: Final = 64 * 1024 * 1024
_EXECUTABLE: Final = 0o100755


@dataclass(frozen=True)
class HeldFile:
    """A file's content. A link is a file that holds its target: nothing is ever followed."""

    content: bytes
    is_executable: bool = False


BranchFiles: TypeAlias = Mapping[str, HeldFile]
"""Path → file. Submodules are left out: their content is in another repository."""


def read_branch(repository: Path, branch: str) -> dict[str, HeldFile] | None:
    """The files at the tip of the branch; None if there is no such branch.

    Raises `NotRead` with the cause: what cannot be read, has a name no file can have, or is more
    than is read.
    """
    name = f"refs/heads/{branch}".encode()
    with (
        tempfile.TemporaryDirectory() as private,
        Folder.open(repository) as git,
    ):
        objects = Objects(git, Path(private))
        try:
            refs = read_refs(git)
            ref = refs.by_name.get(name)
            if ref is None:
                if refs.causes:
                    raise NotRead(refs.causes[0])
                return None
            oid = refs.resolved(ref)
            return None if oid is None else _files(objects, _tree_of(objects, oid))
        finally:
            objects.close()


def _tree_of(objects: Objects, oid: str) -> str:
    commit = objects.read(oid)
    first, _, _ = commit.content.partition(b"\n")
    if commit.type != "commit" or not first.startswith(b"tree "):
        raise NotRead(f"object {oid} is no commit with a tree")
    return first[5:].decode("ascii", "replace")


def _files(objects: Objects, root: str) -> dict[str, HeldFile]:
    found: dict[str, HeldFile] = {}
    left = MAX_BYTES
    pending = [("", root)]
    while pending:
        above, oid = pending.pop()
        tree = objects.read(oid)
        if tree.type != "tree":
            raise NotRead(f"object {oid} is a {tree.type}, not a tree")
        for entry in tree_entries(oid, tree.content):
            path = above + _name(entry)
            if path.count("/") > 50 or len(found) >= MAX_FILES:
                raise NotRead(f"it holds more than {MAX_FILES} files, or some of them too deep")
            if entry.is_tree:
                pending.append((f"{path}/", entry.oid))
            elif not entry.is_submodule:
                blob = objects.read(entry.oid)
                left -= len(blob.content)
                if blob.type != "blob" or left < 0 or path in found:
                    raise NotRead(f"{path!r} is no file, is there twice, or is too large")
                found[path] = HeldFile(blob.content, entry.mode == _EXECUTABLE)
    return found


def _name(entry: TreeEntry) -> str:
    try:
        name = entry.name.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotRead(f"the name {shown(entry.name)} is not UTF-8") from error
    if name in ("", ".", "..") or "/" in name or "\0" in name or len(name) > 255:
        raise NotRead(f"a tree has an entry that no file can be called: {shown(entry.name)}")
    return name
