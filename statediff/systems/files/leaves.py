"""A tree of ours: what it holds, how it is put back, and a digest of all of it.

Each folder is opened within the one above it, and what is in it is reached from there: nobody leads
a reset out of the tree, by a link or a mount, while it runs. No time of a file stands for its
content: a program that has it open can write without one that moves.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from statediff.model.values import printable
from statediff.systems.base.folders import discard, inner_folder, make_folder
from statediff.systems.files.owners import beside
from statediff.systems.files.tree import Entry, EntryKind, Folder, Limits, NotRead

FILE_MODE: Final = 0o600
EXECUTABLE_MODE: Final = 0o700
FOLDER_MODE: Final = 0o700
_PUT_BACK: Final = ("file", "folder", "link")
_SHORT_BYTES: Final = 100
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ALL: Final = Limits(
    entries=sys.maxsize,
    path_bytes=sys.maxsize,
    file_bytes=sys.maxsize,
    total_bytes=sys.maxsize,
    content_bytes=_SHORT_BYTES,
    enters_mounts=False,
)
_KINDS: Final = {EntryKind.FILE: "file", EntryKind.DIRECTORY: "folder", EntryKind.LINK: "link"}


@dataclass(frozen=True)
class Leaf:
    """One file, folder or link. `content` is kept where it is to be written, not where found."""

    kind: str
    """`file`, `folder`, `link`, or `other` for a pipe, socket or device."""
    mode: int
    digest: str = ""
    short: bytes = b""
    """The content of a short file, or a link's target."""
    content: bytes = b""
    names: int = 1
    """How many names a file has: one that another name leads to can be changed from there."""
    beside: str = ""
    """An owner that is not ours, and attributes, in words; see `owners`."""

    @staticmethod
    def of(content: bytes, is_executable: bool = False, *, is_link: bool = False) -> Leaf:
        """A file, or a link to `content`."""
        mode = EXECUTABLE_MODE if is_executable else FILE_MODE
        kind, mode = ("link", 0) if is_link else ("file", mode)
        digest = hashlib.sha256(content).hexdigest()
        return Leaf(kind, mode, digest, content if is_link else _short(content), content)

    @staticmethod
    def folder() -> Leaf:
        return Leaf("folder", FOLDER_MODE)

    def summary(self) -> Leaf:
        """The same without its content: what `scan` finds where this was written."""
        return replace(self, content=b"")

    def words(self) -> str:
        """Words for people that say its kind."""
        if self.kind == "link":
            return f"a link to {self.short.decode(errors='replace')!r}"
        about = f"{self.kind} of mode {self.mode:04o}{self.beside and f', {self.beside}'}"
        if self.kind != "file":
            return about
        also = "" if self.names == 1 else f" and {self.names} names"
        return f"{about}{also}, sha256 {self.digest[:10]}…"


def _short(content: bytes) -> bytes:
    return content if len(content) <= _SHORT_BYTES else b""


Files = Mapping[str, Leaf]
"""Path relative to the tree's root, with `/`, → what is there."""


def restore(files: Files, root: Path) -> None:
    """The root holds `files` and nothing else. What is as it should be stays, by its content.

    What differs is removed and made anew: nothing is followed, nothing is written into, and what
    somebody mounts there is not entered. `OSError` where something cannot be removed.
    """
    make_folder(root)
    found = scan(root)
    kept = {path for path, leaf in files.items() if found.get(path) == leaf.summary()}
    below: dict[str, list[str]] = {}
    for path in sorted(files):
        above, _, name = path.rpartition("/")
        below.setdefault(above, []).append(name)
    top = os.open(root, _FOLDER)
    try:
        _put(top, "", files, below, kept)
    finally:
        os.close(top)


def _put(
    folder: int, at: str, files: Files, below: Mapping[str, list[str]], kept: set[str]
) -> None:
    """The open folder at the path is as in `files`; what is `kept` stays."""
    names = below.get(at, ())
    start = at and f"{at}/"
    there = {name for name in names if start + name in kept}
    present = set(os.listdir(folder))
    for name in present - there:
        discard(name, folder)
    for name in names:
        path = start + name
        leaf, is_new = files[path], name not in there & present
        if is_new:
            _write(leaf, name, folder)
        if leaf.kind == "folder":
            inner = inner_folder(name, folder)
            try:
                if is_new:
                    os.fchmod(inner, leaf.mode)  # whatever the umask says
                _put(inner, path, files, below, kept)
            finally:
                os.close(inner)


def scan(root: Path) -> dict[str, Leaf]:
    """The leaf there, links not followed; one that cannot be read is there as `unreadable`."""
    return {path: leaf.summary() for path, leaf in _found(root, _ALL).items()}


def held(root: Path) -> dict[str, Leaf]:
    """The leaf there, with its content. `OSError` names what could not be put back so."""
    found = _found(root, replace(_ALL, content_bytes=sys.maxsize))
    for path, leaf in found.items():
        is_plain = leaf.kind in _PUT_BACK and not leaf.beside and leaf.names == 1
        if not is_plain or (leaf.kind == "folder" and leaf.mode & 0o700 != 0o700):
            raise OSError(f"{printable(path)} is {leaf.words()}, which is not put back")
    return found


def _found(root: Path, limits: Limits) -> dict[str, Leaf]:
    try:
        with Folder.open(root) as opened:
            tree = opened.tree(limits)
    except NotRead as error:
        return {"": _unreadable(str(error))}
    found = {os.fsdecode(path).rstrip("/"): _unreadable(cause) for path, cause in tree.gaps}
    return {os.fsdecode(entry.path): _leaf(entry) for entry in tree.entries} | found


def _leaf(entry: Entry) -> Leaf:
    if entry.cause is not None:
        return _unreadable(entry.cause)
    if entry.kind is EntryKind.LINK:
        return Leaf.of(entry.target or b"", is_link=True)
    content = entry.content or b""
    return Leaf(
        _KINDS.get(entry.kind, "other"),
        stat.S_IMODE(entry.mode),
        entry.digest or "",
        _short(content),
        content,
        entry.names,
        beside(entry.owner, entry.group, entry.attributes),
    )


def _unreadable(cause: str) -> Leaf:
    return Leaf(f"unreadable ({cause})", 0)


def _write(leaf: Leaf, name: str, folder: int) -> None:
    match leaf.kind:
        case "folder":
            os.mkdir(name, FOLDER_MODE, dir_fd=folder)
        case "link":
            os.symlink(leaf.content, os.fsencode(name), dir_fd=folder)
        case _:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(name, flags, leaf.mode, dir_fd=folder)
            with os.fdopen(descriptor, "wb") as file:
                os.fchmod(descriptor, leaf.mode)  # whatever the umask says
                file.write(leaf.content)


def files_digest(files: Files) -> str:
    """One digest of a whole tree: path, kind, mode and bytes of everything in it."""
    hasher = hashlib.sha256()
    for path, leaf in sorted(files.items()):
        more = f"\0{leaf.beside}" if leaf.beside else ""
        line = f"{path}\0{leaf.kind}\0{leaf.mode:o}\0{leaf.digest}{more}\n"
        hasher.update(line.encode("utf-8", "surrogateescape"))
    return hasher.hexdigest()
